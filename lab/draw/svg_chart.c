/* SPDX-License-Identifier: MIT */
/*
 * One chart: a line for each way, the spread of its rounds as a band, its name at its end. Points of x stand at equal distances. Each way
 * has a mark and a dash of its own, so that it reads in black and white.
 */
#include "chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLOT_HEIGHT 380.0
#define LEGEND_ROW  44.0

struct frame {
    struct pen *pen;
    const struct report *report;
    const struct chart *chart;
    struct scale scale;
    double left, right, top, bottom, width;
    bool narrow;
};

struct trait way_trait(const struct report *report, int way)
{
    static const struct trait others[] = { { CLIENT_B, "4 3", 1 },
                                           { INK, "9 3", 2 },
                                           { CLIENT_C, "1.5 3", 3 },
                                           { CLIENT_D, "9 3 2 3", 1 } };
    int place = 0;

    if (way < 0 || (size_t)way >= report->ways)
        return others[0];
    if (report->experiment->ways[way].ours && (size_t)way + 1 == report->ways)
        return (struct trait){ CLIENT_A, NULL, 0 };
    for (int i = 0; i < way; i++)
        place++;
    return others[place % 4];
}

void mark_shape(struct pen *pen, struct trait trait, double x, double y, double size)
{
    const char *name = ink_name(trait.colour);
    char points[224];

    switch (trait.mark) {
    case 0:
        fprintf(pen->out,
                "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" class=\"f-%s s-panel\" "
                "stroke-width=\"1.5\"/>\n",
                N(x), N(y), N(size), name);
        return;
    case 1:
        snprintf(points, sizeof points, "%s,%s %s,%s %s,%s", N(x), N(y - size * 1.2),
                 N(x + size * 1.15), N(y + size * 0.85), N(x - size * 1.15), N(y + size * 0.85));
        break;
    case 2:
        snprintf(points, sizeof points, "%s,%s %s,%s %s,%s %s,%s", N(x - size), N(y - size),
                 N(x + size), N(y - size), N(x + size), N(y + size), N(x - size), N(y + size));
        break;
    default:
        snprintf(points, sizeof points, "%s,%s %s,%s %s,%s %s,%s", N(x), N(y - size * 1.3),
                 N(x + size * 1.3), N(y), N(x), N(y + size * 1.3), N(x - size * 1.3), N(y));
        break;
    }
    ink_polygon(pen, points, PANEL, trait.colour, 2);
}

static double at_x(const struct frame *frame, size_t point)
{
    size_t points = frame->report->plot.points;
    double part = points > 1 ? (double)point / (double)(points - 1) : 0.5;

    return frame->left + (frame->right - frame->left) * part;
}

static double at_y(const struct frame *frame, double value)
{
    return frame->bottom - (frame->bottom - frame->top) * scale_at(&frame->scale, value);
}

/* ---- axes ------------------------------------------------------------------------------------------ */

static void y_tick(struct frame *frame, double value)
{
    char text[32];
    double y = at_y(frame, value);

    figure(text, sizeof text, value);
    ink_line(frame->pen, frame->left, y, frame->right, y, value == 0 ? BORDER : GRID,
             value == 0 ? 1.5 : 1, NULL);
    ink_text(frame->pen, frame->left - 14, y + 4, END, (struct font){ 12.5, REGULAR, MUTED, 0 },
             text, strlen(text));
}

static void axes_draw(struct frame *frame)
{
    const struct plot *plot = &frame->report->plot;
    const struct scale *scale = &frame->scale;

    if (!scale->logarithmic)
        for (int i = 0; i * scale->step <= scale->high * 1.001; i++)
            y_tick(frame, i * scale->step);
    else
        for (int power = (int)scale->low; power <= (int)scale->high; power++)
            y_tick(frame, pow(10, power));
    if (scale->logarithmic && scale->zero)
        y_tick(frame, 0);
    for (size_t i = 0; i < plot->points; i++) {
        char text[32];
        figure(text, sizeof text, plot->x[i]);
        ink_line(frame->pen, at_x(frame, i), frame->bottom, at_x(frame, i), frame->bottom + 5,
                 BORDER, 1.5, NULL);
        ink_text(frame->pen, at_x(frame, i), frame->bottom + 21, MIDDLE,
                 (struct font){ 12.5, REGULAR, MUTED, 0 }, text, strlen(text));
        boxes_add(frame->pen->boxes, BOX_LABEL, at_x(frame, i) - 14, frame->bottom + 8, 28, 16);
    }
    ink_say(frame->pen, (frame->left + frame->right) / 2, frame->bottom + 42, MIDDLE,
            (struct font){ 12.5, REGULAR, MUTED, 0 }, phrase(&plot->x_title, frame->pen->lang));
}

/* ---- lines ----------------------------------------------------------------------------------------- */

static size_t points_of(const struct frame *frame, const struct series *series)
{
    size_t count =
        series->count < frame->report->plot.points ? series->count : frame->report->plot.points;

    return count < POINTS_MAX ? count : POINTS_MAX;
}

