/* SPDX-License-Identifier: MIT */
/*
 * The test bed of the memcached engine: for every case a fresh server and a proxy before it, and
 * two stores (one through the proxy, one direct).
 */
#ifndef TEST_MEMCACHED_BED_H
#define TEST_MEMCACHED_BED_H

#include "bed.h"
#include "cache.h"

#define LONG_MS 300000 /* beyond LIMIT_MS: no expiry helps */

extern struct cache *cache;
extern struct proxy *proxy;
extern hf_store *store; /* through the proxy, with short time limits */
extern hf_store *other; /* directly */

int bed_setup(void **state);
int bed_setup_with(const char *const *options); /* a server with options */
int bed_teardown(void **state);
#define TEST(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

bool is_settled_later(hf_status status); /* HF_UNAVAILABLE, HF_UNKNOWN */
/* The store's connection is up, or up again. */
void settle(void);
/* `other` can have it, soon: by somebody's release, not by a ttl. */
void is_free_again(const char *name);
/* Is there an item for the name? Without making it look used, as a get would. */
bool is_there(const char *name);

#endif
