/* SPDX-License-Identifier: MIT */
/* The Redlock of the seeds, as the naive ways of several experiments use it, and a sale under it. */
#ifndef LAB_REDLOCK_H
#define LAB_REDLOCK_H

#include "../stage/nodes.h"

#define REDLOCK_TTL_MS 3000

bool redlock_take(struct actor *me);
void redlock_give(struct actor *me);

#endif
