/* SPDX-License-Identifier: MIT */
/* Rows, progress, errors and the clock: what every measurement calls. See bench.h. */
#include "isolate.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Of the measurement that runs in this process; its worker processes inherit it. */
static struct report *current;

void bench_enter(struct report *report)
{
    current = report;
}

struct row *bench_row(struct bench *bench, enum unit unit, const char *what, const char *against)
{
    struct report *report = bench->report;
    struct row *row;

    if (report->count == ROWS_MAX)
        bench_die("more than %d rows", ROWS_MAX);
    row = &report->rows[report->count++];
    *row = (struct row){ .unit = unit, .baseline = NAN, .ratio = NAN, .low = NAN, .high = NAN };
    snprintf(row->what, sizeof row->what, "%s", what);
    snprintf(row->against, sizeof row->against, "%s", against);
    return row;
}

int row_met(const struct row *row)
{
    double value = row->target.on_measured ? row->measured : row->ratio;

    if (row->target.sense == NO_TARGET)
        return -1;
    if (isnan(value))
        return 0;
    return row->target.sense == AT_LEAST ? value >= row->target.value : value <= row->target.value;
}

void bench_done(struct bench *bench, double share)
{
    bench->done += share;
    atomic_store(&bench->report->permille, (int)(1000 * bench->done));
}

/* The first error is the one that counts: those of the workers come before "a worker died". */
void bench_die(const char *format, ...)
{
    int none = 0;
    va_list list;

    if (current && atomic_compare_exchange_strong(&current->failed, &none, 1)) {
        va_start(list, format);
        /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): wrong when it checks two files */
        vsnprintf(current->error, sizeof current->error, format, list);
        va_end(list);
        atomic_store(&current->failed, 2);
    }
    _exit(EXIT_INTERNAL);
}

void bench_skip(const struct bench *bench, const char *why)
{
    snprintf(bench->report->skipped, sizeof bench->report->skipped, "%s", why);
    _exit(0);
}

int64_t bench_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_sleep(double seconds)
{
    struct timespec left = { .tv_sec = (time_t)seconds };

    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0)
        ;
}
