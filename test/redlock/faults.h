/* SPDX-License-Identifier: MIT */
/* What the processes of a fault run share; see faults.c. */
#ifndef TEST_REDLOCK_FAULTS_H
#define TEST_REDLOCK_FAULTS_H

#include "history.h"
#include "nodes.h"

#define WORKERS 8
#define TTL_MS  1000

enum { LOCK_MUTEX, LOCK_RW, LOCK_SEMAPHORE, LOCKS };
extern const char *const lock_names[LOCKS];
#define SEMAPHORE_CAPACITY 2

struct faults {
    struct history *history;
    char url[512];
    struct server *vault; /* has no faults: what is lost there was lost by a lock */
    uint64_t seed;
    _Atomic int go;
    _Atomic int inside[WORKERS];     /* between reading and writing the counters */
    _Atomic unsigned plain, guarded; /* times that a counter was raised, as the worker saw it */
    _Atomic unsigned fenced;         /* refused by the guard */
    _Atomic unsigned failed[HF_FENCED + 1]; /* acquires that came to nothing, by status */
};

/* A worker process, forked before there were threads. Returns its exit status. */
int fault_worker(struct faults *faults, unsigned index);

/* Reproducible chance. */
unsigned chance(uint64_t *state, unsigned n); /* 0 to n - 1 */

#endif
