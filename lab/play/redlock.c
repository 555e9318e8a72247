/* SPDX-License-Identifier: MIT */
/* See redlock.h. */
#include "redlock.h"

#include "server.h"

#define UNLOCK \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

/* clang-format off */
/* shown: redlock-naive */
bool redlock_take(struct actor *me)
{
    int64_t start = clock_ms();
    int votes = 0;

    for (int i = 0; i < NODES; i++)
        votes += node_ok(me, i, "SET {lock} %s NX PX %d", me->id, REDLOCK_TTL_MS);
    if (votes > NODES / 2 && clock_ms() - start < REDLOCK_TTL_MS)
        return true;  /* 4! whoever has most of the nodes has the lock */
    redlock_give(me);
    return false;
}

void redlock_give(struct actor *me)
{
    for (int i = 0; i < NODES; i++)
        node_ok(me, i, "EVAL %s 1 {lock} %s", UNLOCK, me->id);
}
/* shown end */
/* clang-format on */
