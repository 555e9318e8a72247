/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on a ZooKeeper server, all the time, held for 1 ms; against the
 * usual recipe by hand. Besides the rate: how evenly it is shared, and what an acquisition costs in
 * requests to the server, which must not grow with the number of those who wait.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "raw_zk.h"
#include "rounds.h"
#include "zk_server.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW           4
#define MANY          16
#define HOLD_NS       1000000
#define ROUND_S       0.5
#define QUICK_ROUND_S 0.2

enum { OURS, RAW, COUNT };

struct scene {
    struct zk_server *server;
    struct crew *crew;
    size_t workers;
    struct side {
        struct scene *scene;
        struct team team;
        size_t rounds; /* the first warms up */
        double requests[STATS_MAX + 1];
    } sides[COUNT];
    struct rounds rates;
};

struct worker {
    hf_store *store;
    hf_acquire_request request;
    struct raw_zk *raw;
};

static void *enter(size_t index, void *arg)
{
    struct scene *scene = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    (void)index;
    if (!worker)
        bench_die("out of memory");
    worker->store = ours_open_url(scene->server->url);
    worker->request = ours_request(OURS_NAME, 0);
    worker->raw = raw_zk_open(scene->server->host);
    return worker;
}

static void step_ours(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    hf_lease *lease = ours_acquire(worker->store, &worker->request);

    crew_hold(hold_ns);
    ours_release(lease);
}

static void step_raw(void *self, int64_t hold_ns)
{
    struct worker *worker = self;

    raw_zk_lock(worker->raw);
    crew_hold(hold_ns);
    raw_zk_unlock(worker->raw);
}

static double side_round(void *arg, double seconds)
{
    struct side *side = arg;
    struct scene *scene = side->scene;
    double requests = zk_server_requests(scene->server), rate;
    uint64_t steps = crew_steps(scene->crew);

    rate = team_round(&side->team, seconds);
    steps = crew_steps(scene->crew) - steps;
    if (side->rounds <= STATS_MAX && steps > 0)
        side->requests[side->rounds++] =
            (zk_server_requests(scene->server) - requests) / (double)steps;
    return rate;
}

static void play(struct bench *bench, struct scene *scene, size_t workers)
{
    static crew_step_fn *const steps[COUNT] = { step_ours, step_raw };
    struct contender contenders[COUNT];
    char what[72];
    struct row *row;

    scene->workers = workers;
    scene->crew = crew_start(CREW_PROCESSES, workers, enter, scene);
    for (int i = 0; i < COUNT; i++) {
        scene->sides[i] = (struct side){ .scene = scene };
        scene->sides[i].team =
            (struct team){ .crew = scene->crew, .step = steps[i], .hold_ns = HOLD_NS };
        contenders[i] = (struct contender){ side_round, &scene->sides[i] };
    }
    rounds_run(bench, 0.5, bench->quick ? QUICK_ROUND_S : ROUND_S, contenders, COUNT,
               &scene->rates);
    snprintf(what, sizeof what, "%zu processes, 1 ms: hand-offs", workers);
    rounds_rates(bench, &scene->rates, OURS, what, RAW, "the recipe, by hand",
                 (struct target){ AT_LEAST, 0.95, 0, false });
    row = bench_row(bench, UNIT_PLAIN, "  fairness (Jain)", "the recipe, by hand");
    row->measured = team_jain(&scene->sides[OURS].team);
    row->baseline = team_jain(&scene->sides[RAW].team);
    row->rounds = scene->rates.count;
    rounds_values(bench, UNIT_PLAIN, "  requests to the server, each",
                  scene->sides[OURS].requests + 1, "the recipe, by hand",
                  scene->sides[RAW].requests + 1, scene->rates.count, (struct target){ 0 });
    crew_end(scene->crew);
}

void measure_zk_queue(struct bench *bench)
{
    struct zk_server *server = zk_server_start(bench);
    static struct scene few, many;
    struct row *row;

    few.server = many.server = server;
    play(bench, &few, FEW);
    play(bench, &many, MANY);
    row = bench_row(bench, UNIT_PLAIN, "requests, 16 processes", "4 processes");
    row->measured = stats_median(many.sides[OURS].requests + 1, many.rates.count);
    row->baseline = stats_median(few.sides[OURS].requests + 1, few.rates.count);
    row->ratio = row->measured / row->baseline;
    row->target = (struct target){ AT_MOST, 1.1, 0, false };
    zk_server_stop(server);
}
