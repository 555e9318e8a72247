/* SPDX-License-Identifier: MIT */
/* Signals as events: see signals.h. */
#include "signals.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
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

void signals_stop(int number, bool group)
{
    sigset_t set;

    /* A pending SIGCONT came after the stop signal and cancels it. Raising a stop signal would
     * discard that SIGCONT, and we would stay stopped. */
    if (sigpending(&set) == 0 && sigismember(&set, SIGCONT) == 1)
        return;

    /* The group first: our own copy stays pending until we let it through below. */
    kill(group ? 0 : getpid(), number);

    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* we stop here */
    sigprocmask(SIG_BLOCK, &set, NULL);
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
