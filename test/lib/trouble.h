/* SPDX-License-Identifier: MIT */
/*
 * Random faults, one after the other, while a command runs: to a server, and to the network before it. The same seed makes
 * the same faults. The thread that started the servers calls this: they end with it.
 */
#ifndef TEST_TROUBLE_H
#define TEST_TROUBLE_H

#include "proxy.h"

#include <sys/types.h>

/* One fault of the server's own. It asks below() for chance, and trouble_lasts() for time. */
struct trouble_kind {
    const char *name;
    void (*strike)(void *server);
};

/* Until `child` has ended; then says how often there was what. `proxy` may be NULL: then there are the server's faults only.
 * A pause of at most pause_ms comes before each. */
void trouble(const struct trouble_kind *kinds, void *server, struct proxy *proxy, unsigned pause_ms,
             uint64_t seed, pid_t child);
unsigned below(unsigned n);
void trouble_lasts(void); /* mostly shortly; now and then past a ttl of a second */

#endif
