/* SPDX-License-Identifier: MIT */
/*
 * The curves of --growth: a column for each thing that grows, a row for each cost, a line for each engine.
 * Both axes are logarithmic; all panels of a row have the same scale. Works in light and dark mode; engines
 * differ by the mark on their points as well as by colour.
 */
#include "out.h"

#include "holdfast/holdfast.h"

#include <math.h>
#include <string.h>

enum {
    LEFT = 96,
    TOP = 128,
    PANEL_W = 262,
    PANEL_H = 148,
    GAP_X = 34,
    GAP_Y = 62,
    COLUMNS = 3,
    ROWS = 5,
    WIDTH = LEFT + COLUMNS * PANEL_W + (COLUMNS - 1) * GAP_X + 28,
    HEIGHT = TOP + ROWS * PANEL_H + (ROWS - 1) * GAP_Y + 56,
    ENGINES_MAX = 3,
};

static const struct {
    const char *axis, *label;
    int decades; /* from 1 on */
} columns[COLUMNS] = {
    { "names", "names held", 6 },
    { "waiters", "waiters for one name", 4 },
    { "clients", "clients connected", 4 },
};

static const struct {
    const char *what, *label;
    enum unit unit;
} panels[ROWS] = {
    { "hand-over, CPU", "CPU time of a hand-over", UNIT_MICROSECONDS },
    { "pair, CPU", "CPU time of an uncontended pair", UNIT_MICROSECONDS },
    { "server's memory, each", "the server's memory for each of them", UNIT_BYTES },
    { "client's memory, each", "the client's memory for each of them", UNIT_BYTES },
    { "renewal of a lease, CPU", "CPU time to renew a lease", UNIT_MICROSECONDS },
};

/* A panel as it is drawn. */
struct panel {
    const struct run *run;
    FILE *file;
    int column, row;
    double x, y;   /* its upper left corner */
    int low, high; /* powers of ten of its scale */
};

static void put_style(FILE *file)
{
    fputs("<style>\n"
          "text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12.5px; fill: "
          "#1f2328; }\n"
          ".paper { fill: #ffffff; } .back { fill: #f6f8fa; }\n"
          ".title { font-size: 19px; font-weight: 600; } .head { font-weight: 600; }\n"
          ".dim, .x, .y { font-size: 11px; fill: #59636e; }\n"
          ".x { text-anchor: middle; } .y { text-anchor: end; }\n"
          ".grid { stroke: #d8dee4; stroke-width: 1; }\n"
          ".line { fill: none; stroke-width: 2; stroke-linejoin: round; }\n"
          ".e0 { stroke: #0969da; } .m0 { fill: #0969da; }\n"
          ".e1 { stroke: #bc4c00; } .m1 { fill: #bc4c00; }\n"
          ".e2 { stroke: #1a7f37; } .m2 { fill: #1a7f37; }\n"
          "@media (prefers-color-scheme: dark) {\n"
          "text { fill: #e6edf3; } .paper { fill: #0d1117; } .back { fill: #151b23; }\n"
          ".dim, .x, .y { fill: #9198a1; } .grid { stroke: #2b323b; }\n"
          ".e0 { stroke: #4493f8; } .m0 { fill: #4493f8; }\n"
          ".e1 { stroke: #f0883e; } .m1 { fill: #f0883e; }\n"
          ".e2 { stroke: #3fb950; } .m2 { fill: #3fb950; }\n"
          "}\n"
          "</style>\n",
          file);
}

/* A circle, a square or a triangle. */
static void put_mark(FILE *file, size_t engine, double x, double y)
{
    if (engine == 0)
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\" class=\"m0\"/>\n", x, y);
    else if (engine == 1)
        fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"6.6\" height=\"6.6\" class=\"m1\"/>\n",
                x - 3.3, y - 3.3);
    else
        fprintf(file, "<path d=\"M%.1f %.1f l4.4 7.6 h-8.8 z\" class=\"m2\"/>\n", x, y - 4.8);
}

/* ---- scales ------------------------------------------------------------------------------------ */

static bool is_of(const struct row *row, const char *what, const char *axis)
{
    return row->axis && row->measured > 0 && strcmp(row->what, what) == 0 &&
           (!axis || strcmp(row->axis, axis) == 0);
}

/* Whole powers of ten around all values of this row of panels. */
static bool fit(struct panel *panel)
{
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < panel->run->count; i++)
        for (size_t k = 0; k < panel->run->reports[i]->count; k++) {
            const struct row *row = &panel->run->reports[i]->rows[k];

            if (is_of(row, panels[panel->row].what, NULL)) {
                low = fmin(low, log10(row->measured));
                high = fmax(high, log10(row->measured));
            }
        }
    if (low > high)
        return false;
    panel->low = (int)floor(low);
    panel->high = (int)ceil(high);
    if (panel->high == panel->low)
        panel->high++;
    return true;
}

static double x_of(const struct panel *panel, double value)
{
    return panel->x + PANEL_W * log10(value) / columns[panel->column].decades;
}

