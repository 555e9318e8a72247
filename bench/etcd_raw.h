/* SPDX-License-Identifier: MIT */
/*
 * etcd's JSON gateway by hand: one libcurl easy handle, one kept-alive connection, bodies written
 * with printf and answers searched for what is needed. The least that a lock of one's own would do.
 */
#ifndef BENCH_ETCD_RAW_H
#define BENCH_ETCD_RAW_H

#include "bench.h"

struct etcd_raw;

struct etcd_raw *etcd_raw_open(const char *base);
void etcd_raw_close(struct etcd_raw *raw);
/* The answer's text, good until the next; "": none came. */
const char *etcd_raw_try(struct etcd_raw *raw, const char *path, const char *body);
const char *etcd_raw_get(struct etcd_raw *raw, const char *path);
/* The same; an error ends the measurement. */
const char *etcd_raw_ask(struct etcd_raw *raw, const char *path, const char *body);
/* The number behind "key":" in an answer. */
long long etcd_raw_number(const char *text, const char *key);

/* A transaction that puts a key with a lease if it is not there, and one that deletes it by its
 * revision. */
void etcd_raw_pair(struct etcd_raw *raw, long long lease);
long long etcd_raw_lease(struct etcd_raw *raw);
/* etcd's own lock service, on one name. */
void etcd_raw_lock(struct etcd_raw *raw, long long lease, char *ret_key, size_t room);
void etcd_raw_unlock(struct etcd_raw *raw, const char *key);

#endif
