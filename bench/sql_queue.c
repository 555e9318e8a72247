/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on a database server, again and again, held for 1 ms: in each of the
 * three modes, against the server's own queue (advisory lock, row lock). What an acquisition costs the
 * server in statements, or transactions, must not grow with the number of waiters.
 */
#include "contest.h"
#include "measures.h"
#include "sql.h"

#include <math.h>
#include <stdlib.h>

#define FEW           4
#define SOME          16
#define MANY          64
#define HOLD_NS       1000000
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.3
#define COUNT_S       1.5

/* ---- by hand ------------------------------------------------------------------------------- */

struct worker {
    const struct sql_kind *kind;
    struct sql_raw *raw;
};

static void *open_raw(size_t index, void *arg)
{
    const struct sql_server *server = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    (void)index;
    if (!worker)
        bench_die("out of memory");
    worker->kind = server->kind;
    worker->raw = sql_open(server);
    return worker;
}

static void session_lock(void *self)
{
    struct worker *worker = self;

    worker->kind->session_lock(worker->raw);
}

static void session_unlock(void *self)
{
    struct worker *worker = self;

    worker->kind->session_unlock(worker->raw);
}

static void row_lock(void *self)
{
    struct worker *worker = self;

    worker->kind->row_lock(worker->raw);
}

static void row_unlock(void *self)
{
    struct worker *worker = self;

    worker->kind->row_unlock(worker->raw);
}

/* ---- contests -------------------------------------------------------------------------------- */

/* The first two are all that a large contest has. */
enum { LEASE, RAW_SESSION, SESSION, ROW, RAW_ROW, SIDES };
enum { LARGE = RAW_SESSION + 1 };

struct scene {
    struct bench *bench;
    struct sql_server *server;
    struct sql_raw *raw; /* for questions */
    struct contest_server counted;
};

static double count_statements(void *arg)
{
    const struct scene *scene = arg;

    return scene->server->kind->statements(scene->raw);
}

static struct contest *start(const struct scene *scene, size_t processes, size_t sides)
{
    struct sql_server *server = scene->server;
    const struct contest_side all[SIDES] = {
        [LEASE] = contest_ours("mode=lease", sql_url(server, "lease"), 0),
        [SESSION] = contest_ours("mode=session", sql_url(server, "session"), 0),
        [ROW] = contest_ours("mode=row", sql_url(server, "row"), 0),
        [RAW_SESSION] = { "the server's lock", open_raw, session_lock, session_unlock, server },
        [RAW_ROW] = { "SELECT FOR UPDATE, COMMIT", open_raw, row_lock, row_unlock, server },
    };

    return contest_start(processes, 1, &scene->counted, all, sides);
}

/* Transactions of a crew that comes, waits again and again for that long, and goes. */
static double crew_transactions(const struct scene *scene, size_t processes, double seconds,
                                uint64_t *ret_steps)
{
    const struct sql_kind *kind = scene->server->kind;
    double before = kind->transactions(scene->raw);
    struct contest *contest = start(scene, processes, LEASE + 1);

    *ret_steps = contest_count(contest, LEASE, HOLD_NS, seconds);
    contest_end(contest);
    return kind->transactions(scene->raw) - before;
}

/*
 * Transactions of an acquisition in mode=lease: what a crew that works for longer has more than one that works for a
 * shorter time. So it does not matter what it costs to connect and to begin to listen, which each process does once. NAN:
 * statements are counted instead, round by round.
 */
static double count_transactions(const struct scene *scene, size_t processes)
{
    double brief, longer, count_s = scene->bench->quick ? QUICK_ROUND_S : COUNT_S;
    uint64_t brief_steps, longer_steps;

    if (!scene->server->kind->transactions)
        return NAN;
    brief = crew_transactions(scene, processes, QUICK_ROUND_S, &brief_steps);
    longer = crew_transactions(scene, processes, QUICK_ROUND_S + count_s, &longer_steps);
    return longer_steps > brief_steps ? (longer - brief) / (double)(longer_steps - brief_steps)
                                      : NAN;
}

/* Statements or transactions of an acquisition, by a contest of which nothing else is reported. */
static double count_each(const struct scene *scene, size_t processes)
{
    struct contest *contest;
    double before, each;
    uint64_t steps;

    if (scene->server->kind->transactions)
        return count_transactions(scene, processes);
    contest = start(scene, processes, LEASE + 1);
    before = count_statements((void *)(uintptr_t)scene);
    steps = contest_count(contest, LEASE, HOLD_NS, COUNT_S);
    each = (count_statements((void *)(uintptr_t)scene) - before) / (double)(steps ? steps : 1);
    contest_end(contest);
    return each;
}

/* Returns what an acquisition in mode=lease costs. */
static double play(const struct scene *scene, size_t processes, size_t sides, double share,
                   const char *what)
{
    const struct contest_targets lease = { .rate = 0.65,
                                           .rate_aim = 0.8,
                                           .jain = 0.99,
                                           .spread = 3,
                                           .commands = 3 },
                                 other = { .rate = 0.9 };
    struct bench *bench = scene->bench;
    double transactions = count_transactions(scene, processes), each;
    struct contest *contest = start(scene, processes, sides);

    contest_run(bench, contest, HOLD_NS, false, share, bench->quick ? QUICK_ROUND_S : ROUND_S);
    contest_set_commands(contest, LEASE, transactions);
    contest_rows(bench, contest, LEASE, RAW_SESSION, what, &lease);
    each = contest_commands(contest, LEASE);
    if (sides > LARGE) {
        contest_rows(bench, contest, SESSION, RAW_SESSION, what, &other);
        contest_rows(bench, contest, ROW, RAW_ROW, what, &other);
    }
    contest_end(contest);
    return each;
}

static void measure(struct bench *bench, const struct sql_kind *kind)
{
    struct scene scene = { .bench = bench, .server = sql_server_start(bench, kind) };
    double few, some, many;

    scene.raw = sql_open(scene.server);
    scene.counted = (struct contest_server){
        .commands = kind->transactions ? NULL : count_statements,
        .server = &scene,
        .word = kind->transactions ? "transactions" : "statements",
        .ports = { scene.server->port },
    };
    few = count_each(&scene, FEW);
    some = play(&scene, SOME, SIDES, 0.7, "16 processes, 1 ms");
    contest_growth(bench, &scene.counted, "16 processes", some, "4 processes", few, 1.25);
    if (!bench->quick) {
        many = play(&scene, MANY, LARGE, 0.3, "64 processes, 1 ms");
        contest_growth(bench, &scene.counted, "64 processes", many, "16 processes", some, 1.25);
    }
    kind->close(scene.raw);
    sql_server_stop(scene.server);
}

void measure_postgres_queue(struct bench *bench)
{
    measure(bench, &sql_postgres);
}

void measure_mariadb_queue(struct bench *bench)
{
    measure(bench, &sql_mariadb);
}
