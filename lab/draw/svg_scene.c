/* SPDX-License-Identifier: MIT */
/* The timeline of a panel: heights, grounds, axis, lanes and numbers. Its parts are in svg_bars.c, svg_arrows.c and svg_marks.c. */
#include "panel.h"

#include <math.h>
#include <string.h>

#define LANE_GAP   20.0 /* between two bars, at least */
#define LABEL_ROW  17.0
#define NUMBER_ROW 26.0

void panel_init(struct panel *panel, FILE *out, const struct report *report, size_t way,
                enum lang lang, double width, double end_ms)
{
    memset(panel, 0, sizeof *panel);
    panel->report = report;
    panel->way = &report->experiment->ways[way];
    panel->finding = &report->findings[way];
    panel->scene = &panel->finding->scene;
    panel->width = width;
    panel->pad = width < 520 ? 12 : 20;
    panel->end_ms = end_ms > 0 ? end_ms : 1;
    panel->pen = (struct pen){ out, lang, &panel->boxes };
}

double report_end_ms(const struct report *report)
{
    double end = 0;

    for (size_t i = 0; i < report->ways && i < WAYS_MAX; i++)
        if (report->findings[i].scene.end_ms > end)
            end = report->findings[i].scene.end_ms;
    return end > 0 ? end : 1;
}

/* ---- heights -------------------------------------------------------------------------------------- */

/* Lines of titles between the border and the axis. */
static double gutter(const struct panel *panel)
{
    double widest = 40;
    bool narrow = panel->width < 520;
    char clean[256];

    for (int i = 0; i < panel->scene->lane_count; i++) {
        const struct lane *lane = &panel->scene->lanes[i];
        text_clean(clean, sizeof clean, phrase(&lane->title, panel->pen.lang));
        double title = text_width(clean, narrow ? 12 : 13.5, SEMI);
        text_clean(clean, sizeof clean, phrase(&lane->note, panel->pen.lang));
        double note = text_width(clean, 11.5, REGULAR);
        widest = fmax(widest, fmax(title, note));
    }
    if (panel->scene->high_count)
        widest = fmax(widest, 78);
    return fmin(widest + 14, narrow ? 84 : 150);
}

static double room_above(const struct panel *panel, int lane)
{
    const struct scene *scene = panel->scene;
    double room = 0;

    for (size_t i = 0; i < scene->number_count; i++)
        if (scene->numbers[i].lane == lane)
            room = NUMBER_ROW;
    for (size_t i = 0; i < scene->mark_count; i++)
        if (scene->marks[i].lane == lane && scene->marks[i].label[panel->pen.lang][0])
            return room + LABEL_ROW;
    return room;
}

static double room_below(const struct panel *panel, int lane)
{
    const struct scene *scene = panel->scene;
    double room = 0;

    for (size_t i = 0; i < scene->belief_count; i++)
        if (scene->beliefs[i].lane == lane && belief_drawn(panel, &scene->beliefs[i]))
            room = fmax(room, 28);
    for (size_t i = 0; i < scene->bar_count; i++)
        if (scene->bars[i].lane == lane && scene->bars[i].kind == BAR_WAITS)
            room = fmax(room, LABEL_ROW);
    if (scene->high_count && scene->high_lane == lane)
        room = 30;
    return room;
}

/* Rows for labels of arrows that arrive across this gap (between lane `gap` and the next). */
static double room_for_arrows(const struct panel *panel, int gap)
{
    const struct scene *scene = panel->scene;
    double width = 0;

    for (size_t i = 0; i < scene->arrow_count; i++) {
        const struct arrow *arrow = &scene->arrows[i];
        int near = arrow->to > arrow->from ? arrow->to - 1 : arrow->to;
        if (near == gap && arrow->label[panel->pen.lang][0])
            width += text_width(arrow->label[panel->pen.lang], 12, SEMI) + 16;
    }
    if (width <= 0)
        return 0;
    return LABEL_ROW * fmin(4, 1 + ceil(width / (panel->right - panel->left) / 0.6));
}

void scene_layout(struct panel *panel, double first_y)
{
    const struct scene *scene = panel->scene;

    panel->left = panel->pad + gutter(panel);
    panel->right =
        panel->width - panel->pad - (panel->pad < 10 ? 16 : 8); /* half a label of the axis */
    panel->top = first_y + 12;
    double y = panel->top + (scene->overlap_count ? 22 : 6) + room_above(panel, 0) + HALF + 4;
    for (int i = 0; i < scene->lane_count; i++) {
        panel->y[i] = y;
        y += 2 * HALF + fmax(LANE_GAP, room_below(panel, i) + room_for_arrows(panel, i) + 8);
        if (i + 1 < scene->lane_count)
            y += room_above(panel, i + 1);
    }
    double last = scene->lane_count ? panel->y[scene->lane_count - 1] + HALF : panel->top + 60;
    panel->bottom =
        last + fmax(26, scene->lane_count ? room_below(panel, scene->lane_count - 1) : 0);
    boxes_init(&panel->boxes, (struct box){ panel->left - 12, panel->top - 2,
                                            panel->width - 8 - (panel->left - 12),
                                            panel->bottom - panel->top + 6, BOX_LABEL });
}

