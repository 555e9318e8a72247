/* SPDX-License-Identifier: MIT */
/*
 * Lingering leases: what a process that takes the same names again and again gains, and what others pay. On
 * each server beside its raw pair: the same pair by one thread, and 16 threads on 64 names. Two processes
 * that take turns on one name, with lingering and without: they must lose nothing. And how long a hand-over
 * out of idle takes, beside one from a holder to a waiter.
 */
#include "contest.h"
#include "crew.h"
#include "measures.h"
#include "raw_limit.h"
#include "redis_server.h"
#include "redlock_nodes.h"
#include "rounds.h"
#include "sql.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINGER_MS    200
#define THREADS      16
#define NAMES_EACH   4
#define STRIDE       16
#define ROUND_S      0.1
#define TURN_ROUND_S 0.25
#define TURNS        100
#define QUICK_TURNS  10
#define WORK_NS      1500000 /* of a holder: so it releases as after work (src/engine/redis/release.c) */

/* A server with its raw pair. */
struct scene {
    struct bench *bench;
    const char *url, *by_hand;
    step_fn *raw;
    void *raw_arg;
};

/* One of ours. */
struct side {
    hf_store *store;
    hf_acquire_request request;
};

static hf_acquire_request request_for(const char *name, int64_t linger_ms)
{
    hf_acquire_request request = ours_request(name, 0);

    request.linger_ms = linger_ms;
    return request;
}

/* Where leases cannot linger, there is nothing to measure. It is closed again before anything forks. */
static void skip_without(const struct bench *bench, const char *url)
{
    hf_store *store = ours_open_url(url);
    hf_acquire_request request = request_for(OURS_NAME, LINGER_MS);
    hf_lease *lease;
    hf_error err;
    hf_status status = hf_acquire(store, &request, &lease, &err);

    if (status == HF_UNSUPPORTED)
        bench_skip(bench, "leases cannot linger here");
    if (status != HF_OK)
        bench_die("hf_acquire: %s", err.text);
    ours_release(lease);
    ours_close(store);
}

/* ---- pairs ----------------------------------------------------------------------------------------- */

static void step_ours(void *arg)
{
    struct side *side = arg;

    ours_release(ours_acquire(side->store, &side->request));
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    const struct scene *scene = arg;

    return rounds_loop(scene->raw, scene->raw_arg, seconds, STRIDE);
}

/* A thread with names of its own. */
struct caller {
    hf_store *store;
    unsigned next;
    char names[NAMES_EACH][24];
};

static void *enter(size_t index, void *store)
{
    struct caller *caller = calloc(1, sizeof *caller);

    if (!caller)
        bench_die("out of memory");
    caller->store = store;
    for (size_t i = 0; i < NAMES_EACH; i++)
        snprintf(caller->names[i], sizeof caller->names[i], "linger-%02zu-%zu", index, i);
    return caller;
}

static void step_names(void *self, int64_t hold_ns)
{
    struct caller *caller = self;
    hf_acquire_request request = request_for(caller->names[caller->next++ % NAMES_EACH], LINGER_MS);

    (void)hold_ns;
    ours_release(ours_acquire(caller->store, &request));
}

static void pairs(struct scene *scene)
{
    enum { ON, OFF, RAW, MANY, COUNT };
    static struct rounds rounds;
    struct bench *bench = scene->bench;
    hf_store *store = ours_open_url(scene->url);
    struct side on = { store, request_for(OURS_NAME, LINGER_MS) },
                off = { store, request_for("bench-name-00001", HF_LINGER_NEVER) };
    struct team team = { .step = step_names };
    const struct contender contenders[COUNT] = {
        { round_ours, &on }, { round_ours, &off }, { round_raw, scene }, { team_round, &team }
    };

    team.crew = crew_start(CREW_THREADS, THREADS, enter, store);
    rounds_run(bench, 0.5, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, ON, "the same pair again, one thread", RAW, scene->by_hand,
                 (struct target){ AT_LEAST, 100, 0, false });
    rounds_rates(bench, &rounds, ON, "the same pair again, one thread", OFF, "ours, linger off",
                 (struct target){ 0 });
    rounds_rates(bench, &rounds, MANY, "16 threads on 64 names", RAW, scene->by_hand,
                 (struct target){ AT_LEAST, 20, 0, false });
    crew_end(team.crew);
    ours_close(store);
}

