/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on an etcd; against a transaction that puts and one that
 * deletes, sent by hand over gRPC with the same library. What a pair costs in calls.
 */
#include "etcd_raw.h"
#include "etcd_server.h"
#include "measures.h"
#include "ours.h"
#include "rounds.h"

#include <math.h>

#define ROUND_S 0.3
#define STRIDE  4
#define COUNTED 500

struct pair {
    hf_store *store;
    hf_acquire_request request, waiting;
    struct etcd_raw *raw;
    long long lease;
};

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static void step_raw(void *arg)
{
    struct pair *pair = arg;

    etcd_raw_pair(pair->raw, pair->lease);
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

void measure_etcd_pair(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    static struct rounds rounds;
    static struct pair pair;
    const struct contender contenders[COUNT] = { { round_ours, &pair }, { round_raw, &pair } };
    struct etcd_server *server = etcd_server_start(bench);
    struct row *row;
    double before;

    pair.store = ours_open_url(server->url);
    pair.request = ours_request(OURS_NAME, 0);
    pair.raw = etcd_raw_open(server->port);
    pair.lease = etcd_raw_lease(pair.raw);
    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, OURS, "acquire+release", RAW, "two transactions, by hand",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    before = etcd_server_calls(server);
    for (int i = 0; i < COUNTED; i++)
        step_ours(&pair);
    row = bench_row(bench, UNIT_PLAIN, "calls of a pair", "");
    row->measured = round((etcd_server_calls(server) - before) / COUNTED * 100) / 100;
    row->target = (struct target){ AT_MOST, 2.05, 0, true };
    ours_close(pair.store);
    etcd_raw_close(pair.raw);
    etcd_server_stop(server);
}
