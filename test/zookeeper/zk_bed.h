/* SPDX-License-Identifier: MIT */
/*
 * The test bed of the ZooKeeper engine: servers that a whole program shares, a proxy before the
 * first of them and a fresh root for every case.
 */
#ifndef TEST_ZK_BED_H
#define TEST_ZK_BED_H

#include "bed.h"
#include "zk_server.h"

#define TICK_MS  500
#define TIMEOUT  "timeout=10s" /* of sessions: a busy machine does not end one */
#define SHORT    "timeout=3s"  /* ... where one is to end */
#define SHORT_MS 3000

extern struct ensemble *ensemble;
extern struct proxy *proxy;

/* Once, from main(). See ensemble_start(). */
void bed_begin(int servers, int sync_limit, bool cuttable);
int bed_setup(void **state);
int bed_teardown(void **state);
#define TEST(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

/* The first server, directly or through the proxy; a root of this case. */
hf_store *open_direct(void);
hf_store *open_through(void);
/* This case's root, and a query. */
const char *root(const char *query);

hf_acquire_request kind_request(const char *name, hf_kind kind, uint32_t capacity, int64_t wait_ms);
/* How many nodes there are below a lock; -1: not even the lock's own. Asked over a session of its own. */
int nodes_of(const char *name);
/* Queue for a mutex, with a node of this content that stays. */
void queue_node(const char *name, const char *bytes);
/* Queue behind the only claim of a name, with a second node of that claim, as a create that comes late makes it. */
void twin_node(const char *name);
#endif
