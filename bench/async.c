/* SPDX-License-Identifier: MIT */
/*
 * One thread with an event loop of its own and many acquisitions in flight, each of a name of its
 * own, or all of the same; against the same thread calling the blocking API.
 */
#include "measures.h"
#include "ours.h"
#include "rounds.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 1000
#define ROUND_S   0.1
#define STRIDE    64

struct loop;

/* One acquisition: acquired, released, begun again. */
struct flight {
    struct loop *loop;
    hf_request request;
    char name[24];
};

struct loop {
    hf_store *store;
    struct flight flights[IN_FLIGHT];
    size_t in_flight;
    uint64_t pairs;
    bool landing; /* begin nothing new */
};

static hf_done_fn acquired, released;

static void begin(struct flight *flight)
{
    hf_error err;

    if (hf_acquire_async(flight->loop->store, &flight->request, acquired, flight, NULL, &err) !=
        HF_OK)
        bench_die("hf_acquire_async: %s", err.text);
}

static void acquired(hf_status status, hf_lease *lease, const hf_error *err, void *arg)
{
    hf_error own;

    if (status != HF_OK)
        bench_die("hf_acquire_async: %s", err->text);
    if (hf_release_async(lease, released, arg, &own) != HF_OK)
        bench_die("hf_release_async: %s", own.text);
}

static void released(hf_status status, hf_lease *lease, const hf_error *err, void *arg)
{
    struct flight *flight = arg;

    (void)lease;
    if (status != HF_OK)
        bench_die("hf_release_async: %s", err->text);
    flight->loop->pairs++;
    if (flight->loop->landing)
        flight->loop->in_flight--;
    else
        begin(flight);
}

static void drive(hf_store *store)
{
    struct pollfd fd = { .fd = hf_fd(store), .events = POLLIN };
    int timeout_ms = hf_timeout_ms(store);

    if (timeout_ms != 0 && poll(&fd, 1, timeout_ms) < 0 && errno != EINTR)
        bench_die("poll: %s", strerror(errno));
    if (hf_process(store) != HF_OK)
        bench_die("hf_process failed");
}

static double round_async(void *arg, double seconds)
{
    struct loop *loop = arg;
    int64_t start = bench_ns(), end = start + (int64_t)(seconds * 1e9);

    loop->pairs = 0;
    loop->landing = false;
    loop->in_flight = IN_FLIGHT;
    for (size_t i = 0; i < IN_FLIGHT; i++)
        begin(&loop->flights[i]);
    while (loop->in_flight > 0) {
        drive(loop->store);
        if (bench_ns() >= end)
            loop->landing = true;
    }
    return (double)loop->pairs * 1e9 / (double)(bench_ns() - start);
}

static void step_blocking(void *arg)
{
    struct loop *loop = arg;

    ours_release(ours_acquire(loop->store, &loop->flights[0].request));
}

static double round_blocking(void *arg, double seconds)
{
    return rounds_loop(step_blocking, arg, seconds, STRIDE);
}

static struct loop *make_loop(hf_store *store, bool one_name)
{
    struct loop *loop = calloc(1, sizeof *loop);

    if (!loop)
        bench_die("out of memory");
    loop->store = store;
    for (unsigned i = 0; i < IN_FLIGHT; i++) {
        struct flight *flight = &loop->flights[i];

        flight->loop = loop;
        snprintf(flight->name, sizeof flight->name, "bench-name-%05u", one_name ? IN_FLIGHT : i);
        flight->request = ours_request(flight->name, 0);
    }
    return loop;
}

void measure_async(struct bench *bench)
{
    enum { APART, ONE, BLOCKING, COUNT };
    static struct rounds rounds;
    hf_store *store = ours_open(bench->dir, "store");
    struct loop *apart = make_loop(store, false), *one = make_loop(store, true);
    const struct contender contenders[COUNT] = { { round_async, apart },
                                                 { round_async, one },
                                                 { round_blocking, apart } };

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, APART, "1000 in flight, each its own name", BLOCKING,
                 "blocking calls, one by one", (struct target){ 0 });
    rounds_rates(bench, &rounds, ONE, "1000 in flight, all one name", BLOCKING,
                 "blocking calls, one by one", (struct target){ 0 });
    ours_close(store);
    free(apart);
    free(one);
}
