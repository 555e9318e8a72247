/* SPDX-License-Identifier: MIT */
/*
 * The workers of a run as the director sees them: started, killed, stopped, let go on, ended. A worker is this program again
 * (exec), so that it has none of our threads. Main thread only: workers die with it.
 */
#ifndef FAULTS_CREW_H
#define FAULTS_CREW_H

#include "shared.h"

#include <sys/types.h>

struct crew {
    struct shared *shared;
    int fd;           /* of `shared`, for the workers */
    int far_net;      /* a network namespace for every second worker; -1: none */
    char *const *env; /* of workers; NULL: ours */
    pid_t pids[WORKERS];
    unsigned died; /* ended by themselves, and were replaced */
};

void crew_start(struct crew *crew);
/* Wait until all have opened the store. False: they do not, within the time. */
bool crew_opened(const struct crew *crew, int64_t wait_ms);
/* SIGKILL, and another in its place. */
void crew_kill(struct crew *crew, unsigned worker);
void crew_stop(struct crew *crew, unsigned worker);
void crew_continue(struct crew *crew, unsigned worker);
/* Replace those that ended by themselves. */
void crew_tend(struct crew *crew);
/* A worker that is about to write under the mutex; waits for one, for a moment. -1: there was none. */
int crew_inside(const struct crew *crew, uint64_t *dice);
/* Let all come to their end. How many made no progress within the time, after the last fault was over, and were killed. */
unsigned crew_end(struct crew *crew, int64_t wait_ms);

#endif
