/* SPDX-License-Identifier: MIT */
/*
 * Contenders in alternating short rounds.
 *
 * What else runs on the machine slows all of them for a while, never one of them for the
 * whole run. So a ratio is taken within each round, and the median of those is reported: noise
 * hits both sides of it. Every second round goes through the contenders backwards, so that none of
 * them always follows the same other.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include "bench.h"
#include "stats.h"

#define CONTENDERS_MAX 8
#define ROUNDS_MIN     5

struct contender {
    double (*round)(void *arg, double seconds); /* operations a second */
    void *arg;
};

struct rounds {
    size_t contenders;
    unsigned count;
    double rates[CONTENDERS_MAX][STATS_MAX];
};

/*
 * Let each contender have rounds of `round_s`, until this share of bench->seconds is used up. A
 * round before these is not counted: it warms up.
 */
void rounds_run(struct bench *bench, double share, double round_s,
                const struct contender *contenders, size_t count, struct rounds *ret);
double rounds_rate(const struct rounds *rounds, size_t who); /* median */

/* A row of rates: `who` against `base`; ratio = rate / rate. */
void rounds_rates(struct bench *bench, const struct rounds *rounds, size_t who, const char *what,
                  size_t base, const char *against, struct target target);
/* A row of microseconds for one operation; ratio = cost / cost. */
void rounds_costs(struct bench *bench, const struct rounds *rounds, size_t who, const char *what,
                  size_t base, const char *against, struct target target);

/* A row of any values, one of ours and one of the baseline for each round; ratio = ours / theirs. */
void rounds_values(struct bench *bench, enum unit unit, const char *what, const double *ours,
                   const char *against, const double *theirs, unsigned count, struct target target);

/*
 * The usual round: `step` again and again on this thread until the time is over. It looks at the
 * clock every `stride` steps. Time in which we could have run but others had the CPU is not ours and
 * not counted; time in which we waited for something is.
 */
typedef void step_fn(void *arg);
double rounds_loop(step_fn *step, void *arg, double seconds, unsigned stride);

#endif
