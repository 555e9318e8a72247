/* SPDX-License-Identifier: MIT */
/* Five redis-servers of the bench's own, that know nothing of each other. */
#ifndef BENCH_REDLOCK_NODES_H
#define BENCH_REDLOCK_NODES_H

#include "redis_server.h"

#define REDLOCK_NODES    5
#define REDLOCK_MAJORITY 3

struct redlock_nodes {
    struct redis_server *servers[REDLOCK_NODES];
    char url[256]; /* redlock://... */
};

/* Before any thread. */
struct redlock_nodes *redlock_nodes_start(const struct bench *bench);
void redlock_nodes_stop(struct redlock_nodes *nodes);
double redlock_nodes_commands(struct redlock_nodes *nodes); /* that clients sent to all of them */
/* The same of an uncontended pair, whose release is a plain HDEL: its scripts have none. */
double redlock_nodes_pairs(void *nodes);
struct contest_server redlock_nodes_counted(struct redlock_nodes *nodes);

/* ---- by hand ------------------------------------------------------------------------------- */

/*
 * The limit: SET NX PX to all, wait for a majority; then the script that compares and deletes to all,
 * wait for a majority. What answers later is read later. No token, no clock, nobody may die.
 */
struct raw_redlock;
struct raw_redlock *raw_redlock_open(const struct redlock_nodes *nodes, const char *name);
void raw_redlock_close(struct raw_redlock *raw);
void raw_redlock_pair(struct raw_redlock *raw);

#endif
