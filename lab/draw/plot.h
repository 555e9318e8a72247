/* SPDX-License-Identifier: MIT */
/* Curves, ready to be drawn: one or two charts over the same points of x. Every value was measured in this run. */
#ifndef LAB_PLOT_H
#define LAB_PLOT_H

#include "../phrase.h"

#include <stdbool.h>
#include <stddef.h>

#define CHARTS_MAX 2
#define SERIES_MAX 5
#define POINTS_MAX 8

struct series {
    int way; /* of the experiment: the same way has the same colour, mark and dash in each chart */
    struct phrase title; /* at the line's end */
    char note[LANGS]
             [96]; /* below it, with its figures: "9,280/s: the server is busy"; may be empty */
    size_t count;  /* of points; the first x are measured, later ones may be missing */
    double low[POINTS_MAX], mid[POINTS_MAX],
        high[POINTS_MAX]; /* smallest, median and largest of the rounds */
};

struct chart {
    struct phrase title; /* "Sales a second" */
    struct phrase note;  /* "higher is better" */
    bool logarithmic;    /* y; a zero stands on the axis */
    size_t series_count;
    struct series series[SERIES_MAX];
};

struct plot {
    size_t charts; /* 0: there is no plot */
    struct chart chart[CHARTS_MAX];
    struct phrase x_title; /* "traders at once" */
    size_t points;
    double x[POINTS_MAX];            /* 1 2 4 8 ...: drawn at equal distances */
    struct phrase texts[SERIES_MAX]; /* by way: one or two sentences below the charts */
    char checked[LANGS][200];        /* what the checker says of all of it */
};

#endif
