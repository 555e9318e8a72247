/* SPDX-License-Identifier: MIT */
/* Marks of a timeline: a lease that ends by itself, a crash, a note of the director, a client that is told of its loss. */
#include "panel.h"

#include <math.h>

static bool drawable(const struct scene *scene, const struct mark *mark)
{
    return mark->lane >= 0 && mark->lane < scene->lane_count;
}

/* A box with a cross: lost. */
static void crossed_box(struct panel *panel, double x, double y)
{
    ink_rect(&panel->pen, (struct box){ x - 8, y - 8, 16, 16, 0 }, 3, INK, PLAIN, PANEL, 1.5, NULL);
    ink_cross(&panel->pen, x, y, 5, PANEL);
    boxes_add(&panel->boxes, BOX_BADGE, x - 9, y - 9, 18, 18);
}

/* A zigzag that breaks the lane: crashed. */
static void crash(struct panel *panel, double x, double y)
{
    char points[224];

    snprintf(points, sizeof points, "%s,%s %s,%s %s,%s %s,%s %s,%s %s,%s", N(x + 3), N(y - 20),
             N(x - 7), N(y + 3), N(x - 1), N(y + 3), N(x - 4), N(y + 20), N(x + 7), N(y - 4),
             N(x + 1), N(y - 4));
    ink_polygon(&panel->pen, points, RED, PANEL, 1.5);
    boxes_add(&panel->boxes, BOX_BADGE, x - 8, y - 20, 16, 40);
}

static void mark_draw(struct panel *panel, const struct mark *mark)
{
    double x = panel_x(panel, mark->at_ms), y = panel->y[mark->lane];
    char points[128];

    switch (mark->kind) {
    case MARK_EXPIRES:
        ink_line(&panel->pen, x, y - HALF - 20, x, y + HALF + 7, PANEL, 5, NULL);
        ink_line(&panel->pen, x, y - HALF - 20, x, y + HALF + 7, INK, 2, "2.5 3");
        boxes_add(&panel->boxes, BOX_BADGE, x - 2, y - HALF - 20, 4, 2 * HALF + 27);
        break;
    case MARK_CRASH:
        crash(panel, x, y);
        break;
    case MARK_NOTE:
        ink_line(&panel->pen, x, y - HALF - 12, x, y + HALF, INK, 1.5, NULL);
        snprintf(points, sizeof points, "%s,%s %s,%s %s,%s", N(x), N(y - HALF - 18), N(x + 9),
                 N(y - HALF - 14), N(x), N(y - HALF - 10));
        ink_polygon(&panel->pen, points, INK, INK, 1.5);
        boxes_add(&panel->boxes, BOX_BADGE, x - 1, y - HALF - 19, 11, 2 * HALF + 19);
        break;
    case MARK_LOST:
        crossed_box(panel, x, y);
        break;
    }
}

void marks_draw(struct panel *panel)
{
    for (size_t i = 0; i < panel->scene->mark_count; i++) {
        const struct mark *mark = &panel->scene->marks[i];
        if (!drawable(panel->scene, mark))
            continue;
        step_open(panel, mark->at_ms, "");
        mark_draw(panel, mark);
        fputs("</g>\n", panel->pen.out);
    }
}

void marks_label(struct panel *panel)
{
    for (size_t i = 0; i < panel->scene->mark_count; i++) {
        const struct mark *mark = &panel->scene->marks[i];
        const char *text = mark->label[panel->pen.lang];
        if (!drawable(panel->scene, mark) || !text[0])
            continue;
        double x = panel_x(panel, mark->at_ms), y = panel->y[mark->lane] - HALF - 7;
        double down = panel->y[mark->lane] + HALF + 16;
        struct spot spots[] = { { x - 7, y, END },      { x + 13, y, START },
                                { x, y - 14, MIDDLE },  { x, down, MIDDLE },
                                { x - 7, y - 13, END }, { x + 13, y - 13, START },
                                { x - 7, down, END },   { x + 7, down, START },
                                { x, y - 28, MIDDLE },  { x, down + 14, MIDDLE } };
        bool bad = mark->kind == MARK_CRASH;
        step_open(panel, mark->at_ms, "");
        label_put(panel, text, (struct font){ 12, SEMI, bad ? RED : INK, true }, 90, spots,
                  sizeof spots / sizeof spots[0], false);
        fputs("</g>\n", panel->pen.out);
    }
}
