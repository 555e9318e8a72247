/* SPDX-License-Identifier: MIT */
/*
 * Networks that are slow, cut a request or a reply anywhere, swallow one direction, or deliver late
 * what was sent by a client that has given up: no lease is returned that is not ours, and whatever
 * happened the name is free again soon, long before any ttl (LONG_MS) would free it. Three files of
 * cases, one program.
 */
#ifndef TEST_REDIS_NETWORK_H
#define TEST_REDIS_NETWORK_H

#include "redis_bed.h"

#define LONG_MS 300000 /* beyond LIMIT_MS: no expiry helps */

int network_cut(void);
int network_late(void);

/* Reached only through the proxy; `other` looks on, directly. */
extern hf_store *store, *other;

int network_setup(void **state);
int network_teardown(void **state);
#define NET(f) cmocka_unit_test_setup_teardown(f, network_setup, network_teardown)

bool is_settled_later(hf_status status);
/* Nobody holds it, nobody waits for it, and it can be had: by somebody's release, not by a ttl. */
void is_free_again(const char *name, uint64_t after);
/* Leave it when the store's connection is known to be there again. */
void settle(void);

#endif
