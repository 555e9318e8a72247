/* SPDX-License-Identifier: MIT */
/* Many short plays, and the points of a curve; see measure.h. */
#include "measure.h"

#include <stdlib.h>

#define SIGNAL_READY INT64_C(3000)
#define SIGNAL_GO    INT64_C(3001)

bool measure_next(struct stage *stage, int way)
{
    stage_end(stage);
    if (stage->unclear)
        return false; /* stage_begin() would forget it */
    stage_begin(stage, &stage->experiment->ways[way]);
    return true;
}

void measure_start(struct stage *stage, int count, actor_fn *fn, void *arg)
{
    for (int i = 0; i < count; i++)
        stage_start(stage, i, fn, arg);
    stage_await(stage, -1, EV_SIGNAL, (unsigned)count);
    stage_signal(stage, SIGNAL_GO);
}

void measure_ready(struct actor *me)
{
    note_signal(me, SIGNAL_READY);
    await_signal(me, SIGNAL_GO);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

void measure_point(struct series *series, double *rounds, size_t count)
{
    size_t point = series->count++;

    qsort(rounds, count, sizeof rounds[0], by_size);
    series->low[point] = rounds[0];
    series->mid[point] = rounds[count / 2];
    series->high[point] = rounds[count - 1];
}
