/* SPDX-License-Identifier: MIT */
/* What a contest is inside: contest.c fills it, contest_rows.c reads it. */
#ifndef BENCH_CONTEST_RUN_H
#define BENCH_CONTEST_RUN_H

#include "contest.h"
#include "crew.h"
#include "rounds.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define CONTEST_WAITS 4096 /* of one worker in one round; more are not looked at */

/* How long each wait of one worker took in this round. */
struct contest_waits {
    size_t count;
    float us[CONTEST_WAITS];
};

/* Memory of all processes. */
struct contest_shared {
    size_t side; /* whose round it is; written between rounds */
    bool sleeps;
    _Atomic size_t last; /* the process of the last holder */
    _Atomic uint64_t changes;
    struct contest_waits waits[CREW_MAX];
};

/* Of one side, round by round; the first warms up and is not reported. */
struct contest_result {
    struct contest *contest;
    size_t rounds;
    double p50[STATS_MAX + 1], p99[STATS_MAX + 1], jain[STATS_MAX + 1], starved[STATS_MAX + 1];
    double commands[STATS_MAX + 1], bytes[STATS_MAX + 1], changes[STATS_MAX + 1];
    double counted; /* commands of an acquisition, counted by the caller; NAN: they were not */
};

struct contest {
    size_t workers, threads, count; /* of sides */
    struct contest_server server;
    struct contest_side sides[CONTEST_SIDES_MAX];
    struct contest_shared *shared;
    struct crew *crew;
    int64_t hold_ns;
    struct contest_result results[CONTEST_SIDES_MAX];
    struct rounds rates;
};

#endif
