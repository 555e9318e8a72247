/* SPDX-License-Identifier: MIT */
/*
 * One process keeps very many leases alive on a Redis server. What that costs: commands, and the
 * CPU of both sides. The window is a whole number of times in which every lease is renewed once.
 */
#include "flights.h"
#include "measures.h"
#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define LEASES       100000
#define LEASES_QUICK 2000
#define TTL_MS       30000
#define TTL_QUICK_MS 3000
#define RENEWALS     2 /* of every lease in the window: each comes after a third of the ttl */
#define IN_FLIGHT    256
#define COMMANDS     50.0 /* a second, at most */

struct taking {
    hf_store *store;
    unsigned asked, got;
    _Atomic bool closing;
};

static void taken(const hf_result *result, void *arg)
{
    struct taking *taking = arg;

    if (result->status != HF_OK)
        bench_die("hf_acquire_async: %s", result->error->text);
    taking->got++;
}

static void lost(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    const struct taking *taking = arg;

    (void)lease;
    if (event == HF_EVENT_LOST && !taking->closing)
        bench_die("a lease was lost: %s", why);
}

static void take_all(struct taking *taking, unsigned count, int64_t ttl_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    char name[32];
    hf_error err;

    request.ttl_ms = ttl_ms;
    request.name = name;
    request.name_len = HF_CSTRING;
    request.on_event = lost;
    request.on_event_arg = taking;
    while (taking->got < count) {
        while (taking->asked < count && taking->asked - taking->got < IN_FLIGHT) {
            snprintf(name, sizeof name, "held-name-%06u", taking->asked);
            if (hf_acquire_async(taking->store, &request, taken, taking, NULL, &err) != HF_OK)
                bench_die("hf_acquire_async: %s", err.text);
            taking->asked++;
        }
        flights_drive(taking->store);
    }
}

static double cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static struct row *report(struct bench *bench, enum unit unit, const char *what, double value)
{
    struct row *row = bench_row(bench, unit, what, "");

    row->measured = value;
    return row;
}

void measure_redis_renew(struct bench *bench)
{
    unsigned count = bench->quick ? LEASES_QUICK : LEASES;
    int64_t ttl_ms = bench->quick ? TTL_QUICK_MS : TTL_MS;
    double window_s = (double)(RENEWALS * ttl_ms) / 3e3, start, cpu;
    struct redis_server *server = redis_server_start(bench);
    struct taking taking = { .store = ours_open_url(server->url) };
    struct redis_work before, after;
    char what[64];
    struct row *row;

    start = (double)bench_ns();
    take_all(&taking, count, ttl_ms);
    snprintf(what, sizeof what, "taking %u leases, %d in flight", count, IN_FLIGHT);
    report(bench, UNIT_PER_SECOND, what, 1e9 * count / ((double)bench_ns() - start));
    bench_done(bench, 0.2);

    before = redis_server_work(server);
    cpu = cpu_s();
    start = (double)bench_ns();
    for (int i = 0; i < 10; i++) {
        bench_sleep(window_s / 10);
        bench_done(bench, 0.07);
    }
    after = redis_server_work(server);
    cpu = cpu_s() - cpu;
    window_s = ((double)bench_ns() - start) / 1e9;

    snprintf(what, sizeof what, "script calls for %u leases of %d s", count, (int)(ttl_ms / 1000));
    row = report(bench, UNIT_PER_SECOND, what, (after.scripts - before.scripts) / window_s);
    if (!bench->quick)
        row->target = (struct target){ AT_MOST, COMMANDS, 0, true };
    report(bench, UNIT_PLAIN, "client's share of a CPU", cpu / window_s);
    report(bench, UNIT_PLAIN, "server's share of a CPU", (after.cpu_s - before.cpu_s) / window_s);
    start = (double)bench_ns();
    taking.closing = true;
    ours_close(taking.store);
    snprintf(what, sizeof what, "giving %u back, at the close", count);
    report(bench, UNIT_PER_SECOND, what, 1e9 * count / ((double)bench_ns() - start));
    redis_server_stop(server);
}