/* Panels side by side with as many lanes have them at the same heights. */
void scene_align(struct panel *panel, const double y[LANES_MAX])
{
    int last = panel->scene->lane_count - 1;
    double moved = last < 0 ? 0 : y[last] - panel->y[last];

    memcpy(panel->y, y, sizeof panel->y);
    panel->bottom += moved;
    panel->boxes.frame.h += moved;
}

/* ---- drawing ------------------------------------------------------------------------------------------ */

/* 1, 2 or 5 times a power of ten, so that labels have room. */
static double tick_ms(const struct panel *panel)
{
    double room = panel->right - panel->left, tick = 1;

    for (int i = 0;; i++) {
        int power = i / 3;

        tick = pow(10, power) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 5);
        if (room * tick / panel->end_ms >= 54)
            return tick;
    }
}

static void tick_text(char *out, size_t room, double ms, double tick)
{
    if (tick >= 1000 || ms == 0)
        snprintf(out, room, "%lds", lround(ms / 1000));
    else if (tick >= 100)
        snprintf(out, room, "%ld.%lds", lround(ms) / 1000, lround(ms) % 1000 / 100);
    else
        snprintf(out, room, "%ldms", lround(ms));
}

static void axis_draw(struct panel *panel)
{
    double tick = tick_ms(panel);

    for (int i = 0; i * tick <= panel->end_ms * 1.0001; i++) {
        double x = panel_x(panel, i * tick);
        char text[32];
        tick_text(text, sizeof text, i * tick, tick);
        ink_line(&panel->pen, x, panel->top, x, panel->bottom, GRID, 1, NULL);
        ink_text(&panel->pen, x, panel->top - 8, MIDDLE, (struct font){ 11.5, REGULAR, MUTED, 0 },
                 text, strlen(text));
    }
}

static int client_of_lane(const struct scene *scene, int lane)
{
    int client = -1;

    for (int i = 0; i <= lane; i++)
        client += scene->lanes[i].kind == LANE_CLIENT;
    return scene->lanes[lane].kind == LANE_CLIENT ? client : -1;
}

static void lanes_draw(struct panel *panel)
{
    const struct scene *scene = panel->scene;
    enum lang lang = panel->pen.lang;
    double size = panel->width < 520 ? 12 : 13.5, room = panel->left - panel->pad - 10;

    for (int i = 0; i < scene->lane_count; i++) {
        const struct lane *lane = &scene->lanes[i];
        char clean[256];
        double y = panel->y[i];
        bool note = phrase(&lane->note, lang)[0];
        struct font font = { size, SEMI, client_colour(client_of_lane(scene, i)), 0 };
        ink_line(&panel->pen, panel->left, y, panel->right, y, BORDER, 1.2, NULL);
        text_clean(clean, sizeof clean, phrase(&lane->title, lang));
        bool two = text_width(clean, size, SEMI) > room;
        y += note ? -1 : two ? -3 : 4.5;
        y = ink_wrap_most(&panel->pen, panel->pad, y, room, size + 1.5, font, clean, note ? 1 : 2);
        if (note)
            ink_wrap_most(&panel->pen, panel->pad, y + 1, room, 13,
                          (struct font){ 11.5, REGULAR, MUTED, 0 }, phrase(&lane->note, lang), 2);
    }
}

/* Clients that believe to hold at the same time: a ground behind their lanes. */
static void overlaps_draw(struct panel *panel)
{
    const struct scene *scene = panel->scene;
    int first = -1, last = -1;

    for (int i = 0; i < scene->lane_count; i++)
        if (scene->lanes[i].kind == LANE_CLIENT) {
            first = first < 0 ? i : first;
            last = i;
        }
    if (first < 0)
        return;
    for (size_t i = 0; i < scene->overlap_count; i++) {
        const struct overlap *overlap = &scene->overlaps[i];
        double x = panel_x(panel, overlap->from_ms), to = panel_x(panel, overlap->to_ms);
        double top = first ? panel->y[first] - HALF - 26 : panel->top;
        step_open(panel, overlap->from_ms, " bar");
        ink_rect(&panel->pen,
                 (struct box){ x, top, fmax(to - x, 2), panel->y[last] + HALF + 14 - top, 0 }, 0,
                 overlap->bad ? BAD_GROUND : OK_GROUND, PLAIN, NONE, 0, NULL);
        fputs("</g>\n", panel->pen.out);
    }
}

