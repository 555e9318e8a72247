/* SPDX-License-Identifier: MIT */
/*
 * Places for strokes and labels. What matters most chooses first: wrong writes, refusals, writes, reads, and then the hand-over.
 * A label that finds no place in GAP_ROWS rows is left out: the stroke stays, and the steps below the picture tell the rest.
 */
#include "term_layout.h"

#include <stdlib.h>
#include <string.h>

#define LEFT_MIN 11
#define LEFT_MAX 20

static int max_of(int a, int b)
{
    return a > b ? a : b;
}

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

int layout_column(const struct layout *layout, double at_ms)
{
    int room = layout->term->columns - layout->left - 1;
    double part = at_ms < 0 ? 0 : at_ms > layout->end_ms ? 1 : at_ms / layout->end_ms;

    return layout->left + (int)(part * room);
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static bool has_note(const struct layout *layout, int lane)
{
    return *phrase(&layout->scene->lanes[lane].note, layout->term->lang);
}

int layout_gap_rows(const struct layout *layout, int gap)
{
    int rows = layout->rows[gap][UPPER] + layout->rows[gap][LOWER];
    bool outer = gap == 0 || gap == layout->scene->lane_count;
    bool note = gap > 0 && has_note(layout, gap - 1);

    return rows > 0 ? rows : note || !outer;
}

int layout_lane_row(const struct layout *layout, int lane)
{
    int row = lane;

    for (int gap = 0; gap <= lane; gap++)
        row += layout_gap_rows(layout, gap);
    return row;
}

int layout_place_row(const struct layout *layout, const struct place *place)
{
    int lane = place->side == UPPER ? place->gap - 1 : place->gap;

    if (place->side == UPPER)
        return (lane < 0 ? 0 : layout_lane_row(layout, lane) + 1) + place->row;
    if (lane >= layout->scene->lane_count)
        return layout_height(layout) - 1 - place->row;
    return layout_lane_row(layout, lane) - 1 - place->row;
}

int layout_height(const struct layout *layout)
{
    int last = layout->scene->lane_count;

    return (last > 0 ? layout_lane_row(layout, last - 1) + 1 : 0) + layout_gap_rows(layout, last);
}

/* ---- places for texts ----------------------------------------------------------------------------- */

/* Are these columns of a row free, and those before and behind them? */
static bool is_free(const struct layout *layout, const struct place *place, int width)
{
    int end = place->col + width;

    if (place->col < layout->left || end > layout->term->columns)
        return false;
    for (int col = place->col - 1; col <= min_of(end, layout->term->columns - 1); col++) {
        bool inside = col >= place->col && col < end;

        if (layout->has_stroke[place->gap][col] > (place->covers && inside ? 1 : 0) ||
            layout->taken[place->gap][place->side][place->row][col])
            return false;
    }
    /* The corner, and its line to the lane. */
    for (int row = 0; place->corner_col >= 0 && row <= place->row; row++)
        if (layout->taken[place->gap][place->side][row][place->corner_col])
            return false;
    return true;
}

static void take(struct layout *layout, const struct place *place, int width)
{
    for (int col = place->col; col < place->col + width; col++)
        layout->taken[place->gap][place->side][place->row][col] = true;
    for (int row = 0; place->corner_col >= 0 && row <= place->row; row++)
        layout->taken[place->gap][place->side][row][place->corner_col] = true;
    layout->places[layout->place_count++] = *place;
}

/* Beside the upright at `col`: to its right if that is possible, else to its left. */
static bool fit_beside(struct layout *layout, struct place *place, int col, int width)
{
    const int starts[] = { col + 2, col - 1 - width };

    for (int i = 0; i < 2; i++) {
        place->col = starts[i];
        place->corner_right = i == 0;
        if (is_free(layout, place, width)) {
            take(layout, place, width);
            return true;
        }
    }
    return false;
}

/* A text beside the upright at `col`: in a row that is there, or in a new one on the given side. A corner must stay on its side: its
 * line ends at that lane. */
static bool put_beside(struct layout *layout, struct place place, int col)
{
    int width = term_width(layout->term, place.text);
    enum side first = place.side;
    int *rows = layout->rows[place.gap];

    if (width == 0 || layout->place_count == PLACES_MAX)
        return false;
    if (place.covers && rows[UPPER] + rows[LOWER] == 0)
        rows[first] = 1;
    /* What is covered must be seen in another row. */
    for (int i = 0; i < (place.corner_col >= 0 ? 1 : 2); i++) {
        if (place.covers && rows[UPPER] + rows[LOWER] < 2)
            break;
        place.side = i == 0 ? first : !first;
        for (place.row = 0; place.row < rows[place.side]; place.row++)
            if (fit_beside(layout, &place, col, width))
                return true;
    }
    place.side = first;
    place.row = rows[first];
    if (rows[first] == GAP_ROWS || !fit_beside(layout, &place, col, width))
        return false;
    rows[first]++;
    return true;
}

/* ---- strokes --------------------------------------------------------------------------------------- */

static int rank(enum arrow_kind kind)
{
    static const int ranks[] = {
        [ARROW_WRONG] = 0, [ARROW_REFUSED] = 1, [ARROW_WRITE] = 2, [ARROW_READ] = 3,
        [ARROW_GRANT] = 4, [ARROW_LET] = 5,     [ARROW_ASK] = 6,   [ARROW_TRY] = 7,
    };

    return ranks[kind];
}

int stroke_paint(enum arrow_kind kind, int client)
{
    if (kind == ARROW_WRONG || kind == ARROW_REFUSED)
        return PAINT_BAD | STYLE_BOLD;
    return kind == ARROW_WRITE ? (int)term_client(client) : PAINT_DIM;
}

static bool crosses(const struct stroke *stroke, int gap)
{
    return gap > min_of(stroke->from, stroke->to) && gap <= max_of(stroke->from, stroke->to);
}

static bool column_is_free(const struct layout *layout, const struct stroke *stroke)
{
    if (stroke->col < layout->left || stroke->col >= layout->term->columns)
        return false;
    for (int gap = 0; gap < GAPS; gap++)
        if (crosses(stroke, gap) && layout->has_stroke[gap][stroke->col])
            return false;
    return true;
}

/* Reads and writes of one client in the same column are one stroke, with their labels in order. */
static bool join(struct layout *layout, const struct stroke *stroke)
{
    const char *between = layout->term->lang == LANG_ZH ? "，" : ", ";
    char label[STROKE_LABEL];

    for (int i = 0; i < layout->stroke_count; i++) {
        struct stroke *other = &layout->strokes[i];
        bool later = stroke->at_ms >= other->at_ms;

        if (other->from != stroke->from || other->to != stroke->to ||
            abs(other->col - stroke->col) > 1 || rank(other->kind) < rank(ARROW_WRITE) ||
            rank(stroke->kind) > rank(ARROW_READ))
            continue;
        snprintf(label, sizeof label, "%.90s%s%.90s", later ? other->label : stroke->label, between,
                 later ? stroke->label : other->label);
        memcpy(other->label, label, sizeof label);
        return true;
    }
    return false;
}

static void occupy(struct layout *layout, const struct stroke *stroke)
{
    for (int gap = 0; gap < GAPS; gap++)
        if (crosses(stroke, gap))
            layout->has_stroke[gap][stroke->col] = rank(stroke->kind) < rank(ARROW_READ) ? 2 : 1;
}

/* What one client asks of several servers, gives back to them or gets from them, is one stroke to the farthest of them. */
static bool extend(struct layout *layout, const struct stroke *stroke)
{
    bool goes = stroke->kind != ARROW_GRANT;

    if (rank(stroke->kind) < rank(ARROW_GRANT))
        return false;
    for (int i = 0; i < layout->stroke_count; i++) {
        struct stroke *other = &layout->strokes[i];
        int *far = goes ? &other->to : &other->from;
        int here = goes ? other->from : other->to, farther = goes ? stroke->to : stroke->from;

        if (other->kind != stroke->kind || other->client != stroke->client ||
            abs(other->col - stroke->col) > 1 || (*far < here) != (farther < here))
            continue;
        if (abs(farther - here) > abs(*far - here))
            *far = farther;
        occupy(layout, other);
        return true;
    }
    return false;
}

/* Its column, or the next one that is free: two moments in one column must both be seen. The hand-over gives way sooner. */
static void add_stroke(struct layout *layout, struct stroke stroke)
{
    static const int offsets[] = { 0, 1, -1, 2, -2 };
    int tries = rank(stroke.kind) > rank(ARROW_READ) ? 3 : 5;
    int col = stroke.col;

    if (join(layout, &stroke) || extend(layout, &stroke) || layout->stroke_count == STROKES_MAX)
        return;
    for (int i = 0; i < tries; i++) {
        stroke.col = col + offsets[i];
        if (!column_is_free(layout, &stroke))
            continue;
        occupy(layout, &stroke);
        layout->strokes[layout->stroke_count++] = stroke;
        return;
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct arrow *x = *(const struct arrow *const *)a, *y = *(const struct arrow *const *)b;

    if (x->kind != y->kind)
        return rank(x->kind) - rank(y->kind);
    return x->at_ms < y->at_ms ? -1 : x->at_ms > y->at_ms;
}

static bool has_bar(const struct layout *layout, enum bar_kind kind, int lane,
                    const struct arrow *arrow)
{
    double slack = layout->end_ms / 40;

    for (size_t i = 0; i < layout->scene->bar_count; i++) {
        const struct bar *bar = &layout->scene->bars[i];

        if (bar->kind == kind && bar->lane == lane && bar->client == arrow->client &&
            bar->from_ms <= arrow->at_ms + slack && bar->to_ms >= arrow->at_ms - slack)
            return true;
    }
    return false;
}

/*
 * Is there a stroke for it? Tries are ticks on the line of a waiting client. Whom a client asks matters only where it may be one of
 * several, and what it gives back or gets only where it has a lease at that moment. A single server may be told nonsense, too: that
 * a lock is given back which has expired.
 */
static bool has_stroke(const struct layout *layout, const struct arrow *arrow)
{
    int servers = 0;

    for (int lane = 0; lane < layout->scene->lane_count; lane++)
        servers += layout->scene->lanes[lane].kind == LANE_SERVER;
    switch (arrow->kind) {
    case ARROW_TRY:
        return false;
    case ARROW_ASK:
        return servers > 1 && has_bar(layout, BAR_WAITS, arrow->from, arrow);
    case ARROW_GRANT:
        return servers < 2 || has_bar(layout, BAR_LEASE, arrow->from, arrow);
    case ARROW_LET:
        return servers < 2 || has_bar(layout, BAR_LEASE, arrow->to, arrow);
    default:
        return true;
    }
}

static void place_strokes(struct layout *layout)
{
    const struct arrow *list[SCENE_ARROWS] = { NULL };
    size_t count = 0;

    for (size_t i = 0; i < layout->scene->arrow_count; i++)
        if (has_stroke(layout, &layout->scene->arrows[i]))
            list[count++] = &layout->scene->arrows[i];
    qsort(list, count, sizeof *list, by_rank);
    for (size_t i = 0; i < count; i++) {
        struct stroke stroke = {
            .kind = list[i]->kind,
            .from = list[i]->from,
            .to = list[i]->to,
            .client = list[i]->client,
            .col = layout_column(layout, list[i]->at_ms),
            .at_ms = list[i]->at_ms,
        };

        snprintf(stroke.label, sizeof stroke.label, "%s", list[i]->label[layout->term->lang]);
        add_stroke(layout, stroke);
    }
}

/* ---- labels ------------------------------------------------------------------------------------------ */

/* What a resource did, below it; a refusal's own label says why. */
static void place_answer(struct layout *layout, const struct stroke *stroke)
{
    bool down = stroke->from < stroke->to;
    struct place place = { .gap = down ? stroke->to + 1 : stroke->to,
                           .side = down ? UPPER : LOWER,
                           .style = stroke_paint(stroke->kind, stroke->client),
                           .corner_col = stroke->col };
    const char *text = stroke->kind == ARROW_REFUSED   ? stroke->label
                       : layout->term->lang == LANG_ZH ? "被接受"
                                                       : "accepted";

    snprintf(place.text, sizeof place.text, "%s", text);
    put_beside(layout, place, stroke->col);
}

static void place_label(struct layout *layout, const struct stroke *stroke)
{
    bool down = stroke->from < stroke->to;
    struct place place = { .gap = down ? stroke->from + 1 : stroke->from,
                           .side = down ? UPPER : LOWER,
                           .style = stroke_paint(stroke->kind, stroke->client),
                           .corner_col = -1 };

    if (stroke->kind == ARROW_WRONG || stroke->kind == ARROW_REFUSED)
        place_answer(layout, stroke);
    if (stroke->kind == ARROW_REFUSED)
        return;
    snprintf(place.text, sizeof place.text, "%s", stroke->label);
    while (!put_beside(layout, place, stroke->col)) {
        if (term_shorten(place.text))
            continue;
        /* In a second row: in the first one everything is seen. */
        place.covers = !place.covers && rank(stroke->kind) < rank(ARROW_READ) &&
                       layout_gap_rows(layout, place.gap) > 0;
        if (!place.covers)
            break;
        snprintf(place.text, sizeof place.text, "%s", stroke->label);
    }
}

static int mark_paint(enum mark_kind kind)
{
    return kind == MARK_EXPIRES ? PAINT_PAUSE : kind == MARK_NOTE ? PAINT_INK : PAINT_BAD;
}

static void place_marks(struct layout *layout)
{
    for (size_t i = 0; i < layout->scene->mark_count; i++) {
        const struct mark *mark = &layout->scene->marks[i];
        int col = layout_column(layout, mark->at_ms);
        struct place place = {
            .gap = mark->lane, .side = LOWER, .style = mark_paint(mark->kind), .corner_col = col
        };

        snprintf(place.text, sizeof place.text, "%s", mark->label[layout->term->lang]);
        if (put_beside(layout, place, col))
            continue;
        place.gap++; /* below the lane */
        place.side = UPPER;
        put_beside(layout, place, col);
    }
}

/* ---- all ------------------------------------------------------------------------------------------------ */

static int left_of(const struct term *term, const struct scene *scene)
{
    int width = 0;

    for (int i = 0; i < scene->lane_count; i++) {
        width = max_of(width, term_width(term, phrase(&scene->lanes[i].title, term->lang)));
        width = max_of(width, term_width(term, phrase(&scene->lanes[i].note, term->lang)));
    }
    return min_of(max_of(width + 3, LEFT_MIN), LEFT_MAX);
}

struct layout *layout_new(const struct term *term, const struct scene *scene, double end_ms)
{
    struct layout *layout = calloc(1, sizeof *layout);

    if (!layout) {
        fprintf(stderr, "holdfast: out of memory\n");
        exit(70);
    }
    layout->term = term;
    layout->scene = scene;
    layout->end_ms = end_ms > 0 ? end_ms : 1;
    layout->left = left_of(term, scene);
    place_strokes(layout);
    place_marks(layout);
    for (int i = 0; i < layout->stroke_count; i++)
        place_label(layout, &layout->strokes[i]);
    return layout;
}
