/* SPDX-License-Identifier: MIT */
/*
 * A PostgreSQL server and a standby that follows it, asynchronously or synchronously. In a failover the first is killed, the standby
 * is promoted, and the first comes back as a standby of the other, made anew by pg_basebackup.
 */
#include "lab.h"

#include "db.h"

#include <stdio.h>

#define SYNCHRONOUS 1 /* variant of the mode */

static struct db *pair[2];
static unsigned primary;

/* A copy of the primary's data, as a standby of it. */
static void follow(struct db *db, const struct db *from)
{
    char data[2 * SERVER_PATH_ROOM], log[2 * SERVER_PATH_ROOM], program[256], port[16];
    char *args[] = { program,
                     (char *)"-h",
                     (char *)(uintptr_t)from->socket,
                     (char *)"-p",
                     port,
                     (char *)"-U",
                     (char *)"postgres",
                     (char *)"-D",
                     data,
                     (char *)"-R",
                     (char *)"-X",
                     (char *)"stream",
                     (char *)"-c",
                     (char *)"fast",
                     (char *)"--no-sync",
                     NULL };

    db_kill(db);
    snprintf(data, sizeof data, "%s/data", db->dir);
    snprintf(log, sizeof log, "%s/basebackup.log", db->dir);
    snprintf(program, sizeof program, "%s", db_program(DB_POSTGRES, "pg_basebackup"));
    snprintf(port, sizeof port, "%u", (unsigned)from->port);
    remove_dir(data);
    if (!db_run(DB_POSTGRES, args, log, "/dev/null")) {
        show_file(log);
        give_up("pg_basebackup failed");
    }
    db_restart(db);
    db_hang_up(db);
}

static void start(struct lab *lab)
{
    static const struct db_wish wishes[2] = {
        { .options = { "wal_level=replica", "max_wal_senders=10", "wal_keep_size=64MB" } },
        { .options = { "wal_level=replica", "max_wal_senders=10", "wal_keep_size=64MB",
                       "synchronous_standby_names=*" } },
    };

    for (unsigned i = 0; i < 2; i++) {
        pair[i] = db_start(DB_POSTGRES, &wishes[lab->mode->variant == SYNCHRONOUS]);
        lab->ports[lab->count++] = pair[i]->port;
        if (i == 0)
            postgres_let_in(pair[i], "local replication postgres trust");
        db_hang_up(pair[i]);
    }
    follow(pair[1], pair[0]);
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    (void)lab;
    snprintf(text, URL_ROOM, "postgresql://app@127.0.0.1:%u,127.0.0.1:%u/test?prefix=hf_",
             (unsigned)ports[0], (unsigned)ports[1]);
}

static void failover(struct lab *lab)
{
    struct db *old = pair[primary], *next = pair[1 - primary];

    (void)lab;
    db_kill(old);
    db_do(next, "SELECT pg_promote()");
    db_hang_up(next);
    primary = 1 - primary;
    follow(old, next);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    (void)lab;
    return fault == FAULT_FAILOVER ? NULL : "as on one server: see postgres";
}

const struct bed bed_standby = {
    .start = start, .url = url, .failover = failover, .why_not = why_not
};
