/* SPDX-License-Identifier: MIT */
/*
 * What the search for deadlocks costs in commands to a Redis server: acquisitions of a session that holds
 * something else, which take part in it, against those of one that holds nothing. Nobody waits; four
 * processes that all want one name; and one wait that lasts longer than a second, after which the whole
 * store is looked at for the first time: one call for all names that are waited for, one for each of them.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "redis_server.h"
#include "rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PROCESSES 4
#define HOLD_NS   100000
#define ROUND_S   0.5
#define PAIRS     2000
#define LONG_MS   1500

enum { HOLDING, BARE, COUNT };

/* Who asks for OURS_NAME: with a scope that holds another name, or as a thread that holds nothing. */
struct asker {
    hf_store *store;
    hf_lease *other;
    hf_acquire_request requests[COUNT];
};

struct scene {
    struct redis_server *server;
    struct crew *crew;
    struct side {
        struct scene *scene;
        struct team team;
        unsigned rounds;
        double commands[STATS_MAX +
                        1]; /* of an acquisition; the first is of the round that warms up */
    } sides[COUNT];
};

/* ---- steps ------------------------------------------------------------------------------------- */

static struct asker *ask_from(const char *url, size_t index)
{
    struct asker *asker = calloc(1, sizeof *asker);
    char name[32];
    hf_acquire_request other;

    if (!asker)
        bench_die("out of memory");
    snprintf(name, sizeof name, "bench-other-%05zu", index);
    other = ours_request(name, 0);
    other.scope = index + 1;
    asker->store = ours_open_url(url);
    asker->other = ours_acquire(asker->store, &other);
    asker->requests[BARE] = asker->requests[HOLDING] = ours_request(OURS_NAME, 0);
    asker->requests[HOLDING].scope = other.scope;
    return asker;
}

static void end_asker(struct asker *asker)
{
    ours_release(asker->other);
    ours_close(asker->store);
    free(asker);
}

static void *enter(size_t index, void *arg)
{
    struct scene *scene = arg;

    return ask_from(scene->server->url, index);
}

static void step(struct asker *asker, int which, int64_t hold_ns)
{
    hf_lease *lease = ours_acquire(asker->store, &asker->requests[which]);

    crew_hold(hold_ns);
    ours_release(lease);
}

static void step_holding(void *self, int64_t hold_ns)
{
    step(self, HOLDING, hold_ns);
}

static void step_bare(void *self, int64_t hold_ns)
{
    step(self, BARE, hold_ns);
}

/* ---- counting --------------------------------------------------------------------------------------- */

static double commands(const struct scene *scene)
{
    return redis_server_work(scene->server).commands;
}

static double side_round(void *arg, double seconds)
{
    struct side *side = arg;
    struct scene *scene = side->scene;
    double before = commands(scene), rate;
    uint64_t steps = crew_steps(scene->crew);

    rate = team_round(&side->team, seconds);
    steps = crew_steps(scene->crew) - steps;
    if (side->rounds <= STATS_MAX)
        side->commands[side->rounds++] = (commands(scene) - before) / (double)(steps ? steps : 1);
    return rate;
}

static double count_pairs(const struct scene *scene, struct asker *asker, int which)
{
    double before = redis_server_pairs(scene->server);

    for (int i = 0; i < PAIRS; i++)
        step(asker, which, 0);
    return (redis_server_pairs(scene->server) - before) / PAIRS;
}

/* A wait in vain: the name is held, through another handle. */
static double count_long(const struct scene *scene, struct asker *asker, int which)
{
    hf_acquire_request request = asker->requests[which];
    double before = commands(scene);
    hf_lease *lease;
    hf_error err;

    request.wait_ms = LONG_MS;
    if (hf_acquire(asker->store, &request, &lease, &err) != HF_TIMEOUT)
        bench_die("a wait for what is held did not end with HF_TIMEOUT");
    return commands(scene) - before;
}

/* Two decimals: what a thread in the background does once a second is not of the acquisition. */
static void report(struct bench *bench, const char *what, double holding, double bare,
                   struct target target)
{
    struct row *row = bench_row(bench, UNIT_PLAIN, what, "by a session that holds nothing");

    row->measured = round(holding * 100) / 100;
    row->baseline = round(bare * 100) / 100;
    row->ratio = holding / bare;
    row->target = target;
}

static void report_added(struct bench *bench, double holding, double bare)
{
    struct row *row = bench_row(bench, UNIT_PLAIN, "  contended: more for the search", "");

    row->measured = fmax(round((holding - bare) * 100) / 100, 0);
    row->target = (struct target){ AT_MOST, 1, 0, true };
}

/* ---- scenes -------------------------------------------------------------------------------------- */

static void play_contended(struct bench *bench, struct scene *scene)
{
    static struct rounds rounds;
    static crew_step_fn *const steps[COUNT] = { step_holding, step_bare };
    struct contender contenders[COUNT];
    double medians[COUNT];

    for (int i = 0; i < COUNT; i++) {
        struct side *side = &scene->sides[i];

        side->scene = scene;
        side->team = (struct team){ .crew = scene->crew, .step = steps[i], .hold_ns = HOLD_NS };
        contenders[i] = (struct contender){ side_round, side };
    }
    rounds_run(bench, 0.8, ROUND_S, contenders, COUNT, &rounds);
    for (int i = 0; i < COUNT; i++)
        medians[i] = stats_median(scene->sides[i].commands + 1, rounds.count);
    report(bench, "  contended", medians[HOLDING], medians[BARE], (struct target){ 0 });
    report_added(bench, medians[HOLDING], medians[BARE]);
}

static void play_long(struct bench *bench, const struct scene *scene, struct asker *asker)
{
    hf_store *store = ours_open_url(scene->server->url);
    hf_acquire_request request = ours_request(OURS_NAME, HF_FLAG_NO_DEADLOCK_CHECK);
    hf_lease *lease = ours_acquire(store, &request);
    double holding = count_long(scene, asker, HOLDING), bare = count_long(scene, asker, BARE);

    report(bench, "commands of a wait of 1.5 s, six names", holding, bare,
           (struct target){ AT_MOST, 2, 0, false });
    ours_release(lease);
    ours_close(store);
}

void measure_prims_deadlock(struct bench *bench)
{
    static struct scene scene;
    struct asker *asker;
    double holding, bare;

    scene.server = redis_server_start(bench);
    scene.crew = crew_start(CREW_PROCESSES, PROCESSES, enter, &scene);
    asker = ask_from(scene.server->url, PROCESSES);
    holding = count_pairs(&scene, asker, HOLDING);
    bare = count_pairs(&scene, asker, BARE);
    report(bench, "commands of a pair, holding another name", holding, bare,
           (struct target){ AT_MOST, 2, 0, true });
    play_contended(bench, &scene);
    crew_end(scene.crew); /* their pings would be counted */
    play_long(bench, &scene, asker);
    end_asker(asker);
    redis_server_stop(scene.server);
}