/* ---- two processes in turn ------------------------------------------------------------------------------ */

static void turns(struct scene *scene)
{
    enum { ON, OFF, COUNT };
    const hf_acquire_request on = request_for(OURS_NAME, LINGER_MS),
                             off = request_for("bench-name-00001", HF_LINGER_NEVER);
    const struct contest_side sides[COUNT] = { contest_ours_as("linger", scene->url, &on),
                                               contest_ours_as("linger off", scene->url, &off) };
    struct contest *contest = contest_start(2, 1, &(struct contest_server){ 0 }, sides, COUNT);

    contest_run(scene->bench, contest, 0, false, 0.3, TURN_ROUND_S);
    contest_rows(scene->bench, contest, ON, OFF, "2 processes, no hold",
                 &(struct contest_targets){ .rate = 0.95 });
    contest_end(contest);
}

/* ---- out of idle, and out of a holder's hands ------------------------------------------------------------- */

struct taker {
    struct side side;
    int64_t got_ns;
};

static void *take(void *arg)
{
    struct taker *taker = arg;
    hf_lease *lease = ours_acquire(taker->side.store, &taker->side.request);

    taker->got_ns = bench_ns();
    ours_release(lease);
    return NULL;
}

/* How many the store shows for the name. */
static void count(const struct side *side, size_t *ret_holders, size_t *ret_waiters)
{
    hf_view *view;
    hf_error err;

    if (hf_store_inspect(side->store, side->request.name, side->request.name_len, 0, &view, &err) !=
        HF_OK)
        bench_die("hf_store_inspect: %s", err.text);
    *ret_holders = hf_view_count(view) ? hf_view_entry(view, 0)->holder_count : 0;
    *ret_waiters = hf_view_count(view) ? hf_view_entry(view, 0)->waiter_count : 0;
    hf_free(view);
}

static void await_waiter(const struct side *side)
{
    size_t holders, waiters = 0;

    while (waiters == 0)
        count(side, &holders, &waiters);
}

/* Take it and give it back until it stays: the line on which others ask for it may not be up at first. */
static void make_idle(const struct side *giver)
{
    size_t holders = 0, waiters;

    while (holders == 0) {
        ours_release(ours_acquire(giver->store, &giver->request));
        count(giver, &holders, &waiters);
    }
}

/* From the call that asks until it is there; the other process has it, idle. */
static double out_of_idle(struct side *giver, struct taker *taker)
{
    int64_t begin;

    make_idle(giver);
    begin = bench_ns();
    take(taker);
    return (double)(taker->got_ns - begin) / 1e3;
}

/* How long a request is under way: half of what the answer "busy" takes. */
static double way_there(const struct taker *taker)
{
    hf_acquire_request request = taker->side.request;
    int64_t begin = bench_ns();
    hf_lease *lease;
    hf_error err;

    request.wait_ms = 0;
    if (hf_acquire(taker->side.store, &request, &lease, &err) != HF_BUSY)
        bench_die("a name that is held was not busy: %s", err.text);
    return (double)(bench_ns() - begin) / 2e3;
}

/* From the call that releases until the waiter has it. */
static double out_of_hands(struct side *giver, struct taker *taker, double *ret_way)
{
    hf_lease *lease = ours_acquire(giver->store, &giver->request);
    pthread_t thread;
    int64_t begin;

    *ret_way = way_there(taker);
    if (pthread_create(&thread, NULL, take, taker) != 0)
        bench_die("pthread_create failed");
    await_waiter(giver);
    begin = bench_ns();
    while (bench_ns() - begin < WORK_NS)
        ;
    begin = bench_ns();
    ours_release(lease);
    pthread_join(thread, NULL);
    return (double)(taker->got_ns - begin) / 1e3;
}

