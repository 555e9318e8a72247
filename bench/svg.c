/* SPDX-License-Identifier: MIT */
/*
 * A plot: one bar for every target. Ratios point in different directions (rates are to be high,
 * costs low), so a bar shows how many times better than its target a row is, on a logarithmic
 * axis; the numbers themselves stand beside it. Right of the line at 1 is met. The colours follow
 * the reader's light or dark mode; what they say is also said in words.
 */
#include "out.h"

#include "holdfast/holdfast.h"

#include <math.h>

enum {
    WIDTH = 984,
    PLOT_X = 356,
    PLOT_W = 420,
    NUMBERS_X = 792,
    TOP = 100,
    ROW_H = 44,
    BAR_H = 16,
    BOTTOM = 66,
};

struct plot {
    FILE *file;
    int low, high; /* powers of two at the ends of the axis */
    int rows;
};

/* ---- values -------------------------------------------------------------------------- */

/* How many times better than the target; above 1 is met. */
static double margin(const struct row *row, double value)
{
    return row->target.sense == AT_LEAST ? value / row->target.value : row->target.value / value;
}

static double value_of(const struct row *row)
{
    return row->target.on_measured ? row->measured : row->ratio;
}

static bool drawn(const struct row *row)
{
    return row->target.sense != NO_TARGET && isfinite(value_of(row));
}

/* Past the ends of the axis (a cost of 0 is infinitely good) it stops there. */
static double x_of(const struct plot *plot, double margin_value)
{
    double at = log2(margin_value);

    if (!(at > plot->low))
        at = plot->low;
    if (at > plot->high)
        at = plot->high;
    return PLOT_X + PLOT_W * (at - plot->low) / (plot->high - plot->low);
}

/* From half the target to four times it, and wider if the rows need it. */
static void fit(struct plot *plot, const struct run *run)
{
    plot->low = -1;
    plot->high = 2;
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->reports[i]->count; k++) {
            const struct row *row = &run->reports[i]->rows[k];
            double at = drawn(row) ? log2(margin(row, value_of(row))) : 0;

            if (drawn(row))
                plot->rows++;
            if (at < plot->low && at >= -6)
                plot->low = (int)floor(at);
            if (at > plot->high && at <= 6)
                plot->high = (int)ceil(at);
        }
}

/* ---- drawing --------------------------------------------------------------------------- */

/* Plain colours and no var(): not every reader of SVG knows it. */
static void put_style(FILE *file)
{
    fputs("<style>\n"
          "text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 13px; fill: "
          "#1f2328; }\n"
          ".paper { fill: #ffffff; }\n"
          ".title { font-size: 18px; font-weight: 600; }\n"
          ".dim, .tick, .sub { font-size: 11.5px; fill: #59636e; }\n"
          ".tick { text-anchor: middle; }\n"
          ".label, .sub { text-anchor: end; }\n"
          ".grid { stroke: #d8dee4; stroke-width: 1; }\n"
          ".target, .spread { stroke: #1f2328; stroke-width: 1.5; }\n"
          ".met { fill: #0969da; }\n"
          ".missed { fill: #bc4c00; }\n"
          ".verdict { font-weight: 600; }\n"
          "@media (prefers-color-scheme: dark) {\n"
          "text { fill: #e6edf3; }\n"
          ".paper { fill: #0d1117; }\n"
          ".dim, .tick, .sub { fill: #9198a1; }\n"
          ".grid { stroke: #2b323b; }\n"
          ".target, .spread { stroke: #e6edf3; }\n"
          ".met { fill: #4493f8; }\n"
          ".missed { fill: #f0883e; }\n"
          "}\n"
          "</style>\n",
          file);
}

