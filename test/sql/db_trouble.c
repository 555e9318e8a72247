/* SPDX-License-Identifier: MIT */
/* See db_trouble.h. */
#include "db_trouble.h"

#include "trouble.h"

#include <string.h>

void trouble_end_sessions(struct db *db)
{
    int64_t until_ms = clock_ms() + 30000;
    char ids[4096], *id, *rest = ids;

    while (!db_answers(db) && clock_ms() < until_ms)
        sleep_ms(20);
    if (db->kind == DB_POSTGRES) {
        db_do(db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                  "datname = 'test' AND usename = 'app'");
        return;
    }
    db_text(db, ids, sizeof ids,
            "SELECT group_concat(id) FROM information_schema.processlist WHERE user = 'app'");
    while ((id = strsep(&rest, ",")) && *id) /* one may be gone by then, which is an error */
        db_do(db,
              "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL CONNECTION %s; "
              "END",
              id);
}

static void stop_server(void *db)
{
    db_pause(db);
    trouble_lasts();
    db_continue(db);
}

static void kill_server(void *db)
{
    db_kill(db);
    trouble_lasts();
    db_restart(db);
}

static void end_sessions(void *db)
{
    trouble_end_sessions(db);
}

void db_trouble(struct db *db, struct proxy *proxy, uint64_t seed, pid_t child)
{
    static const struct trouble_kind kinds[] = { { "stopped", stop_server },
                                                 { "killed", kill_server },
                                                 { "sessions ended", end_sessions },
                                                 { NULL, NULL } };

    trouble(kinds, db, proxy, 150, seed, child);
}