/* Each turn has a name of its own: a name that was recalled lately lingers less. */
static void hand_overs(struct scene *scene)
{
    unsigned count = scene->bench->quick ? QUICK_TURNS : TURNS;
    hf_store *giver = ours_open_url(scene->url), *getter = ours_open_url(scene->url);
    double whole[TURNS], idle[TURNS], held[TURNS], way;

    for (unsigned i = 0; i < count; i++) {
        char name[24];
        struct side on, off;
        struct taker taker;

        snprintf(name, sizeof name, "idle-name-%05u", i);
        on = (struct side){ giver, request_for(name, LINGER_MS) };
        taker = (struct taker){ { getter, request_for(name, HF_LINGER_NEVER) }, 0 };
        whole[i] = out_of_idle(&on, &taker);
        off = (struct side){ giver, request_for(name, HF_LINGER_NEVER) };
        held[i] = out_of_hands(&off, &taker, &way);
        idle[i] =
            whole[i] -
            way; /* from when the store has the request: it is what the store begins to hand over at */
    }
    rounds_values(scene->bench, UNIT_MICROSECONDS, "hand-over out of idle", idle,
                  "from a holder to a waiter", held, count,
                  (struct target){ AT_MOST, 1.5, 0, false });
    rounds_values(scene->bench, UNIT_MICROSECONDS, "  with the way of the request to the store",
                  whole, "from a holder to a waiter", held, count,
                  (struct target){ NO_TARGET, 0, 0, false });
    bench_done(scene->bench, 0.2);
    ours_close(giver);
    ours_close(getter);
}

/* ---- the servers -------------------------------------------------------------------------------------------- */

static void play(struct scene *scene)
{
    skip_without(scene->bench, scene->url);
    turns(scene);
    pairs(scene);
    hand_overs(scene);
}

struct hand {
    struct raw_redis *redis;
    struct raw_pair pair;
};

static void step_redis(void *arg)
{
    struct hand *hand = arg;

    raw_limit_do(&hand->pair, hand->redis);
}

void measure_redis_linger(struct bench *bench)
{
    static struct hand hand;
    struct redis_server *server = redis_server_start(bench);
    struct scene scene = { bench, server->url, "SET NX PX, compare and delete", step_redis, &hand };

    hand.redis = raw_redis_open(server->port);
    raw_limit_init(&hand.pair, hand.redis, "bench-name-raw00", 0);
    play(&scene);
    redis_server_stop(server);
}

static void step_redlock(void *raw)
{
    raw_redlock_pair(raw);
}

void measure_redlock_linger(struct bench *bench)
{
    struct redlock_nodes *nodes = redlock_nodes_start(bench);
    struct scene scene = { bench, nodes->url, "SET NX and delete, by hand", step_redlock,
                           raw_redlock_open(nodes, "bench-name-raw00") };

    play(&scene);
    redlock_nodes_stop(nodes);
}

struct sql_hand {
    const struct sql_kind *kind;
    struct sql_raw *raw;
};

static void step_sql(void *arg)
{
    const struct sql_hand *hand = arg;

    hand->kind->upsert(hand->raw);
    hand->kind->clear(hand->raw);
}

static void measure_sql(struct bench *bench, const struct sql_kind *kind)
{
    struct sql_server *server = sql_server_start(bench, kind);
    struct sql_hand hand = { kind, sql_open(server) };
    struct scene scene = { bench, sql_url(server, "lease"), "upsert + update, by hand", step_sql,
                           &hand };

    play(&scene);
    kind->close(hand.raw);
    sql_server_stop(server);
}

void measure_postgres_linger(struct bench *bench)
{
    measure_sql(bench, &sql_postgres);
}

void measure_mariadb_linger(struct bench *bench)
{
    measure_sql(bench, &sql_mariadb);
}
