/* SPDX-License-Identifier: MIT */
/* The table that people read. */
#include "out.h"

#include "holdfast/holdfast.h"

#include <math.h>

enum { WHAT = 50, NUMBER = 11, AGAINST = 31, RATIO = 7, TARGET = 10 }; /* widths */

struct table {
    FILE *file;
    bool color;
};

/* Columns that `text` takes: it is UTF-8, and no character of ours is wide. */
static int width(const char *text)
{
    int count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static void left(FILE *file, const char *text, int columns)
{
    fprintf(file, "%s%*s", text, columns > width(text) ? columns - width(text) : 0, "");
}

static void right(FILE *file, const char *text, int columns)
{
    fprintf(file, "%*s%s", columns > width(text) ? columns - width(text) : 0, "", text);
}

static void toned(const struct table *table, const char *tone, const char *text)
{
    fprintf(table->file, "%s%s%s", table->color ? tone : "", text, table->color ? "\033[0m" : "");
}

#define BOLD "\033[1m"
#define GOOD "\033[32m"
#define BAD  "\033[31m"

static void put_verdict(const struct table *table, const struct row *row)
{
    int met = row_met(row);

    if (met < 0)
        return;
    fputs("  ", table->file);
    toned(table, met ? GOOD : BAD, met ? "met" : "MISSED");
    if (met && row->target.aim > 0 && row->ratio < row->target.aim)
        fprintf(table->file, " (aim %.2f)", row->target.aim);
}

/* Nothing after the last column that says something. */
static void put_row(const struct table *table, const struct row *row)
{
    bool compared = row->against[0] != 0, judged = row->target.sense != NO_TARGET;
    FILE *file = table->file;
    char text[FORMAT_MAX], point[sizeof row->what + FORMAT_MAX];

    fputs("  ", file);
    if (row->axis)
        snprintf(point, sizeof point, "%.0f %s: %s", row->at, row->axis, row->what);
    else
        snprintf(point, sizeof point, "%s", row->what);
    left(file, point, WHAT - 2);
    right(file, format_value(row->measured, row->unit, text), NUMBER);
    if (compared || judged) {
        fputs("  ", file);
        left(file, row->against, AGAINST);
        right(file, compared ? format_value(row->baseline, row->unit, text) : "", NUMBER);
    }
    if (judged || !isnan(row->ratio))
        right(file, isnan(row->ratio) ? "" : format_ratio(row->ratio, text), RATIO);
    if (judged)
        right(file, format_target(row, text), TARGET);
    put_verdict(table, row);
    fputc('\n', file);
}

static void put_head(const struct table *table, const struct run *run)
{
    FILE *file = table->file;

    fprintf(file, "holdfast %s on %s, %s; stores on %s in %s%s\n\n", hf_version(), run->cpu,
            run->kernel, run->place->type, run->place->dir,
            run->quick ? "; --quick: rough numbers" : "");
    left(file, "", WHAT);
    right(file, "measured", NUMBER);
    fputs("  ", file);
    left(file, "against", AGAINST);
    right(file, "", NUMBER);
    right(file, "ratio", RATIO);
    right(file, "target", TARGET);
    fputc('\n', file);
}

/* One line in the end that says it all. */
static void put_end(const struct table *table, const struct run *run)
{
    unsigned met = 0, missed = 0, failed = 0, skipped = 0;

    for (size_t i = 0; i < run->count; i++) {
        const struct report *report = run->reports[i];

        failed += report->failed != 0;
        skipped += report->skipped[0] != 0;
        for (size_t k = 0; k < report->count; k++) {
            met += row_met(&report->rows[k]) == 1;
            missed += row_met(&report->rows[k]) == 0;
        }
    }
    fprintf(table->file, "\n%u of %u targets met", met, met + missed);
    if (missed > 0)
        fprintf(table->file, ", %u missed", missed);
    if (failed > 0)
        fprintf(table->file, "; %u of %zu measurements failed", failed, run->count);
    if (skipped > 0)
        fprintf(table->file, "; %u of %zu measurements skipped", skipped, run->count);
    fprintf(table->file, "; %.0f s\n", run->seconds);
}

void out_table(const struct run *run, FILE *file, bool color)
{
    struct table table = { file, color };

    put_head(&table, run);
    for (size_t i = 0; i < run->count; i++) {
        const struct report *report = run->reports[i];

        toned(&table, BOLD, run->measures[i]->name);
        fprintf(file, ": %s\n", run->measures[i]->about);
        for (size_t k = 0; k < report->count; k++)
            put_row(&table, &report->rows[k]);
        if (report->skipped[0])
            fprintf(file, "  skipped: %s\n", report->skipped);
        if (report->failed) {
            fputs("  ", file);
            toned(&table, BAD, "FAILED");
            fprintf(file, ": %s\n", report->error);
        }
    }
    put_end(&table, run);
}
