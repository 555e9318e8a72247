/* SPDX-License-Identifier: MIT */
/* See trouble.h. */
#include "trouble.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const char *const names[] = { "stopped",  "killed",    "sessions ended", "cut",
                                     "cut late", "held back", "delayed",        "refused" };
#define KINDS (sizeof names / sizeof *names)

static uint64_t state;

static unsigned below(unsigned n)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % n);
}

/* Mostly short; now and then past a ttl of a second. */
static void last(void)
{
    sleep_ms(below(6) ? 1 + below(80) : 600 + below(1200));
}

static void cut_late(struct proxy *proxy)
{
    proxy_block(proxy, PROXY_UP, true);
    sleep_ms(1 + below(20));
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    last();
    proxy_deliver(proxy);
}

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

static void strike(struct db *db, struct proxy *proxy, unsigned what)
{
    enum proxy_way way = below(2) ? PROXY_UP : PROXY_DOWN;

    switch (what) {
    case 0:
        db_pause(db);
        last();
        db_continue(db);
        break;
    case 1:
        db_kill(db);
        last();
        db_restart(db);
        break;
    case 2:
        trouble_end_sessions(db);
        break;
    case 3:
        if (below(2)) {
            proxy_cut_after(proxy, way, below(1200));
            last();
        } else {
            proxy_cut(proxy);
        }
        break;
    case 4:
        cut_late(proxy);
        break;
    case 5:
        proxy_block(proxy, way, true);
        last();
        break;
    case 6:
        proxy_delay(proxy, way, 1 + below(100));
        last();
        break;
    default:
        proxy_refuse(proxy, true);
        proxy_cut(proxy);
        last();
        break;
    }
    proxy_heal(proxy);
}

static bool has_ended(pid_t child)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

void trouble(struct db *db, struct proxy *proxy, uint64_t seed, pid_t child)
{
    unsigned counts[KINDS] = { 0 };

    state = seed;
    while (!has_ended(child)) {
        unsigned what = below(KINDS);

        sleep_ms(20 + below(150));
        if (!has_ended(child))
            strike(db, proxy, what);
        counts[what]++;
    }
    for (size_t i = 0; i < KINDS; i++)
        fprintf(stderr, "%s%s %u", i ? ", " : "faults: ", names[i], counts[i]);
    fputc('\n', stderr);
}
