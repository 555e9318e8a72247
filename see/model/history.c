/* SPDX-License-Identifier: MIT */
/* Histograms, the hand-overs of a row, and the points of a store's last 15 minutes. */
#include "parts.h"

#include <string.h>

#define HALF_MS 30000 /* model->waits and holds: this one and the half before */
#define RATE_MS 10000
#define LARGEST 0xffff

/* ---- histograms --------------------------------------------------------------------------- */

/* 0 to 3 have a bucket each; from there on four for each power of two. */
static unsigned bucket_of(uint64_t ms)
{
    unsigned log, index;

    if (ms < 4)
        return (unsigned)ms;
    log = 63u - (unsigned)__builtin_clzll(ms);
    index = 4 * (log - 1) + (unsigned)(ms >> (log - 2) & 3);
    return index < SEE_BUCKETS ? index : SEE_BUCKETS - 1;
}

/* The largest value of a bucket. */
static int64_t bucket_end(unsigned index)
{
    if (index < 4)
        return index;
    return (INT64_C(5) + index % 4) * (INT64_C(1) << (index / 4 - 1)) - 1;
}

static void halve(struct see_histogram *histogram)
{
    histogram->total = 0;
    for (size_t i = 0; i < SEE_BUCKETS; i++)
        histogram->total += histogram->counts[i] /= 2;
}

void see_histogram_add(struct see_histogram *histogram, int64_t ms)
{
    uint16_t *count = &histogram->counts[bucket_of(ms > 0 ? (uint64_t)ms : 0)];

    if (*count == LARGEST)
        halve(histogram);
    ++*count;
    histogram->total++;
}

int64_t see_histogram_at(const struct see_histogram *histogram, unsigned per_mille)
{
    uint64_t wanted = ((uint64_t)histogram->total * per_mille + 999) / 1000, seen = 0;

    if (histogram->total == 0)
        return -1;
    for (unsigned i = 0; i < SEE_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= wanted && seen > 0)
            return bucket_end(i);
    }
    return bucket_end(SEE_BUCKETS - 1);
}

/* ---- points -------------------------------------------------------------------------------- */

static void close_point(struct see_model *model)
{
    struct see_point *point = &model->points[model->point_next];

    *point = (struct see_point){
        .at_ms = model->point_ms,
        .handovers = model->point_handovers,
        .wait_p50_ms = see_histogram_at(&model->point_waits, 500),
        .wait_p99_ms = see_histogram_at(&model->point_waits, 990),
        .hold_p50_ms = see_histogram_at(&model->point_holds, 500),
        .hold_p99_ms = see_histogram_at(&model->point_holds, 990),
        .away = model->point_away,
    };
    model->point_next = (model->point_next + 1) % SEE_POINTS;
    if (model->point_count < SEE_POINTS)
        model->point_count++;
    model->points_made++;
    model->point_handovers = 0;
    model->point_waits = model->point_holds = (struct see_histogram){ .total = 0 };
    model->point_away = !model->up;
}

void see_history_turn(struct see_model *model, int64_t now_ms)
{
    int64_t begin_ms = now_ms - now_ms % SEE_INTERVAL_MS;

    if (model->point_ms == 0 || begin_ms < model->point_ms ||
        begin_ms - model->point_ms > SEE_POINTS * (int64_t)SEE_INTERVAL_MS) {
        model->point_ms = begin_ms; /* the first, or the clock was set */
        model->first_ms = now_ms;
        model->half_ms = now_ms;
    }
    for (; model->point_ms < begin_ms; model->point_ms += SEE_INTERVAL_MS)
        close_point(model);
    if (now_ms - model->half_ms >= HALF_MS) {
        model->waits = model->half_waits;
        model->holds = model->half_holds;
        model->half_waits = model->half_holds = (struct see_histogram){ .total = 0 };
        model->half_ms = now_ms;
    }
}

const struct see_point *see_model_point(const struct see_model *model, size_t index)
{
    size_t first = model->point_next + SEE_POINTS - model->point_count;

    return index < model->point_count ? &model->points[(first + index) % SEE_POINTS] : NULL;
}

double see_model_rate(const struct see_model *model, int64_t now_ms)
{
    int64_t begin_ms = model->point_ms;
    uint64_t count = model->point_handovers;

    for (size_t i = model->point_count; i > 0 && now_ms - begin_ms < RATE_MS; i--) {
        const struct see_point *point = see_model_point(model, i - 1);

        if (point->away)
            break;
        begin_ms = point->at_ms;
        count += point->handovers;
    }
    if (begin_ms < model->first_ms)
        begin_ms = model->first_ms;
    return model->point_ms && now_ms - begin_ms >= 1000
               ? (double)count * 1000 / (double)(now_ms - begin_ms)
               : -1;
}

/* ---- what was seen --------------------------------------------------------------------------- */

static void turn_row(struct see_row *row, int64_t interval)
{
    int64_t gone = interval - row->interval;

    if (gone <= 0)
        return; /* a clock that was set back: the count goes to the newest */
    if (gone > SEE_INTERVALS)
        gone = SEE_INTERVALS;
    memmove(row->handovers, row->handovers + gone,
            (size_t)(SEE_INTERVALS - gone) * sizeof row->handovers[0]);
    memset(row->handovers + SEE_INTERVALS - gone, 0, (size_t)gone * sizeof row->handovers[0]);
    row->interval = interval;
}

void see_history_handovers(struct see_model *model, struct see_row *row, uint64_t count,
                           int64_t now_ms)
{
    uint16_t *newest = &row->handovers[SEE_INTERVALS - 1];

    turn_row(row, now_ms / SEE_INTERVAL_MS);
    *newest = count > (uint64_t)(LARGEST - *newest) ? LARGEST : (uint16_t)(*newest + count);
    model->point_handovers += (uint32_t)count;
    model->total_handovers += count;
}

void see_row_handovers(const struct see_row *row, int64_t now_ms,
                       uint16_t ret_counts[SEE_INTERVALS])
{
    struct see_row copy = { .interval = row->interval };

    memcpy(copy.handovers, row->handovers, sizeof copy.handovers);
    turn_row(&copy, now_ms / SEE_INTERVAL_MS);
    memcpy(ret_counts, copy.handovers, sizeof copy.handovers);
}

void see_history_hold(struct see_model *model, struct see_row *row, int64_t ms)
{
    see_histogram_add(&row->holds, ms);
    see_histogram_add(&model->point_holds, ms);
    see_histogram_add(&model->holds, ms);
    see_histogram_add(&model->half_holds, ms);
    if (row->holds.total < SEE_JUDGED)
        return;
    row->p50_ms = see_histogram_at(&row->holds, 500);
    row->p99_ms = see_histogram_at(&row->holds, 990);
}

void see_history_wait(struct see_model *model, int64_t ms)
{
    see_histogram_add(&model->point_waits, ms);
    see_histogram_add(&model->waits, ms);
    see_histogram_add(&model->half_waits, ms);
}
