/* SPDX-License-Identifier: MIT */
/* Bars of a timeline: holding, paused, waiting, dead; leases and values; and the bracket of a belief. */
#include "panel.h"

#include <math.h>
#include <string.h>

static bool drawable(const struct scene *scene, const struct bar *bar)
{
    return bar->lane >= 0 && bar->lane < scene->lane_count;
}

/* A value, or a death, that was there when the play ended stays: the axis may be longer, because another way took longer. */
static struct box bar_box(const struct panel *panel, const struct bar *bar)
{
    bool value = bar->kind == BAR_VALUE || bar->kind == BAR_BAD_VALUE;
    bool stays = (value || bar->kind == BAR_DEAD) && bar->to_ms >= panel->scene->end_ms;
    double x = panel_x(panel, bar->from_ms);
    double to = panel_x(panel, stays ? panel->end_ms : bar->to_ms);
    double half = value ? HALF - 2 : HALF;

    return (struct box){ x, panel->y[bar->lane] - half, fmax(to - x, 2.5), 2 * half, BOX_BAR };
}

double lane_half(const struct panel *panel, int lane, double ms)
{
    double slack = panel->end_ms * 0.012; /* the answer may come some moments later */

    for (size_t i = 0; i < panel->scene->bar_count; i++) {
        const struct bar *bar = &panel->scene->bars[i];
        if (bar->lane == lane && bar->kind != BAR_WAITS && bar->from_ms - slack <= ms &&
            ms <= bar->to_ms + slack)
            return bar_box(panel, bar).h / 2;
    }
    return 2;
}

static void bar_draw(struct panel *panel, const struct bar *bar)
{
    struct pen *pen = &panel->pen;
    struct box box = bar_box(panel, bar);
    enum colour colour = client_colour(bar->client);

    switch (bar->kind) {
    case BAR_HOLDS:
    case BAR_LEASE:
        ink_rect(pen, box, 3, bar->client < 0 ? GREY_TINT : colour, client_pattern(bar->client),
                 bar->client < 0 ? MUTED : colour, 1.5, NULL);
        break;
    case BAR_PAUSED:
        ink_rect(pen, box, 3, NONE, WAVES, INK, 1.3, "4 3");
        break;
    case BAR_DEAD:
        box.y += 4;
        box.h -= 8;
        ink_rect(pen, box, 3, NONE, DEAD, MUTED, 1, "2 3");
        break;
    case BAR_WAITS:
        ink_line(pen, box.x, panel->y[bar->lane], box.x + box.w, panel->y[bar->lane], PANEL, 3,
                 NULL);
        ink_line(pen, box.x, panel->y[bar->lane], box.x + box.w, panel->y[bar->lane], colour, 2,
                 "2 4");
        boxes_add(pen->boxes, BOX_BADGE, box.x, panel->y[bar->lane] - 3, box.w, 6);
        return;
    case BAR_VALUE:
        ink_rect(pen, box, 2, PANEL, PLAIN, INK, 1.5, NULL);
        break;
    case BAR_BAD_VALUE:
        ink_rect(pen, box, 2, RED_TINT, PLAIN, RED, 2, NULL);
        break;
    }
    boxes_add(pen->boxes, BOX_BAR, box.x, box.y, box.w, box.h);
}

void bars_draw(struct panel *panel)
{
    const struct scene *scene = panel->scene;

    for (int bad = 0; bad < 2;
         bad++) /* a wrong value has the thicker border: over its neighbours */
        for (size_t i = 0; i < scene->bar_count; i++) {
            const struct bar *bar = &scene->bars[i];
            if (!drawable(scene, bar) || (bar->kind == BAR_BAD_VALUE) != (bad == 1))
                continue;
            step_open(panel, bar->from_ms, " bar");
            bar_draw(panel, bar);
            fputs("</g>\n", panel->pen.out);
        }
}

/* ---- their labels -------------------------------------------------------------------------------- */

