/* SPDX-License-Identifier: MIT */
/*
 * What N nodes say about one name, put together: look.c asks, look_merge.c decides who holds. A node's
 * answer is copied, for replies do not outlive their callback.
 */
#ifndef HFI_RL_LOOK_H
#define HFI_RL_LOOK_H

#include "engine/redlock/rl.h"

/* One owner at one node. */
struct rl_record {
    char owner[2 * HFI_OWNER_LEN]; /* hex */
    uint64_t attempt;
    unsigned node;
    bool holds; /* else it waits */
    uint64_t counter, tokens, held;
    uint64_t choice; /* of slots */
    uint32_t permits;
    bool detached;
    int64_t age_ms, left_ms, ttl_ms, tid;
    uint64_t stamp; /* of a waiter; 0: not known */
    char *label;
};

/* What one node says about the name itself. */
struct rl_said {
    bool answered, busy; /* busy: `L`, with what follows */
    int64_t mode, capacity, closed_ms;
};

struct rl_view {
    unsigned n, need, answered;
    struct rl_said said[HFI_NODES_MAX];
    struct rl_record *records;
    size_t count, room;
    bool failed; /* out of memory */
};

/* Somebody who holds or waits, all nodes together. */
struct rl_party {
    const struct rl_record *record; /* one of its records: whose owner, attempt, permits, label */
    bool holds;
    uint64_t first, token;
    int64_t age_ms, left_ms, tid;
    uint64_t stamp;
};

struct rl_merged {
    int64_t mode, capacity, closed_ms;
    uint32_t taken;
    struct rl_party *parties; /* holders, then waiters in order */
    size_t holders, waiters;
};

/* `N` or `L ...` of node `node`. false: it is no answer of ours. */
bool hfi_rl_view_take(struct rl_view *view, unsigned node, const struct hfi_reply *reply);
void hfi_rl_view_done(struct rl_view *view);
/* Sorts view->records. false: out of memory. hfi_rl_merged_done() in any case. */
bool hfi_rl_merge(struct rl_view *view, struct rl_merged *ret_merged);
void hfi_rl_merged_done(struct rl_merged *merged);

#endif
