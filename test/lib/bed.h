/* SPDX-License-Identifier: MIT */
/*
 * The common base of tests on real servers of any engine: the small steps of the contract suite
 * (CHECK, EXPECT, AWAIT, take, give, attempts, peers), and some more. Each engine's bed
 * (test/redis/redis_bed.h ...) adds the server, and a proxy before it.
 */
#ifndef TEST_BED_H
#define TEST_BED_H

#include "contract.h"
#include "peer.h"

#include "proxy.h"
#include "server.h"

/* To be called by main() first: a peer is this program again. An argument of the program chooses the tests that match it. */
void bed_main(int argc, char **argv);
#define BED_RUN(tests) cmocka_run_group_tests((tests), NULL, NULL)

/* How long open_at() waits for a server; 0: as long as the library does. */
extern int64_t bed_open_wait_ms;
hf_store *open_at(const char *url); /* must succeed; {id} becomes "bed" */
/* The URL with {id} replaced; static, good until the next call. */
const char *at_bed(const char *url);
/* Close the store even if leases are held or calls are under way. */
void close_hard(hf_store *store);

/* The request with a ttl, and another time to wait. */
hf_acquire_request with_ttl(hf_acquire_request request, int64_t ttl_ms);
hf_acquire_request with_wait(hf_acquire_request request, int64_t wait_ms);
hf_acquire_request semaphore_request(const char *name, uint32_t capacity);

/* Check that the name becomes free, at once or after a ttl, and that its new token is larger than
 * `after`. */
uint64_t gets_free(hf_store *store, const char *name, uint64_t after);

/* For hf_acquire_request.on_event: when the lease was lost, how often that was told, and why. */
struct loss {
    _Atomic int64_t at_ms; /* 0: not yet */
    _Atomic int calls;
    char why[256];
};
void note_loss(hf_lease *lease, hf_event event, const char *why, void *arg);

#endif
