/* SPDX-License-Identifier: MIT */
#include "boxes.h"

void boxes_init(struct boxes *boxes, struct box frame)
{
    boxes->frame = frame;
    boxes->count = boxes->dropped = 0;
}

/* A full set forgets the rest: a label may then cross what is not known, no more. */
void boxes_add(struct boxes *boxes, enum box_kind kind, double x, double y, double w, double h)
{
    if (boxes->count < BOXES_MAX)
        boxes->box[boxes->count++] = (struct box){ x, y, w, h, kind };
}

static bool meet(const struct box *a, const struct box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static bool outside(const struct box *frame, const struct box *label)
{
    return label->x < frame->x || label->y < frame->y ||
           label->x + label->w > frame->x + frame->w || label->y + label->h > frame->y + frame->h;
}

double boxes_cost(const struct boxes *boxes, const struct box *label, bool inside)
{
    double cost = 0;

    if (outside(&boxes->frame, label))
        return -1;
    for (size_t i = 0; i < boxes->count; i++) {
        const struct box *box = &boxes->box[i];
        if (!meet(box, label) || (inside && (box->kind == BOX_BAR || box->kind == BOX_LINE)))
            continue;
        if (box->kind == BOX_LINE)
            cost += 22;
        else if (box->kind == BOX_RULE)
            cost += 45;
        else
            return -1;
    }
    return cost;
}

size_t boxes_clashes(const struct boxes *boxes)
{
    size_t clashes = 0;

    for (size_t i = 0; i < boxes->count; i++) {
        if (boxes->box[i].kind != BOX_LABEL)
            continue;
        clashes += outside(&boxes->frame, &boxes->box[i]);
        for (size_t j = i + 1; j < boxes->count; j++)
            clashes += boxes->box[j].kind == BOX_LABEL && meet(&boxes->box[i], &boxes->box[j]);
    }
    return clashes;
}
