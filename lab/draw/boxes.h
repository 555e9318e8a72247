/* SPDX-License-Identifier: MIT */
/*
 * Where on a panel something stands, so that labels find a free place. A label tries candidates and takes the cheapest; if all of
 * them hit something hard, it is left out. Put the most important first.
 */
#ifndef LAB_BOXES_H
#define LAB_BOXES_H

#include <stdbool.h>
#include <stddef.h>

enum box_kind {
    BOX_LABEL, /* hard */
    BOX_BADGE, /* hard: numbers, octagons, barriers, heads of arrows */
    BOX_BAR,   /* hard, but for a label of its own inside */
    BOX_LINE,  /* soft: text may cross a thin line, with a halo */
    BOX_RULE,  /* soft, and dearer: a line that matters */
};

struct box {
    double x, y, w, h;
    enum box_kind kind;
};

#define BOXES_MAX 2400

struct boxes {
    struct box frame; /* labels stay inside */
    size_t count, dropped;
    struct box box[BOXES_MAX];
};

void boxes_init(struct boxes *boxes, struct box frame);
void boxes_add(struct boxes *boxes, enum box_kind kind, double x, double y, double w, double h);
/* What it costs to put a label there; below 0: it hits something hard. `inside`: on a bar, which is then no
 * obstacle, and covers thin lines. */
double boxes_cost(const struct boxes *boxes, const struct box *label, bool inside);

/* For tests: pairs of labels that overlap, labels outside of the frame. */
size_t boxes_clashes(const struct boxes *boxes);

#endif
