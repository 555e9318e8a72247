/* SPDX-License-Identifier: MIT */
/* What the files of the model share with each other, and with nobody else. */
#ifndef SEE_PARTS_H
#define SEE_PARTS_H

#include "model.h"

/* The row of this name, made if there is none. NULL: out of memory. */
struct see_row *see_row_for(struct see_model *model, const void *name, size_t len);
/* It has changed; in_list: so that a list shows it. */
void see_row_touch(struct see_model *model, struct see_row *row, bool in_list);
void see_row_forget(struct see_model *model, struct see_row *row);
void see_model_set_up(struct see_model *model, bool up, int64_t now_ms);
void see_circles_free(struct see_circle *circles, size_t count);
/* Take over the circles; true: `row` is in one of them, by the names in the circles. */
bool see_circles_take(struct see_model *model, const hf_deadlocks *deadlocks, int64_t now_ms);

/* ---- history.c ---------------------------------------------------------------------------- */

/* Close the points whose time is over. */
void see_history_turn(struct see_model *model, int64_t now_ms);
/* Hand-overs were seen. */
void see_history_handovers(struct see_model *model, struct see_row *row, uint64_t count,
                           int64_t now_ms);
void see_history_hold(struct see_model *model, struct see_row *row, int64_t ms);
void see_history_wait(struct see_model *model, int64_t ms);

#endif