static void band_draw(struct frame *frame, const struct series *series, struct trait trait)
{
    size_t count = points_of(frame, series);

    if (count < 2)
        return;
    fputs("<polygon opacity=\".12\" points=\"", frame->pen->out);
    for (size_t i = 0; i < count; i++)
        fprintf(frame->pen->out, "%s,%s ", N(at_x(frame, i)), N(at_y(frame, series->high[i])));
    for (size_t i = count; i-- > 0;)
        fprintf(frame->pen->out, "%s,%s ", N(at_x(frame, i)), N(at_y(frame, series->low[i])));
    fprintf(frame->pen->out, "\" class=\"f-%s\"/>\n", ink_name(trait.colour));
}

static void line_draw(struct frame *frame, const struct series *series, struct trait trait)
{
    size_t count = points_of(frame, series);
    struct boxes *boxes = frame->pen->boxes;

    fprintf(frame->pen->out,
            "<polyline fill=\"none\" class=\"s-%s\" stroke-width=\"2.4\" "
            "stroke-linejoin=\"round\"%s%s%s points=\"",
            ink_name(trait.colour), trait.dash ? " stroke-dasharray=\"" : "",
            trait.dash ? trait.dash : "", trait.dash ? "\"" : "");
    for (size_t i = 0; i < count; i++)
        fprintf(frame->pen->out, "%s,%s ", N(at_x(frame, i)), N(at_y(frame, series->mid[i])));
    fputs("\"/>\n", frame->pen->out);
    for (size_t i = 0; i < count; i++) {
        double x = at_x(frame, i), y = at_y(frame, series->mid[i]);
        mark_shape(frame->pen, trait, x, y, 5.5);
        boxes_add(boxes, BOX_BADGE, x - 7, y - 7, 14, 14);
        for (int part = 1; i && part < 12; part++) { /* the line, as a chain of small boxes */
            double px = at_x(frame, i - 1), py = at_y(frame, series->mid[i - 1]);
            boxes_add(boxes, BOX_RULE, px + (x - px) * part / 12 - 3, py + (y - py) * part / 12 - 3,
                      6, 6);
        }
    }
}

/* Values at the points of a logarithmic chart, where the eye cannot estimate them; only where there is room. */
static void values_draw(struct frame *frame, const struct series *series, struct trait trait)
{
    for (size_t i = 0; i < points_of(frame, series); i++) {
        if (series->mid[i] <= 0)
            continue;
        char text[32];
        figure(text, sizeof text, series->mid[i]);
        double w = text_width(text, 12, SEMI), x = at_x(frame, i), y = at_y(frame, series->mid[i]);
        const double spots[][2] = { { x - w - 8, y - 9 },
                                    { x - w / 2, y - 13 },
                                    { x + 8, y - 9 },
                                    { x - w / 2, y + 22 },
                                    { x + 8, y + 18 } };
        for (size_t j = 0; j < sizeof spots / sizeof spots[0]; j++) {
            struct box box = { spots[j][0] - 2, spots[j][1] - 11, w + 4, 14, BOX_LABEL };
            if (boxes_cost(frame->pen->boxes, &box, false) != 0)
                continue;
            ink_text(frame->pen, spots[j][0], spots[j][1], START,
                     (struct font){ 12, SEMI, trait.colour, true }, text, strlen(text));
            boxes_add(frame->pen->boxes, BOX_LABEL, box.x, box.y, box.w, box.h);
            break;
        }
    }
}

/* ---- names of the lines ------------------------------------------------------------------------------ */

struct end {
    const struct series *series;
    double x, y, wanted, height;
};

static int by_y(const void *a, const void *b)
{
    const struct end *one = a, *two = b;

    if (one->wanted < two->wanted)
        return -1;
    return one->wanted > two->wanted ? 1 : one->series < two->series ? -1 : 1;
}

static double end_height(const struct frame *frame, const struct series *series, double room)
{
    char clean[256];
    enum lang lang = frame->pen->lang;

    text_clean(clean, sizeof clean, phrase(&series->title, lang));
    double lines = (double)text_lines(clean, 14, BOLD, room) * 17;
    text_clean(clean, sizeof clean, series->note[lang]);
    return lines + (double)text_lines(clean, 12.5, REGULAR, room) * 16 + 8;
}

static void end_draw(struct frame *frame, const struct end *end, double x, double room)
{
    struct trait trait = way_trait(frame->report, end->series->way);
    double y = ink_wrap(frame->pen, x, end->y + 14, room, 17,
                        (struct font){ 14, BOLD, trait.colour, false },
                        phrase(&end->series->title, frame->pen->lang));

    ink_wrap(frame->pen, x, y, room, 16, (struct font){ 12.5, REGULAR, MUTED, false },
             end->series->note[frame->pen->lang]);
    boxes_add(frame->pen->boxes, BOX_LABEL, x, end->y, room, end->height);
    if (fabs(end->y - end->wanted) > 12) /* it was moved: a thin line leads to it */
        ink_line(frame->pen, end->x + 8, end->wanted + 12, x - 4, end->y + 10, trait.colour, 1,
                 "1.5 2");
}

