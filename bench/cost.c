/* SPDX-License-Identifier: MIT */
/* See cost.h. */
#include "cost.h"

#include "wire.h"

#include <math.h>
#include <stdio.h>

#define STEPS  2000
#define WARM   20
#define LATE_S 0.05 /* for answers that nobody waited for */

struct cost {
    double commands, bytes;
};

static double all_bytes(const struct contest_server *server)
{
    double sum = 0;

    for (size_t i = 0; i < sizeof server->ports / sizeof *server->ports && server->ports[i]; i++)
        sum += wire_bytes(server->ports[i]);
    return sum;
}

/* The question for the commands is not between the two readings of the bytes. Two decimals: what a
 * thread in the background does once a second is not of the step. */
static struct cost count(const struct contest_server *server, step_fn *step, void *arg)
{
    struct cost before, cost;

    for (int i = 0; i < WARM; i++)
        step(arg);
    before.commands = server->commands(server->server);
    bench_sleep(LATE_S);
    before.bytes = all_bytes(server);
    for (int i = 0; i < STEPS; i++)
        step(arg);
    bench_sleep(LATE_S);
    cost.bytes = round((all_bytes(server) - before.bytes) / STEPS);
    cost.commands = round((server->commands(server->server) - before.commands) / STEPS * 100) / 100;
    return cost;
}

static void put(struct bench *bench, enum unit unit, const char *what, const char *against,
                double ours, double theirs, double at_most)
{
    struct row *row = bench_row(bench, unit, what, isnan(theirs) ? "" : against);

    row->measured = ours;
    row->baseline = theirs;
    row->ratio = ours / theirs;
    if (at_most > 0)
        row->target = (struct target){ AT_MOST, at_most, 0, true };
}

void cost_rows(struct bench *bench, const struct contest_server *server, step_fn *ours,
               step_fn *raw, void *arg, const char *against, double at_most, double at_most_bytes)
{
    struct cost mine = count(server, ours, arg), theirs = { NAN, NAN };
    char what[72];

    if (raw)
        theirs = count(server, raw, arg);
    if (raw && server->by_hand > 0)
        theirs.commands = server->by_hand;
    snprintf(what, sizeof what, "  %s to the server, a pair", server->word);
    put(bench, UNIT_PLAIN, what, against, mine.commands, theirs.commands, at_most);
    put(bench, UNIT_BYTES, "  bytes on the wire, a pair", against, mine.bytes, theirs.bytes,
        at_most_bytes);
}
