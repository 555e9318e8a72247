/* SPDX-License-Identifier: MIT */
/*
 * A crew: processes, or threads, that all do the same thing at the same time, round by round.
 *
 * They are started once and parked between rounds, so that one crew serves all contenders in turn.
 * Start one before this process opens a store: it forks.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "bench.h"
#include "stats.h"

#define CREW_MAX 64

enum crew_kind { CREW_PROCESSES, CREW_THREADS };

struct crew;

/* Called once in each worker; what it returns is `self` of its steps. */
typedef void *crew_enter_fn(size_t index, void *arg);
/* One turn: acquire, hold for `hold_ns`, release. */
typedef void crew_step_fn(void *self, int64_t hold_ns);

struct crew *crew_start(enum crew_kind kind, size_t size, crew_enter_fn *enter, void *arg);
/* Processes of so many threads each; index / threads is the process. */
struct crew *crew_start_groups(size_t processes, size_t threads, crew_enter_fn *enter, void *arg);

/* How the steps of a round were shared. */
struct crew_share {
    double jain;
    double starved; /* workers that did not get one step */
};
/* Let all do `step` for this long. Returns steps a second. */
double crew_round(struct crew *crew, crew_step_fn *step, int64_t hold_ns, double seconds,
                  struct crew_share *ret_share);
uint64_t crew_steps(const struct crew *crew); /* of all, since the start */
void crew_end(struct crew *crew);

/* A crew with a step, as a contender of rounds_run(). Remembers the fairness of each round. */
struct team {
    struct crew *crew;
    crew_step_fn *step;
    int64_t hold_ns;
    double jain[STATS_MAX + 1];
    size_t rounds;
};
double team_round(void *team, double seconds);
double team_jain(const struct team *team); /* median */

/* Zeroed memory that forked workers share with us. */
void *crew_shared(size_t size);
/* Be busy for `hold_ns`, like a working holder; a sleeping one would give others the CPU. */
void crew_hold(int64_t hold_ns);

#endif
