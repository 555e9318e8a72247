/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on an etcd, all the time, held for 1 ms; against etcd's own lock
 * service over gRPC. And what an acquisition costs in calls, which must not grow with
 * the number of those who wait.
 */
#include "crew.h"
#include "etcd_raw.h"
#include "etcd_server.h"
#include "measures.h"
#include "ours.h"
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW           4
#define MANY          16
#define HOLD_NS       1000000
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.3

enum { OURS, SERVICE, COUNT };

struct side {
    struct team team;
    const struct etcd_server *server;
    size_t rounds; /* the first warms up */
    double calls[STATS_MAX + 1];
};

struct scene {
    struct etcd_server *server;
    struct crew *crew;
    struct side sides[COUNT];
    struct rounds rates;
};

struct worker {
    hf_store *store;
    hf_acquire_request request;
    struct etcd_raw *raw;
    long long lease;
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
    worker->raw = etcd_raw_open(scene->server->port);
    worker->lease = etcd_raw_lease(worker->raw);
    return worker;
}

static void step_ours(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    hf_lease *lease = ours_acquire(worker->store, &worker->request);

    crew_hold(hold_ns);
    ours_release(lease);
}

static void step_service(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    char key[ETCD_RAW_KEY];

    etcd_raw_lock(worker->raw, worker->lease, key);
    crew_hold(hold_ns);
    etcd_raw_unlock(worker->raw, key);
}

static double side_round(void *arg, double seconds)
{
    struct side *side = arg;
    double calls = etcd_server_calls(side->server), rate;
    uint64_t steps = crew_steps(side->team.crew);

    rate = team_round(&side->team, seconds);
    if (side->rounds <= STATS_MAX) {
        steps = crew_steps(side->team.crew) - steps;
        calls = etcd_server_calls(side->server) - calls;
        side->calls[side->rounds++] = calls / (double)(steps ? steps : 1);
    }
    return rate;
}

/* Hand-offs between this many processes; returns the calls per acquisition of ours. */
static double play(struct bench *bench, struct etcd_server *server, size_t workers, double share)
{
    static crew_step_fn *const steps[COUNT] = { step_ours, step_service };
    static struct scene scenes[2];
    struct scene *scene = &scenes[workers == MANY];
    struct contender contenders[COUNT];
    struct row *row;
    char what[72];
    double calls;

    scene->server = server;
    scene->crew = crew_start(CREW_PROCESSES, workers, enter, scene);
    for (int i = 0; i < COUNT; i++) {
        scene->sides[i] = (struct side){ .server = server };
        scene->sides[i].team =
            (struct team){ .crew = scene->crew, .step = steps[i], .hold_ns = HOLD_NS };
        contenders[i] = (struct contender){ side_round, &scene->sides[i] };
    }
    rounds_run(bench, share, bench->quick ? QUICK_ROUND_S : ROUND_S, contenders, COUNT,
               &scene->rates);
    snprintf(what, sizeof what, "%zu processes, 1 ms: hand-offs", workers);
    rounds_rates(bench, &scene->rates, OURS, what, SERVICE, "etcd's lock service",
                 (struct target){ NO_TARGET, 0, 0, false });
    row = &bench->report->rows[bench->report->count - 1];
    if (workers == MANY)
        row->target = (struct target){ AT_LEAST, 600, 0, true };
    row = bench_row(bench, UNIT_PLAIN, "  fairness (Jain)", "etcd's lock service");
    row->measured = team_jain(&scene->sides[OURS].team);
    row->baseline = team_jain(&scene->sides[SERVICE].team);
    row->rounds = scene->rates.count;
    row->target = (struct target){ AT_LEAST, 0.99, 0, true };
    calls = stats_median(scene->sides[OURS].calls + 1, scene->rates.count);
    row = bench_row(bench, UNIT_PLAIN, "  calls, each", "etcd's lock service");
    row->measured = calls;
    row->baseline = stats_median(scene->sides[SERVICE].calls + 1, scene->rates.count);
    row->rounds = scene->rates.count;
    crew_end(scene->crew);
    return calls;
}

void measure_etcd_queue(struct bench *bench)
{
    struct etcd_server *server = etcd_server_start(bench);
    double few = play(bench, server, FEW, 0.4), many = play(bench, server, MANY, 0.6);
    struct row *row = bench_row(bench, UNIT_PLAIN, "calls, 16 processes", "4 processes");

    row->measured = many;
    row->baseline = few;
    row->ratio = many / few;
    row->target = (struct target){ AT_MOST, 1.25, 0, false };
    etcd_server_stop(server);
}