static void overlaps_label(struct panel *panel)
{
    static const struct phrase both = PHRASE("both believe they hold it", "两者都以为自己持锁"),
                               several = PHRASE("more than one believes it holds",
                                                "不止一个客户端以为自己持锁"),
                               many = PHRASE("too many believe they hold", "持有者超过名额");
    const struct scene *scene = panel->scene;
    const struct overlap *widest = NULL;
    int clients = 0;

    for (int i = 0; i < scene->lane_count; i++)
        clients += scene->lanes[i].kind == LANE_CLIENT;
    for (size_t i = 0; i < scene->overlap_count; i++)
        if (!widest ||
            scene->overlaps[i].to_ms - scene->overlaps[i].from_ms > widest->to_ms - widest->from_ms)
            widest = &scene->overlaps[i];
    if (!widest || !clients)
        return;
    double x = panel_x(panel, widest->from_ms), to = panel_x(panel, widest->to_ms);
    double y = panel->top + 15;
    struct spot spots[] = { { (x + to) / 2, y, MIDDLE }, { x, y, START }, { to, y, END } };
    step_open(panel, widest->from_ms, "");
    label_put(panel,
              phrase(panel->way->capacity > 1 ? &many
                     : clients == 2           ? &both
                                              : &several,
                     panel->pen.lang),
              (struct font){ 11.5, SEMI, AMBER, 0 }, 0, spots, 3, false);
    fputs("</g>\n", panel->pen.out);
}

/* Another number of its lane comes so soon that it needs the right side. */
static bool followed(const struct panel *panel, size_t index)
{
    const struct number *number = &panel->scene->numbers[index];

    for (size_t i = 0; i < panel->scene->number_count; i++) {
        const struct number *other = &panel->scene->numbers[i];
        double later = panel_x(panel, other->at_ms) - panel_x(panel, number->at_ms);
        if (other->lane == number->lane && other->step > number->step && later >= 0 && later < 30)
            return true;
    }
    return false;
}

static void numbers_draw(struct panel *panel)
{
    const struct scene *scene = panel->scene;
    double r = panel->width < 520 ? 8 : 9;

    for (size_t i = 0; i < scene->number_count; i++) {
        const struct number *number = &scene->numbers[i];
        if (number->lane < 0 || number->lane >= scene->lane_count)
            continue;
        double x = panel_x(panel, number->at_ms), y = panel->y[number->lane];
        double up = y - HALF - r - 4, down = y + HALF + r + 4, best = -1;
        double next = followed(panel, i) ? -1 : 1; /* the side that is tried first */
        const double spots[][2] = {
            { x, up },
            { x + next * 14, up },
            { x - next * 14, up },
            { x + next * 25, up },
            { x - next * 25, up },
            { x, up - 17 },
            { x + next * 34, up },
            { x - next * 34, up },
            { x, down },
            { x + next * 22, up - 17 },
            { x - next * 22, up - 17 },
            { x + next * 14, down },
            { x - next * 14, down },
            { x + next * 46, up },
            { x - next * 46, up },
        };
        size_t chosen = 0;
        for (size_t j = 0; j < sizeof spots / sizeof spots[0]; j++) {
            struct box box = { spots[j][0] - r - 1, spots[j][1] - r - 1, 2 * r + 2, 2 * r + 2, 0 };
            double cost = boxes_cost(&panel->boxes, &box, false);
            if (cost >= 0 && (best < 0 || cost + 4.0 * (double)j < best)) {
                best = cost + 4.0 * (double)j;
                chosen = j;
            }
        }
        boxes_add(&panel->boxes, BOX_BADGE, spots[chosen][0] - r - 1, spots[chosen][1] - r - 1,
                  2 * r + 2, 2 * r + 2);
        fprintf(panel->pen.out, "<g class=\"s k\" data-step=\"%d\">", number->step);
        ink_badge(&panel->pen, spots[chosen][0], spots[chosen][1], r, number->step,
                  number->bad ? RED : INK);
        fputs("</g>\n", panel->pen.out);
    }
}

void scene_draw(struct panel *panel)
{
    if (!panel->scene->lane_count)
        return;
    overlaps_draw(panel);
    spans_draw(panel, false);
    axis_draw(panel);
    lanes_draw(panel);
    arrows_draw(panel, false);
    bars_draw(panel);
    beliefs_draw(panel);
    highs_draw(panel);
    marks_draw(panel);
    arrows_draw(panel, true);
    spans_draw(panel, true);
    numbers_draw(panel);
    arrows_label(panel, true);
    marks_label(panel);
    overlaps_label(panel);
    bars_label(panel);
    beliefs_label(panel);
    arrows_label(panel, false);
}
