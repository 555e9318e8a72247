/* SPDX-License-Identifier: MIT */
/* For experiments that measure: many short plays in one experiment, and the points of a curve. */
#ifndef LAB_MEASURE_H
#define LAB_MEASURE_H

#include "stage.h"

/* Begin the next play of a measurement: no actors, an empty history, zeros in stage->shared. false: an earlier one was unclear, and
 * nothing more is played. */
bool measure_next(struct stage *stage, int way);
/* Start `count` actors in the lanes 0, 1, ..., wait until each has called measure_ready(), and let them go at once. */
void measure_start(struct stage *stage, int count, actor_fn *fn, void *arg);
void measure_ready(struct actor *me);
/* The next point of a curve: the smallest, the median and the largest of some rounds. Sorts them. */
void measure_point(struct series *series, double *rounds, size_t count);
/* The title and the figures of a line. */
#define measure_note(series, en, zh, ...)                                         \
    (snprintf((series)->note[LANG_EN], sizeof(series)->note[0], en, __VA_ARGS__), \
     snprintf((series)->note[LANG_ZH], sizeof(series)->note[0], zh, __VA_ARGS__))

#endif
