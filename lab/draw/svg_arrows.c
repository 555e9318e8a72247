/* SPDX-License-Identifier: MIT */
/*
 * Arrows of a timeline: upright, at their moment. A wrong write ends in an octagon, a refused one at a barrier. Of many tries in a short
 * time only some are drawn; the dotted line of the client that waits says how many there were (svg_bars.c).
 */
#include "panel.h"

#include <math.h>
#include <string.h>

#define APART 13.0 /* between tries that are drawn */
#define NUDGE 6.0  /* two arrows of the same moment */

static bool strong_kind(enum arrow_kind kind)
{
    return kind == ARROW_WRONG || kind == ARROW_REFUSED;
}

static bool drawable(const struct scene *scene, const struct arrow *arrow)
{
    return arrow->from >= 0 && arrow->from < scene->lane_count && arrow->to >= 0 &&
           arrow->to < scene->lane_count && arrow->from != arrow->to;
}

static bool spans_meet(const struct arrow *a, const struct arrow *b)
{
    int a_top = a->from < a->to ? a->from : a->to, a_low = a->from + a->to - a_top;
    int b_top = b->from < b->to ? b->from : b->to, b_low = b->from + b->to - b_top;

    return a_top < b_low && b_top < a_low;
}

unsigned tries_between(const struct scene *scene, int lane, double from_ms, double to_ms)
{
    unsigned tries = 0;

    for (size_t i = 0; i < scene->arrow_count; i++)
        tries += scene->arrows[i].kind == ARROW_TRY && scene->arrows[i].from == lane &&
                 scene->arrows[i].at_ms >= from_ms && scene->arrows[i].at_ms <= to_ms;
    return tries;
}

/* Where each arrow stands; below 0: it is folded into those beside it. Computed the same way each time it is asked for. */
static void places(const struct panel *panel, double x[SCENE_ARROWS])
{
    const struct scene *scene = panel->scene;

    for (size_t i = 0; i < scene->arrow_count && i < SCENE_ARROWS; i++) {
        const struct arrow *arrow = &scene->arrows[i];
        x[i] = drawable(scene, arrow) ? panel_x(panel, arrow->at_ms) : -1;
        bool plain = !arrow->label[panel->pen.lang][0] && !strong_kind(arrow->kind);
        for (size_t j = 0; j < i && x[i] >= 0; j++) {
            const struct arrow *other = &scene->arrows[j];
            if (x[j] < 0 || !spans_meet(arrow, other))
                continue;
            double apart = fabs(x[i] - x[j]);
            bool like =
                arrow->kind == other->kind && arrow->from == other->from && arrow->to == other->to;
            bool same = strcmp(arrow->label[LANG_EN], other->label[LANG_EN]) == 0;
            if ((plain || same) && like && apart < (arrow->kind == ARROW_TRY ? APART : NUDGE))
                x[i] = -1;
            else if (apart < NUDGE - 1)
                x[i] = fmin(x[j] + NUDGE, panel->right + 4);
        }
        if (x[i] - panel_x(panel, arrow->at_ms) > 2 * NUDGE) /* too many: at its true place */
            x[i] = panel_x(panel, arrow->at_ms);
    }
}

struct style {
    double width;
    const char *dash;
    double head;
};

static struct style style_of(enum arrow_kind kind)
{
    switch (kind) {
    case ARROW_TRY:
        return (struct style){ 1, "2 3", 3.5 };
    case ARROW_READ:
        return (struct style){ 1.4, "4 3", 4 };
    case ARROW_WRITE:
        return (struct style){ 2, NULL, 5 };
    case ARROW_WRONG:
    case ARROW_REFUSED:
        return (struct style){ 3, NULL, 6 };
    default:
        return (struct style){ 1.4, NULL, 4 };
    }
}

static void head_draw(struct panel *panel, double x, double y, bool down, double size,
                      enum colour colour)
{
    char points[128];
    double back = down ? y - size * 2 : y + size * 2;

    snprintf(points, sizeof points, "%s,%s %s,%s %s,%s", N(x), N(y), N(x - size), N(back),
             N(x + size), N(back));
    ink_polygon(&panel->pen, points, colour, NONE, 0);
}

static void octagon_draw(struct panel *panel, double x, double y)
{
    const double r = 15, k = r * 0.414;
    char points[288];

    snprintf(points, sizeof points, "%s,%s %s,%s %s,%s %s,%s %s,%s %s,%s %s,%s %s,%s", N(x - k),
             N(y - r), N(x + k), N(y - r), N(x + r), N(y - k), N(x + r), N(y + k), N(x + k),
             N(y + r), N(x - k), N(y + r), N(x - r), N(y + k), N(x - r), N(y - k));
    ink_polygon(&panel->pen, points, RED, PANEL, 1.5);
    ink_cross(&panel->pen, x, y, 6.5, ON);
    boxes_add(&panel->boxes, BOX_BADGE, x - r, y - r, 2 * r, 2 * r);
}

