/* SPDX-License-Identifier: MIT */
/*
 * A timeline in a terminal. The layout says where everything stands; here it is drawn, from back to front: strokes, bars over them,
 * where strokes arrive, marks, numbers, and labels in bars where room is left.
 */
#include "term_layout.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY (-1)
#define FIXED  (-2) /* a cell that no label may cover */

struct picture {
    const struct term *term;
    const struct scene *scene;
    struct layout *layout;
    struct screen screen;
    int top;                                /* the row of the first gap: the axis is above it */
    int owner[LANES_MAX][TERM_COLUMNS_MAX]; /* of a cell of a lane: a bar, NOBODY or FIXED */
};

static void draw_axis(struct picture *picture);
static void draw_titles(struct picture *picture);
static void draw_strokes(struct picture *picture);
static void draw_bars(struct picture *picture);
static void draw_ticks(struct picture *picture);
static void draw_arrivals(struct picture *picture);
static void draw_marks(struct picture *picture);
static void draw_numbers(struct picture *picture);
static void draw_bar_labels(struct picture *picture);
static void draw_places(struct picture *picture);
static void draw_overlaps(struct picture *picture, int row);

static bool is_crowded(const struct scene *scene)
{
    for (size_t i = 0; i < scene->overlap_count; i++)
        if (scene->overlaps[i].bad)
            return true;
    return false;
}

void term_scene(const struct term *term, const struct scene *scene, double end_ms)
{
    struct picture picture = { .term = term, .scene = scene, .top = 1 };
    int height;

    picture.layout = layout_new(term, scene, end_ms);
    height = layout_height(picture.layout);
    term_screen(term, &picture.screen, picture.top + height + is_crowded(scene));
    for (int lane = 0; lane < LANES_MAX; lane++)
        for (int col = 0; col < TERM_COLUMNS_MAX; col++)
            picture.owner[lane][col] = NOBODY;

    draw_axis(&picture);
    draw_titles(&picture);
    draw_strokes(&picture);
    draw_bars(&picture);
    draw_ticks(&picture);
    draw_arrivals(&picture);
    draw_marks(&picture);
    draw_numbers(&picture);
    draw_bar_labels(&picture);
    draw_places(&picture);
    if (is_crowded(scene))
        draw_overlaps(&picture, picture.top + height);
    term_print(term, &picture.screen);
    free(picture.layout);
}

static int lane_row(const struct picture *picture, int lane)
{
    return picture->top + layout_lane_row(picture->layout, lane);
}

static void put(struct picture *picture, int row, int col, int style, const char *utf8,
                const char *ascii)
{
    screen_say(&picture->screen, row, col, 1, style, "%s", term_glyph(picture->term, utf8, ascii));
}

/* ---- around the lanes ------------------------------------------------------------------------------- */

static void draw_axis(struct picture *picture)
{
    static const int steps[] = { 1,   2,    5,    10,   20,    50,    100,   200,
                                 500, 1000, 2000, 5000, 10000, 20000, 60000, 300000 };
    const double end = picture->layout->end_ms;
    int step = steps[0];

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int ticks = (int)(end / steps[i]) + 1;

        step = steps[i];
        if (ticks * 7 <= picture->term->columns - picture->layout->left)
            break;
    }
    for (int at = 0; at <= end; at += step) {
        int col = layout_column(picture->layout, at);
        char text[16];

        if (at > 0 && step < 1000 && end < 1000)
            snprintf(text, sizeof text, "%dms", at);
        else if (at > 0 && step < 1000)
            snprintf(text, sizeof text, "%.1fs", at / 1000.0);
        else
            snprintf(text, sizeof text, "%ds", at / 1000);
        if (col + (int)strlen(text) <= picture->term->columns)
            term_put(picture->term, &picture->screen, 0, col, PAINT_DIM, text);
    }
}

static void draw_titles(struct picture *picture)
{
    int client = 0;

    for (int lane = 0; lane < picture->scene->lane_count; lane++) {
        const struct lane *what = &picture->scene->lanes[lane];
        int paint = what->kind == LANE_CLIENT ? (int)term_client(client++) : PAINT_INK;
        int row = lane_row(picture, lane);
        char plain[TERM_TEXT];

        term_plain(picture->term, phrase(&what->title, picture->term->lang), plain, sizeof plain);
        screen_say(&picture->screen, row, 1, picture->layout->left - 2, paint | STYLE_BOLD, "%s",
                   plain);
        term_plain(picture->term, phrase(&what->note, picture->term->lang), plain, sizeof plain);
        if (layout_gap_rows(picture->layout, lane + 1) > 0)
            screen_say(&picture->screen, row + 1, 1, picture->layout->left - 2, PAINT_DIM, "%s",
                       plain);
    }
}

