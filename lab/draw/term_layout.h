/* SPDX-License-Identifier: MIT */
/*
 * Where things of a scene stand in a terminal: columns for moments, rows for lanes, and places for labels between the lanes. Pure.
 *
 * Lanes are one row high. Gap g is above lane g; the last one is below the last lane. A gap has rows that belong to the lane above it
 * (its *upper* side, counted downwards) and to the lane below it (counted upwards); it grows when a label finds no place.
 */
#ifndef LAB_TERM_LAYOUT_H
#define LAB_TERM_LAYOUT_H

#include "term.h"

#define GAPS         (LANES_MAX + 1)
#define GAP_ROWS     3 /* of one side */
#define STROKES_MAX  48
#define PLACES_MAX   96
#define STROKE_LABEL 200

enum side { UPPER, LOWER };

/* An upright line for one arrow, or for several of a client in the same column. */
struct stroke {
    enum arrow_kind kind;
    int from, to, client, col;
    double at_ms;
    char label[STROKE_LABEL];
};

/* A text in a gap. With a corner, a line goes from its end to the lane. */
struct place {
    int gap, row, col, style;
    enum side side;
    int corner_col; /* -1: none */
    bool corner_right;
    bool covers; /* strokes of reads and of the hand-over, if there is no other place */
    char text[STROKE_LABEL];
};

struct layout {
    const struct term *term;
    const struct scene *scene;
    double end_ms;
    int left; /* the column of the begin */
    int rows[GAPS][2];
    /* 0: none; 1: one that a label of a write may cover in one row; 2: another */
    unsigned char has_stroke[GAPS][TERM_COLUMNS_MAX];
    bool taken[GAPS][2][GAP_ROWS][TERM_COLUMNS_MAX];
    struct stroke strokes[STROKES_MAX];
    int stroke_count;
    struct place places[PLACES_MAX];
    int place_count;
};

/* Out of memory ends the program; free() frees it. */
struct layout *layout_new(const struct term *term, const struct scene *scene, double end_ms);
int layout_column(const struct layout *layout, double at_ms);
int layout_gap_rows(const struct layout *layout, int gap);
/* Rows from the first gap on: of a lane, of a place, of all. */
int layout_lane_row(const struct layout *layout, int lane);
int layout_place_row(const struct layout *layout, const struct place *place);
int layout_height(const struct layout *layout);

/* How a kind of arrow is painted. */
int stroke_paint(enum arrow_kind kind, int client);

#endif
