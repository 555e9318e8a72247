/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on a Redis server, all the time; every release hands it to
 * another process. Against a raw queue on the same server. 16 and 64 of them with the name held for
 * 1 ms, and 16 with no hold time, where only the hand-off counts.
 *
 * Besides the rate: how evenly it is shared, how long one waits, and what an acquisition costs
 * in commands to the server, which must not grow with the number of those who wait.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "raw_queue.h"
#include "redis_server.h"
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW           16
#define MANY          64
#define HOLD_NS       1000000
#define HOLD_ROUND_S  0.5 /* some thirty turns of each of few */
#define MANY_ROUND_S  1.0
#define BARE_ROUND_S  0.25
#define QUICK_ROUND_S 0.1
#define WAITS_MAX     4096 /* of one worker in one round; more are not looked at */

enum { OURS, RAW, COUNT };

/* How long each wait of one worker took in this round, by contender. Shared. */
struct waits {
    size_t count[COUNT];
    float us[COUNT][WAITS_MAX];
};

struct scene {
    struct redis_server *server;
    struct crew *crew;
    struct waits *waits; /* of each worker */
    size_t workers;
    struct side {
        struct scene *scene;
        struct team team;
        int which;
        size_t rounds; /* the first warms up */
        double p50[STATS_MAX + 1], p99[STATS_MAX + 1], commands[STATS_MAX + 1];
    } sides[COUNT];
    struct rounds rates;
};

/* ---- workers ------------------------------------------------------------------------------- */

struct worker {
    hf_store *store;
    hf_acquire_request request;
    struct raw_queue *raw;
    struct waits *waits;
};

static void *enter(size_t index, void *arg)
{
    struct scene *scene = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        bench_die("out of memory");
    worker->store = ours_open_url(scene->server->url);
    worker->request = ours_request(OURS_NAME, 0);
    worker->raw = raw_queue_open(scene->server->port, index);
    worker->waits = &scene->waits[index];
    return worker;
}

static void note_wait(struct waits *waits, int which, int64_t since)
{
    if (waits->count[which] < WAITS_MAX)
        waits->us[which][waits->count[which]++] = (float)(bench_ns() - since) / 1e3f;
}

static void step_ours(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    int64_t since = bench_ns();
    hf_lease *lease = ours_acquire(worker->store, &worker->request);

    note_wait(worker->waits, OURS, since);
    crew_hold(hold_ns);
    ours_release(lease);
}

static void step_raw(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    int64_t since = bench_ns();

    raw_queue_acquire(worker->raw);
    note_wait(worker->waits, RAW, since);
    crew_hold(hold_ns);
    raw_queue_release(worker->raw);
}

/* ---- a round: what it cost besides time ------------------------------------------------------ */

