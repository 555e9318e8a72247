/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on a Redis server; against the least that any lock needs
 * (SET NX PX, compare and delete), the same with a token, and the same two script calls that we send, by
 * hand. What a pair costs in commands and bytes, and in system calls of the client. And wire=plain.
 */
#include "cost.h"
#include "crew.h"
#include "futex.h"
#include "measures.h"
#include "ours.h"
#include "raw_limit.h"
#include "redis_server.h"
#include "rounds.h"
#include "strace.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ROUND_S  0.1
#define STRIDE   16
#define COUNTED  2000 /* pairs whose commands and system calls are counted */
#define NEARLY   0.9 /* of the pairs; the others may have something to do that is due by the clock */
#define WARM     100 /* pairs before these */
#define ATTACH_S 1.5
#define LOOK_S   0.01
#define TRACED_S 30.0 /* at most, for the counted pairs under strace */

struct pair {
    hf_store *store;
    hf_acquire_request request;
    struct raw_redis *redis;
    struct raw_pair raw;
    struct hand *limit;
};

/* Other ways by hand, on connections of their own. */
struct hand {
    struct raw_redis *redis;
    struct raw_pair pair;
};

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static void step_raw(void *arg)
{
    struct pair *pair = arg;

    raw_pair_do(&pair->raw, pair->redis);
}

static void step_limit(void *arg)
{
    struct hand *hand = arg;

    raw_limit_do(&hand->pair, hand->redis);
}

static void step_limit_of(void *arg)
{
    step_limit(((struct pair *)arg)->limit);
}

static double round_limit(void *arg, double seconds)
{
    return rounds_loop(step_limit, arg, seconds, STRIDE);
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

/* ---- system calls: of a process that does nothing but pairs ------------------------------- */

struct traced {
    _Atomic uint32_t phase; /* futex. 0: getting ready, 1: ready, 2: go, 3: done */
};

static void await(struct traced *traced, uint32_t phase)
{
    uint32_t seen;

    while ((seen = atomic_load(&traced->phase)) < phase)
        futex_wait(&traced->phase, seen, 1);
}

/* The same, of a child that may have died instead. */
static void await_child(struct traced *traced, uint32_t phase, pid_t child)
{
    while (atomic_load(&traced->phase) < phase) {
        if (waitpid(child, NULL, WNOHANG) != 0)
            bench_die("the process to be traced ended");
        bench_sleep(LOOK_S);
    }
}

static void enter(struct traced *traced, uint32_t phase)
{
    atomic_store(&traced->phase, phase);
    futex_wake(&traced->phase, INT_MAX, 1);
}

static void be_traced(struct traced *traced, const char *url)
{
    struct pair pair = { .store = ours_open_url(url), .request = ours_request(OURS_NAME, 0) };

    for (int i = 0; i < WARM; i++)
        step_ours(&pair);
    enter(traced, 1);
    await(traced, 2);
    for (int i = 0; i < COUNTED; i++) {
        step_ours(&pair);
        (void)!getppid(); /* the mark between two pairs */
    }
    enter(traced, 3);
    for (;;)
        pause();
}

static pid_t fork_traced(struct traced *traced, const char *url)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            be_traced(traced, url);
        _exit(EXIT_INTERNAL);
    }
    return pid;
}

/*
 * Of all its threads, a pair: what nine of ten pairs do not exceed. (Not the mean: strace makes a pair
 * ten times as long, and so what is done once in some milliseconds ten times as frequent.) NAN: strace
 * is missing, or may not look.
 */