/* On a patterned bar a text stands on a plate. */
static bool on_plate(struct panel *panel, const struct box *bar, const char *text, struct font font,
                     bool pause)
{
    char clean[LABEL_ROOM * 4];
    double sign = pause ? 16 : 0;

    text_clean(clean, sizeof clean, text);
    double width = text_width(clean, font.size, font.weight) + sign;
    double visible = panel->right + 6;
    struct box plate = { bar->x + bar->w / 2 - width / 2 - 8, bar->y + bar->h / 2 - 10, width + 16,
                         20, BOX_LABEL };
    if (width + 18 > bar->w || plate.x + plate.w > visible)
        return false;
    for (int i = 0; boxes_cost(&panel->boxes, &plate, true) < 0; i++) {
        plate.x = bar->x + 4 + i * 12; /* something stands in the middle: from the left */
        if (plate.x + plate.w > bar->x + bar->w - 2)
            return false;
    }
    ink_rect(&panel->pen, plate, pause ? 10 : 3, PANEL, PLAIN, pause ? INK : NONE, 1, NULL);
    double x = plate.x + 8, y = plate.y + 10;
    if (pause) {
        ink_line(&panel->pen, x + 2, y - 4.5, x + 2, y + 4.5, INK, 2.4, NULL);
        ink_line(&panel->pen, x + 7, y - 4.5, x + 7, y + 4.5, INK, 2.4, NULL);
    }
    ink_text(&panel->pen, x + sign, y + font.size * 0.35, START, font, clean, strlen(clean));
    boxes_add(&panel->boxes, BOX_LABEL, plate.x, plate.y, plate.w, plate.h);
    return true;
}

/* Above or below its bar, when it does not fit inside. */
static bool beside(struct panel *panel, const struct box *bar, const char *text, struct font font)
{
    double middle = bar->x + bar->w / 2, up = bar->y - 6, down = bar->y + bar->h + 14;
    struct spot spots[] = { { middle, down, MIDDLE },
                            { middle, up, MIDDLE },
                            { bar->x, down, START },
                            { bar->x, up, START },
                            { bar->x + bar->w, down, END },
                            { bar->x + bar->w, up, END },
                            { middle, down + 14, MIDDLE },
                            { middle, up - 14, MIDDLE },
                            { bar->x + bar->w + 6, up, START },
                            { bar->x - 6, up, END } };

    font.halo = true;
    if (font.colour == ON)
        font.colour = INK;
    return label_put(panel, text, font, 0, spots, sizeof spots / sizeof spots[0], false);
}

static bool plain_inside(struct panel *panel, const struct box *bar, const char *text,
                         struct font font)
{
    char clean[LABEL_ROOM * 4];
    struct spot spots[11];
    size_t count = 0;
    double y = bar->y + bar->h / 2 + font.size * 0.35;
    double width = text_width(text_clean(clean, sizeof clean, text), font.size, font.weight);

    if (width + 6 <= bar->w) {
        spots[count++] = (struct spot){ bar->x + bar->w / 2, y, MIDDLE };
        for (int i = 0; i <= 8; i++)
            spots[count++] = (struct spot){ bar->x + 5 + (bar->w - width - 10) * i / 8, y, START };
    }
    return count && label_put(panel, text, font, 0, spots, count, true);
}

/* Who holds is said by lane and pattern too, so such a label need not stand beside its bar; of a lease the client's letter is enough. */
static void held_label(struct panel *panel, const struct bar *bar, const struct box *box,
                       struct font font)
{
    const char *text = bar->label[panel->pen.lang];
    const char letter[] = { (char)('A' + bar->client % 26), 0 };
    bool plate = bar->client >= 0 && client_pattern(bar->client) != PLAIN;

    if (!text[0])
        return;
    for (int turn = 0; turn < (bar->client >= 0 ? 2 : 1); turn++) {
        font.colour = plate ? client_colour(bar->client) : bar->client < 0 ? INK : ON;
        if (plate ? on_plate(panel, box, text, font, false) : plain_inside(panel, box, text, font))
            return;
        font.colour = client_colour(bar->client);
        bool aside = bar->kind == BAR_LEASE && turn == 0 && panel->width > 520;
        if (aside && beside(panel, box, text, font))
            return;
        text = letter;
    }
}

