/* SPDX-License-Identifier: MIT */
/*
 * Random faults, one after the other, while a command runs: to a server, and to the network before it. The same seed makes
 * the same faults. The thread that started the servers calls this: they end with it.
 */
#ifndef TEST_TROUBLE_H
#define TEST_TROUBLE_H

#include "proxy.h"

#include <sys/types.h>

/* A fault of the server itself. It uses below() for random numbers, and trouble_lasts() for its
 * duration. */
struct trouble_kind {
    const char *name;
    void (*strike)(void *server);
};

/* Make faults until `child` has ended; then print how often each occurred. `proxy` may be NULL:
 * then there are the server's faults only. A pause of at most pause_ms comes before each. */
void trouble(const struct trouble_kind *kinds, void *server, struct proxy *proxy, unsigned pause_ms,
             uint64_t seed, pid_t child);
unsigned below(unsigned n);
void trouble_lasts(void); /* sleeps, mostly for a moment, sometimes for longer than a ttl of a
                           * second */

#endif
