/* SPDX-License-Identifier: MIT */
/* See stats.h. */
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double stats_quantile(const double *values, size_t count, double q)
{
    double sorted[STATS_MAX], at;
    size_t below;

    if (count > STATS_MAX)
        count = STATS_MAX;
    if (count == 0)
        return NAN;
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    at = q * (double)(count - 1);
    below = (size_t)at;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

double stats_median(const double *values, size_t count)
{
    return stats_quantile(values, count, 0.5);
}

double stats_jain(const uint64_t *shares, size_t count)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < count; i++) {
        double share = (double)shares[i];

        sum += share;
        squares += share * share;
    }
    return squares > 0 ? sum * sum / ((double)count * squares) : NAN;
}
