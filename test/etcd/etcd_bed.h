/* SPDX-License-Identifier: MIT */
/*
 * What a test of the etcd engine stands on: for every case fresh servers, a proxy before the first,
 * and the contract suite's small steps (CHECK, EXPECT, AWAIT, take, give, attempts, peers).
 */
#ifndef TEST_ETCD_BED_H
#define TEST_ETCD_BED_H

#include "contract.h"
#include "peer.h"

#include "cluster.h"
#include "proxy.h"
#include "server.h" /* clock, give_up() */

extern struct etcd_cluster *etcd;
extern struct proxy *proxy;

int bed_setup(void **state);         /* one server */
int bed_setup_cluster(void **state); /* three */
int bed_teardown(void **state);
#define TEST(f)         cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)
#define TEST_CLUSTER(f) cmocka_unit_test_setup_teardown(f, bed_setup_cluster, bed_teardown)

/* To be called by main() first: a peer is this program again. */
void bed_main(int argc, char **argv);
#define BED_RUN(tests) cmocka_run_group_tests((tests), NULL, NULL)

/* Limits short enough for tests in which servers do not answer. */
#define IMPATIENT "connect_timeout=500ms&op_timeout=900ms&ping=300ms"

hf_store *open_at(const char *url);     /* must succeed; {id} becomes "bed" */
hf_store *open_with(const char *query); /* all members */
hf_store *open_member(size_t member, const char *query);
hf_store *open_through(const char *query); /* the proxy */
/* The URL with {id} replaced; static, good until the next call. */
const char *at_bed(const char *url);

hf_acquire_request with_ttl(hf_acquire_request request, int64_t ttl_ms);
hf_acquire_request with_wait(hf_acquire_request request, int64_t wait_ms);
hf_acquire_request semaphore_request(const char *name, uint32_t capacity);
/* Others can have it, soon or once a ttl has passed; its token is larger than `after`. */
uint64_t gets_free(hf_store *store, const char *name, uint64_t after);
void close_hard(hf_store *store);

/* All leases that etcd has, by their ids; how many. */
size_t list_leases(int64_t *ret_ids, size_t room);
void revoke_lease(int64_t id);
/* How many keys lie below the bed's prefix. */
int64_t count_keys(const char *area);
void compact(void);

struct loss {
    _Atomic int64_t at_ms; /* 0: not yet */
    _Atomic int calls;
};
void note_loss(hf_lease *lease, hf_status reason, const char *why, void *arg);

#endif