/* The text about them: to the right of the marks, to their left, or over them. */
static void say_overlaps(struct picture *picture, int row, int first, int last, double all_ms)
{
    bool zh = picture->term->lang == LANG_ZH;
    char text[64];
    int width, col;

    snprintf(text, sizeof text, "%s%.1fs ",
             zh ? " 持有者过多：" : " too many holders: ", all_ms / 1000);
    if (all_ms < 1000)
        snprintf(text, sizeof text, "%s%.0fms ",
                 zh ? " 持有者过多：" : " too many holders: ", all_ms);
    width = term_width(picture->term, text);
    if (last + width <= picture->term->columns)
        col = last;
    else if (first - width >= 0)
        col = first - width;
    else
        col = (first + last - width) / 2;
    term_put(picture->term, &picture->screen, row, col, PAINT_BAD, text);
}

/* When more than may believed to hold: a line of its own below everything. */
static void draw_overlaps(struct picture *picture, int row)
{
    int first = picture->term->columns, last = 0;
    double all_ms = 0;

    for (size_t i = 0; i < picture->scene->overlap_count; i++) {
        const struct overlap *overlap = &picture->scene->overlaps[i];
        int from = layout_column(picture->layout, overlap->from_ms);
        int to = layout_column(picture->layout, overlap->to_ms);

        if (!overlap->bad)
            continue;
        to = to > from ? to : from + 1;
        for (int col = from; col < to; col++)
            put(picture, row, col, PAINT_BAD, "▀", "^");
        first = from < first ? from : first;
        last = to > last ? to : last;
        all_ms += overlap->to_ms - overlap->from_ms;
    }
    say_overlaps(picture, row, first, last, all_ms);
}

/* ---- strokes ---------------------------------------------------------------------------------------- */

static void draw_stroke(struct picture *picture, const struct stroke *stroke, int row)
{
    int style = stroke_paint(stroke->kind, stroke->client);

    switch (stroke->kind) {
    case ARROW_WRONG:
        put(picture, row, stroke->col, style, "┃", "!");
        break;
    case ARROW_WRITE:
    case ARROW_REFUSED:
        put(picture, row, stroke->col, style, "│", "|");
        break;
    default:
        put(picture, row, stroke->col, style, "┊", ":");
    }
}

/* The rows between two lanes, without them. */
static int first_row(const struct picture *picture, const struct stroke *stroke)
{
    return lane_row(picture, stroke->from < stroke->to ? stroke->from : stroke->to) + 1;
}

static int last_row(const struct picture *picture, const struct stroke *stroke)
{
    return lane_row(picture, stroke->from < stroke->to ? stroke->to : stroke->from) - 1;
}

static void draw_strokes(struct picture *picture)
{
    /* From the least important to the most. */
    for (int i = picture->layout->stroke_count - 1; i >= 0; i--) {
        const struct stroke *stroke = &picture->layout->strokes[i];

        for (int row = first_row(picture, stroke); row <= last_row(picture, stroke); row++)
            draw_stroke(picture, stroke, row);
    }
}

static void draw_arrival(struct picture *picture, const struct stroke *stroke)
{
    bool down = stroke->from < stroke->to;
    int before = down ? last_row(picture, stroke) : first_row(picture, stroke);
    int row = lane_row(picture, stroke->to);
    int style = stroke_paint(stroke->kind, stroke->client);
    bool line = picture->scene->lanes[stroke->to].kind == LANE_RESOURCE;

    if (stroke->kind == ARROW_REFUSED)
        put(picture, before, stroke->col, style, "╳", "X");
    else if (!line)
        put(picture, before, stroke->col, style, down ? "▾" : "▴", down ? "v" : "^");
    else if (stroke->kind == ARROW_READ)
        put(picture, row, stroke->col, style, down ? "┷" : "┯", "+");
    else if (stroke->kind == ARROW_WRITE)
        put(picture, row, stroke->col, style, down ? "┻" : "┳", "+");
    else
        put(picture, row, stroke->col, style, "╋", "#");
    if (line)
        picture->owner[stroke->to][stroke->col] = FIXED;
}

static void draw_arrivals(struct picture *picture)
{
    for (int i = picture->layout->stroke_count - 1; i >= 0; i--)
        draw_arrival(picture, &picture->layout->strokes[i]);
}

