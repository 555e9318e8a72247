/* SPDX-License-Identifier: MIT */
/*
 * One way of an experiment as a panel: a timeline, then (in a file of its own) verdict and code. The parts of the drawing share this.
 *
 * Order matters twice. Shapes: grounds, thin arrows, bars, then what must be seen (wrong and refused writes). Labels: the most important
 * first, because a later one that finds no free place is left out.
 */
#ifndef LAB_PANEL_H
#define LAB_PANEL_H

#include "../lab.h"
#include "ink.h"

#define HALF 15.0 /* of a bar's height */

struct panel {
    struct pen pen;
    const struct report *report;
    const struct way *way;
    const struct finding *finding;
    const struct scene *scene;
    double width;                    /* of the panel, with its border */
    double pad;                      /* between border and content */
    double end_ms;                   /* of the time axis, the same in all panels of a report */
    double left, right, top, bottom; /* of the timeline; set by scene_layout() */
    double y[LANES_MAX];             /* middle of each lane */
    double patience; /* a label that costs more (boxes_cost()) is left out; 0: any */
    struct boxes boxes;
};

void panel_init(struct panel *panel, FILE *out, const struct report *report, size_t way,
                enum lang lang, double width, double end_ms);

/* Find the heights. `first_y`: where the axis begins. */
void scene_layout(struct panel *panel, double first_y);
void scene_align(struct panel *panel, const double y[LANES_MAX]);
void scene_draw(struct panel *panel);

static inline double panel_x(const struct panel *panel, double ms)
{
    double at = ms < 0 ? 0 : ms > panel->end_ms ? panel->end_ms : ms;

    return panel->left + (panel->right - panel->left) * at / panel->end_ms;
}

/* The time axis of a report: the longest of its scenes. */
double report_end_ms(const struct report *report);

/* ---- steps ------------------------------------------------------------------------------------- */

/* The step that a moment belongs to; 0: the scene has no steps. What happens just before a number belongs to it. */
int step_at(const struct panel *panel, double ms);
/* From when to when a step lasts in this scene; false: it does not happen here. */
bool step_span(const struct panel *panel, int step, double *ret_from, double *ret_to);
/* A group of what belongs to the step of this moment; close with "</g>". `class`: more classes, each after a blank. */
void step_open(struct panel *panel, double ms, const char *class);

/* The span of each step, and a veil over what comes after it. Hidden until the script of a page asks for a step. */
void spans_draw(struct panel *panel, bool veil);

/* ---- parts ------------------------------------------------------------------------------------- */

void bars_draw(struct panel *panel);
void bars_label(struct panel *panel);
bool belief_drawn(const struct panel *panel, const struct belief *belief);
void beliefs_draw(struct panel *panel);
void beliefs_label(struct panel *panel);
void highs_draw(struct panel *panel);
void marks_draw(struct panel *panel);
void marks_label(struct panel *panel);
/* Wrong and refused writes are drawn over the bars, others behind them. */
void arrows_draw(struct panel *panel, bool strong);
void arrows_label(struct panel *panel, bool strong);
/* Tries of this lane between two moments. */
unsigned tries_between(const struct scene *scene, int lane, double from_ms, double to_ms);
/* Half of the height of what a lane shows at this moment: a bar, or its line. */
double lane_half(const struct panel *panel, int lane, double ms);

/* ---- labels ------------------------------------------------------------------------------------ */

struct spot {
    double x, y; /* base line of its first line */
    enum anchor anchor;
};

/* Put a text at the cheapest of these spots, the first ones rather; also in lines of at most `wrap`, if that is above 0. `inside`: on a
 * bar. false: no spot is free, and it is left out. */
bool label_put(struct panel *panel, const char *text, struct font font, double wrap,
               const struct spot *spots, size_t count, bool inside);

/* ---- around the timeline ----------------------------------------------------------------------- */

double verdict_draw(struct panel *panel, double y); /* returns the y below it */
/* The code of the way; its height, and the drawing at y with at least that height. */
double code_height(const struct panel *panel);
void code_draw(struct panel *panel, double y, double height);

enum outcome { BROKEN, SAFE, UNCLEAR, NOT_BROKEN };
enum outcome finding_outcome(const struct way *way, const struct finding *finding);
const char *outcome_word(enum outcome outcome, enum lang lang);
enum colour outcome_colour(enum outcome outcome);
/* "20 of 20 runs broke"; empty for a single run. */
void finding_runs(const struct finding *finding, enum lang lang, char *out, size_t room);

#endif
