/* SPDX-License-Identifier: MIT */
/* See flights.h. */
#include "flights.h"

#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One acquisition. */
struct flight {
    struct flights *flights;
    hf_acquire_request request;
    char name[24];
};

struct flights {
    hf_store *store;
    size_t count, in_flight;
    uint64_t pairs;
    bool landing; /* begin nothing new */
    struct flight all[];
};

static hf_done_fn acquired, released;

static void begin(struct flight *flight)
{
    hf_error err;

    if (hf_acquire_async(flight->flights->store, &flight->request, acquired, flight, NULL, &err) !=
        HF_OK)
        bench_die("hf_acquire_async: %s", err.text);
}

static void acquired(const hf_result *result, void *arg)
{
    hf_error own;

    if (result->status != HF_OK)
        bench_die("hf_acquire_async: %s", result->error->text);
    if (hf_release_async(result->lease, released, arg, NULL, &own) != HF_OK)
        bench_die("hf_release_async: %s", own.text);
}

static void released(const hf_result *result, void *arg)
{
    struct flight *flight = arg;

    if (result->status != HF_OK)
        bench_die("hf_release_async: %s", result->error->text);
    flight->flights->pairs++;
    if (flight->flights->landing)
        flight->flights->in_flight--;
    else
        begin(flight);
}

void flights_drive(hf_store *store)
{
    struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };
    int timeout_ms = hf_store_timeout_ms(store);

    if (timeout_ms != 0 && poll(&fd, 1, timeout_ms) < 0 && errno != EINTR)
        bench_die("poll: %s", strerror(errno));
    if (hf_store_process(store) != HF_OK)
        bench_die("hf_store_process failed");
}

double flights_round(void *arg, double seconds)
{
    struct flights *flights = arg;
    int64_t start = bench_ns(), end = start + (int64_t)(seconds * 1e9);

    flights->pairs = 0;
    flights->landing = false;
    flights->in_flight = flights->count;
    for (size_t i = 0; i < flights->count; i++)
        begin(&flights->all[i]);
    while (flights->in_flight > 0) {
        flights_drive(flights->store);
        if (bench_ns() >= end)
            flights->landing = true;
    }
    return (double)flights->pairs * 1e9 / (double)(bench_ns() - start);
}

struct flights *flights_new(hf_store *store, size_t count, int one_name)
{
    struct flights *flights = calloc(1, sizeof *flights + count * sizeof *flights->all);

    if (!flights)
        bench_die("out of memory");
    flights->store = store;
    flights->count = count;
    for (unsigned i = 0; i < count; i++) {
        struct flight *flight = &flights->all[i];

        flight->flights = flights;
        snprintf(flight->name, sizeof flight->name, "bench-name-%05u",
                 one_name ? (unsigned)count : i);
        flight->request = ours_request(flight->name, 0);
    }
    return flights;
}

void flights_free(struct flights *flights)
{
    free(flights);
}