/* ---- bars ----------------------------------------------------------------------------------------------- */

/* Clients differ by pattern, so that a copy without colours can be read. */
static const char *pattern(const struct term *term, int client)
{
    static const char *const utf8[] = { "█", "▒", "▚", "▤", "▞", "▥" };
    static const char *const ascii[] = { "#", "%", "=", "&", "@", "$" };
    size_t index = client < 0 ? 0 : (size_t)client % 6;

    return term_glyph(term, utf8[index], ascii[index]);
}

static const char *bar_glyph(const struct term *term, const struct bar *bar)
{
    switch (bar->kind) {
    case BAR_HOLDS:
    case BAR_LEASE:
        return pattern(term, bar->client);
    case BAR_PAUSED:
        return term_glyph(term, "░", ":");
    case BAR_WAITS:
        return term_glyph(term, "┄", ".");
    case BAR_DEAD:
        return term_glyph(term, "·", " ");
    case BAR_VALUE:
        return term_glyph(term, "━", "-");
    case BAR_BAD_VALUE:
        return term_glyph(term, "╍", "~");
    }
    return " ";
}

static int bar_paint(const struct bar *bar)
{
    if (bar->kind == BAR_BAD_VALUE)
        return PAINT_BAD;
    if (bar->kind == BAR_PAUSED || bar->kind == BAR_DEAD || bar->kind == BAR_VALUE)
        return PAINT_DIM;
    return (int)term_client(bar->client);
}

