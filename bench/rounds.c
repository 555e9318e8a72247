/* SPDX-License-Identifier: MIT */
/* See rounds.h. */
#include "rounds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned rounds_in(const struct bench *bench, double share, double round_s,
                          size_t contenders)
{
    double fit = bench->seconds * share / (round_s * (double)contenders);

    if (fit < ROUNDS_MIN)
        return ROUNDS_MIN;
    return fit > STATS_MAX ? STATS_MAX : (unsigned)fit;
}

void rounds_run(struct bench *bench, double share, double round_s,
                const struct contender *contenders, size_t count, struct rounds *ret)
{
    unsigned total = rounds_in(bench, share, round_s, count);

    ret->contenders = count;
    ret->count = total;
    for (size_t i = 0; i < count; i++)
        contenders[i].round(contenders[i].arg, round_s);
    for (unsigned round = 0; round < total; round++) {
        for (size_t i = 0; i < count; i++) {
            size_t who = round % 2 ? count - 1 - i : i;

            ret->rates[who][round] = contenders[who].round(contenders[who].arg, round_s);
        }
        bench_done(bench, share / total);
    }
}

double rounds_rate(const struct rounds *rounds, size_t who)
{
    return stats_median(rounds->rates[who], rounds->count);
}

static void set_ratio(struct row *row, const double *above, const double *below, unsigned count)
{
    double ratios[STATS_MAX];

    for (unsigned i = 0; i < count; i++)
        ratios[i] = above[i] / below[i];
    row->ratio = stats_median(ratios, count);
    row->low = stats_quantile(ratios, count, 0.25);
    row->high = stats_quantile(ratios, count, 0.75);
    row->rounds = count;
}

void rounds_rates(struct bench *bench, const struct rounds *rounds, size_t who, const char *what,
                  size_t base, const char *against, struct target target)
{
    struct row *row = bench_row(bench, UNIT_PER_SECOND, what, against);

    row->measured = rounds_rate(rounds, who);
    row->baseline = rounds_rate(rounds, base);
    row->target = target;
    set_ratio(row, rounds->rates[who], rounds->rates[base], rounds->count);
}

void rounds_costs(struct bench *bench, const struct rounds *rounds, size_t who, const char *what,
                  size_t base, const char *against, struct target target)
{
    struct row *row = bench_row(bench, UNIT_MICROSECONDS, what, against);

    row->measured = 1e6 / rounds_rate(rounds, who);
    row->baseline = 1e6 / rounds_rate(rounds, base);
    row->target = target;
    set_ratio(row, rounds->rates[base], rounds->rates[who], rounds->count);
}

void rounds_values(struct bench *bench, enum unit unit, const char *what, const double *ours,
                   const char *against, const double *theirs, unsigned count, struct target target)
{
    struct row *row = bench_row(bench, unit, what, against);

    row->measured = stats_median(ours, count);
    row->baseline = stats_median(theirs, count);
    row->target = target;
    set_ratio(row, ours, theirs, count);
}

/*
 * How long this thread was ready to run while others had the CPU, in all. The kernel's account of it:
 * "time on the CPU, time in the queue, turns". 0 where there is none.
 */
static int64_t queued_ns(void)
{
    static int fd = -2;
    char text[128], *rest;
    ssize_t len;

    if (fd == -2)
        fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    len = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (len <= 0)
        return 0;
    text[len] = 0;
    strtoll(text, &rest, 10);
    return strtoll(rest, NULL, 10);
}

double rounds_loop(step_fn *step, void *arg, double seconds, unsigned stride)
{
    int64_t queued = queued_ns(), start = bench_ns(), end = start + (int64_t)(seconds * 1e9), now;
    uint64_t steps = 0;

    do {
        for (unsigned i = 0; i < stride; i++)
            step(arg);
        steps += stride;
        now = bench_ns();
    } while (now < end);
    return (double)steps * 1e9 / (double)(now - start - (queued_ns() - queued));
}
