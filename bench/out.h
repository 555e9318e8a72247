/* SPDX-License-Identifier: MIT */
/* What is shown of a run: a table, JSON, a plot, and a bar while it goes on. */
#ifndef BENCH_OUT_H
#define BENCH_OUT_H

#include "bench.h"
#include "place.h"

#include <stdio.h>

#define MEASURES_MAX 64

struct run {
    const struct place *place;
    char cpu[96];    /* "2 x Some CPU" */
    char kernel[96]; /* "Linux 6.1.0" */
    bool quick;
    double seconds; /* in all */
    size_t count;
    const struct measure *measures[MEASURES_MAX];
    const struct report *reports[MEASURES_MAX]; /* of measures[i] */
};

void out_table(const struct run *run, FILE *file, bool color);
void out_json(const struct run *run, FILE *file);
void out_svg(const struct run *run, FILE *file);
void out_curves(const struct run *run, FILE *file); /* of --growth */

/* svg_text.c: `class` is of the style sheet that the file begins with. */
void svg_text(FILE *file, double x, double y, const char *class, const char *text);

/* ---- format.c: numbers as text ----------------------------------------------- */

#define FORMAT_MAX 32

/* "1.23 M/s", "4.5 µs", "312 B", "0.998"; "-" for NAN. */
const char *format_value(double value, enum unit unit, char text[FORMAT_MAX]);
const char *format_ratio(double ratio, char text[FORMAT_MAX]);
/* "≥ 0.50", "≤ 1.0 /s"; "" if there is none. */
const char *format_target(const struct row *row, char text[FORMAT_MAX]);

/* ---- progress.c ------------------------------------------------------------------ */

struct progress {
    bool shown;
    size_t total, done; /* measurements */
    const char *name;
};

void progress_init(struct progress *progress, size_t total);
void progress_draw(const struct report *report, void *progress); /* an isolate_tick */
void progress_end(struct progress *progress);

#endif
