/* SPDX-License-Identifier: MIT */
/* A label looks for its place: at each spot in one line, then in narrower ones. It takes the cheapest. */
#include "panel.h"

#include <math.h>

static struct box label_box(const struct spot *spot, double width, double height, double size)
{
    double x = spot->anchor == START    ? spot->x
               : spot->anchor == MIDDLE ? spot->x - width / 2
                                        : spot->x - width;

    return (struct box){ x - 2, spot->y - size * 0.92, width + 4, height + size * 0.2, BOX_LABEL };
}

/* The longest of its lines; 0: a word would have to be broken. */
static double widest_line(const char *clean, struct font font, double room)
{
    double widest = 0;

    for (const char *at = clean, *next; *at; at = next) {
        size_t bytes = text_line(at, font.size, font.weight, room, &next);
        bool broken = *next && next == at + bytes && (signed char)next[-1] > 0 && *next > 0;
        if (broken)
            return 0;
        widest = fmax(widest, text_width_n(at, bytes, font.size, font.weight));
    }
    return widest;
}

bool label_put(struct panel *panel, const char *text, struct font font, double wrap,
               const struct spot *spots, size_t count, bool inside)
{
    char clean[512];
    double pitch = font.size * 1.22, best = -1, best_room = 0;
    const struct spot *chosen = NULL;
    struct box taken = { 0 };

    text_clean(clean, sizeof clean, text);
    if (!clean[0])
        return true;
    double full = text_width(clean, font.size, font.weight);
    static const double part[] = { 1, 0.62, 0.42 };
    for (int turn = 0; turn < (wrap > 0 && full > 50 ? 3 : 1); turn++) {
        double room = turn ? fmin(wrap, full * part[turn]) : full + 1;
        size_t lines = text_lines(clean, font.size, font.weight, room);
        double widest = widest_line(clean, font, room);
        if (widest <= 0)
            continue;
        for (size_t i = 0; i < count; i++) {
            struct spot spot = spots[i];
            spot.y += lines > 1 && inside ? -pitch * (double)(lines - 1) / 2 : 0;
            struct box box = label_box(&spot, widest, pitch * (double)lines, font.size);
            double cost = boxes_cost(&panel->boxes, &box, inside);
            if (cost < 0 || (panel->patience > 0 && cost > panel->patience))
                continue;
            cost += (double)i + turn * 16;
            if (best < 0 || cost < best) {
                best = cost;
                chosen = &spots[i];
                best_room = room;
                taken = box;
            }
        }
    }
    if (!chosen) {
        panel->boxes.dropped++;
        return false;
    }
    boxes_add(&panel->boxes, BOX_LABEL, taken.x, taken.y, taken.w, taken.h);
    double y = taken.y + font.size * 0.92;
    for (const char *at = clean, *next; *at; at = next, y += pitch) {
        size_t bytes = text_line(at, font.size, font.weight, best_room, &next);
        ink_text(&panel->pen, chosen->x, y, chosen->anchor, font, at, bytes);
    }
    return true;
}