static double y_of(const struct panel *panel, double value)
{
    return panel->y + PANEL_H * (panel->high - log10(value)) / (panel->high - panel->low);
}

static const char *tick(double value, enum unit unit, char text[FORMAT_MAX])
{
    static const char *const times[] = { "µs", "ms", "s" }, *const sizes[] = { "B", "kB", "MB",
                                                                               "GB" };
    size_t step = 0, most = (unit == UNIT_BYTES ? sizeof sizes : sizeof times) / sizeof *times - 1;

    while (value >= 1000 && step < most) {
        value /= 1000;
        step++;
    }
    snprintf(text, FORMAT_MAX, "%g %s", value, unit == UNIT_BYTES ? sizes[step] : times[step]);
    return text;
}

static const char *count_tick(int power, char text[FORMAT_MAX])
{
    static const char *const words[] = {
        "1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"
    };

    snprintf(text, FORMAT_MAX, "%s", words[power]);
    return text;
}

/* ---- a panel -------------------------------------------------------------------------------------- */

static void put_frame(const struct panel *panel)
{
    int decades = columns[panel->column].decades;
    FILE *file = panel->file;
    char text[FORMAT_MAX];

    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" class=\"back\"/>\n",
            panel->x, panel->y, PANEL_W, PANEL_H);
    for (int power = panel->low; power <= panel->high; power++) {
        double y = y_of(panel, pow(10, power));

        fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n",
                panel->x, y, panel->x + PANEL_W, y);
        if (panel->column == 0)
            svg_text(file, panel->x - 8, y + 4, "y",
                     tick(pow(10, power), panels[panel->row].unit, text));
    }
    for (int power = 0; power <= decades; power++) {
        double x = x_of(panel, pow(10, power));

        fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x,
                panel->y, x, panel->y + PANEL_H);
        if (decades <= 4 || power % 2 == 0)
            svg_text(file, x, panel->y + PANEL_H + 15, "x", count_tick(power, text));
    }
    svg_text(file, panel->x + PANEL_W / 2.0, panel->y + PANEL_H + 30, "x",
             columns[panel->column].label);
}

static void put_line(const struct panel *panel, size_t engine)
{
    const struct report *report = panel->run->reports[engine];
    const char *what = panels[panel->row].what, *axis = columns[panel->column].axis;
    FILE *file = panel->file;
    const char *between = "";

    fprintf(file, "<polyline class=\"line e%zu\" points=\"", engine);
    for (size_t i = 0; i < report->count; i++)
        if (is_of(&report->rows[i], what, axis)) {
            fprintf(file, "%s%.1f,%.1f", between, x_of(panel, report->rows[i].at),
                    y_of(panel, report->rows[i].measured));
            between = " ";
        }
    fputs("\"/>\n", file);
    for (size_t i = 0; i < report->count; i++)
        if (is_of(&report->rows[i], what, axis))
            put_mark(file, engine, x_of(panel, report->rows[i].at),
                     y_of(panel, report->rows[i].measured));
}

static void put_panel(struct panel *panel)
{
    bool any = false;

    for (size_t i = 0; i < panel->run->count; i++)
        for (size_t k = 0; k < panel->run->reports[i]->count; k++)
            any |= is_of(&panel->run->reports[i]->rows[k], panels[panel->row].what,
                         columns[panel->column].axis);
    if (!any)
        return;
    put_frame(panel);
    for (size_t i = 0; i < panel->run->count && i < ENGINES_MAX; i++)
        put_line(panel, i);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static void put_head(const struct run *run, FILE *file)
{
    double x = LEFT;
    char text[400];

    snprintf(text, sizeof text, "Holdfast %s: how cost grows", hf_version());
    svg_text(file, LEFT, 36, "title", text);
    snprintf(text, sizeof text, "%s, %s. CPU time of client and server together.", run->cpu,
             run->kernel);
    svg_text(file, LEFT, 58, "dim", text);
    for (size_t i = 0; i < run->count && i < ENGINES_MAX; i++) {
        put_mark(file, i, x + 6, 80);
        svg_text(file, x + 18, 84, "head", run->measures[i]->name + strlen(GROWTH "-"));
        x += 110;
    }
}

void out_curves(const struct run *run, FILE *file)
{
    struct panel panel = { .run = run, .file = file };

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\" aria-label=\"How Holdfast's cost grows\">\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_style(file);
    fprintf(file, "<rect width=\"%d\" height=\"%d\" class=\"paper\"/>\n", WIDTH, HEIGHT);
    put_head(run, file);
    for (panel.row = 0; panel.row < ROWS; panel.row++) {
        panel.y = TOP + panel.row * (PANEL_H + GAP_Y);
        if (!fit(&panel))
            continue;
        svg_text(file, LEFT, panel.y - 9, "head", panels[panel.row].label);
        for (panel.column = 0; panel.column < COLUMNS; panel.column++) {
            panel.x = LEFT + panel.column * (PANEL_W + GAP_X);
            put_panel(&panel);
        }
    }
    fputs("</svg>\n", file);
}
