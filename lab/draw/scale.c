/* SPDX-License-Identifier: MIT */
/* Numbers of a chart: where they stand, and how they are written. Pure. */
#include "chart.h"

#include <math.h>
#include <string.h>

static double nice_step(double top)
{
    double power = pow(10, floor(log10(top / 4)));
    double rest = top / 4 / power;

    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 2.5 ? 2.5 : rest <= 5 ? 5 : 10);
}

struct scale scale_of(const struct chart *chart)
{
    double least = INFINITY, most = 0;
    struct scale scale = { .logarithmic = chart->logarithmic };

    for (size_t i = 0; i < chart->series_count && i < SERIES_MAX; i++)
        for (size_t j = 0; j < chart->series[i].count && j < POINTS_MAX; j++) {
            const struct series *series = &chart->series[i];
            most = fmax(most, fmax(series->high[j], series->mid[j]));
            scale.zero = scale.zero || series->mid[j] <= 0;
            if (series->mid[j] > 0)
                least = fmin(least, series->mid[j]);
        }
    if (!(most > 0) || !isfinite(most))
        most = 1;
    if (!isfinite(least))
        least = most / 10;
    if (scale.logarithmic) {
        scale.low = floor(log10(least) + 1e-9);
        scale.high = ceil(log10(most) - 1e-9);
        if (scale.high <= scale.low)
            scale.high = scale.low + 1;
        return scale;
    }
    scale.step = nice_step(most);
    scale.high = scale.step * ceil(most / scale.step - 1e-9);
    return scale;
}

double scale_at(const struct scale *scale, double value)
{
    if (!scale->logarithmic)
        return fmin(fmax(value / scale->high, 0), 1);
    double below = scale->zero ? 0.5 : 0; /* a zero stands half a power under the lowest */
    if (value <= 0)
        return 0;
    return fmin(fmax((log10(value) - scale->low + below) / (scale->high - scale->low + below), 0),
                1);
}

void figure(char *out, size_t room, double value)
{
    if (!(fabs(value) < 1e15)) {
        snprintf(out, room, "?");
        return;
    }
    const char *sign = value < 0 ? "-" : "";
    double size = fabs(value);
    int digits = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 4;
    long long unit = digits == 0 ? 1 : digits == 1 ? 10 : digits == 2 ? 100 : 10000;
    long long all = llround(size * (double)unit), whole = all / unit;
    char grouped[32], tail[16] = "";
    if (whole >= 1000000)
        snprintf(grouped, sizeof grouped, "%lld,%03lld,%03lld", whole / 1000000,
                 whole / 1000 % 1000, whole % 1000);
    else if (whole >= 1000)
        snprintf(grouped, sizeof grouped, "%lld,%03lld", whole / 1000, whole % 1000);
    else
        snprintf(grouped, sizeof grouped, "%lld", whole);
    if (all % unit) {
        snprintf(tail, sizeof tail, ".%0*lld", digits, all % unit);
        for (size_t end = strlen(tail); tail[end - 1] == '0'; end--)
            tail[end - 1] = 0;
    }
    snprintf(out, room, "%s%s%s", sign, grouped, tail);
}