static double count_calls(const struct bench *bench, struct traced *traced, pid_t pid)
{
    static double times[STRACE_CALLS_MAX], marks[STRACE_CALLS_MAX];
    struct strace_window window = { .times = times, .mark = "getppid(", .marks = marks };
    int64_t end = bench_ns() + (int64_t)(TRACED_S * 1e9);
    char prefix[PATH_MAX];
    pid_t strace;

    await_child(traced, 1, pid);
    snprintf(prefix, sizeof prefix, "%s/strace", bench->dir);
    window.prefix = prefix;
    strace = strace_start(prefix, &pid, 1);
    if (strace < 0)
        return NAN;
    bench_sleep(ATTACH_S);
    if (waitpid(strace, NULL, WNOHANG) != 0)
        return NAN;
    window.from = strace_now();
    enter(traced, 2);
    while (atomic_load(&traced->phase) < 3 && bench_ns() < end)
        bench_sleep(LOOK_S);
    window.to = strace_now();
    kill(strace, SIGINT);
    waitpid(strace, NULL, 0);
    if (atomic_load(&traced->phase) < 3)
        return NAN;
    strace_calls(pid, &window);
    return strace_between(&window, NEARLY);
}

/* ---- all --------------------------------------------------------------------------------------- */

static void report_calls(struct bench *bench, double calls)
{
    struct row *row = bench_row(bench, UNIT_PLAIN, "  system calls of a pair, by strace(1)", "");

    row->measured = round(calls * 100) / 100;
    row->target = (struct target){ AT_MOST, 4, 0, true };
}

static void open_hand(struct hand *hand, const struct redis_server *server, const char *name,
                      int token)
{
    hand->redis = raw_redis_open(server->port);
    raw_limit_init(&hand->pair, hand->redis, name, token);
}

static void open_pair(struct pair *pair, const struct redis_server *server, const char *query)
{
    char url[96];

    snprintf(url, sizeof url, "%s%s", server->url, query);
    pair->store = ours_open_url(url);
    pair->request = ours_request(OURS_NAME, 0);
    pair->redis = raw_redis_open(server->port);
}

enum { OURS, PLAIN, RAW, LIMIT, TOKEN, COUNT };

static void report(struct bench *bench, const struct rounds *rounds)
{
    const char *limit = "SET NX PX, compare and delete";

    rounds_rates(bench, rounds, OURS, "acquire+release", LIMIT, limit,
                 (struct target){ AT_LEAST, 0.92, 0, false });
    rounds_rates(bench, rounds, OURS, "acquire+release", TOKEN, "  the same with a token",
                 (struct target){ 0 });
    rounds_rates(bench, rounds, OURS, "acquire+release", RAW, "the same two commands, by hand",
                 (struct target){ AT_LEAST, 0.95, 0, false });
    rounds_rates(bench, rounds, PLAIN, "acquire+release, wire=plain", LIMIT, limit,
                 (struct target){ AT_LEAST, 0.95, 0, false });
}

void measure_redis_pair(struct bench *bench)
{
    static struct rounds rounds;
    static struct pair pair, plain;
    static struct hand limit, token;
    const struct contender contenders[COUNT] = {
        { round_ours, &pair },   { round_ours, &plain },  { round_raw, &pair },
        { round_limit, &limit }, { round_limit, &token },
    };
    struct redis_server *server = redis_server_start(bench);
    struct contest_server counted = redis_server_counted(server);
    struct traced *traced = crew_shared(sizeof *traced);
    pid_t child = fork_traced(traced, server->url);
    double calls = count_calls(bench, traced, child);

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    open_pair(&pair, server, "");
    open_pair(&plain, server, "?wire=plain");
    raw_pair_init(&pair.raw, pair.redis, "bench-name-raw00");
    open_hand(&limit, server, "bench-name-raw01", 0);
    open_hand(&token, server, "bench-name-raw02", 1);

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    report(bench, &rounds);
    counted.commands = redis_server_pairs;
    counted.by_hand = 2;
    pair.limit = &limit;
    cost_rows(bench, &counted, step_ours, step_limit_of, &pair, "SET NX PX, compare and delete", 2,
              300);
    if (!isnan(calls))
        report_calls(bench, calls);
    ours_close(pair.store);
    ours_close(plain.store);
    redis_server_stop(server);
}
