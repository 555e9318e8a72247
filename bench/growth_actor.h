/* SPDX-License-Identifier: MIT */
/*
 * Processes that a growth measurement gives orders to: they hold names, wait, or probe what an
 * operation costs. One order at a time; between orders an actor only waits, and the stores that it opened
 * renew what they hold by themselves.
 */
#ifndef BENCH_GROWTH_ACTOR_H
#define BENCH_GROWTH_ACTOR_H

#include "bench.h"

#include <sys/types.h>

struct actor {
    pid_t pid;
    int fd;
};

enum actor_order {
    ACTOR_OPEN, /* `count` more stores, each of which takes a name of its own */
    ACTOR_HOLD, /* take `count` more names through the first store */
    ACTOR_WAIT, /* `count` waiters and a holder on one name, strictly in turn */
    ACTOR_PASS, /* let them hand it over for `seconds`; each goes to the end of the queue */
    ACTOR_PAIR, /* take and give back fresh names for `seconds` */
};

struct actor_work {
    enum actor_order order;
    unsigned count;
    int64_t ttl_ms; /* 0: the engine's default */
    double seconds;
};

/* What it did. */
struct actor_done {
    double operations, wall_s;
    double heap; /* bytes in use by malloc() */
};

/* Forks: before this process opens a store. Its names begin with `tag`. */
struct actor actor_start(const char *url, unsigned tag);
void actor_send(const struct actor *actor, const struct actor_work *work);
struct actor_done actor_wait(const struct actor *actor);
struct actor_done actor_do(const struct actor *actor, const struct actor_work *work); /* both */
void actor_kill(struct actor *actor);

#endif
