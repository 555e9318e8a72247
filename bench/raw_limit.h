/* SPDX-License-Identifier: MIT */
/*
 * The limit for a pair on Redis, whatever the protocol of the lock: SET NX PX, and a script that compares
 * and deletes. It has no token and no queue. With a token: a script that sets and counts.
 */
#ifndef BENCH_RAW_LIMIT_H
#define BENCH_RAW_LIMIT_H

#include "raw_redis.h"

/* Stays where it is once formatted. */
void raw_limit_init(struct raw_pair *pair, struct raw_redis *redis, const char *name, int token);
/* Acquire, wait for the reply, release, wait for the reply. raw_pair_next() is for both. */
void raw_limit_do(struct raw_pair *pair, struct raw_redis *redis);

#endif
