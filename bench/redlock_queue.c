/* SPDX-License-Identifier: MIT */
/*
 * Sixteen processes that all want one name on five nodes, all the time, and hold it for 1 ms. How
 * often it changes hands, how evenly, how long one waits, and what an acquisition costs in commands to
 * all nodes. bench/redlock_npm.sh measures the same of node-redlock.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "redlock_nodes.h"
#include "rounds.h"

#include <stdlib.h>

#define WORKERS       16
#define HOLD_NS       1000000
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.1
#define WAITS_MAX     4096 /* of one worker in one round; more are not looked at */

struct waits {
    size_t count;
    float us[WAITS_MAX];
};

/* Changed only by the holder of the name, so by one at a time. */
struct turns {
    _Atomic size_t last; /* the last holder */
    _Atomic uint64_t changes;
};

struct scene {
    struct redlock_nodes *nodes;
    struct turns *turns; /* shared */
    struct crew *crew;
    struct waits *waits; /* of each worker; shared */
    struct team team;
    size_t rounds; /* the first warms up */
    double p50[STATS_MAX + 1], p99[STATS_MAX + 1], commands[STATS_MAX + 1], changes[STATS_MAX + 1];
};

struct worker {
    hf_store *store;
    hf_acquire_request request;
    struct waits *waits;
    struct turns *turns;
    size_t index;
};

static void *enter(size_t index, void *arg)
{
    struct scene *scene = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        bench_die("out of memory");
    worker->store = ours_open_url(scene->nodes->url);
    worker->request = ours_request(OURS_NAME, 0);
    worker->waits = &scene->waits[index];
    worker->turns = scene->turns;
    worker->index = index;
    return worker;
}

static void step(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    int64_t since = bench_ns();
    hf_lease *lease = ours_acquire(worker->store, &worker->request);

    if (worker->waits->count < WAITS_MAX)
        worker->waits->us[worker->waits->count++] = (float)(bench_ns() - since) / 1e3f;
    if (worker->turns->last != worker->index)
        worker->turns->changes++;
    worker->turns->last = worker->index;
    crew_hold(hold_ns);
    ours_release(lease);
}

static int shorter(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void look_at_waits(struct scene *scene)
{
    static float all[WORKERS * WAITS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < WORKERS; i++)
        for (size_t k = 0; k < scene->waits[i].count; k++)
            all[count++] = scene->waits[i].us[k];
    if (count == 0)
        bench_die("nobody got the name in a round");
    qsort(all, count, sizeof *all, shorter);
    scene->p50[scene->rounds] = (double)all[count / 2];
    scene->p99[scene->rounds] = (double)all[count * 99 / 100];
}

static double scene_round(void *arg, double seconds)
{
    struct scene *scene = arg;
    double commands = redlock_nodes_commands(scene->nodes), rate;
    uint64_t steps = crew_steps(scene->crew), changes = scene->turns->changes;

    for (size_t i = 0; i < WORKERS; i++)
        scene->waits[i].count = 0;
    rate = team_round(&scene->team, seconds);
    if (scene->rounds <= STATS_MAX) {
        steps = crew_steps(scene->crew) - steps;
        scene->commands[scene->rounds] =
            (redlock_nodes_commands(scene->nodes) - commands) / (double)steps;
        scene->changes[scene->rounds] =
            rate * (double)(scene->turns->changes - changes) / (double)steps;
        look_at_waits(scene);
        scene->rounds++;
    }
    return rate;
}

static void report(struct bench *bench, enum unit unit, const char *what, double value,
                   unsigned rounds)
{
    struct row *row = bench_row(bench, unit, what, "");

    row->measured = value;
    row->rounds = rounds;
}

void measure_redlock_queue(struct bench *bench)
{
    static struct scene scene;
    static struct rounds rounds;
    const struct contender contender = { scene_round, &scene };

    scene.nodes = redlock_nodes_start(bench);
    scene.waits = crew_shared(WORKERS * sizeof *scene.waits);
    scene.turns = crew_shared(sizeof *scene.turns);
    ours_close(ours_open_url(scene.nodes->url)); /* make the cluster */
    scene.crew = crew_start(CREW_PROCESSES, WORKERS, enter, &scene);
    scene.team = (struct team){ .crew = scene.crew, .step = step, .hold_ns = HOLD_NS };
    rounds_run(bench, 1, bench->quick ? QUICK_ROUND_S : ROUND_S, &contender, 1, &rounds);
    report(bench, UNIT_PER_SECOND, "16 processes, five nodes, 1 ms: acquisitions",
           rounds_rate(&rounds, 0), rounds.count);
    report(bench, UNIT_PER_SECOND, "  hand-offs to another process",
           stats_median(scene.changes + 1, rounds.count), rounds.count);
    report(bench, UNIT_PLAIN, "  fairness (Jain)", team_jain(&scene.team), rounds.count);
    report(bench, UNIT_MICROSECONDS, "  wait, p50", stats_median(scene.p50 + 1, rounds.count),
           rounds.count);
    report(bench, UNIT_MICROSECONDS, "  wait, p99", stats_median(scene.p99 + 1, rounds.count),
           rounds.count);
    report(bench, UNIT_PLAIN, "  commands to all nodes, each",
           stats_median(scene.commands + 1, rounds.count), rounds.count);
    crew_end(scene.crew);
    redlock_nodes_stop(scene.nodes);
}
