/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on an etcd, again and again, held for 1 ms; against etcd's own lock
 * service. What an acquisition costs in calls must not grow with the number of waiters.
 */
#include "contest.h"
#include "etcd_raw.h"
#include "etcd_server.h"
#include "measures.h"

#include <stdlib.h>

#define FEW           4
#define MANY          16
#define HOLD_NS       1000000
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.3

enum { OURS, SERVICE, COUNT };

struct worker {
    struct etcd_raw *raw;
    long long lease;
    char key[ETCD_RAW_KEY];
};

static void *open_service(size_t index, void *arg)
{
    const struct etcd_server *server = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    (void)index;
    if (!worker)
        bench_die("out of memory");
    worker->raw = etcd_raw_open(server->port);
    worker->lease = etcd_raw_lease(worker->raw);
    return worker;
}

static void acquire_service(void *self)
{
    struct worker *worker = self;

    etcd_raw_lock(worker->raw, worker->lease, worker->key);
}

static void release_service(void *self)
{
    struct worker *worker = self;

    etcd_raw_unlock(worker->raw, worker->key);
}

static double count_calls(void *server)
{
    return etcd_server_calls(server);
}

/* Between this many processes; returns the calls of an acquisition of ours. */
static double play(struct bench *bench, struct etcd_server *server, size_t processes, double share,
                   const char *what, const struct contest_targets *targets)
{
    const struct contest_server counted = {
        .commands = count_calls, .server = server, .word = "calls", .ports = { server->port }
    };
    const struct contest_side sides[COUNT] = { contest_ours("", server->url, 0),
                                               { "etcd's lock service", open_service,
                                                 acquire_service, release_service, server } };
    struct contest *contest = contest_start(processes, 1, &counted, sides, COUNT);
    double calls;

    contest_run(bench, contest, HOLD_NS, false, share, bench->quick ? QUICK_ROUND_S : ROUND_S);
    contest_rows(bench, contest, OURS, SERVICE, what, targets);
    calls = contest_commands(contest, OURS);
    contest_end(contest);
    return calls;
}

void measure_etcd_queue(struct bench *bench)
{
    struct etcd_server *server = etcd_server_start(bench);
    double few = play(bench, server, FEW, 0.4, "4 processes, 1 ms",
                      &(struct contest_targets){ .jain = 0.99 });
    double many = play(bench, server, MANY, 0.6, "16 processes, 1 ms",
                       &(struct contest_targets){ .hand_offs = 600, .jain = 0.99 });

    contest_growth(bench, &(struct contest_server){ .word = "calls" }, "16 processes", many,
                   "4 processes", few, 1.25);
    etcd_server_stop(server);
}