static void put_axis(const struct plot *plot)
{
    FILE *file = plot->file;
    double bottom = TOP + ROW_H * plot->rows;
    char text[FORMAT_MAX];

    for (int power = plot->low; power <= plot->high; power++) {
        double x = x_of(plot, exp2(power));

        fprintf(file, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x,
                TOP - 8, x, bottom, power == 0 ? "target" : "grid");
        if (power < 0)
            snprintf(text, sizeof text, "1/%d×", 1 << -power);
        else
            snprintf(text, sizeof text, "%d×", 1 << power);
        svg_text(file, x, bottom + 18, "tick", text);
    }
    svg_text(file, x_of(plot, 1), TOP - 14, "tick", "target");
    svg_text(file, PLOT_X + PLOT_W / 2.0, bottom + 38, "tick",
             "how many times better than the target (logarithmic)");
    svg_text(file, PLOT_X + PLOT_W / 2.0, bottom + 54, "tick",
             "a bar is the median over the rounds, the thin line spans its quartiles");
}

static void put_spread(const struct plot *plot, const struct row *row, double middle)
{
    double from = x_of(plot, margin(row, row->low)), to = x_of(plot, margin(row, row->high));

    if (row->target.on_measured || isnan(row->low))
        return;
    fprintf(plot->file,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"spread\"/>\n", from,
            middle, to, middle);
}

static void put_numbers(const struct plot *plot, const struct row *row, double middle)
{
    char value[FORMAT_MAX], target[FORMAT_MAX], text[3 * FORMAT_MAX];

    if (row->target.on_measured)
        format_value(row->measured, row->unit, value);
    else
        format_ratio(row->ratio, value);
    format_target(row, target);
    snprintf(text, sizeof text, "%s, %s", value, row_met(row) ? "met" : "MISSED");
    svg_text(plot->file, NUMBERS_X, middle - 1, row_met(row) ? "verdict met" : "verdict missed",
             text);
    snprintf(text, sizeof text, "%s, target %s", row->target.on_measured ? "measured" : "ratio",
             target);
    svg_text(plot->file, NUMBERS_X, middle + 14, "dim", text);
}

static void put_bar(const struct plot *plot, const char *name, const struct row *row, int index)
{
    double middle = TOP + ROW_H * index + ROW_H / 2.0;
    double one = x_of(plot, 1), end = x_of(plot, margin(row, value_of(row)));
    char text[160];

    snprintf(text, sizeof text, "%s: %s", name, row->what);
    svg_text(plot->file, PLOT_X - 14, row->target.on_measured ? middle + 5 : middle - 1, "label",
             text);
    if (!row->target.on_measured) {
        snprintf(text, sizeof text, "against %s", row->against);
        svg_text(plot->file, PLOT_X - 14, middle + 14, "sub", text);
    }
    fprintf(plot->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" class=\"%s\"/>\n",
            fmin(one, end), middle - BAR_H / 2.0, fmax(fabs(end - one), 1), BAR_H,
            row_met(row) ? "met" : "missed");
    put_spread(plot, row, middle);
    put_numbers(plot, row, middle);
}

void out_svg(const struct run *run, FILE *file)
{
    struct plot plot = { .file = file };
    char text[400];
    int index = 0, height;

    fit(&plot, run);
    height = TOP + ROW_H * plot.rows + BOTTOM;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" "
            "role=\"img\" aria-label=\"Holdfast against hand-written loops\">\n",
            WIDTH, height, WIDTH, height);
    put_style(file);
    fprintf(file, "<rect width=\"%d\" height=\"%d\" class=\"paper\"/>\n", WIDTH, height);
    snprintf(text, sizeof text, "Holdfast %s against hand-written loops", hf_version());
    svg_text(file, 24, 34, "title", text);
    snprintf(text, sizeof text, "%s, %s, stores on %s%s", run->cpu, run->kernel, run->place->type,
             run->quick ? ", --quick" : "");
    svg_text(file, 24, 56, "dim", text);
    put_axis(&plot);
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->reports[i]->count; k++)
            if (drawn(&run->reports[i]->rows[k]))
                put_bar(&plot, run->measures[i]->name, &run->reports[i]->rows[k], index++);
    fputs("</svg>\n", file);
}
