/* SPDX-License-Identifier: MIT */
/* Signals as events: see signals.h. */
#include "signals.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

bool signals_open(struct signals *signals)
{
    /* Fault signals and SIGABRT keep their action: they cannot be handled later. */
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigset_t set;
    struct sigaction action;

    sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&set, faults[i]);
    sigprocmask(SIG_BLOCK, &set, &signals->before);
    sigdelset(&signals->before, SIGPIPE); /* main() blocked it; see there */

    /* An ignored SIGCHLD would let the kernel throw away our child's exit status. */
    sigaction(SIGCHLD, NULL, &action);
    signals->child_ignored = action.sa_handler == SIG_IGN;
    if (signals->child_ignored)
        signal(SIGCHLD, SIG_DFL);

    /* Caused by our own writes (a closed pipe) or calls (tcsetpgrp): never events. */
    sigdelset(&set, SIGPIPE);
    sigdelset(&set, SIGTTOU);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd >= 0;
}

/* Under nohup(1) SIGHUP is ignored; blocked signals are queued all the same, so the action is
 * checked here. */
static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool signals_next(const struct signals *signals, struct signal_event *ret_event)
{
    struct signalfd_siginfo info;

    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;

        if (number != SIGCHLD && is_ignored(number))
            continue;
        ret_event->number = number;
        ret_event->typed = info.ssi_code == SI_KERNEL;
        return true;
    }
    return false;
}

bool signal_ends(int number)
{
    return number != SIGCHLD && number != SIGCONT && number != SIGURG && number != SIGWINCH &&
           !signal_stops(number);
}

bool signal_stops(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static volatile sig_atomic_t continued;

static void note_continued(int number)
{
    (void)number;
    continued = 1;
}

static sigset_t only(int number)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

/* Sending a stop signal discards a SIGCONT that is pending, and we would stay stopped. So SIGCONT is delivered meanwhile:
 * one that came before our stop signal is noted, and one that comes after it takes the stop signal away by itself. */
void signals_stop(int number, bool group)
{
    struct sigaction note = { .sa_handler = note_continued }, before;
    sigset_t stop = only(number), cont = only(SIGCONT);

    continued = 0;
    sigaction(SIGCONT, &note, &before);
    sigprocmask(SIG_UNBLOCK, &cont, NULL); /* a pending one is noted here */
    if (!continued) {
        kill(group ? 0 : getpid(), number); /* our own copy is pending until we let it through */
        if (!continued) {
            sigprocmask(SIG_UNBLOCK, &stop, NULL); /* we stop here */
            sigprocmask(SIG_BLOCK, &stop, NULL);
        } else {
            sigtimedwait(&stop, NULL, &(struct timespec){ 0, 0 }); /* take it back */
            if (group)
                kill(0, SIGCONT);
        }
    }
    sigprocmask(SIG_BLOCK, &cont, NULL);
    sigaction(SIGCONT, &before, NULL);
}

void signals_die(int number, bool group)
{
    struct rlimit none = { 0, 0 };
    sigset_t set;

    setrlimit(RLIMIT_CORE, &none); /* the command has dumped its own core */
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    kill(group ? 0 : getpid(), number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}
