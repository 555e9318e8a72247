/* SPDX-License-Identifier: MIT */
/*
 * Processes that all want one name on a memcached, again and again, held for 1 ms. It has no queue and
 * tells nobody: against a loop by hand that tries an add each millisecond.
 */
#include "contest.h"
#include "measures.h"
#include "memcached_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES     16
#define HOLD_NS       1000000
#define POLL_S        0.001
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.2

enum { OURS, RAW, COUNT };

struct worker {
    int fd;
    char add[96], del[64];
};

static void *open_raw(size_t index, void *arg)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        bench_die("out of memory");
    worker->fd = memcached_connect(((const struct memcached_server *)arg)->port);
    snprintf(worker->add, sizeof worker->add, "ms bench-name-raw00 16 ME T32\r\n%016zu\r\n", index);
    snprintf(worker->del, sizeof worker->del, "md bench-name-raw00\r\n");
    return worker;
}

static void acquire_raw(void *self)
{
    struct worker *worker = self;
    char said[MEMCACHED_LINE];

    for (;;) {
        memcached_ask(worker->fd, worker->add, strlen(worker->add), said);
        if (strncmp(said, "HD", 2) == 0)
            return;
        bench_sleep(POLL_S);
    }
}

static void release_raw(void *self)
{
    struct worker *worker = self;
    char said[MEMCACHED_LINE];

    memcached_ask(worker->fd, worker->del, strlen(worker->del), said);
    if (strncmp(said, "HD", 2) != 0)
        bench_die("our memcached: %s", said);
}

void measure_memcached_queue(struct bench *bench)
{
    struct memcached_server *server = memcached_server_start(bench);
    const struct contest_server counted = memcached_server_counted(server);
    const struct contest_side sides[COUNT] = { contest_ours("", server->url, 0),
                                               { "an add each 1 ms, by hand", open_raw, acquire_raw,
                                                 release_raw, server } };
    struct contest *contest = contest_start(PROCESSES, 1, &counted, sides, COUNT);

    contest_run(bench, contest, HOLD_NS, false, 1, bench->quick ? QUICK_ROUND_S : ROUND_S);
    contest_rows(bench, contest, OURS, RAW, "16 processes, 1 ms",
                 &(struct contest_targets){ .hand_offs = 300, .jain = 0.9, .commands = 20 });
    contest_end(contest);
    memcached_server_stop(server);
}
