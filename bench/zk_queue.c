/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on a ZooKeeper server, again and again, held for 1 ms; against the
 * usual recipe by hand. What an acquisition costs in requests must not grow with the number of waiters.
 */
#include "contest.h"
#include "measures.h"
#include "raw_zk.h"
#include "zk_server.h"

#define FEW           4
#define MANY          16
#define HOLD_NS       1000000
#define ROUND_S       0.5
#define QUICK_ROUND_S 0.2

enum { OURS, RAW, COUNT };

static void *open_raw(size_t index, void *arg)
{
    (void)index;
    return raw_zk_open(((const struct zk_server *)arg)->host);
}

static void acquire_raw(void *self)
{
    raw_zk_lock(self);
}

static void release_raw(void *self)
{
    raw_zk_unlock(self);
}

static double count_requests(void *server)
{
    return zk_server_requests(server);
}

/* Between this many processes; returns the requests of an acquisition of ours. */
static double play(struct bench *bench, struct zk_server *server, size_t processes,
                   const char *what, const struct contest_targets *targets)
{
    const struct contest_server counted = {
        .commands = count_requests, .server = server, .word = "requests", .ports = { server->port }
    };
    const struct contest_side sides[COUNT] = { contest_ours("", server->url, 0),
                                               { "the recipe, by hand", open_raw, acquire_raw,
                                                 release_raw, server } };
    struct contest *contest = contest_start(processes, 1, &counted, sides, COUNT);
    double requests;

    contest_run(bench, contest, HOLD_NS, false, 0.5, bench->quick ? QUICK_ROUND_S : ROUND_S);
    contest_rows(bench, contest, OURS, RAW, what, targets);
    requests = contest_commands(contest, OURS);
    contest_end(contest);
    return requests;
}

void measure_zk_queue(struct bench *bench)
{
    struct zk_server *server = zk_server_start(bench);
    double few = play(bench, server, FEW, "4 processes, 1 ms",
                      &(struct contest_targets){ .rate = 0.95, .jain = 0.99 });
    double many = play(bench, server, MANY, "16 processes, 1 ms",
                       &(struct contest_targets){ .hand_offs = 600, .jain = 0.99 });

    contest_growth(bench, &(struct contest_server){ .word = "requests" }, "16 processes", many,
                   "4 processes", few, 1.1);
    zk_server_stop(server);
}
