/* SPDX-License-Identifier: MIT */
/*
 * The command of a `run`: starting it, signalling it, the terminal.
 *
 * A group of its own lets us end everything that the command started, and the
 * terminal's foreground group is then either ours or the command's. Normally it
 * is the command's from the start. In a pipeline ("holdfast run x -- cmd | less")
 * our own group has other members that need the terminal as well, so there the
 * command gets it only when the kernel stops it for wanting to use it.
 */
#include "child.h"

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void find_tty(struct child *child);
static bool in_pipeline(void);
static pid_t start(char **argv, const struct signals *signals, int give_tty, volatile int *error);

int child_start(struct child *child, char **argv, const struct signals *signals)
{
    volatile int error = 0;
    bool give;

    find_tty(child);
    give = child->on_tty && !in_pipeline();
    child->pid = start(argv, signals, give ? child->tty : -1, &error);
    if (child->pid < 0) {
        child->pid = 0;
        return errno;
    }

    child->has_tty = child->wants_tty = give;
    if (!error)
        return 0;
    child_take_tty(child);
    waitpid(child->pid, NULL, 0);
    child->pid = 0;
    return error;
}

/*
 * Uses vfork(2): it is the fastest, and safe with the library's threads, since the child only makes
 * system calls. The child shares our memory until exec, so it can set `error`. All signals are
 * blocked until the mask is restored, just before exec.
 */
static pid_t start(char **argv, const struct signals *signals, int give_tty, volatile int *error)
{
    pid_t parent = getpid();
    pid_t pid = vfork();

    if (pid != 0)
        return pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* we died before the line above took effect */
    setpgid(0, 0);
    if (give_tty >= 0)
        tcsetpgrp(give_tty, getpid()); /* SIGTTOU is blocked */
    if (signals->child_ignored)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    execvp(argv[0], argv);
    *error = errno;
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE); /* should vfork be fork */
}

bool child_has_ended(const struct child *child)
{
    siginfo_t info = { 0 };

    return child->exited ||
           (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid);
}

int child_look(struct child *child, bool end_group)
{
    int status, stopped = 0;

    /* Until it is reaped, its number cannot be given to another process. */
    if (end_group && child_has_ended(child))
        child_signal(child, SIGKILL);

    while (waitpid(child->pid, &status, WUNTRACED | WNOHANG) > 0) {
        if (WIFSTOPPED(status)) {
            stopped = WSTOPSIG(status);
            continue;
        }
        child->exited = true;
        child->status = status;
        return 0;
    }
    return stopped;
}

void child_signal(const struct child *child, int number)
{
    if (child->pid <= 0 || child->exited)
        return;
    kill(-child->pid, number);
    if (getpgid(child->pid) != child->pid)
        kill(child->pid, number);
}

/* ---- the terminal ----------------------------------------------------------------- */

static void find_tty(struct child *child)
{
    child->tty = -1;
    for (int fd = 0; fd <= 2 && child->tty < 0; fd++)
        if (tcgetpgrp(fd) >= 0)
            child->tty = fd;
    child->on_tty = child->tty >= 0 && tcgetpgrp(child->tty) == getpgrp();
}

static bool is_pipe(int fd)
{
    struct stat about;

    return fstat(fd, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
}

static bool in_pipeline(void)
{
    return is_pipe(STDIN_FILENO) || is_pipe(STDOUT_FILENO);
}

void child_give_tty(struct child *child)
{
    if (child->tty < 0) /* all three are redirected: find the terminal as the command would */
        child->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (child->tty < 0 || tcgetpgrp(child->tty) != getpgrp())
        return;
    child->has_tty = tcsetpgrp(child->tty, child->pid) == 0;
    child->wants_tty |= child->has_tty;
}

void child_take_tty(struct child *child)
{
    if (child->has_tty)
        tcsetpgrp(child->tty, getpgrp());
    child->has_tty = false;
}