static int shorter(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void look_at_waits(struct side *side, size_t at)
{
    static float all[MANY * WAITS_MAX];
    struct scene *scene = side->scene;
    size_t count = 0;

    for (size_t i = 0; i < scene->workers; i++)
        for (size_t k = 0; k < scene->waits[i].count[side->which]; k++)
            all[count++] = scene->waits[i].us[side->which][k];
    if (count == 0)
        bench_die("nobody got the name in a round");
    qsort(all, count, sizeof *all, shorter);
    side->p50[at] = (double)all[count / 2];
    side->p99[at] = (double)all[count * 99 / 100];
}

static double side_round(void *arg, double seconds)
{
    struct side *side = arg;
    struct scene *scene = side->scene;
    double commands = redis_server_work(scene->server).commands, rate;
    uint64_t steps = crew_steps(scene->crew);

    for (size_t i = 0; i < scene->workers; i++)
        scene->waits[i].count[side->which] = 0;
    rate = team_round(&side->team, seconds);
    if (side->rounds <= STATS_MAX) {
        steps = crew_steps(scene->crew) - steps;
        commands = redis_server_work(scene->server).commands - commands;
        side->commands[side->rounds] = commands / (double)steps;
        look_at_waits(side, side->rounds++);
    }
    return rate;
}

/* ---- scenes ------------------------------------------------------------------------------------ */

/* A crew of this size, kept for all that is measured with it. */
static struct scene *open_scene(struct redis_server *server, size_t workers)
{
    struct scene *scene = calloc(1, sizeof *scene);

    if (!scene)
        bench_die("out of memory");
    scene->server = server;
    scene->workers = workers;
    scene->waits = crew_shared(workers * sizeof *scene->waits);
    scene->crew = crew_start(CREW_PROCESSES, workers, enter, scene);
    return scene;
}

static void play(struct bench *bench, struct scene *scene, int64_t hold_ns, double share,
                 double round_s)
{
    static crew_step_fn *const steps[COUNT] = { step_ours, step_raw };
    struct contender contenders[COUNT];

    for (int i = 0; i < COUNT; i++) {
        scene->sides[i] = (struct side){ .scene = scene, .which = i };
        scene->sides[i].team =
            (struct team){ .crew = scene->crew, .step = steps[i], .hold_ns = hold_ns };
        contenders[i] = (struct contender){ side_round, &scene->sides[i] };
    }
    rounds_run(bench, share, bench->quick ? QUICK_ROUND_S : round_s, contenders, COUNT,
               &scene->rates);
}

static void report(struct bench *bench, const struct scene *scene, const char *how, double rate,
                   double p99)
{
    const struct side *ours = &scene->sides[OURS], *raw = &scene->sides[RAW];
    unsigned count = scene->rates.count;
    char what[72];
    struct row *row;

    snprintf(what, sizeof what, "%zu processes, %s: hand-offs", scene->workers, how);
    rounds_rates(bench, &scene->rates, OURS, what, RAW, "raw queue",
                 (struct target){ AT_LEAST, rate, 0, false });
    row = bench_row(bench, UNIT_PLAIN, "  fairness (Jain)", "raw queue");
    row->measured = team_jain(&ours->team);
    row->baseline = team_jain(&raw->team);
    row->rounds = count;
    row->target = (struct target){ AT_LEAST, 0.99, 0, true };
    rounds_values(bench, UNIT_MICROSECONDS, "  wait, p50", ours->p50 + 1, "raw queue", raw->p50 + 1,
                  count, (struct target){ 0 });
    rounds_values(bench, UNIT_MICROSECONDS, "  wait, p99", ours->p99 + 1, "raw queue", raw->p99 + 1,
                  count, (struct target){ p99 > 0 ? AT_MOST : NO_TARGET, p99, 0, false });
    rounds_values(bench, UNIT_PLAIN, "  commands to the server, each", ours->commands + 1,
                  "raw queue", raw->commands + 1, count, (struct target){ AT_MOST, 2.5, 0, true });
}

void measure_redis_queue(struct bench *bench)
{
    struct redis_server *server = redis_server_start(bench);
    struct scene *few = open_scene(server, FEW), *many;
    double commands;
    struct row *row;

    play(bench, few, 0, 0.2, BARE_ROUND_S);
    report(bench, few, "no hold", 0.7, 0);
    play(bench, few, HOLD_NS, 0.4, HOLD_ROUND_S);
    report(bench, few, "1 ms", 0.95, 1.2);
    commands = stats_median(few->sides[OURS].commands + 1, few->rates.count);
    crew_end(few->crew);
    if (!bench->quick) {
        many = open_scene(server, MANY);
        play(bench, many, HOLD_NS, 0.4, MANY_ROUND_S);
        report(bench, many, "1 ms", 0.95, 1.2);
        row = bench_row(bench, UNIT_PLAIN, "commands, 64 processes", "16 processes");
        row->measured = stats_median(many->sides[OURS].commands + 1, many->rates.count);
        row->baseline = commands;
        row->ratio = row->measured / row->baseline;
        row->target = (struct target){ AT_MOST, 1.05, 0, false };
        crew_end(many->crew);
    }
    redis_server_stop(server);
}
