/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on a ZooKeeper server; against create and delete of an
 * ephemeral sequential node by hand, through the same library. Both wait for the server's disk twice.
 */
#include "measures.h"
#include "ours.h"
#include "raw_zk.h"
#include "rounds.h"
#include "zk_server.h"

#include <math.h>

#define ROUND_S 0.25
#define STRIDE  4
#define COUNTED 500

struct pair {
    hf_store *store;
    hf_acquire_request request;
    struct raw_zk *raw;
};

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static void step_raw(void *arg)
{
    raw_zk_pair(((struct pair *)arg)->raw);
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

void measure_zk_pair(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    static struct rounds rounds;
    static struct pair pair;
    const struct contender contenders[COUNT] = { { round_ours, &pair }, { round_raw, &pair } };
    struct zk_server *server = zk_server_start(bench);
    double requests;
    struct row *row;

    pair.store = ours_open_url(server->url);
    pair.request = ours_request(OURS_NAME, 0);
    pair.raw = raw_zk_open(server->host);
    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, OURS, "acquire+release", RAW, "create and delete, by hand",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    requests = zk_server_requests(server);
    for (int i = 0; i < COUNTED; i++)
        step_ours(&pair);
    row = bench_row(bench, UNIT_PLAIN, "requests to the server, a pair", "");
    row->measured = round((zk_server_requests(server) - requests) / COUNTED * 100) / 100;
    row->target = (struct target){ AT_MOST, 3.1, 0, true };
    ours_close(pair.store);
    raw_zk_close(pair.raw);
    zk_server_stop(server);
}
