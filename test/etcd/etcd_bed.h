/* SPDX-License-Identifier: MIT */
/* The test bed of the etcd engine: for every case fresh servers, and a proxy before the first. */
#ifndef TEST_ETCD_BED_H
#define TEST_ETCD_BED_H

#include "bed.h"
#include "cluster.h"

extern struct etcd_cluster *etcd;
extern struct proxy *proxy;

int bed_setup(void **state);         /* one server */
int bed_setup_cluster(void **state); /* three */
int bed_teardown(void **state);
#define TEST(f)         cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)
#define TEST_CLUSTER(f) cmocka_unit_test_setup_teardown(f, bed_setup_cluster, bed_teardown)

/* Limits short enough for tests in which servers do not answer. */
#define IMPATIENT "connect_timeout=500ms&op_timeout=900ms&ping=300ms"

hf_store *open_with(const char *query); /* all members */
hf_store *open_member(size_t member, const char *query);
hf_store *open_through(const char *query); /* the proxy */
/* All leases that etcd has, by their ids; how many. */
size_t list_leases(int64_t *ret_ids, size_t room);
void revoke_lease(int64_t id);
/* How many keys lie below the bed's prefix. */
int64_t count_keys(const char *area);
void put_value(const char *key, const void *value, size_t len);
void delete_key(const char *key);
void compact(void);

#endif
