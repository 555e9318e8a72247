/* SPDX-License-Identifier: MIT */
/*
 * One thread with an event loop of its own and many acquisitions in flight, each of a name of its
 * own, or all of the same; against the same thread calling the blocking API.
 */
#include "flights.h"
#include "measures.h"
#include "rounds.h"

#define IN_FLIGHT 1000
#define ROUND_S   0.1
#define STRIDE    64

struct blocking {
    hf_store *store;
    hf_acquire_request request;
};

static void step_blocking(void *arg)
{
    struct blocking *blocking = arg;

    ours_release(ours_acquire(blocking->store, &blocking->request));
}

static double round_blocking(void *arg, double seconds)
{
    return rounds_loop(step_blocking, arg, seconds, STRIDE);
}

void measure_async(struct bench *bench)
{
    enum { APART, ONE, BLOCKING, COUNT };
    static struct rounds rounds;
    hf_store *store = ours_open(bench->dir, "store");
    struct flights *apart = flights_new(store, IN_FLIGHT, 0);
    struct flights *one = flights_new(store, IN_FLIGHT, 1);
    struct blocking blocking = { store, ours_request(OURS_NAME, 0) };
    const struct contender contenders[COUNT] = { { flights_round, apart },
                                                 { flights_round, one },
                                                 { round_blocking, &blocking } };

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, APART, "1000 in flight, each its own name", BLOCKING,
                 "blocking calls, one by one", (struct target){ 0 });
    rounds_rates(bench, &rounds, ONE, "1000 in flight, all one name", BLOCKING,
                 "blocking calls, one by one", (struct target){ 0 });
    ours_close(store);
    flights_free(apart);
    flights_free(one);
}
