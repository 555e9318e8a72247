/* SPDX-License-Identifier: MIT */
/*
 * What a test of the memcached engine stands on: for every case a fresh server and a proxy before it,
 * two stores (one through the proxy, one that looks on directly), and the contract suite's small
 * steps (CHECK, EXPECT, AWAIT, take, give, attempts).
 */
#ifndef TEST_MEMCACHED_BED_H
#define TEST_MEMCACHED_BED_H

#include "contract.h"

#include "cache.h"
#include "proxy.h"

#define LONG_MS 300000 /* beyond LIMIT_MS: no expiry helps */

extern struct cache *cache;
extern struct proxy *proxy;
extern hf_store *store; /* through the proxy, with short time limits */
extern hf_store *other; /* directly */

int mbed_setup(void **state);
int mbed_setup_with(const char *const *options); /* a server with options */
int mbed_teardown(void **state);
#define TEST(f) cmocka_unit_test_setup_teardown(f, mbed_setup, mbed_teardown)

hf_store *open_at(const char *url); /* must succeed */
hf_acquire_request with_ttl(hf_acquire_request request, int64_t ttl_ms);
hf_acquire_request with_wait(hf_acquire_request request, int64_t wait_ms);

bool is_settled_later(hf_status status); /* HF_UNAVAILABLE, HF_UNKNOWN */
/* The store's connection is up, or up again. */
void settle(void);
/* `other` can have it, soon: by somebody's release, not by a ttl. */
void is_free_again(const char *name);
/* Is there an item for the name? Without making it look used, as a get would. */
bool is_there(const char *name);

/* For hf_acquire_request.on_lost. */
struct loss {
    _Atomic int calls;
    char why[256];
};
void note_loss(hf_lease *lease, hf_status reason, const char *why, void *arg);

#endif
