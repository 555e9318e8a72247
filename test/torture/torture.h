/* SPDX-License-Identifier: MIT */
/* What the processes of a torture run share; see torture.c. */
#ifndef TORTURE_H
#define TORTURE_H

#include "history.h"

struct torture {
    struct history *history;
    const char *url;
    uint64_t seed;
    unsigned threads; /* of each process */
    int64_t ttl_ms;   /* of all leases; 0: as each lock has it */
    bool mutexes;     /* all locks are mutexes, without tokens: the store has nothing else */
    bool suicide;     /* workers also end themselves without a release */
};

/* The locks that are fought for. */
struct lock {
    const char *name;
    hf_kind kind; /* HF_KIND_SHARED: both kinds of a read-write lock */
    uint32_t capacity;
    uint64_t flags;
    int64_t ttl_ms;
    bool barge; /* some requests barge */
};
extern const struct lock locks[];
extern const unsigned lock_count;

/* The label of a request tells the observer its lane and number. */
#define LABEL_FORMAT "torture %u %u"

/* A worker process: its threads use lanes `lane` and following. Returns its exit status. */
int worker_main(const struct torture *torture, uint32_t lane, uint32_t incarnation);
/* Look at the queues until the end. */
int observer_main(const struct torture *torture, uint32_t lane);

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *rng);
unsigned rng_below(struct rng *rng, unsigned n);

#endif
