/* SPDX-License-Identifier: MIT */
/*
 * Several servers that belong together: a master with replicas and the sentinels
 * that watch them, or the nodes of a cluster. They end with the program, as every
 * server of server.h.
 */
#ifndef TEST_REDIS_SET_H
#define TEST_REDIS_SET_H

#include "redis_server.h"

#define SENTINELS     3
#define REPLICAS_MAX  3
#define CLUSTER_NODES 3
#define CLUSTER_SLOTS 16384

struct sentinel_set {
    struct server *servers[1 + REPLICAS_MAX]; /* the first is the master at the beginning */
    size_t server_count;
    struct server *sentinels[SENTINELS];
};

/* A master called "mymaster" in step with `replicas` replicas, and three sentinels that know all of
 * it, call a server dead after `down_ms` of silence, and agree by two. `options` are for the
 * servers. */
struct sentinel_set *sentinel_start(size_t replicas, int64_t down_ms, const char *const *options);
void sentinel_free(struct sentinel_set *set);
/* "redis+sentinel://127.0.0.1:A,...:B,...:C/mymaster" and what follows; static. */
const char *sentinel_url(const struct sentinel_set *set, const char *rest);
/* Who is master now, as the sentinels say. */
struct server *sentinel_master(struct sentinel_set *set);
/* Wait until the sentinels name another master than `old`, and it says so itself. */
struct server *sentinel_await_other(struct sentinel_set *set, const struct server *old);

struct cluster {
    struct server *nodes[CLUSTER_NODES];
    char ids[CLUSTER_NODES][48];
};

/* Three masters with a third of the slots each, that agree about it. */
struct cluster *cluster_start(const char *const *options);
void cluster_free(struct cluster *cluster);
const char *cluster_url(const struct cluster *cluster, const char *rest); /* redis+cluster://... */
/* A replica of one of the nodes, in step with it; the caller frees it. Nodes are called dead after
 * `down_ms` of silence from now on. */
struct server *cluster_replica(struct cluster *cluster, size_t of, int64_t down_ms);
/* Which node serves the slot of the key, by what the nodes say. */
size_t cluster_owner(struct cluster *cluster, const char *key, unsigned *ret_slot);
/* Move a slot with all its keys to another node, in steps as an administrator's tool does. */
void cluster_move_begin(struct cluster *cluster, unsigned slot, size_t from, size_t to);
void cluster_move_keys(struct cluster *cluster, unsigned slot, size_t from, size_t to);
void cluster_move_key(struct cluster *cluster, size_t from, size_t to, const char *key);
void cluster_move_end(struct cluster *cluster, unsigned slot, size_t to);

#endif
