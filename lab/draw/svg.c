/* SPDX-License-Identifier: MIT */
/*
 * A report as one SVG file: title, the panels of its ways (or its charts), the steps, and why. No script and nothing from elsewhere; with a
 * ground of its own, so that it stands in any page.
 */
#include "page.h"
#include "panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH  1600.0
#define MARGIN 32.0
#define GAP    16.0

/* ---- the head ------------------------------------------------------------------------------------- */

void report_setting(const struct report *report, enum lang lang, char *out, size_t room)
{
    const char *setting = phrase(&report->experiment->setting, lang);

    snprintf(out, room, "%s%s%s", report->server, report->server[0] && setting[0] ? " · " : "",
             setting);
}

/* The command that made it, at the right. Returns the y of what comes below the head. */
static double head_draw(struct pen *pen, const struct report *report)
{
    const struct experiment *experiment = report->experiment;
    char command[128], setting[600];

    snprintf(command, sizeof command, "$ holdfast lab %s%s --svg %s.svg", experiment->id,
             pen->lang == LANG_ZH ? " --lang zh" : "", experiment->id);
    double chip = text_width(command, 12.5, MONO) + 24, right = WIDTH - MARGIN;
    double room = right - MARGIN - chip - 32;
    double y = ink_wrap(pen, MARGIN, 52, room, 32, (struct font){ 27, BOLD, INK, false },
                        phrase(&experiment->title, pen->lang));
    report_setting(report, pen->lang, setting, sizeof setting);
    y = ink_wrap(pen, MARGIN, y - 4, room, 20, (struct font){ 14, REGULAR, MUTED, false }, setting);
    struct box box = { right - chip, y - 50, chip, 28, 0 };
    ink_rect(pen, box, 6, PANEL, PLAIN, BORDER, 1, NULL);
    ink_text(pen, box.x + 12, box.y + 18.5, START, (struct font){ 12.5, MONO, INK, false }, command,
             strlen(command));
    return y - 4;
}

/* ---- steps and why -------------------------------------------------------------------------------- */

static int step_count(const struct experiment *experiment)
{
    int count = 0;

    while (count < STEPS_MAX && experiment->steps[count].in[LANG_EN] &&
           experiment->steps[count].in[LANG_EN][0])
        count++;
    return count;
}

bool step_bad(const struct report *report, int step)
{
    for (size_t way = 0; way < report->ways; way++) {
        const struct scene *scene = &report->findings[way].scene;
        for (size_t i = 0; i < scene->number_count; i++)
            if (scene->numbers[i].step == step && scene->numbers[i].bad)
                return true;
    }
    return false;
}

static const struct font step_font = { 13.5, REGULAR, MUTED, false };

static double step_width(const struct report *report, int step, enum lang lang)
{
    char clean[600];

    text_clean(clean, sizeof clean, phrase(&report->experiment->steps[step], lang));
    return text_width(clean, step_font.size, step_font.weight) + 28;
}

static double step_draw(struct pen *pen, const struct report *report, int step, double x, double y,
                        double room)
{
    ink_badge(pen, x + 10, y, 10, step + 1, step_bad(report, step + 1) ? RED : INK);
    return ink_wrap(pen, x + 28, y + 5, room - 28, 19, step_font,
                    phrase(&report->experiment->steps[step], pen->lang));
}

/* In one line if they fit, else in as few columns as give each text two or three lines. */
static double steps_draw(struct pen *pen, const struct report *report, double x, double y,
                         double width)
{
    int count = step_count(report->experiment);
    double all = 0, low = y;

    for (int i = 0; i < count; i++)
        all += step_width(report, i, pen->lang);
    if (count > 1 && all + 24 * (count - 1) <= width) {
        double between = fmin((width - all) / (count - 1), 64);
        for (int i = 0; i < count; i++) {
            double w = step_width(report, i, pen->lang);
            step_draw(pen, report, i, x, y, w + 8);
            x += w + between;
        }
        return y + 30;
    }
    int columns = width < 800 ? 1 : count > 4 ? (count + 1) / 2 : count;
    double room = (width - 28 * (columns - 1)) / columns, top = y;
    for (int i = 0; i < count; i++) {
        if (i && i % columns == 0)
            top = low + (columns > 1 ? 8 : 4);
        low = fmax(i % columns ? low : 0,
                   step_draw(pen, report, i, x + (i % columns) * (room + 28), top, room));
    }
    return low + 8;
}

const struct phrase checker_words =
    PHRASE("The verdict is that of a checker which reads the recorded history.",
           "结论由检查器根据记录下来的历史得出，不是预先写好的。");

static double why_draw(struct pen *pen, const struct report *report, double x, double y,
                       double width)
{
    static const struct phrase word = PHRASE("Why", "原因");
    const char *why = phrase(&report->experiment->why, pen->lang);
    double in =
        ink_say(pen, x, y, START, (struct font){ 14, BOLD, INK, false }, phrase(&word, pen->lang)) +
        12;

    y = ink_wrap(pen, x + in, y, width - in, 21, (struct font){ 14, REGULAR, INK, false }, why);
    return ink_wrap(pen, x + in, y, width - in, 20, (struct font){ 13, REGULAR, MUTED, false },
                    phrase(&checker_words, pen->lang));
}

/* ---- panels ----------------------------------------------------------------------------------------- */

static void title_draw(struct panel *panel)
{
    struct pen *pen = &panel->pen;
    double width = ink_say(pen, panel->pad, 34, START, (struct font){ 17, BOLD, INK, false },
                           phrase(&panel->way->title, pen->lang));

    ink_wrap(pen, panel->pad + width + 14, 34, panel->width - 2 * panel->pad - width - 14, 17,
             (struct font){ 14, REGULAR, MUTED, false }, phrase(&panel->way->note, pen->lang));
}

