/* SPDX-License-Identifier: MIT */
/*
 * Curves in a terminal: for each way a row of bars over the points of x, all of a chart to the same scale, with the figures below them.
 * That reads better in 80 columns than lines that cross.
 */
#include "term.h"

#include <math.h>
#include <string.h>

#define LEFT_MIN 12 /* columns for the names of the ways */
#define LEFT_MAX 24
#define BAR_ROWS 2
#define CELL_MIN 8
#define CELL_MAX 14

struct scale {
    bool logarithmic;
    double low, high; /* the smallest value above zero, and the largest */
};

static struct scale scale_of(const struct chart *chart)
{
    struct scale scale = { chart->logarithmic, INFINITY, 0 };

    for (size_t i = 0; i < chart->series_count; i++)
        for (size_t j = 0; j < chart->series[i].count; j++) {
            double value = chart->series[i].mid[j];

            if (value > 0 && value < scale.low)
                scale.low = value;
            if (value > scale.high)
                scale.high = value;
        }
    return scale;
}

/* From 0 to 1; the smallest one of a logarithmic scale must still be seen. */
static double height_of(const struct scale *scale, double value)
{
    if (value <= 0 || scale->high <= 0)
        return 0;
    if (!scale->logarithmic)
        return value / scale->high;
    if (scale->high <= scale->low)
        return 1;
    return 0.1 + 0.9 * log(value / scale->low) / log(scale->high / scale->low);
}

/* "9280", "12.4k", "0.35": at most six characters. */
static void format(double value, char *text, size_t size)
{
    if (value >= 1e7)
        snprintf(text, size, "%.1fM", value / 1e6);
    else if (value >= 1e5)
        snprintf(text, size, "%.0fk", value / 1e3);
    else if (value >= 1e4)
        snprintf(text, size, "%.1fk", value / 1e3);
    else if (value >= 100 || value == floor(value))
        snprintf(text, size, "%.0f", value);
    else if (value >= 10)
        snprintf(text, size, "%.1f", value);
    else
        snprintf(text, size, "%.2f", value);
}

static const char *block(const struct term *term, int eighths)
{
    static const char *const utf8[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const ascii[] = { " ", "_", "_", ".", ".", "-", "=", "=", "#" };

    return term_glyph(term, utf8[eighths], ascii[eighths]);
}

static void draw_bar(const struct term *term, struct screen *screen, int col, int width, int paint,
                     double height)
{
    int eighths = (int)(height * BAR_ROWS * 8 + 0.5);

    if (height > 0 && eighths == 0)
        eighths = 1;
    for (int row = BAR_ROWS - 1; row >= 0; row--) {
        int part = eighths > 8 ? 8 : eighths;

        for (int i = 0; i < width; i++)
            screen_say(screen, row, col + i, 1, paint, "%s", block(term, part));
        eighths -= part;
    }
}

/* What the names of the ways and of x take, if the figures keep their room. */
static int left_of(const struct term *term, const struct plot *plot)
{
    int width = term_width(term, phrase(&plot->x_title, term->lang));
    int room = term->columns - CELL_MIN * (int)plot->points;

    for (size_t i = 0; i < plot->charts; i++)
        for (size_t j = 0; j < plot->chart[i].series_count; j++) {
            int wide = term_width(term, phrase(&plot->chart[i].series[j].title, term->lang));

            width = wide > width ? wide : width;
        }
    width = width + 1 < LEFT_MIN ? LEFT_MIN : width + 1 > LEFT_MAX ? LEFT_MAX : width + 1;
    return width > room ? room : width;
}

static int cell_width(const struct term *term, const struct plot *plot)
{
    int width = (term->columns - left_of(term, plot)) / (plot->points > 0 ? (int)plot->points : 1);

    return width > CELL_MAX ? CELL_MAX : width;
}

static void right(struct screen *screen, int row, int col, int width, int style, const char *text)
{
    screen_right(screen, row, col, width - 1, style, text);
}

/* "980-1120", where the rounds differ by more than a tenth and it fits. */
static bool draw_spread(struct screen *screen, const struct series *series, size_t at, int col,
                        int width)
{
    char low[16], high[16], text[40];

    if (series->high[at] - series->low[at] <= 0.1 * series->mid[at])
        return false;
    format(series->low[at], low, sizeof low);
    format(series->high[at], high, sizeof high);
    snprintf(text, sizeof text, "%s-%s", low, high);
    if ((int)strlen(text) > width - 1)
        return false;
    right(screen, BAR_ROWS + 1, col, width, PAINT_DIM, text);
    return true;
}

static void draw_series(const struct term *term, const struct plot *plot, const struct scale *scale,
                        const struct series *series)
{
    int width = cell_width(term, plot), left = left_of(term, plot);
    int paint = (int)term_client(series->way);
    struct screen screen;
    bool spread = false;
    char plain[TERM_TEXT];

    term_screen(term, &screen, BAR_ROWS + 2);
    term_plain(term, phrase(&series->title, term->lang), plain, sizeof plain);
    screen_say(&screen, BAR_ROWS - 1, 1, left - 1, paint | STYLE_BOLD, "%s", plain);
    for (size_t i = 0; i < plot->points; i++) {
        int col = left + (int)i * width;
        char figure[16] = "-";

        if (i < series->count) {
            int wide = width > 8 ? 6 : width - 2;

            format(series->mid[i], figure, sizeof figure);
            draw_bar(term, &screen, col + width - 1 - wide, wide, paint,
                     height_of(scale, series->mid[i]));
            spread = draw_spread(&screen, series, i, col, width) || spread;
        }
        right(&screen, BAR_ROWS, col, width, PAINT_INK, figure);
    }
    screen.rows -= !spread;
    term_print(term, &screen);
    if (*series->note[term->lang])
        term_paragraph(term, "", 0, left, PAINT_DIM, series->note[term->lang]);
}

static void draw_chart(const struct term *term, const struct plot *plot, const struct chart *chart)
{
    struct scale scale = scale_of(chart);
    int width = cell_width(term, plot), col;
    struct screen screen;
    const char *note = phrase(&chart->note, term->lang);
    bool say = chart->logarithmic && !strstr(note, "log") && !strstr(note, "对数");
    const char *more = !say ? "" : term->lang == LANG_ZH ? "（对数刻度）" : " (logarithmic scale)";

    fputc('\n', term->out);
    term_screen(term, &screen, 2);
    col = term_put(term, &screen, 0, 1, PAINT_INK | STYLE_BOLD, phrase(&chart->title, term->lang));
    col = term_put(term, &screen, 0, col + 2, PAINT_DIM, note);
    term_put(term, &screen, 0, col, PAINT_DIM, more);
    screen_ground(&screen, 0, 0, term->columns, GROUND_HEAD);
    term_put(term, &screen, 1, 1, PAINT_DIM, phrase(&plot->x_title, term->lang));
    for (size_t i = 0; i < plot->points; i++) {
        char text[16];

        format(plot->x[i], text, sizeof text);
        right(&screen, 1, left_of(term, plot) + (int)i * width, width, PAINT_DIM | STYLE_BOLD,
              text);
    }
    term_print(term, &screen);
    for (size_t i = 0; i < chart->series_count; i++)
        draw_series(term, plot, &scale, &chart->series[i]);
}

void term_plot(const struct term *term, const struct plot *plot)
{
    for (size_t i = 0; i < plot->charts; i++)
        draw_chart(term, plot, &plot->chart[i]);
    if (*plot->checked[term->lang]) {
        fputc('\n', term->out);
        term_paragraph(term, "", 0, 1, PAINT_INK, plot->checked[term->lang]);
    }
}
