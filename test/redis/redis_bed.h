/* SPDX-License-Identifier: MIT */
/*
 * What a test of the Redis engine stands on: for every case a fresh server and a proxy before
 * it, and the contract suite's small steps (CHECK, EXPECT, AWAIT, take, give, attempts, peers).
 */
#ifndef TEST_REDIS_BED_H
#define TEST_REDIS_BED_H

#include "contract.h"
#include "peer.h"

#include "clock.h"
#include "proxy.h"
#include "server.h"

extern struct server *server;
extern struct proxy *proxy;

int bed_setup(void **state);
int bed_setup_clock(void **state); /* the server's clock can be moved */
int bed_teardown(void **state);
#define TEST(f)       cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)
#define TEST_CLOCK(f) cmocka_unit_test_setup_teardown(f, bed_setup_clock, bed_teardown)

/* To be called by main() first: a peer is this program again. */
void bed_main(int argc, char **argv);
/* Run the tests; an argument of the program chooses those that match it. */
#define BED_RUN(tests) cmocka_run_group_tests((tests), NULL, NULL)

hf_store *open_at(const char *url); /* must succeed */
hf_store *open_direct(void);
hf_store *open_through(void); /* the proxy */
/* Peers, and open_store(), use this from now on. */
void aim(const char *url);

/* The request with a ttl, and another time to wait. */
hf_acquire_request with_ttl(hf_acquire_request request, int64_t ttl_ms);
hf_acquire_request with_wait(hf_acquire_request request, int64_t wait_ms);
hf_acquire_request semaphore_request(const char *name, uint32_t capacity);

/* Others can have it, soon or once a ttl has passed; a new token is larger than `after`. */
uint64_t gets_free(hf_store *store, const char *name, uint64_t after);

/* Close whatever is still held or under way in it. */
void close_hard(hf_store *store);

/* ---- losing ------------------------------------------------------------------------- */

/* For hf_acquire_request.on_lost: when it was called. */
struct loss {
    _Atomic int64_t at_ms; /* 0: not yet */
    _Atomic int calls;
};
void note_loss(hf_lease *lease, hf_status reason, const char *why, void *arg);

#endif
