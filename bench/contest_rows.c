/* SPDX-License-Identifier: MIT */
/* The rows of a contest: the same for every engine. See contest.h. */
#include "contest_run.h"

#include <math.h>
#include <stdio.h>

/* Two sides of a contest as they are compared. */
struct pairing {
    struct bench *bench;
    const struct contest *contest;
    const struct contest_result *ours, *base;
    const char *against;
    unsigned rounds;
};

static struct target at_most(double value, bool on_measured)
{
    return (struct target){ value > 0 ? AT_MOST : NO_TARGET, value, 0, on_measured };
}

static struct target at_least(double value, double aim, bool on_measured)
{
    return (struct target){ value > 0 ? AT_LEAST : NO_TARGET, value, aim, on_measured };
}

/* Medians of both; no ratio, because it would say nothing. */
static void pair_row(const struct pairing *pairing, enum unit unit, const char *what,
                     const double *ours, const double *base, struct target target)
{
    struct row *row = bench_row(pairing->bench, unit, what, pairing->against);

    row->measured = stats_median(ours + 1, pairing->rounds);
    row->baseline = stats_median(base + 1, pairing->rounds);
    row->rounds = pairing->rounds;
    row->target = target;
}

static void ratio_row(const struct pairing *pairing, enum unit unit, const char *what,
                      const double *ours, const double *base, struct target target)
{
    rounds_values(pairing->bench, unit, what, ours + 1, pairing->against, base + 1, pairing->rounds,
                  target);
}

static void spread_row(const struct pairing *pairing, double at_most_value)
{
    struct row *row = bench_row(pairing->bench, UNIT_PLAIN, "  p99 / p50", pairing->against);

    row->measured = stats_median(pairing->ours->p99 + 1, pairing->rounds) /
                    stats_median(pairing->ours->p50 + 1, pairing->rounds);
    row->baseline = stats_median(pairing->base->p99 + 1, pairing->rounds) /
                    stats_median(pairing->base->p50 + 1, pairing->rounds);
    row->rounds = pairing->rounds;
    row->target = at_most(at_most_value, true);
}

static void command_row(const struct pairing *pairing, double at_most_value)
{
    const struct contest *contest = pairing->contest;
    struct row *row;
    char what[72];

    snprintf(what, sizeof what, "  %s to the server, each", contest->server.word);
    if (contest->server.commands) {
        ratio_row(pairing, UNIT_PLAIN, what, pairing->ours->commands, pairing->base->commands,
                  at_most(at_most_value, true));
        return;
    }
    row = bench_row(pairing->bench, UNIT_PLAIN, what,
                    isnan(pairing->base->counted) ? "" : pairing->against);
    row->measured = pairing->ours->counted;
    row->baseline = pairing->base->counted;
    row->ratio = row->measured / row->baseline;
    row->target = at_most(at_most_value, true);
}

static void rate_row(const struct pairing *pairing, size_t side, size_t base, const char *what,
                     const struct contest_targets *targets)
{
    const char *name = pairing->contest->sides[side].name;
    char text[72];

    snprintf(text, sizeof text, "%s%s%s: acquisitions", what, *name ? ", " : "", name);
    rounds_rates(pairing->bench, &pairing->contest->rates, side, text, base, pairing->against,
                 at_least(targets->rate, targets->rate_aim, false));
}

static struct pairing pair_up(struct bench *bench, const struct contest *contest, size_t side,
                              size_t base)
{
    return (struct pairing){ bench,
                             contest,
                             &contest->results[side],
                             &contest->results[base],
                             contest->sides[base].name,
                             contest->rates.count };
}

void contest_rows(struct bench *bench, const struct contest *contest, size_t side, size_t base,
                  const char *what, const struct contest_targets *targets)
{
    const struct pairing pairing = pair_up(bench, contest, side, base);
    const struct contest_result *ours = pairing.ours, *theirs = pairing.base;

    rate_row(&pairing, side, base, what, targets);
    if (contest->workers > contest->threads)
        pair_row(&pairing, UNIT_PER_SECOND, "  handed to another process", ours->changes,
                 theirs->changes, at_least(targets->hand_offs, 0, true));
    ratio_row(&pairing, UNIT_MICROSECONDS, "  wait, p50", ours->p50, theirs->p50,
              at_most(0, false));
    ratio_row(&pairing, UNIT_MICROSECONDS, "  wait, p99", ours->p99, theirs->p99,
              at_most(targets->p99, false));
    if (targets->spread > 0)
        spread_row(&pairing, targets->spread);
    pair_row(&pairing, UNIT_PLAIN, "  fairness (Jain)", ours->jain, theirs->jain,
             at_least(targets->jain, 0, true));
    pair_row(&pairing, UNIT_PLAIN, "  starved workers", ours->starved, theirs->starved,
             (struct target){ AT_MOST, 0.5, 0, true });
    if (contest->server.commands || !isnan(ours->counted))
        command_row(&pairing, targets->commands);
    if (contest->server.ports[0])
        ratio_row(&pairing, UNIT_BYTES, "  bytes on the wire, each", ours->bytes, theirs->bytes,
                  at_most(0, false));
}

void contest_compare(struct bench *bench, const struct contest *contest, size_t side, size_t base,
                     const char *what, const struct contest_targets *targets)
{
    const struct pairing pairing = pair_up(bench, contest, side, base);

    rate_row(&pairing, side, base, what, targets);
    ratio_row(&pairing, UNIT_MICROSECONDS, "  wait, p99", pairing.ours->p99, pairing.base->p99,
              at_most(targets->p99, false));
    pair_row(&pairing, UNIT_PLAIN, "  fairness (Jain)", pairing.ours->jain, pairing.base->jain,
             at_least(targets->jain, 0, true));
}

double contest_commands(const struct contest *contest, size_t side)
{
    const struct contest_result *result = &contest->results[side];

    return contest->server.commands ? stats_median(result->commands + 1, contest->rates.count)
                                    : result->counted;
}

void contest_set_commands(struct contest *contest, size_t side, double each)
{
    contest->results[side].counted = each;
}

void contest_growth(struct bench *bench, const struct contest_server *server, const char *what,
                    double large, const char *against, double small, double most)
{
    struct row *row;
    char text[72];

    snprintf(text, sizeof text, "%s each, %s", server->word, what);
    row = bench_row(bench, UNIT_PLAIN, text, against);
    row->measured = large;
    row->baseline = small;
    row->ratio = large / small;
    row->target = at_most(most, false);
}
