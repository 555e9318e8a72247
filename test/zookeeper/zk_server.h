/* SPDX-License-Identifier: MIT */
/*
 * Real ZooKeeper servers for tests, one alone or an ensemble: started, killed, stopped and started again
 * by the test that owns them, in a directory of their own below TMPDIR. test/lib/server.h says what holds for all servers.
 *
 * In a cuttable ensemble each server reaches the others' quorum ports through proxies of its own, so that
 * one of them can be cut off while clients still reach it (ensemble_cut()). Such an ensemble takes long to
 * find another leader: a proxy accepts before the server behind it does.
 */
#ifndef TEST_ZK_SERVER_H
#define TEST_ZK_SERVER_H

#include "proxy.h"
#include "server.h"

#define ENSEMBLE_MAX 3

struct zk_server {
    struct ensemble *ensemble;
    int number; /* from 1 */
    char dir[SERVER_PATH_ROOM];
    uint16_t port, quorum_port, election_port;
    struct proxy *to[ENSEMBLE_MAX]; /* the others' quorum ports */
    pid_t pid;                      /* 0: not running */
};

struct ensemble {
    int count, tick_ms, sync_limit;
    const char *more; /* lines for their configuration, from the next start on; or NULL */
    struct zk_server servers[ENSEMBLE_MAX];
    char dir[SERVER_PATH_ROOM];
};

/* Start `count` servers and wait until they serve. sync_limit: ticks for which a follower goes on
 * without its leader. cuttable: for ensemble_cut(). */
struct ensemble *ensemble_start(int count, int tick_ms, int sync_limit, bool cuttable);
void ensemble_free(struct ensemble *ensemble); /* kills them; NULL is fine */

void zk_server_kill(struct zk_server *server);
void zk_server_restart(struct zk_server *server); /* and wait until it serves */
void zk_server_pause(struct zk_server *server);
void zk_server_continue(struct zk_server *server);
/* Its link to the leader carries nothing any more, if it follows; or does again. */
void ensemble_cut(struct zk_server *server, bool cut);
/* The one that leads; one that follows. Waits for it. */
struct zk_server *ensemble_leader(struct ensemble *ensemble);
struct zk_server *ensemble_follower(struct ensemble *ensemble);

/* "zk://127.0.0.1:PORT,..." of all servers, and what follows; static, good until the next but three. */
const char *ensemble_url(const struct ensemble *ensemble, const char *rest);
/* The same of one server or port. */
const char *zk_url(uint16_t port, const char *rest);
/* What a server says to a four-letter word; "" if nothing. */
void zk_ask(const struct zk_server *server, const char *word, char *answer, size_t size);
/* The number after `key` in what it says to "srvr"; -1: none. */
long long zk_srvr(const struct zk_server *server, const char *key);

#endif
