/* SPDX-License-Identifier: MIT */
/*
 * A counter and a rate limit on a Redis server, each one call that is one command; against the least that
 * does the same by hand: INCR on a blocking socket, and the very EVALSHA that our engine sends. Counts
 * what they cost in commands.
 */
#include "bench.h"
#include "engine/redis/scripts.h"
#include "holdfast/primitives.h"
#include "measures.h"
#include "ours.h"
#include "redis_server.h"
#include "rounds.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#define ROUND_S 0.1
#define STRIDE  16
#define COUNTED 2000 /* calls whose commands are counted */
#define RAW_KEY "hf:{bench-name-raw00}:c"

/* A bucket that never gets empty here, so that every call is granted, by either side: a permit a
 * microsecond, 10^9 at once. So a part is a permit (see prim/limit_plan.h). */
#define RATE      1000000
#define PERIOD_MS 1000
#define BURST     1000000000
#define HEAD      "HHHHHHHHHHHHHHHHHHHHHHHHHHH" /* 27 bytes, not all of them text */
#define QUESTION \
    "QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ" /* 58 bytes, likewise */

struct side {
    struct redis_server *server;
    hf_store *store;
    hf_limit_request limit;
    struct raw_redis *redis;
    struct raw_command command;
};

/* ---- steps ------------------------------------------------------------------------------------ */

static void step_counter(void *arg)
{
    struct side *side = arg;
    hf_error err;
    int64_t value;

    if (hf_counter_add(side->store, OURS_NAME, HF_CSTRING, 1, &value, &err) != HF_OK)
        bench_die("hf_counter_add: %s", err.text);
}

static void step_limit(void *arg)
{
    struct side *side = arg;
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    hf_error err;

    if (hf_limit_take(side->store, &side->limit, &result, &err) != HF_OK)
        bench_die("hf_limit_take: %s", err.text);
}

static void step_raw_counter(void *arg)
{
    struct side *side = arg;
    const char *reply;
    size_t len;

    raw_redis_send(side->redis, side->command.bytes, side->command.len);
    reply = raw_redis_reply(side->redis, &len);
    if (reply[0] != ':')
        bench_die("a raw INCR: %.*s", (int)len, reply);
}

static void step_raw_limit(void *arg)
{
    struct side *side = arg;
    const char *reply;
    size_t len;

    raw_redis_send(side->redis, side->command.bytes, side->command.len);
    reply = raw_redis_reply(side->redis, &len);
    if (len < 10 || reply[5] != 'G') /* "$33\r\nG" */
        bench_die("a raw limit did not grant: %.*s", (int)len, reply);
}

static double round_counter(void *arg, double seconds)
{
    return rounds_loop(step_counter, arg, seconds, STRIDE);
}

static double round_limit(void *arg, double seconds)
{
    return rounds_loop(step_limit, arg, seconds, STRIDE);
}

static double round_raw_counter(void *arg, double seconds)
{
    return rounds_loop(step_raw_counter, arg, seconds, STRIDE);
}

static void step_ping(void *arg)
{
    struct side *side = arg;
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    size_t len;

    raw_redis_send(side->redis, ping, sizeof ping - 1);
    raw_redis_reply(side->redis, &len);
}

static double round_ping(void *arg, double seconds)
{
    return rounds_loop(step_ping, arg, seconds, STRIDE);
}

static double round_raw_limit(void *arg, double seconds)
{
    return rounds_loop(step_raw_limit, arg, seconds, STRIDE);
}

/* ---- the raw limit: what src/engine/redis/limit.c sends for a bucket ------------------------------ */

static void put(char *at, uint64_t value)
{
    uint64_t bytes = htole64(value);

    memcpy(at, &bytes, sizeof bytes);
}

static void format_limit(struct side *side)
{
    char sha[RAW_SHA];
    const char *const words[] = { "EVALSHA", sha, "1", RAW_KEY, HEAD, QUESTION, NULL };
    /* permits, the longest wait, rate, period, parts in a full bucket, in a permit and in a microsecond */
    const uint64_t asked[] = { 1, 0, RATE, (uint64_t)PERIOD_MS * 1000, BURST, 1, 1 };
    char *head, *question;

    raw_redis_load(side->redis, hfi_script_limit.text, sha);
    raw_redis_format(&side->command, words);
    head = memmem(side->command.bytes, side->command.len, HEAD, strlen(HEAD));
    memcpy(head, "L1b", 3);
    put(head + 3, RATE);
    put(head + 11, (uint64_t)PERIOD_MS * 1000);
    put(head + 19, BURST);
    question = memmem(side->command.bytes, side->command.len, QUESTION, strlen(QUESTION));
    memcpy(question, "tb", 2);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        put(question + 2 + 8 * i, asked[i]);
}

/* ---- both ------------------------------------------------------------------------------------------ */

static void begin(struct bench *bench, struct side *side)
{
    side->server = redis_server_start(bench);
    side->store = ours_open_url(side->server->url);
    side->redis = raw_redis_open(side->server->port);
}

/* Of one call of ours. Two decimals: what a thread in the background does once a second is not of it. */
static void count_commands(struct bench *bench, struct side *side, step_fn *step)
{
    struct row *row = bench_row(bench, UNIT_PLAIN, "  commands to the server, each", "");
    double before = redis_server_work(side->server).commands;

    for (int i = 0; i < COUNTED; i++)
        step(side);
    row->measured =
        round((redis_server_work(side->server).commands - before) / COUNTED * 100) / 100;
    row->target = (struct target){ AT_MOST, 1, 0, true };
}

static void end(struct side *side)
{
    ours_close(side->store);
    raw_redis_close(side->redis);
    redis_server_stop(side->server);
}

void measure_prims_counter(struct bench *bench)
{
    static struct rounds rounds;
    static struct side side;
    const char *const words[] = { "INCR", RAW_KEY, NULL };
    const struct contender contenders[] = { { round_counter, &side },
                                            { round_raw_counter, &side } };

    begin(bench, &side);
    raw_redis_format(&side.command, words);
    rounds_run(bench, 1, ROUND_S, contenders, 2, &rounds);
    rounds_rates(bench, &rounds, 0, "counter add on Redis", 1, "INCR, by hand",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    count_commands(bench, &side, step_counter);
    end(&side);
}

void measure_prims_limit(struct bench *bench)
{
    static struct rounds rounds;
    static struct side side = { .limit = HF_LIMIT_REQUEST_INIT };
    const struct contender contenders[] = { { round_limit, &side },
                                            { round_raw_limit, &side },
                                            { round_ping, &side } };

    side.limit.name = OURS_NAME;
    side.limit.name_len = HF_CSTRING;
    side.limit.algorithm = HF_LIMIT_ALGORITHM_BUCKET;
    side.limit.rate = RATE;
    side.limit.per_ms = PERIOD_MS;
    side.limit.burst = BURST;
    begin(bench, &side);
    format_limit(&side);
    rounds_run(bench, 1, ROUND_S, contenders, 3, &rounds);
    rounds_rates(bench, &rounds, 0, "rate limit on Redis: try", 1, "the same EVALSHA, by hand",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    rounds_rates(bench, &rounds, 0, "rate limit on Redis: try", 2, "PING, by hand",
                 (struct target){ AT_LEAST, 0.75, 0, false });
    count_commands(bench, &side, step_limit);
    end(&side);
}