static void arrow_draw(struct panel *panel, const struct arrow *arrow, double x)
{
    /* A refusal without a word is one of many (a limit): no alarm. */
    bool quiet = arrow->kind == ARROW_REFUSED && !arrow->label[panel->pen.lang][0];
    struct style style = style_of(quiet ? ARROW_WRITE : arrow->kind);
    bool red = strong_kind(arrow->kind) && !quiet;
    enum colour colour = red ? RED : client_colour(arrow->client);
    bool down = arrow->to > arrow->from;
    double sign = down ? 1 : -1;
    double from = panel->y[arrow->from] + sign * lane_half(panel, arrow->from, arrow->at_ms);
    double to = panel->y[arrow->to] - sign * (lane_half(panel, arrow->to, arrow->at_ms) + 1);

    if (arrow->kind == ARROW_WRONG)
        to = panel->y[arrow->to] - sign * 16;
    if (arrow->kind == ARROW_REFUSED)
        to = panel->y[arrow->to] - sign * (HALF + 16);
    ink_line(&panel->pen, x, from, x, to - sign * style.head * 1.5, colour, style.width,
             style.dash);
    head_draw(panel, x, to, down, style.head, colour);
    boxes_add(&panel->boxes, strong_kind(arrow->kind) ? BOX_RULE : BOX_LINE, x - style.width,
              fmin(from, to), style.width * 2, fabs(to - from));
    boxes_add(&panel->boxes, BOX_RULE, x - style.head, down ? to - style.head * 2 : to,
              style.head * 2, style.head * 2);
    if (arrow->kind == ARROW_WRONG)
        octagon_draw(panel, x, panel->y[arrow->to]);
    if (arrow->kind == ARROW_REFUSED) {
        double w = quiet ? 18 : 54, left = fmin(fmax(x - w / 2, panel->left), panel->right + 8 - w);
        struct box box = { left, down ? to + 2 : to - 11, w, 9, BOX_BADGE };
        ink_rect(&panel->pen, box, 1.5, NONE, BARRIER, INK, 1.2, NULL);
        boxes_add(&panel->boxes, BOX_BADGE, box.x, box.y, box.w, box.h);
    }
}

void arrows_draw(struct panel *panel, bool strong)
{
    const struct scene *scene = panel->scene;
    double x[SCENE_ARROWS];

    places(panel, x);
    for (size_t i = 0; i < scene->arrow_count && i < SCENE_ARROWS; i++) {
        if (x[i] < 0 || strong_kind(scene->arrows[i].kind) != strong)
            continue;
        step_open(panel, scene->arrows[i].at_ms, "");
        arrow_draw(panel, &scene->arrows[i], x[i]);
        fputs("</g>\n", panel->pen.out);
    }
}

/* ---- labels ------------------------------------------------------------------------------------- */

#define SPOTS 96

/* Beside the shaft, in the gaps between lanes that it crosses; near its end first. */
static size_t beside_shaft(const struct panel *panel, const struct arrow *arrow, double x,
                           struct spot spots[SPOTS], double size)
{
    int sign = arrow->to > arrow->from ? 1 : -1;
    size_t count = 0;

    for (int lane = arrow->to; lane != arrow->from; lane -= sign) {
        int upper = sign > 0 ? lane - 1 : lane;
        double top = panel->y[upper] + HALF + size, bottom = panel->y[upper + 1] - HALF - 5;
        if (arrow->kind == ARROW_REFUSED && lane == arrow->to)
            bottom -= 8;
        for (int row = 0; row < 8; row++) {
            double y = sign > 0 ? bottom - 4 - row * 9.0 : top + 4 + row * 9.0;
            if (y < top || y > bottom || count + 2 > SPOTS)
                break;
            spots[count++] = (struct spot){ x + 7, y, START };
            spots[count++] = (struct spot){ x - 7, y, END };
        }
    }
    return count;
}

/* A wrong write also has room below the resource, a refused one beside its barrier. */
static size_t at_its_end(const struct panel *panel, const struct arrow *arrow, double x,
                         struct spot spots[SPOTS], size_t count)
{
    double y = panel->y[arrow->to];

    if (count + 3 > SPOTS || arrow->to < arrow->from)
        return count;
    if (arrow->kind == ARROW_WRONG) {
        spots[count++] = (struct spot){ x, y + HALF + 17, MIDDLE };
        spots[count++] = (struct spot){ panel->right + 4, y + HALF + 17, END };
    } else if (arrow->kind == ARROW_REFUSED) {
        spots[count++] = (struct spot){ x - 33, y - HALF - 6, END };
        spots[count++] = (struct spot){ x + 33, y - HALF - 6, START };
    }
    return count;
}

void arrows_label(struct panel *panel, bool strong)
{
    static const enum arrow_kind order[] = { ARROW_WRONG, ARROW_REFUSED, ARROW_WRITE, ARROW_READ,
                                             ARROW_GRANT, ARROW_ASK,     ARROW_LET,   ARROW_TRY };
    const struct scene *scene = panel->scene;
    double x[SCENE_ARROWS];

    places(panel, x);
    panel->patience = strong ? 0 : 70; /* three thin lines */
    for (size_t k = strong ? 0 : 2; k < (strong ? 2 : sizeof order / sizeof order[0]); k++)
        for (size_t i = 0; i < scene->arrow_count && i < SCENE_ARROWS; i++) {
            const struct arrow *arrow = &scene->arrows[i];
            const char *text = arrow->label[panel->pen.lang];
            if (arrow->kind != order[k] || x[i] < 0 || !text[0])
                continue;
            struct font font = { strong ? 13 : 12, strong ? BOLD : SEMI,
                                 strong ? RED : client_colour(arrow->client), true };
            struct spot spots[SPOTS];
            size_t count = beside_shaft(panel, arrow, x[i], spots, font.size);
            count = at_its_end(panel, arrow, x[i], spots, count);
            step_open(panel, arrow->at_ms, "");
            label_put(panel, text, font, 92, spots, count, false);
            fputs("</g>\n", panel->pen.out);
        }
    panel->patience = 0;
}
