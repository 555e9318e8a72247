/* SPDX-License-Identifier: MIT */
/*
 * The queue of a name by the order of keys (etcd, ZooKeeper): which claims hold, and whose end a waiter must wait for.
 * Pure.
 *
 * Every claim has a key of its own, and the server orders the keys by their creation. A claim holds if all claims ahead
 * of it are of its kind and capacity, and their permits and its own fit into that capacity. Keys ahead of it only ever
 * go away; new ones come behind. So the condition can become true but never false again: a holder holds until its own
 * key is gone, and claims are served in the order of their keys. Of two holders the later one has counted the earlier
 * one, of the same kind, and has fitted beside it.
 *
 * What a waiter must watch. A claim ahead of it is a *blocker* if the two can never hold together: it is of another
 * kind, or the permits of the two alone exceed the capacity (a mutex, a writer, most permits of a semaphore). Every
 * blocker must go before the waiter holds, so the nearest one is enough to watch: its end is necessary. A waiter without
 * a blocker waits until enough of several claims have gone, whichever these are; it must notice the end of any of them.
 */
#ifndef HFI_KIT_POSITION_H
#define HFI_KIT_POSITION_H

#include "engine/engine.h"

/* What a claim takes. */
struct hfi_demand {
    enum hfi_mode mode;
    uint32_t capacity, permits;
};

/* The claims of a name, from the oldest on. Zeroed: there are none. */
struct hfi_line {
    struct hfi_demand first;
    uint64_t taken; /* permits of all */
    size_t count, holders;
};

/* Add the next one. Does it hold? */
bool hfi_line_add(struct hfi_line *line, const struct hfi_demand *one);

enum hfi_verdict {
    HFI_VERDICT_HOLDS,
    HFI_VERDICT_WAITS,
    HFI_VERDICT_MISMATCH /* it waits, and the oldest claim is of another kind: the name is in use as
                          * that kind */
};

#define HFI_NO_BLOCKER SIZE_MAX

/* One claim among those ahead of it. */
struct hfi_position {
    struct hfi_demand own;
    struct hfi_line ahead;
    size_t blockers;
    size_t blocker;  /* the nearest, counted from the oldest claim (0); HFI_NO_BLOCKER: none */
    size_t before;   /* the blocker before that one; HFI_NO_BLOCKER: none */
    uint64_t beside; /* permits of the claims ahead that are no blockers */
};

void hfi_position_begin(struct hfi_position *position, const struct hfi_demand *own);
/* The next claim ahead of it; the oldest comes first. */
void hfi_position_ahead(struct hfi_position *position, const struct hfi_demand *one);
enum hfi_verdict hfi_position_verdict(const struct hfi_position *position);
/* Does it hold as soon as the nearest blocker has gone, whatever else happens? */
bool hfi_position_blocked_once(const struct hfi_position *position);
/* Do all claims ahead of it hold, so that it is the first waiter (or a holder)? */
bool hfi_position_is_next(const struct hfi_position *position);

#endif
