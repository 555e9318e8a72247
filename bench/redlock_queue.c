/* SPDX-License-Identifier: MIT */
/*
 * Sixteen processes that all want one name on five nodes, again and again, and hold it for 1 ms; against
 * the raw queue on one of these servers. bench/peers runs others beside it.
 */
#include "contest.h"
#include "measures.h"
#include "redlock_nodes.h"

#define WORKERS       16
#define HOLD_NS       1000000
#define ROUND_S       1.0
#define QUICK_ROUND_S 0.1

void measure_redlock_queue(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    struct redlock_nodes *nodes = redlock_nodes_start(bench);
    const struct contest_server counted = redlock_nodes_counted(nodes);
    struct contest_side sides[COUNT] = { contest_ours("", nodes->url, 0),
                                         redis_raw_queue(nodes->servers[0]) };
    struct contest *contest;

    ours_close(ours_open_url(nodes->url)); /* make the cluster */
    sides[RAW].name = "raw queue on one of them";
    contest = contest_start(WORKERS, 1, &counted, sides, COUNT);
    contest_run(bench, contest, HOLD_NS, false, 1, bench->quick ? QUICK_ROUND_S : ROUND_S);
    contest_rows(bench, contest, OURS, RAW, "16 processes, five nodes, 1 ms",
                 &(struct contest_targets){ .rate = 0.85, .jain = 0.9 });
    contest_end(contest);
    redlock_nodes_stop(nodes);
}
