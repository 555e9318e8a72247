/* SPDX-License-Identifier: MIT */
/*
 * Threads that take one name in turns, each through a store of its own, while the servers behind
 * it fail or move; and the check of what they saw.
 *
 * What can be promised when a server is lost with writes that no replica had: a held lease may be
 * granted again by the successor. Nothing else: never two at once by one server, never two by
 * servers that handed over properly, and every later grant has a larger token.
 */
#ifndef TEST_REDIS_STORM_H
#define TEST_REDIS_STORM_H

#include "redis_bed.h"

#define STORM_THREADS 4
#define STORM_MAX     200000

struct storm;

struct storm *storm_start(const char *url, const char *name);
/* Wait until every thread has taken it `count` more times. */
void storm_await(struct storm *storm, unsigned count);
/* Let them end, and check. `lost_ms`: when a server was lost, 0: none. Frees it. */
void storm_end(struct storm *storm, int64_t lost_ms);

#endif
