/* SPDX-License-Identifier: MIT */
/* A PostgreSQL or MariaDB server. What it has committed survives a kill of its processes. */
#include "lab.h"

#include "db.h"

#include <stdio.h>

static struct db *db;

void postgres_let_in(struct db *server, const char *line)
{
    char path[2 * SERVER_PATH_ROOM];
    FILE *file;

    snprintf(path, sizeof path, "%s/data/pg_hba.conf", server->dir);
    file = fopen(path, "a");
    if (!file || fprintf(file, "%s\n", line) < 0 || fclose(file) != 0)
        give_up("%s cannot be written", path);
    db_do(server, "SELECT pg_reload_conf()");
}

static void start_postgres(struct lab *lab)
{
    db = db_start(DB_POSTGRES, NULL);
    postgres_let_in(db, "host all all 10.99.0.0/24 trust"); /* clients behind the wire */
    lab->ports[lab->count++] = db->port;
    db_hang_up(db);
}

static void start_mariadb(struct lab *lab)
{
    static const struct db_wish wish = { .options = { "innodb-flush-log-at-trx-commit=2",
                                                      "max-connect-errors=1000000" } };

    db = db_start(DB_MARIADB, &wish);
    lab->ports[lab->count++] = db->port;
    db_hang_up(db);
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    snprintf(text, URL_ROOM, "%s://app@127.0.0.1:%u/test?prefix=hf_%s%s",
             db->kind == DB_POSTGRES ? "postgresql" : "mariadb", (unsigned)ports[0],
             lab->mode->query[0] ? "&" : "", lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    return db->pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    db_kill(db);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    char data[2 * SERVER_PATH_ROOM];

    (void)lab, (void)member;
    if (!keep) {
        snprintf(data, sizeof data, "%s/data", db->dir);
        remove_dir(data);
        db_data_copy(db);
    }
    db_restart(db);
    db_hang_up(db);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    db_pause(db);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    db_continue(db);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    switch (fault) {
    case FAULT_FAILOVER:
        return lab->mode->bed == &bed_postgres
                   ? "one server: see postgres standby"
                   : "the engine knows one server; a replica that takes over is not followed";
    case FAULT_CLOCK_FORWARD:
        return lab->mode->bed == &bed_postgres ? NULL
                                               : "its sleeps end by the kernel's clock, which "
                                                 "cannot jump for one server alone: they would "
                                                 "last longer here, and shorter after a real jump";
    case FAULT_MEMORY_FULL:
    case FAULT_EVICTION:
        return "a database evicts nothing and has no limit of this kind";
    case FAULT_SCRIPT_FLUSH:
        return "there are no scripts that could be forgotten";
    default:
        return NULL;
    }
}

const struct bed bed_postgres = { .start = start_postgres,
                                  .url = url,
                                  .pid = pid,
                                  .kill = kill_it,
                                  .revive = revive,
                                  .pause = pause_it,
                                  .resume = resume,
                                  .why_not = why_not };
const struct bed bed_mariadb = { .start = start_mariadb,
                                 .url = url,
                                 .pid = pid,
                                 .kill = kill_it,
                                 .revive = revive,
                                 .pause = pause_it,
                                 .resume = resume,
                                 .why_not = why_not };
