/* SPDX-License-Identifier: MIT */
/*
 * 64 names at once through one store handle: by 64 threads that block, and by one thread with 64
 * acquisitions in flight. Against one raw connection that pipelines 64 pairs: all 128 commands in one
 * write, then their replies. That is more than a client can have that looks at the reply of its acquire
 * before it releases; the second row has that: 64 acquires, their replies, 64 releases, their replies. The
 * pairs by hand are the least that any lock needs (raw_limit.h), without and with a token, and the two
 * commands that we send.
 */
#include "crew.h"
#include "flights.h"
#include "measures.h"
#include "raw_limit.h"
#include "redis_server.h"
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH   64
#define ROUND_S 0.25

/* ---- by hand --------------------------------------------------------------------------- */

struct pipeline {
    struct raw_redis *redis;
    struct raw_pair pairs[WIDTH];
    size_t len; /* of `out` */
    char out[2 * WIDTH * sizeof(struct raw_command)];
};

static void put(struct pipeline *pipeline, const struct raw_command *command)
{
    memcpy(pipeline->out + pipeline->len, command->bytes, command->len);
    pipeline->len += command->len;
}

static void flush(struct pipeline *pipeline, size_t replies)
{
    raw_redis_send(pipeline->redis, pipeline->out, pipeline->len);
    pipeline->len = 0;
    while (replies > 0)
        replies -= raw_redis_replies(pipeline->redis);
}

static void step_at_once(void *arg)
{
    struct pipeline *pipeline = arg;

    for (size_t i = 0; i < WIDTH; i++) {
        struct raw_pair *pair = &pipeline->pairs[i];

        raw_pair_next(pair);
        put(pipeline, &pair->acquire);
        put(pipeline, &pair->release);
    }
    flush(pipeline, 2 * WIDTH);
}

static void step_by_turns(void *arg)
{
    struct pipeline *pipeline = arg;

    for (size_t i = 0; i < WIDTH; i++) {
        raw_pair_next(&pipeline->pairs[i]);
        put(pipeline, &pipeline->pairs[i].acquire);
    }
    flush(pipeline, WIDTH);
    for (size_t i = 0; i < WIDTH; i++)
        put(pipeline, &pipeline->pairs[i].release);
    flush(pipeline, WIDTH);
}

static double round_at_once(void *arg, double seconds)
{
    return WIDTH * rounds_loop(step_at_once, arg, seconds, 1);
}

static double round_by_turns(void *arg, double seconds)
{
    return WIDTH * rounds_loop(step_by_turns, arg, seconds, 1);
}

enum hand { SAME_CALLS, LEAST, WITH_TOKEN };

static void open_pipeline(struct pipeline *pipeline, const struct redis_server *server,
                          enum hand hand)
{
    char name[24];

    pipeline->redis = raw_redis_open(server->port);
    for (unsigned i = 0; i < WIDTH; i++) {
        snprintf(name, sizeof name, "bench-raw%d-%05u", (int)hand, i);
        if (hand == SAME_CALLS)
            raw_pair_init(&pipeline->pairs[i], pipeline->redis, name);
        else
            raw_limit_init(&pipeline->pairs[i], pipeline->redis, name, hand == WITH_TOKEN);
    }
}

/* ---- threads ------------------------------------------------------------------------------ */

struct caller {
    hf_store *store;
    hf_acquire_request request;
    char name[24];
};

static void *enter(size_t index, void *store)
{
    struct caller *caller = calloc(1, sizeof *caller);

    if (!caller)
        bench_die("out of memory");
    snprintf(caller->name, sizeof caller->name, "bench-thr--%05zu", index);
    caller->store = store;
    caller->request = ours_request(caller->name, 0);
    return caller;
}

static void step_blocking(void *self, int64_t hold_ns)
{
    struct caller *caller = self;

    (void)hold_ns;
    ours_release(ours_acquire(caller->store, &caller->request));
}

enum { THREADS, ASYNC, LIMIT, TOKEN, RAW, TURNS, COUNT };

static void report(struct bench *bench, const struct rounds *rounds, size_t who, const char *what)
{
    rounds_rates(bench, rounds, who, what, LIMIT, "64 pairs of SET NX at once",
                 (struct target){ AT_LEAST, 0.5, 0.55, false });
    rounds_rates(bench, rounds, who, what, TOKEN, "  the same with tokens", (struct target){ 0 });
    rounds_rates(bench, rounds, who, what, RAW, "64 pairs of our commands at once",
                 (struct target){ AT_LEAST, 0.5, 0, false });
    rounds_rates(bench, rounds, who, what, TURNS, "  64 acquires, then 64 releases",
                 (struct target){ 0 });
}

void measure_redis_parallel(struct bench *bench)
{
    static struct rounds rounds;
    static struct pipeline same, least, token;
    static struct team team = { .step = step_blocking };
    struct redis_server *server = redis_server_start(bench);
    hf_store *blocking = ours_open_url(server->url), *driven = ours_open_url(server->url);
    struct flights *flights = flights_new(driven, WIDTH, 0);
    const struct contender contenders[COUNT] = {
        { team_round, &team },     { flights_round, flights }, { round_at_once, &least },
        { round_at_once, &token }, { round_at_once, &same },   { round_by_turns, &same }
    };

    open_pipeline(&same, server, SAME_CALLS);
    open_pipeline(&least, server, LEAST);
    open_pipeline(&token, server, WITH_TOKEN);
    team.crew = crew_start(CREW_THREADS, WIDTH, enter, blocking);
    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    report(bench, &rounds, THREADS, "64 threads on 64 names, one store");
    report(bench, &rounds, ASYNC, "64 in flight from one thread");
    crew_end(team.crew);
    ours_close(blocking);
    ours_close(driven);
    flights_free(flights);
    redis_server_stop(server);
}
