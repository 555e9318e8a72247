/* SPDX-License-Identifier: MIT */
/* Observers beyond the two of stage.h: who has the places of a semaphore, and whether a client waits in a queue of Holdfast. */
#ifndef LAB_WATCH_H
#define LAB_WATCH_H

#include "stage.h"

#define PLACES_MAX 4

/* A semaphore whose places have a server's lane each. */
struct places {
    const char *name; /* of the semaphore */
    int first;        /* lane of the first place; the others follow */
    int count;
    /* what is said where a place is taken from a client that did not give it back */
    const struct phrase *taken;
};

/* Ask again and again who has a place, and note it in the places' lanes; a client keeps its place for as long as it has one.
 * The naive semaphore is a sorted set whose lowest `count` ranks have the places; ours is asked for its holders. */
void stage_observe_ranks(struct stage *stage, const struct places *places);
void stage_observe_permits(struct stage *stage, const struct places *places);

/* Wait until the client of this lane stands in the queue of `name` at stage->url, or has got it. */
void stage_await_queued(struct stage *stage, int lane, const char *name);
#define SIGNAL_QUEUED INT64_C(3000) /* + lane */

#endif
