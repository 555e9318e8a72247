/* SPDX-License-Identifier: MIT */
/*
 * What the processes of one run share, in a file that all of them have mapped: a worker that is killed leaves behind what it
 * had written. Workers raise the counts, the director (run.h) decides what happens, and reads the counts at the end.
 */
#ifndef FAULTS_SHARED_H
#define FAULTS_SHARED_H

#include "../../test/torture/history.h"

#define WORKERS     8
#define LEDGER_ROOM (1u << 20)
#define STATUSES    64
#define URL_ROOM    1024

/* "busy" is a mutex too. It is never held for long, so that there is always something to acquire while the others are stuck. */
enum { LOCK_MUTEX, LOCK_RW, LOCK_SEMAPHORE, LOCK_BUSY, LOCKS };
#define SEMAPHORE_CAPACITY 2

/* A client that breaks one rule, on purpose: the checker must catch it. */
enum wrong {
    WRONG_NONE,
    WRONG_VALIDITY, /* goes on after its lease was lost, and takes a refusal by the guard for a success */
    WRONG_EARLY, /* goes on after its release */
    WRONGS
};
extern const char *const wrong_names[WRONGS];

/*
 * Updates of one value by "read it, think, write one more". Two updates that were both acknowledged and wrote the same number
 * are a lost update. So is a number that is given out twice by a counter.
 */
enum { LEDGER_PLAIN, LEDGER_GUARDED, LEDGER_COUNTER, LEDGER_CELL, LEDGERS };
struct ledger {
    _Atomic unsigned done, lost, refused, unknown;
    _Atomic uint8_t seen[LEDGER_ROOM];
};

struct shared {
    /* Set by the director before workers start. */
    char url[URL_ROOM],
        vault[URL_ROOM]; /* the vault has no faults: what is lost there was lost by a lock */
    char names[64];      /* begins every name that is used in the store */
    uint64_t seed;
    enum wrong wrong;
    int64_t ttl_ms; /* wanted; 0: the shortest that the engine has */

    /* By the director while they run. */
    _Atomic int trouble;                   /* a fault is under way: some holders stay */
    _Atomic int64_t continued_ns[WORKERS]; /* when the worker was let go on after a stop */

    /* By workers. */
    _Atomic uint64_t caps;
    _Atomic int tokens;       /* hf_token_strength */
    _Atomic int64_t lease_ms; /* ttl of leases; 0: none */
    _Atomic int opened;       /* how often a worker has opened its stores */
    _Atomic int refused;      /* a worker was told that it cannot use the store at all */
    /* it holds the mutex, has looked at its validity, and is about to write */
    _Atomic int inside[WORKERS];
    _Atomic unsigned grants[LOCKS];
    _Atomic unsigned failed[STATUSES]; /* acquires that came to nothing, by status */
    _Atomic unsigned losses;           /* LOST was told */
    _Atomic int64_t late_ns;           /* how late at most, after the validity had ended */
    _Atomic int64_t mutex_end_ns;      /* when the validity of the mutex ends that was seen last */
    _Atomic int64_t plain;             /* the resource that nothing protects but the lock */
    struct ledger ledgers[LEDGERS];
    struct history history;
};

/* A fresh one; *ret_fd is for the workers. NULL: errno says why. */
struct shared *shared_new(int *ret_fd);
struct shared *shared_map(int fd);
/* Forget all that workers have done, for another run. No worker lives. */
void shared_reset(struct shared *shared);
void shared_free(struct shared *shared, int fd);

/* An update was acknowledged, and wrote this number. */
void ledger_note(struct ledger *ledger, int64_t number);

/* 0 to n - 1; the same seed gives the same numbers. */
unsigned chance(uint64_t *state, unsigned n);

#endif