static int longest_first(const void *a, const void *b)
{
    const struct bar *x = *(const struct bar *const *)a, *y = *(const struct bar *const *)b;
    double x_ms = x->to_ms - x->from_ms, y_ms = y->to_ms - y->from_ms;

    if (x_ms != y_ms)
        return x_ms > y_ms ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Bars are never narrower than a column; so short ones come last, over their neighbours. */
static void draw_bars(struct picture *picture)
{
    const struct bar *list[SCENE_BARS] = { NULL };
    size_t count = picture->scene->bar_count;

    for (size_t i = 0; i < count; i++)
        list[i] = &picture->scene->bars[i];
    qsort(list, count, sizeof *list, longest_first);
    for (size_t i = 0; i < count; i++) {
        const struct bar *bar = list[i];
        int from = layout_column(picture->layout, bar->from_ms);
        int to = layout_column(picture->layout, bar->to_ms);
        bool last = bar->to_ms >= picture->scene->end_ms;

        for (int col = from; col < (to > from ? to + last : from + 1); col++) {
            screen_say(&picture->screen, lane_row(picture, bar->lane), col, 1, bar_paint(bar), "%s",
                       bar_glyph(picture->term, bar));
            picture->owner[bar->lane][col] = (int)(bar - picture->scene->bars);
        }
    }
}

/* Tries are ticks on the line of a waiting client, never beside each other: its label has their number. */
static void draw_ticks(struct picture *picture)
{
    int last[LANES_MAX];

    for (int lane = 0; lane < LANES_MAX; lane++)
        last[lane] = -2;
    for (size_t i = 0; i < picture->scene->arrow_count; i++) {
        const struct arrow *arrow = &picture->scene->arrows[i];
        int col = layout_column(picture->layout, arrow->at_ms);
        int owner = picture->owner[arrow->from][col];
        bool up = arrow->to < arrow->from;

        if (arrow->kind != ARROW_TRY || col - last[arrow->from] < 2 || owner < 0 ||
            picture->scene->bars[owner].kind != BAR_WAITS)
            continue;
        put(picture, lane_row(picture, arrow->from), col, (int)term_client(arrow->client),
            up ? "┴" : "┬", up ? "'" : ",");
        last[arrow->from] = col;
    }
}

/* The longest part of a lane that still belongs to this bar. */
static int own_part(const struct picture *picture, const struct bar *bar, int *ret_from)
{
    int number = (int)(bar - picture->scene->bars), best = 0, run = 0;

    for (int col = picture->layout->left; col < picture->term->columns; col++) {
        run = picture->owner[bar->lane][col] == number ? run + 1 : 0;
        if (run > best) {
            best = run;
            *ret_from = col - run + 1;
        }
    }
    return best;
}

/* In the middle of its bar, between blanks, if something of the bar remains to be seen. */
static void draw_bar_label(struct picture *picture, const struct bar *bar)
{
    bool line = bar->kind == BAR_VALUE || bar->kind == BAR_BAD_VALUE;
    int style = bar->kind == BAR_PAUSED  ? PAINT_PAUSE
                : bar->kind == BAR_WAITS ? bar_paint(bar)
                : bar->kind == BAR_VALUE ? PAINT_INK | STYLE_BOLD
                                         : bar_paint(bar) | STYLE_BOLD;
    int from = 0, room = own_part(picture, bar, &from), row = lane_row(picture, bar->lane), width;
    char label[LABEL_ROOM];

    snprintf(label, sizeof label, "%s", bar->label[picture->term->lang]);
    do {
        width = term_width(picture->term, label);
    } while (width + 4 > room && term_shorten(label));
    if (bar->kind == BAR_LEASE && bar->client >= 0 && width + 4 > room && room >= 3) {
        snprintf(label, sizeof label, "%c", 'A' + bar->client % 26);
        term_put(picture->term, &picture->screen, row, from + room / 2, style, label);
        return;
    }
    if (width == 0 || width + (line ? 0 : 4) > room)
        return;
    if (width + 2 <= room) {
        from += (room - width - 2) / 2;
        term_put(picture->term, &picture->screen, row, from, style, " ");
        term_put(picture->term, &picture->screen, row, from + 1 + width, style, " ");
        from++;
    }
    term_put(picture->term, &picture->screen, row, from, style, label);
}

static void draw_bar_labels(struct picture *picture)
{
    for (size_t i = 0; i < picture->scene->bar_count; i++)
        draw_bar_label(picture, &picture->scene->bars[i]);
}

/* ---- marks, numbers and texts ----------------------------------------------------------------------------- */

static void draw_marks(struct picture *picture)
{
    for (size_t i = 0; i < picture->scene->mark_count; i++) {
        const struct mark *mark = &picture->scene->marks[i];
        int row = lane_row(picture, mark->lane);
        int col = layout_column(picture->layout, mark->at_ms);

        if (mark->kind == MARK_EXPIRES)
            put(picture, row, col, PAINT_PAUSE | STYLE_BOLD, "┃", "|");
        else if (mark->kind == MARK_CRASH)
            put(picture, row, col, PAINT_BAD | STYLE_BOLD, "╳", "X");
        else if (mark->kind == MARK_LOST)
            put(picture, row, col, PAINT_BAD | STYLE_BOLD, "✗", "x");
        else
            put(picture, row, col, PAINT_INK | STYLE_BOLD, "◆", "*");
        picture->owner[mark->lane][col] = FIXED;
    }
}

/* May a number cover this cell? Not a bar that is no wider than it. */
static bool may_cover(const struct picture *picture, int lane, int col)
{
    const int *owner = picture->owner[lane];

    if (col < picture->layout->left || col >= picture->term->columns || owner[col] == FIXED)
        return false;
    if (owner[col] == NOBODY)
        return true;
    return (col > 0 && owner[col - 1] == owner[col]) ||
           (col + 1 < picture->term->columns && owner[col + 1] == owner[col]);
}

static void draw_numbers(struct picture *picture)
{
    static const int offsets[] = { 0, 1, -1, 2, -2, 3, -3 };

    for (size_t i = 0; i < picture->scene->number_count; i++) {
        const struct number *number = &picture->scene->numbers[i];
        int col = layout_column(picture->layout, number->at_ms);
        const char *sign = term_step(picture->term, number->step);

        for (size_t j = 0; j < sizeof offsets / sizeof *offsets; j++) {
            if (!may_cover(picture, number->lane, col + offsets[j]))
                continue;
            col += offsets[j];
            put(picture, lane_row(picture, number->lane), col,
                term_step_style(picture->term, number->bad), sign, sign);
            picture->owner[number->lane][col] = FIXED;
            break;
        }
    }
}

static void draw_places(struct picture *picture)
{
    for (int i = 0; i < picture->layout->place_count; i++) {
        const struct place *place = &picture->layout->places[i];
        int row = picture->top + layout_place_row(picture->layout, place);
        bool above = place->side == LOWER; /* the lane, whose line comes up to the text */

        term_put(picture->term, &picture->screen, row, place->col, place->style, place->text);
        if (place->corner_col < 0)
            continue;
        for (int j = 1; j <= place->row; j++)
            put(picture, above ? row + j : row - j, place->corner_col, place->style, "│", "|");
        if (place->corner_right)
            put(picture, row, place->corner_col, place->style, above ? "┌" : "└", "+");
        else
            put(picture, row, place->corner_col, place->style, above ? "┐" : "┘", "+");
    }
}
