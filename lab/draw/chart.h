/* SPDX-License-Identifier: MIT */
/* One chart of a plot, and the marks of the ways in it. */
#ifndef LAB_CHART_H
#define LAB_CHART_H

#include "../lab.h"
#include "ink.h"

/* How a way looks in all charts: ours is blue, solid, with full circles. */
struct trait {
    enum colour colour;
    const char *dash;
    int mark; /* 0 circle, 1 triangle, 2 square, 3 diamond */
};
struct trait way_trait(const struct report *report, int way);
void mark_shape(struct pen *pen, struct trait trait, double x, double y, double size);

/* Draw at the origin, with a border; its height. Below 520 the names of the lines stand below the chart. */
double chart_height(const struct report *report, size_t chart, enum lang lang, double width);
void chart_draw(struct pen *pen, const struct report *report, size_t chart, double width,
                double height);

/* The scale of y, for tests: where a value stands, from 0 (bottom) to 1. */
struct scale {
    bool logarithmic;
    double low, high; /* of a logarithmic one: powers of ten; `low` stands above the zero */
    double step;      /* of a linear one */
    bool zero;        /* a logarithmic one: there are zeros */
};
struct scale scale_of(const struct chart *chart);
double scale_at(const struct scale *scale, double value);
/* Three digits or thousands: "0.74", "17.5", "9,280"; independent of the locale. */
void figure(char *out, size_t room, double value);

#endif