/* What the panels of a row share. */
struct row {
    double width, end_ms, picture, verdict, code;
    bool alike; /* as many lanes in each */
    double y[LANES_MAX];
};

/* Lanes of all panels at the same heights: the largest distances of any. */
static void row_lanes(struct row *row, const struct panel *panel, bool first)
{
    double before[LANES_MAX];

    memcpy(before, row->y, sizeof before);
    for (int i = 0; i < panel->scene->lane_count; i++) {
        double gap = panel->y[i] - (i ? panel->y[i - 1] : 0);
        double known = first ? 0 : before[i] - (i ? before[i - 1] : 0);
        row->y[i] = (i ? row->y[i - 1] : 0) + fmax(gap, known);
    }
}

static void row_measure(struct row *row, const struct report *report, size_t first, size_t count,
                        enum lang lang, struct panel *panel)
{
    FILE *nowhere = fopen("/dev/null", "w");
    int lanes = report->findings[first].scene.lane_count;

    row->alike = true;
    for (size_t i = 0; i < count; i++)
        row->alike = row->alike && report->findings[first + i].scene.lane_count == lanes;
    for (size_t i = 0; i < count; i++) {
        panel_init(panel, nowhere, report, first + i, lang, row->width, row->end_ms);
        scene_layout(panel, 66);
        row_lanes(row, panel, i == 0);
        row->picture = fmax(row->picture, panel->bottom + 12);
        row->code = fmax(row->code, code_height(panel));
        if (nowhere)
            row->verdict = fmax(row->verdict, verdict_draw(panel, 0));
    }
    for (size_t i = 0; row->alike && i < count; i++) {
        panel_init(panel, nowhere, report, first + i, lang, row->width, row->end_ms);
        scene_layout(panel, 66);
        scene_align(panel, row->y);
        row->picture = fmax(row->picture, panel->bottom + 12);
    }
    if (nowhere)
        fclose(nowhere);
}

/* One row of panels: pictures, verdicts and code each have the same height. Returns it. */
static double row_draw(struct pen *pen, const struct report *report, size_t first, size_t count,
                       double y, double width, struct panel *panel)
{
    struct row row = { .width = width, .end_ms = report_end_ms(report) };

    row_measure(&row, report, first, count, pen->lang, panel);
    double height = row.picture + row.verdict + (row.code > 0 ? row.code + 10 : 0) + 14;
    for (size_t i = 0; i < count; i++) {
        panel_init(panel, pen->out, report, first + i, pen->lang, width, row.end_ms);
        fprintf(pen->out, "<g transform=\"translate(%s %s)\">\n",
                N(MARGIN + (double)i * (width + GAP)), N(y));
        ink_rect(&panel->pen, (struct box){ 0, 0, width, height, 0 }, 10, PANEL, PLAIN, BORDER, 1,
                 NULL);
        title_draw(panel);
        scene_layout(panel, 66);
        if (row.alike)
            scene_align(panel, row.y);
        scene_draw(panel);
        verdict_draw(panel, row.picture);
        code_draw(panel, row.picture + row.verdict + 10, row.code);
        fputs("</g>\n", pen->out);
    }
    return height;
}

/* Two by two; with an odd number the last place has the steps. */
static double panels_draw(struct pen *pen, const struct report *report, double y)
{
    struct panel *panel = malloc(sizeof *panel);
    double inner = WIDTH - 2 * MARGIN, width = report->ways == 1 ? inner : (inner - GAP) / 2;

    if (!panel)
        return y;
    for (size_t i = 0; i < report->ways; i += 2) {
        size_t count = report->ways - i > 1 ? 2 : 1;
        double height = row_draw(pen, report, i, count, y, width, panel);
        if (count == 1 && report->ways > 1) {
            double x = MARGIN + width + GAP + 12;
            double low = steps_draw(pen, report, x, y + 24, width - 24);
            low = why_draw(pen, report, x, low + 14, width - 24);
            height = fmax(height, low - y);
        }
        y += height + GAP;
    }
    if (report->ways % 2 == 0 || report->ways == 1) {
        y = steps_draw(pen, report, MARGIN, y + 10, inner);
        y = why_draw(pen, report, MARGIN, y + 6, inner);
    }
    free(panel);
    return y;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

void draw_svg(FILE *out, const struct report *report, enum lang lang)
{
    char *body = NULL, title[600];
    size_t bytes = 0;
    FILE *memory = open_memstream(&body, &bytes);

    if (!memory)
        return;
    struct pen pen = { memory, lang, NULL };
    double y = head_draw(&pen, report);
    if (report->plot.charts)
        y = plot_draw(&pen, report, y, MARGIN, WIDTH - 2 * MARGIN);
    else
        y = panels_draw(&pen, report, y);
    fclose(memory);
    double height = ceil(y + 8);
    text_clean(title, sizeof title, phrase(&report->experiment->title, lang));
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" width=\"%s\" "
            "height=\"%s\" role=\"img\" lang=\"%s\">\n<title>",
            N(WIDTH), N(height), N(WIDTH), N(height), lang == LANG_ZH ? "zh-CN" : "en");
    text_escape(out, title, strlen(title));
    fputs("</title>\n", out);
    ink_style_svg(out);
    ink_patterns(out);
    fprintf(out, "<rect width=\"%s\" height=\"%s\" class=\"f-ground\"/>\n", N(WIDTH), N(height));
    if (body)
        fwrite(body, 1, bytes, out);
    fputs("</svg>\n", out);
    free(body);
}
