/* SPDX-License-Identifier: MIT */
/*
 * A measurement is a child in a process group of its own, so that it can be ended with
 * all it started. The main process never opens a store: it only waits, draws and cleans up.
 * Signals are blocked and taken with sigtimedwait(2); there are no handlers.
 */
#include "isolate.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_NS    100000000
#define PATIENCE_S 60 /* beyond the time for rounds; then it hangs */

static sigset_t before; /* what was blocked before isolate_init() */

static sigset_t ours(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

void isolate_init(void)
{
    sigset_t set = ours();

    signal(SIGCHLD, SIG_DFL); /* the parent process may have ignored it */
    sigprocmask(SIG_BLOCK, &set, &before);
}

static void child(const struct measure *measure, struct bench *bench, pid_t parent)
{
    sigset_t set = ours();

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_INTERNAL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    bench_enter(bench->report);
    measure->run(bench);
    _exit(0);
}

static void fail(struct report *report, const char *text)
{
    if (atomic_load(&report->failed) == 2)
        return;
    snprintf(report->error, sizeof report->error, "%s", text);
    atomic_store(&report->failed, 2);
}

static void judge(struct report *report, int status)
{
    char text[sizeof report->error];

    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "ended with status %d", WEXITSTATUS(status));
    if (status != 0)
        fail(report, text);
}

int isolate(const struct measure *measure, struct bench *bench, isolate_tick *tick, void *arg)
{
    struct report *report = bench->report;
    struct timespec pause = { .tv_nsec = TICK_NS };
    int64_t start = bench_ns();
    sigset_t set = ours();
    pid_t parent = getpid(), pid = fork();
    int status, taken = 0;

    if (pid < 0) {
        fail(report, strerror(errno));
        return 0;
    }
    if (pid == 0)
        child(measure, bench, parent);
    setpgid(pid, pid); /* both do it: one of them is first */

    while (waitpid(pid, &status, WNOHANG) == 0) {
        double spent = (double)(bench_ns() - start) / 1e9;

        tick(report, arg);
        taken = sigtimedwait(&set, NULL, &pause);
        if (taken > 0 && taken != SIGCHLD) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            return taken;
        }
        if (spent > bench->seconds + (measure->patience_s > 0 ? measure->patience_s : PATIENCE_S)) {
            fail(report, "it hangs: no end after the time for it and some more");
            kill(-pid, SIGKILL);
        }
    }
    kill(-pid, SIGKILL); /* what it may have left behind */
    judge(report, status);
    report->seconds = (double)(bench_ns() - start) / 1e9;
    return 0;
}