static void waits_label(struct panel *panel, const struct bar *bar, struct font font)
{
    static const char *const alone[] = { "tries %u times", "重试 %u 次" };
    enum lang lang = panel->pen.lang;
    const char *label = bar->label[lang];
    unsigned tries = tries_between(panel->scene, bar->lane, bar->from_ms, bar->to_ms);
    char text[LABEL_ROOM + 40];
    double x = panel_x(panel, bar->from_ms), to = panel_x(panel, bar->to_ms),
           y = panel->y[bar->lane];

    if (tries > 3 && !label[0])
        snprintf(text, sizeof text, alone[lang], tries);
    else
        snprintf(text, sizeof text, "%s", label);
    struct spot spots[] = { { x + 3, y + 15, START },        { (x + to) / 2, y + 15, MIDDLE },
                            { to - 3, y + 15, END },         { x + 3, y - 7, START },
                            { (x + to) / 2, y - 7, MIDDLE }, { x - 5, y + 4, END },
                            { x + 3, y + 29, START },        { x + 3, y - 21, START } };
    label_put(panel, text, font, to - x < 120 ? fmax(to - x, 70) : 0, spots,
              sizeof spots / sizeof spots[0], false);
}

static void bar_label(struct panel *panel, const struct bar *bar)
{
    const char *text = bar->label[panel->pen.lang];
    struct box box = bar_box(panel, bar);
    struct font font = { 12.5, SEMI, client_colour(bar->client), false };

    switch (bar->kind) {
    case BAR_WAITS:
        font.size = 12;
        font.halo = true;
        waits_label(panel, bar, font);
        return;
    case BAR_PAUSED:
    case BAR_DEAD:
        font.colour = INK;
        font.size = 12;
        if (text[0] && !on_plate(panel, &box, text, font, bar->kind == BAR_PAUSED))
            beside(panel, &box, text, font);
        return;
    case BAR_HOLDS:
    case BAR_LEASE:
        held_label(panel, bar, &box, font);
        return;
    case BAR_VALUE:
    case BAR_BAD_VALUE:
        font = (struct font){ 13.5, BOLD, bar->kind == BAR_VALUE ? INK : RED, false };
        break;
    }
    if (!plain_inside(panel, &box, text, font))
        beside(panel, &box, text, font);
}

/* The same label again, close by (a lane of many short leases): once is enough. */
static bool repeated(const struct panel *panel, const struct bar *bar)
{
    const struct scene *scene = panel->scene;
    double width = panel_x(panel, bar->to_ms) - panel_x(panel, bar->from_ms);

    for (const struct bar *other = scene->bars; other < bar; other++)
        if (other->lane == bar->lane && other->kind == bar->kind && other->client == bar->client &&
            !strcmp(other->label[LANG_EN], bar->label[LANG_EN]) && bar->kind != BAR_VALUE &&
            width < 60)
            return true;
    return false;
}

void bars_label(struct panel *panel)
{
    const struct scene *scene = panel->scene;

    for (int waits = 0; waits < 2; waits++)
        for (size_t i = 0; i < scene->bar_count; i++) {
            const struct bar *bar = &scene->bars[i];
            if (!drawable(scene, bar) || (bar->kind == BAR_WAITS) != (waits == 1) ||
                repeated(panel, bar))
                continue;
            step_open(panel, bar->from_ms, waits ? "" : " bar");
            bar_label(panel, bar);
            fputs("</g>\n", panel->pen.out);
        }
}

/* ---- beliefs ---------------------------------------------------------------------------------------- */

/* A bracket says nothing new where a bar shows the same. */
bool belief_drawn(const struct panel *panel, const struct belief *belief)
{
    const struct scene *scene = panel->scene;
    double slack = panel->end_ms * 0.006;

    if (belief->lane < 0 || belief->lane >= scene->lane_count)
        return false;
    for (size_t i = 0; i < scene->bar_count; i++) {
        const struct bar *bar = &scene->bars[i];
        if (bar->kind == BAR_HOLDS && bar->lane == belief->lane &&
            bar->from_ms <= belief->from_ms + slack && bar->to_ms >= belief->to_ms - slack)
            return false;
    }
    return true;
}

