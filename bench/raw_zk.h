/* SPDX-License-Identifier: MIT */
/* ZooKeeper by hand: the same C library, one request at a time, nothing renewed and nothing recovered. */
#ifndef BENCH_RAW_ZK_H
#define BENCH_RAW_ZK_H

struct raw_zk;

struct raw_zk *raw_zk_open(const char *host);
void raw_zk_close(struct raw_zk *zk);
/* Create an ephemeral sequential node, and delete it. */
void raw_zk_pair(struct raw_zk *zk);
/* The lock recipe of ZooKeeper's documentation: create, list, watch the node before ours, list
 * again. */
void raw_zk_lock(struct raw_zk *zk);
void raw_zk_unlock(struct raw_zk *zk);

#endif
