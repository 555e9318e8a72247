/* SPDX-License-Identifier: MIT */
/*
 * Random faults, for as long as a test runs: connections cut, some with late delivery; one or
 * both directions held back, up to longer than a ttl of a second; delays; clients killed;
 * scripts forgotten; the server stopped and continued. None of them lasts, and none loses data:
 * exclusion and tokens must hold through all of it.
 */
#ifndef TEST_REDIS_CHAOS_H
#define TEST_REDIS_CHAOS_H

#include "proxy.h"
#include "redis_server.h"

struct chaos;

/* From a thread of its own; neither the server nor the proxy may be used by others until the end. */
struct chaos *chaos_start(struct server *server, struct proxy *proxy, uint64_t seed);
/* Heal everything, and say on stderr what there was. */
void chaos_stop(struct chaos *chaos);

#endif
