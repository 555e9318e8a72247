/* SPDX-License-Identifier: MIT */
/*
 * The answers of N nodes about one name, merged: inspect.c asks, inspect_merge.c decides who holds.
 * A node's answer is copied, for replies do not outlive their callback.
 */
#ifndef REDLOCK_LOOK_H
#define REDLOCK_LOOK_H

#include "engine/redlock/internal.h"

/* One owner at one node. */
struct redlock_record {
    char owner[2 * HFI_OWNER_LEN]; /* hex */
    uint64_t attempt;
    unsigned node;
    bool holds; /* else it waits */
    uint64_t counter, tokens, held;
    uint64_t choice;                          /* of slots */
    uint32_t slot_count, slots[HF_SLOTS_MAX]; /* if it asked for numbers */
    uint32_t permits;
    bool detached, lingers, watched;
    int64_t age_ms, left_ms, ttl_ms, tid;
    uint64_t stamp; /* of a waiter; 0: not known */
    char *label;
};

/* What one node says about the name itself. */
struct redlock_said {
    bool answered, busy; /* busy: `L`, with what follows */
    int64_t mode, capacity, closed_ms;
};

struct redlock_view {
    unsigned n, need, answered;
    struct redlock_said said[HFI_NODES_MAX];
    struct redlock_record *records;
    size_t count, room;
    bool failed; /* out of memory */
};

/* A holder or waiter, merged over all nodes. */
struct redlock_party {
    /* one of its records: whose owner, attempt, permits, label */
    const struct redlock_record *record;
    bool holds, idle;
    uint64_t first, token;
    int64_t age_ms, left_ms, tid;
    uint64_t stamp;
};

struct redlock_merged {
    int64_t mode, capacity, closed_ms;
    uint32_t taken;
    struct redlock_party *parties; /* holders, then waiters in order */
    size_t holders, waiters;
};

/* `N` or `L ...` of node `node`. false: it is no answer of ours. */
bool redlock_view_take(struct redlock_view *view, unsigned node, const struct hfi_reply *reply);
void redlock_view_done(struct redlock_view *view);
/* Sorts view->records. false: out of memory. redlock_merged_done() in any case. */
bool redlock_merge(struct redlock_view *view, struct redlock_merged *ret_merged);
void redlock_merged_done(struct redlock_merged *merged);

#endif
