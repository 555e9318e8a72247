/* SPDX-License-Identifier: MIT */
/* The charts of a report side by side; below them a text for each way, and what the checker says. */
#include "chart.h"
#include "page.h"
#include "panel.h"

#include <math.h>

#define GAP 16.0

/* A sign, and what the checker found in this way. */
static double verdict_line(struct pen *pen, const struct report *report, size_t way, double x,
                           double y, double room)
{
    const struct finding *finding = &report->findings[way];
    enum outcome outcome = finding_outcome(&report->experiment->ways[way], finding);
    enum colour colour = outcome_colour(outcome);

    if (!finding->verdict.text[pen->lang][0])
        return y;
    if (outcome == BROKEN)
        ink_cross(pen, x + 6, y - 5, 4.5, colour);
    else if (outcome == SAFE)
        ink_tick(pen, x + 6, y - 5, 5.5, colour);
    else
        ink_text(pen, x + 6, y, MIDDLE, (struct font){ 14, BOLD, colour, false }, "?", 1);
    return ink_wrap(pen, x + 20, y, room - 20, 19, (struct font){ 13.5, SEMI, colour, false },
                    finding->verdict.text[pen->lang]);
}

static double text_draw(struct pen *pen, const struct report *report, size_t way, double x,
                        double y, double room)
{
    struct trait trait = way_trait(report, (int)way);

    mark_shape(pen, trait, x + 6, y - 5, 5);
    y = ink_wrap(pen, x + 20, y, room - 20, 19, (struct font){ 14, BOLD, trait.colour, false },
                 phrase(&report->experiment->ways[way].title, pen->lang)) +
        2;
    y = ink_wrap(pen, x, y, room, 20, (struct font){ 14, REGULAR, MUTED, false },
                 way < SERIES_MAX ? phrase(&report->plot.texts[way], pen->lang) : "");
    return verdict_line(pen, report, way, x, y + 4, room);
}

static double checked_draw(struct pen *pen, const struct report *report, double x, double y,
                           double room)
{
    static const struct phrase word = PHRASE("Checked", "检查");

    ink_say(pen, x, y, START, (struct font){ 14, BOLD, INK, false }, phrase(&word, pen->lang));
    return ink_wrap(pen, x, y + 21, room, 20, (struct font){ 14, REGULAR, MUTED, false },
                    report->plot.checked[pen->lang]);
}

double plot_draw(struct pen *pen, const struct report *report, double y, double x, double width)
{
    static const struct phrase word = PHRASE("Why", "原因");
    size_t charts = report->plot.charts < CHARTS_MAX ? report->plot.charts : CHARTS_MAX;
    double height = 0, at = x;

    for (size_t i = 0; i < charts; i++)
        height = fmax(height, chart_height(report, i, pen->lang, width));
    for (size_t i = 0; i < charts; i++) {
        double part = charts == 1 ? width : floor((width - GAP) * (i ? 0.44 : 0.56));
        fprintf(pen->out, "<g transform=\"translate(%s %s)\">\n", N(at), N(y));
        chart_draw(pen, report, i, part, height);
        fputs("</g>\n", pen->out);
        at += part + GAP;
    }
    y += height + 32;
    size_t columns = report->ways + 1;
    double room = (width - 36 * (double)(columns - 1)) / (double)columns, low = y;
    for (size_t i = 0; i < report->ways; i++)
        low = fmax(low, text_draw(pen, report, i, x + (double)i * (room + 36), y, room));
    low = fmax(low, checked_draw(pen, report, x + (double)report->ways * (room + 36), y, room));
    const char *why = phrase(&report->experiment->why, pen->lang);
    if (!why[0])
        return low;
    double in = ink_say(pen, x, low + 10, START, (struct font){ 14, BOLD, INK, false },
                        phrase(&word, pen->lang)) +
                12;
    return ink_wrap(pen, x + in, low + 10, width - in, 21, (struct font){ 14, REGULAR, INK, false },
                    why);
}
