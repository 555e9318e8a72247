/* SPDX-License-Identifier: MIT */
/*
 * A database server of the bench's own (PostgreSQL or MariaDB), and a raw client of it: the least
 * that is needed for a lock, each statement as a C programmer would send it by hand.
 *
 * The server's data lies in /dev/shm if there is such a directory, so that an fsync costs what the
 * server makes of it and not what a disk does; nothing of its durability is turned off. Run by root
 * it becomes an unprivileged user, as these servers want.
 */
#ifndef BENCH_SQL_H
#define BENCH_SQL_H

#include "bench.h"

#include <sys/types.h>

struct sql_kind;

struct sql_server {
    const struct sql_kind *kind;
    pid_t pid;
    uid_t uid; /* the user that it runs as */
    gid_t gid;
    uint16_t port;
    unsigned connections; /* that it allows */
    char dir[64];
    char url[128]; /* without a mode */
};

struct sql_raw;

/* One kind of server. Everything dies (bench_die()) if it fails. */
struct sql_kind {
    const char *name;
    const char *url; /* up to the port */
    const char *database;
    /* Make its data directory in server->dir and become it, in a child; never return. */
    void (*install)(const struct sql_server *server);
    void (*serve)(const struct sql_server *server);

    struct sql_raw *(*try_open)(const struct sql_server *server); /* NULL: not yet */
    void (*close)(struct sql_raw *raw);
    void (*prepare)(struct sql_raw *raw); /* tables, a row, prepared statements */

    /* A lock by a unique key, with an owner, a token and an end: one statement each. */
    void (*upsert)(struct sql_raw *raw);
    void (*clear)(struct sql_raw *raw);
    /* The server's own locks: waiting in the server's queue. */
    void (*session_lock)(struct sql_raw *raw);
    void (*session_unlock)(struct sql_raw *raw);
    void (*row_lock)(struct sql_raw *raw);
    void (*row_unlock)(struct sql_raw *raw);

    double (*statements)(struct sql_raw *raw); /* that clients sent so far */
    /* Transactions of connections that have ended; it waits until all but this one have. NULL: the
     * statements tell enough. */
    double (*transactions)(struct sql_raw *raw);

    /* A commit that tells another connection, and waiting for being told; NULL: it has nothing like it. */
    void (*listen)(struct sql_raw *raw);
    void (*ring)(struct sql_raw *raw);
    void (*hear)(struct sql_raw *raw);
};

extern const struct sql_kind sql_postgres, sql_mariadb;

/* Before any thread. bench_skip() if none is installed. */
struct sql_server *sql_server_start(const struct bench *bench, const struct sql_kind *kind);
struct sql_server *sql_server_start_for(const struct bench *bench, const struct sql_kind *kind,
                                        unsigned connections);
void sql_server_stop(struct sql_server *server);
struct sql_raw *sql_open(const struct sql_server *server); /* ready for use */
/* The store of this mode there; in memory of its own. */
const char *sql_url(const struct sql_server *server, const char *mode);

/* For a kind: find a program of the server in these places; NULL: not there. */
const char *sql_program(const char *pattern, const char *name);
void sql_become(const char *const *argv); /* never returns */

#endif
