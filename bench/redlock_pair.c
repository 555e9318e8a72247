/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on five nodes, with tokens; against a loop by hand without
 * them. How many grants needed one round trip only. And the same with one node stopped, and with
 * two: they must cost nothing.
 */
#include "cost.h"
#include "measures.h"
#include "ours.h"
#include "redlock_nodes.h"
#include "rounds.h"

#include <math.h>
#include <signal.h>

#define ROUND_S   0.1
#define STOPPED_S 0.4 /* longer than it takes to find out that a node is silent */
#define STRIDE    8
#define COUNTED   2000
#define PER_PAIR  (2.0 * REDLOCK_NODES) /* commands: acquire and release, at each node */
#define SETTLE    50                    /* pairs after a node was continued */

struct pair {
    struct redlock_nodes *nodes;
    hf_store *store;
    hf_acquire_request request;
    struct raw_redlock *raw;
    int stopped; /* how many nodes, in this contender's rounds */
};

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static void step_raw(void *arg)
{
    raw_redlock_pair(((struct pair *)arg)->raw);
}

/*
 * By the wall clock. What rounds_loop() takes for time that others have taken is here mostly that of the
 * five servers on too few CPUs: it is of the matter, and there is less of it when some are stopped.
 */
static double wall_loop(step_fn *step, void *arg, double seconds)
{
    int64_t start = bench_ns(), end = start + (int64_t)(seconds * 1e9), now;
    uint64_t steps = 0;

    do {
        for (int i = 0; i < STRIDE; i++)
            step(arg);
        steps += STRIDE;
        now = bench_ns();
    } while (now < end);
    return (double)steps * 1e9 / (double)(now - start);
}

/* Stopped for this round only; then all get back to where they were. */
static double round_with(struct pair *pair, step_fn *step, double seconds)
{
    double rate;

    for (int i = 0; i < pair->stopped; i++)
        kill(pair->nodes->servers[i]->pid, SIGSTOP);
    rate = wall_loop(step, pair, seconds);
    for (int i = 0; i < pair->stopped; i++)
        kill(pair->nodes->servers[i]->pid, SIGCONT);
    for (int i = 0; pair->stopped && i < SETTLE; i++)
        step(pair);
    return rate;
}

static double round_raw(void *arg, double seconds)
{
    return round_with(arg, step_raw, seconds);
}

static double round_ours(void *arg, double seconds)
{
    return round_with(arg, step_ours, seconds);
}

/*
 * Whatever a grant needs beyond its two commands at each node is a command more: so of the grants that
 * needed a second round trip there were at most as many.
 */
static void report_share(struct bench *bench, struct pair *pair)
{
    struct row *row =
        bench_row(bench, UNIT_PLAIN, "grants in one round trip, share (at least)", "");
    double commands = redlock_nodes_pairs(pair->nodes), more;

    for (int i = 0; i < COUNTED; i++)
        step_ours(pair);
    bench_sleep(0.05); /* the last answers, and the last releases */
    commands = redlock_nodes_pairs(pair->nodes) - commands;
    more = commands > COUNTED * PER_PAIR ? commands - COUNTED * PER_PAIR : 0;
    row->measured = floor(1e4 * (1 - more / COUNTED)) / 1e4;
    row->target = (struct target){ AT_LEAST, 0.95, 0, true };
}

void measure_redlock_pair(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    enum { NONE, ONE, TWO, STOPPED, RAW_ONE = STOPPED };
    static struct rounds rounds;
    struct pair pair = { .nodes = redlock_nodes_start(bench) }, pairs[STOPPED];
    const struct contender contenders[COUNT] = { { round_ours, &pair }, { round_raw, &pair } };
    struct contender stopped[STOPPED + 1];
    struct contest_server counted = redlock_nodes_counted(pair.nodes);
    const char *by_hand = "SET NX and delete, by hand";

    pair.store = ours_open_url(pair.nodes->url);
    pair.request = ours_request(OURS_NAME, 0);
    pair.raw = raw_redlock_open(pair.nodes, "bench-name-raw00");
    for (int i = 0; i < STOPPED; i++) {
        pairs[i] = pair;
        pairs[i].stopped = i;
        stopped[i] = (struct contender){ round_ours, &pairs[i] };
    }
    stopped[RAW_ONE] = (struct contender){ round_raw, &pairs[ONE] };
    for (int i = 0; i < COUNTED / 10; i++)
        step_ours(&pair);
    report_share(bench, &pair);
    rounds_run(bench, 0.5, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, OURS, "acquire+release, five nodes, with tokens", RAW, by_hand,
                 (struct target){ AT_LEAST, 0.8, 0, false });
    counted.by_hand = PER_PAIR;
    counted.commands = redlock_nodes_pairs;
    cost_rows(bench, &counted, step_ours, step_raw, &pair, by_hand, 0, 0);
    rounds_run(bench, 0.5, STOPPED_S, stopped, STOPPED + 1, &rounds);
    rounds_rates(bench, &rounds, ONE, "  one node stopped", RAW_ONE, "by hand, one node stopped",
                 (struct target){ AT_LEAST, 0.8, 0, false });
    rounds_rates(bench, &rounds, ONE, "  one node stopped", NONE, "none stopped",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    rounds_rates(bench, &rounds, TWO, "  two nodes stopped", NONE, "none stopped",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    ours_close(pair.store);
    raw_redlock_close(pair.raw);
    redlock_nodes_stop(pair.nodes);
}
