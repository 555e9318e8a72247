/* SPDX-License-Identifier: MIT */
/* System calls of other processes, as strace(1) sees them; and their threads. */
#ifndef BENCH_STRACE_H
#define BENCH_STRACE_H

#include <stddef.h>
#include <sys/types.h>

#define STRACE_PIDS_MAX  4
#define STRACE_CALLS_MAX 65536

/* Some time that is looked at. */
struct strace_window {
    const char *prefix; /* of strace's files, one per thread */
    double from, to;    /* as strace_now() says it */
    double *times;      /* of the calls in it, room for STRACE_CALLS_MAX */
    size_t count;
    const char *mark; /* a call that is not counted, but whose times are kept; NULL: none */
    double *marks;    /* room for STRACE_CALLS_MAX */
    size_t mark_count;
};

/* Attach to these processes and write files that begin with `prefix`. -1: there is no strace. It
 * needs a second to attach, and may turn out not to be allowed to: then it ends. */
pid_t strace_start(const char *prefix, const pid_t *pids, size_t count);
double strace_now(void);
/* Add the calls of all threads of `pid` that began in the window, in order; returns how many. */
double strace_calls(pid_t pid, struct strace_window *window);
/* How many calls there are between one mark and the next: what a share `q` of these steps does not
 * exceed. NAN: fewer than two marks. */
double strace_between(const struct strace_window *window, double q);

/* Call `each` with the id of every thread of `pid`; returns the sum. */
double sum_threads(pid_t pid, double (*each)(pid_t pid, const char *tid, void *arg), void *arg);

#endif
