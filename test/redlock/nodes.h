/* SPDX-License-Identifier: MIT */
/*
 * The test bed of the Redlock engine: for every case five fresh servers, each with a clock that can
 * be moved, an append-only file (so that a restart may keep the data or lose it) and a proxy before
 * it; and the small steps of test/redis/bed.h.
 */
#ifndef TEST_REDLOCK_NODES_H
#define TEST_REDLOCK_NODES_H

#include "redis_bed.h"

#define NODES    5
#define MAJORITY 3

extern struct server *nodes[NODES];
extern struct proxy *lines[NODES]; /* lines[i] leads to nodes[i] */

void nodes_start(void); /* servers only */
void lines_start(void); /* a thread for each: after every fork() */
void nodes_stop(void);

int nodes_setup(void **state); /* both */
int nodes_teardown(void **state);
#define NODES_TEST(f) cmocka_unit_test_setup_teardown(f, nodes_setup, nodes_teardown)

/* "redlock://127.0.0.1:A,..." of all nodes, directly or through the proxies, and what follows; static,
 * good until the next call but three. */
const char *nodes_url(const char *rest);
const char *lines_url(const char *rest);

/* SIGKILL and start again, with what it had or as an empty one. */
void node_restart(unsigned node, bool keep);
/* Is it part of a cluster, so that it votes? It must answer. */
bool node_votes(unsigned node);
/* How many have a lease of the name there. */
unsigned node_holders(unsigned node, const char *name);
/* How many nodes say that somebody holds it. */
unsigned nodes_holding(const char *name);
/* Wait until every node votes. */
void await_whole(void);

#define NODE(i) (1u << (i))
#define ALL     ((1u << NODES) - 1)
/* Wait until an acquire at the store is granted by exactly these nodes. */
void settle(hf_store *store, unsigned wanted);

/* ---- clients with lines of their own ---------------------------------------------------------------- */

/* A store behind proxies that nobody else uses: what one client cannot reach another can. */
struct client {
    struct proxy *lines[NODES];
    hf_store *store;
};

/* Open it, and wait until it takes from all nodes. `rest`: more of the URL. */
void client_open(struct client *client, const char *rest);
/* It reaches these nodes from now on, and no others: their connections are cut, and new ones refused. */
void client_reach(struct client *client, unsigned nodes);
void client_close(struct client *client);

/* ---- a counter that is guarded, and one that is not ---------------------------------------------- */

/* On a server of its own. Both are raised by reading, thinking and writing back. */
struct vault {
    struct server *server;
    hf_store *store;
};

struct counting {
    uint64_t token;
    long long plain, guarded; /* as read */
    hf_status status;         /* of the claim */
};

void vault_open(struct vault *vault, struct server *at);
void vault_close(struct vault *vault);
/* Claim and read both. */
struct counting count_begin(struct vault *vault, uint64_t token);
/* Write both, one higher. The status of the guarded write: HF_OK or HF_FENCED. */
hf_status count_end(struct vault *vault, struct counting counting);
long long vault_plain(struct vault *vault);
long long vault_guarded(struct vault *vault); /* shuts everybody else out */

#endif