void beliefs_draw(struct panel *panel)
{
    for (size_t i = 0; i < panel->scene->belief_count; i++) {
        const struct belief *belief = &panel->scene->beliefs[i];
        if (!belief_drawn(panel, belief))
            continue;
        enum colour colour = client_colour(belief->client);
        double x = panel_x(panel, belief->from_ms), to = panel_x(panel, belief->to_ms);
        double y = panel->y[belief->lane] + HALF + 11;
        step_open(panel, belief->from_ms, "");
        ink_line(&panel->pen, x, y, to, y, colour, 1.5, NULL);
        ink_line(&panel->pen, x, y - 6, x, y + 0.7, colour, 1.5, NULL);
        ink_line(&panel->pen, to, y - 6, to, y + 0.7, colour, 1.5, NULL);
        fputs("</g>\n", panel->pen.out);
        boxes_add(&panel->boxes, BOX_BADGE, x, y - 5, to - x, 7);
    }
}

void beliefs_label(struct panel *panel)
{
    static const char *const formats[] = { "%c believes it holds the lock",
                                           "%c 一直以为自己持有锁" };
    static const char *const shorts[] = { "%c believes", "%c 以为持锁" };
    unsigned said = 0; /* clients, as bits */

    for (size_t i = 0; i < panel->scene->belief_count; i++) {
        const struct belief *belief = &panel->scene->beliefs[i];
        unsigned bit = belief->client >= 0 && belief->client < 26 ? 1U << belief->client : 0;
        if (!belief_drawn(panel, belief) || !bit || (said & bit))
            continue;
        double x = panel_x(panel, belief->from_ms), to = panel_x(panel, belief->to_ms);
        double y = panel->y[belief->lane] + HALF + 25;
        struct spot spots[] = { { x + (to - x) * 0.1, y, START },
                                { x + 4, y, START },
                                { x + (to - x) / 2, y, MIDDLE },
                                { to - 4, y, END },
                                { to, y + 3, START },
                                { x + (to - x) * 0.2, y, START },
                                { x + (to - x) * 0.3, y, START },
                                { x + 4, y + 13, START } };
        struct font font = { 12, SEMI, client_colour(belief->client), true };
        char text[64];
        snprintf(text, sizeof text, formats[panel->pen.lang], 'A' + belief->client);
        step_open(panel, belief->from_ms, "");
        if (!label_put(panel, text, font, 0, spots, 8, false)) {
            snprintf(text, sizeof text, shorts[panel->pen.lang], 'A' + belief->client);
            label_put(panel, text, font, 0, spots, 8, false);
        }
        fputs("</g>\n", panel->pen.out);
        said |= bit;
    }
}

/* The row under a resource: the highest token that it has seen, from when on. */
void highs_draw(struct panel *panel)
{
    static const struct phrase title = PHRASE("highest token", "见过的最大令牌");
    const struct scene *scene = panel->scene;

    if (!scene->high_count || scene->high_lane < 0 || scene->high_lane >= scene->lane_count)
        return;
    double y = panel->y[scene->high_lane] + HALF + 19, last = 0;
    struct font font = { 12, SEMI, INK, true };
    ink_wrap(&panel->pen, panel->pad, y + 4, panel->left - panel->pad - 4, 12,
             (struct font){ panel->width < 520 ? 10.5 : 11.5, REGULAR, MUTED, 0 },
             phrase(&title, panel->pen.lang));
    ink_line(&panel->pen, panel_x(panel, scene->highs[0].at_ms), y, panel->right, y, MUTED, 1,
             NULL);
    for (size_t i = 0; i < scene->high_count; i++) {
        double x = panel_x(panel, scene->highs[i].at_ms);
        char text[32];
        snprintf(text, sizeof text, "%llu", (unsigned long long)scene->highs[i].token);
        double width = text_width(text, font.size, font.weight);
        step_open(panel, scene->highs[i].at_ms, "");
        ink_line(&panel->pen, x, y - 5, x, y + 5, INK, 1.5, NULL);
        boxes_add(&panel->boxes, BOX_BADGE, x - 1, y - 6, 2, 12);
        if (x + 10 > last && x + 10 + width < panel->right + 8) {
            ink_text(&panel->pen, x + 9, y + 4, START, font, text, strlen(text));
            boxes_add(&panel->boxes, BOX_LABEL, x + 7, y - 7, width + 4, 14);
            last = x + 14 + width;
        }
        fputs("</g>\n", panel->pen.out);
    }
}
