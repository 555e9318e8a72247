/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on a database server, all the time, held for 1 ms: in each of the
 * three modes, against the server's own queue (advisory lock, row lock). What an acquisition costs in
 * statements, which must not grow with the number of those who wait.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "rounds.h"
#include "sql.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW           4
#define MANY          16
#define HOLD_NS       1000000
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.3
#define COUNT_S       2.0

enum { LEASE, SESSION, ROW, RAW_SESSION, RAW_ROW, SIDES };

struct scene {
    struct sql_server *server;
    struct crew *crew;
    struct team teams[SIDES];
    struct rounds rates;
};

struct worker {
    struct scene *scene;
    hf_store *stores[ROW + 1];
    hf_acquire_request request;
    struct sql_raw *raw;
};

static void *enter(size_t index, void *arg)
{
    static const char *const modes[] = { "lease", "session", "row" };
    struct worker *worker = calloc(1, sizeof *worker);

    (void)index;
    if (!worker)
        bench_die("out of memory");
    worker->scene = arg;
    for (int i = LEASE; i <= ROW; i++)
        worker->stores[i] = ours_open_url(sql_url(worker->scene->server, modes[i]));
    worker->request = ours_request(OURS_NAME, 0);
    worker->raw = sql_open(worker->scene->server);
    return worker;
}

static void step_mode(struct worker *worker, int mode, int64_t hold_ns)
{
    hf_lease *lease = ours_acquire(worker->stores[mode], &worker->request);

    crew_hold(hold_ns);
    ours_release(lease);
}

static void step_lease(void *self, int64_t hold_ns)
{
    step_mode(self, LEASE, hold_ns);
}

static void step_session(void *self, int64_t hold_ns)
{
    step_mode(self, SESSION, hold_ns);
}

static void step_row(void *self, int64_t hold_ns)
{
    step_mode(self, ROW, hold_ns);
}

static void step_raw_session(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    const struct sql_kind *kind = worker->scene->server->kind;

    kind->session_lock(worker->raw);
    crew_hold(hold_ns);
    kind->session_unlock(worker->raw);
}

static void step_raw_row(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    const struct sql_kind *kind = worker->scene->server->kind;

    kind->row_lock(worker->raw);
    crew_hold(hold_ns);
    kind->row_unlock(worker->raw);
}

static void start(struct scene *scene, struct sql_server *server, size_t workers)
{
    static crew_step_fn *const steps[SIDES] = { step_lease, step_session, step_row,
                                                step_raw_session, step_raw_row };

    scene->server = server;
    scene->crew = crew_start(CREW_PROCESSES, workers, enter, scene);
    for (int i = 0; i < SIDES; i++)
        scene->teams[i] =
            (struct team){ .crew = scene->crew, .step = steps[i], .hold_ns = HOLD_NS };
}

/* Statements of an acquisition in mode=lease. */
static double count(struct scene *scene, struct sql_raw *raw)
{
    double before = scene->server->kind->statements(raw);
    uint64_t steps = crew_steps(scene->crew);

    team_round(&scene->teams[LEASE], COUNT_S);
    steps = crew_steps(scene->crew) - steps;
    return (scene->server->kind->statements(raw) - before) / (double)(steps ? steps : 1);
}

static void report(struct bench *bench, struct scene *scene)
{
    struct row *row;

    rounds_rates(bench, &scene->rates, LEASE, "16 processes, 1 ms: hand-offs, mode=lease",
                 RAW_SESSION, "the server's lock", (struct target){ AT_LEAST, 0.5, 0, false });
    row = bench_row(bench, UNIT_PLAIN, "  fairness (Jain)", "the server's lock");
    row->measured = team_jain(&scene->teams[LEASE]);
    row->baseline = team_jain(&scene->teams[RAW_SESSION]);
    row->rounds = scene->rates.count;
    row->target = (struct target){ AT_LEAST, 0.99, 0, true };
    rounds_rates(bench, &scene->rates, SESSION, "mode=session", RAW_SESSION, "the server's lock",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    rounds_rates(bench, &scene->rates, ROW, "mode=row", RAW_ROW, "SELECT FOR UPDATE, COMMIT",
                 (struct target){ AT_LEAST, 0.9, 0, false });
}

static void measure(struct bench *bench, const struct sql_kind *kind)
{
    static struct scene many, few;
    struct contender contenders[SIDES];
    struct sql_server *server = sql_server_start(bench, kind);
    struct sql_raw *raw;
    struct row *row;
    double by_many, by_few;

    start(&many, server, MANY);
    start(&few, server, FEW);
    raw = sql_open(server);
    for (int i = 0; i < SIDES; i++)
        contenders[i] = (struct contender){ team_round, &many.teams[i] };
    rounds_run(bench, 1, bench->quick ? QUICK_ROUND_S : ROUND_S, contenders, SIDES, &many.rates);
    report(bench, &many);
    by_many = count(&many, raw);
    by_few = count(&few, raw);
    row = bench_row(bench, UNIT_PLAIN, "statements each, 16 processes", "4 processes");
    row->measured = by_many;
    row->baseline = by_few;
    row->ratio = by_many / by_few;
    row->target = (struct target){ AT_MOST, 1.25, 0, false };
    kind->close(raw);
    crew_end(many.crew);
    crew_end(few.crew);
    sql_server_stop(server);
}

void measure_postgres_queue(struct bench *bench)
{
    measure(bench, &sql_postgres);
}

void measure_mariadb_queue(struct bench *bench)
{
    measure(bench, &sql_mariadb);
}