/* At the ends of the lines, pushed apart from the top, then back from the bottom. */
static void ends_draw(struct frame *frame)
{
    struct end ends[SERIES_MAX] = { { .y = 0 } };
    size_t count = 0;
    double x = frame->right + 18, room = frame->width - x - 14;

    for (size_t i = 0; i < frame->chart->series_count && i < SERIES_MAX; i++) {
        const struct series *series = &frame->chart->series[i];
        size_t points = points_of(frame, series);
        if (!points)
            continue;
        double y = at_y(frame, series->mid[points - 1]) - 12;
        ends[count++] =
            (struct end){ series, at_x(frame, points - 1), y, y, end_height(frame, series, room) };
    }
    qsort(ends, count, sizeof ends[0], by_y);
    for (size_t i = 1; i < count; i++)
        ends[i].y = fmax(ends[i].y, ends[i - 1].y + ends[i - 1].height);
    double floor_y = frame->bottom + 34;
    for (size_t i = count; i-- > 0;) {
        ends[i].y = fmin(ends[i].y, floor_y - ends[i].height);
        floor_y = ends[i].y;
    }
    for (size_t i = 0; i < count; i++)
        end_draw(frame, &ends[i], x, room);
}

/* On a narrow chart: below it. */
static void legend_draw(struct frame *frame)
{
    double y = frame->bottom + 72;

    for (size_t i = 0; i < frame->chart->series_count && i < SERIES_MAX; i++) {
        const struct series *series = &frame->chart->series[i];
        struct trait trait = way_trait(frame->report, series->way);
        ink_line(frame->pen, 14, y - 4, 42, y - 4, trait.colour, 2.4, trait.dash);
        mark_shape(frame->pen, trait, 28, y - 4, 5);
        ink_say(frame->pen, 52, y, START, (struct font){ 13, BOLD, trait.colour, false },
                phrase(&series->title, frame->pen->lang));
        ink_say(frame->pen, 52, y + 16, START, (struct font){ 12, REGULAR, MUTED, false },
                series->note[frame->pen->lang]);
        y += LEGEND_ROW;
    }
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

double chart_height(const struct report *report, size_t chart, enum lang lang, double width)
{
    bool narrow = width < 520;
    double legend = (double)report->plot.chart[chart].series_count * LEGEND_ROW;

    (void)lang;
    return (narrow ? 250 + 70 + legend : PLOT_HEIGHT + 76) + 70;
}

static double widest_tick(const struct scale *scale)
{
    char text[32];

    figure(text, sizeof text, scale->logarithmic ? pow(10, scale->high) : scale->high);
    double widest = text_width(text, 12.5, REGULAR);
    figure(text, sizeof text, scale->logarithmic ? pow(10, scale->low) : scale->step);
    return fmax(widest, text_width(text, 12.5, REGULAR));
}

void chart_draw(struct pen *pen, const struct report *report, size_t chart, double width,
                double height)
{
    struct boxes boxes;
    struct pen own = { pen->out, pen->lang, &boxes };
    struct frame frame = { .pen = &own,
                           .report = report,
                           .chart = &report->plot.chart[chart],
                           .width = width,
                           .narrow = width < 520 };

    boxes_init(&boxes, (struct box){ 0, 40, width, height - 40, 0 });
    frame.scale = scale_of(frame.chart);
    frame.left = (frame.narrow ? 12 : 20) + widest_tick(&frame.scale) + 14;
    frame.right = frame.narrow ? width - 20 : width - 196;
    frame.top = 78;
    frame.bottom = frame.top + (frame.narrow ? 250 : PLOT_HEIGHT);
    ink_rect(&own, (struct box){ 0, 0, width, height, 0 }, 10, PANEL, PLAIN, BORDER, 1, NULL);
    double pad = frame.narrow ? 14 : 20;
    double title = ink_say(&own, pad, 34, START, (struct font){ 17, BOLD, INK, false },
                           phrase(&frame.chart->title, pen->lang));
    double note = frame.narrow ? pad : pad + title + 14, note_y = frame.narrow ? 54 : 34;
    ink_say(&own, note, note_y, START, (struct font){ frame.narrow ? 12.5 : 14, REGULAR, MUTED, 0 },
            phrase(&frame.chart->note, pen->lang));
    axes_draw(&frame);
    for (size_t i = 0; i < frame.chart->series_count && i < SERIES_MAX; i++)
        band_draw(&frame, &frame.chart->series[i], way_trait(report, frame.chart->series[i].way));
    for (size_t i = 0; i < frame.chart->series_count && i < SERIES_MAX; i++)
        line_draw(&frame, &frame.chart->series[i], way_trait(report, frame.chart->series[i].way));
    if (frame.narrow)
        legend_draw(&frame);
    else
        ends_draw(&frame);
    for (size_t i = 0; frame.scale.logarithmic && i < frame.chart->series_count; i++)
        values_draw(&frame, &frame.chart->series[i], way_trait(report, frame.chart->series[i].way));
}
