/* SPDX-License-Identifier: MIT */
/*
 * Real etcd servers for tests, one or three that form a cluster: started, killed, stopped, continued
 * and started again by the test that owns them, in a directory of their own (in memory if there
 * is such a one: etcd 3.4 syncs every write, and cannot be told not to).
 * test/lib/server.h says what holds for all servers.
 */
#ifndef TEST_ETCD_CLUSTER_H
#define TEST_ETCD_CLUSTER_H

#include "server.h"

#include "grpc.h"

#define ETCD_MEMBERS_MAX 3
#define ETCD_PATH_ROOM   SERVER_PATH_ROOM
#define ETCD_SECRET      "sesame" /* of the user "app", and of root */

struct etcd_member {
    uint16_t port, peer_port;
    pid_t pid; /* 0: not running */
    uint64_t id;
};

struct etcd_cluster {
    char dir[ETCD_PATH_ROOM];
    size_t count;
    bool tls, auth, narrow;
    struct etcd_member members[ETCD_MEMBERS_MAX];
};

#define ETCD_TLS  1u
#define ETCD_AUTH 2u /* the user "app" may read and write below "hf/", and nothing else */

/* It takes at most ETCD_NARROW_OPS operations, and ETCD_NARROW_BYTES bytes, in one request. */
#define ETCD_NARROW       4u
#define ETCD_NARROW_OPS   8
#define ETCD_NARROW_BYTES 65536

struct etcd_cluster *etcd_start(size_t count, unsigned flags);
void etcd_free(struct etcd_cluster *cluster); /* NULL is fine */
void etcd_kill(struct etcd_cluster *cluster, size_t member);
void etcd_restart(struct etcd_cluster *cluster, size_t member);
/* All that were killed: one alone does not answer without a majority. */
void etcd_restart_all(struct etcd_cluster *cluster);
void etcd_pause(struct etcd_cluster *cluster, size_t member);
void etcd_continue(struct etcd_cluster *cluster, size_t member);
/* Which member leads, as `of` sees it; waits until there is a leader other than `but` (-1: any). */
size_t etcd_leader(struct etcd_cluster *cluster, size_t of, int but);

/* "etcd://127.0.0.1:P1,127.0.0.1:P2/hf/{id}" and what follows; static, good until the next call but
 * three. `only`: one member, or -1. */
const char *etcd_url(const struct etcd_cluster *cluster, int only, const char *rest);
/* One request to a member, as root if there are users. `path`: like "KV/Range". `body`: one message, freed here. The answer:
 * etcd_text_done() it; etcd_answer() is the message in it. `fine`: it is repeated until it is no error, for a while. */
struct etcd_text etcd_tell(struct etcd_cluster *cluster, size_t member, const char *path,
                           struct etcd_text body, bool fine);
struct etcd_message etcd_answer(const struct etcd_text *text);

#endif
