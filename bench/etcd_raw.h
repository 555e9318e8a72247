/* SPDX-License-Identifier: MIT */
/*
 * etcd by hand: gRPC on one connection, one request at a time (test/etcd/grpc.h). The least that a lock of one's own would
 * do.
 */
#ifndef BENCH_ETCD_RAW_H
#define BENCH_ETCD_RAW_H

#include "bench.h"

struct etcd_raw;

/* NULL: it cannot be reached. */
struct etcd_raw *etcd_raw_try_open(uint16_t port);
struct etcd_raw *etcd_raw_open(uint16_t port);
void etcd_raw_close(struct etcd_raw *raw); /* NULL is fine */
/* Does it answer a read? */
bool etcd_raw_answers(struct etcd_raw *raw);
/* The text of /metrics; free() it. */
char *etcd_raw_metrics(uint16_t port);

/* A transaction that puts a key with a lease if it is not there, and one that deletes it by its
 * revision. */
void etcd_raw_pair(struct etcd_raw *raw, long long lease);
long long etcd_raw_lease(struct etcd_raw *raw);
/* etcd's own lock service, on one name. */
#define ETCD_RAW_KEY 200
void etcd_raw_lock(struct etcd_raw *raw, long long lease, char ret_key[ETCD_RAW_KEY]);
void etcd_raw_unlock(struct etcd_raw *raw, const char *key);

#endif
