/* SPDX-License-Identifier: MIT */
/*
 * The inside of a graph (graph.h), shared by its parts:
 *
 *   graph.c     its life: read the view, match tags with leases
 *   reduce.c    remove every waiter that can proceed
 *   cycles.c    the cycles among the rest (Tarjan's strongly connected components)
 *   victim.c    which member of a cycle gives up
 *   describe.c  which circle a cycle has, and its words
 */
#ifndef HFI_DEADLOCK_GRAPH_INTERNAL_H
#define HFI_DEADLOCK_GRAPH_INTERNAL_H

#include "deadlock/graph.h"

#define HFI_GRAPH_NONE UINT32_MAX

struct hfi_graph_name {
    const hf_entry *entry;
    uint64_t hash[2];
    uint32_t first_holder, first_waiter, first_claim, claims;
    uint64_t kept; /* permits of holders that are stuck, or not yet known to proceed */
    bool due;      /* on the list of names to examine */
};

struct hfi_graph_holder {
    hf_holder *info;
    uint64_t id;
    uint32_t name;
    bool stuck;
};

struct hfi_graph_waiter {
    hf_waiter *info;
    struct hfi_tag tag; /* if it is `tagged` */
    uint64_t key;       /* the same in every view of the same wait */
    uint32_t name;
    uint32_t held[HFI_HOLDS_MAX], held_count; /* holders */
    uint32_t other; /* the next wait of the same request, in a ring; itself: it has one only */
    bool tagged, stuck;
};

/* `waiter` holds `holder`. */
struct hfi_graph_claim {
    uint32_t name, holder, waiter;
};

/* Waiters are nodes 0 to waiter_count - 1; names come behind them. */
struct hfi_graph {
    bool fifo;
    uint32_t name_count, holder_count, waiter_count, claim_count, cycle_count;
    struct hfi_graph_name *names;
    struct hfi_graph_holder *holders;
    struct hfi_graph_waiter *waiters;
    struct hfi_graph_claim *claims;           /* sorted by name */
    uint32_t *by_id;                          /* holders, sorted by id */
    uint64_t *keys;                           /* of waiters, sorted */
    uint32_t *due, *parts, *cycles, *scratch; /* parts: the component of each node */
};

/* Are these two waits, or one, of the same request? */
static inline bool hfi_graph_together(const struct hfi_graph *g, uint32_t a, uint32_t b)
{
    return a == b || (g->waiters[a].tag.any > 0 && g->waiters[b].tag.any > 0 &&
                      hfi_tag_same(&g->waiters[a].tag, &g->waiters[b].tag));
}

/* An array; an empty one is not NULL either. NULL: out of memory. */
void *hfi_graph_array(size_t count, size_t size);

/* ---- reduce.c ---- */

/* Clear the mark `stuck` of everything that can proceed. */
void hfi_graph_drop_runnable(struct hfi_graph *g);
/* If this wait ended, would another member of its cycle proceed? Changes all that
 * hfi_graph_drop_runnable() changes; the caller has a copy. */
bool hfi_graph_would_help(struct hfi_graph *g, uint32_t victim);

/* ---- cycles.c ---- */

/* Fill in parts and cycles. false: out of memory. */
bool hfi_graph_find_cycles(struct hfi_graph *g);
/*
 * The edges of a node, one after the other; *cursor is 0 at first. A waiter waits for its name and,
 * unless it may overtake, for the waiters ahead of it. Of those only the ones up to the nearest
 * that may not overtake are edges: that one waits for the rest. A name waits for its holders.
 * HFI_GRAPH_NONE: there are no more.
 */
uint32_t hfi_graph_next_edge(const struct hfi_graph *g, uint32_t node, uint32_t *cursor);

/* ---- victim.c ---- */

/* Replace each entry of g->cycles, which is any member of its cycle, by the member that gives up.
 * false: out of memory. */
bool hfi_graph_choose(struct hfi_graph *g);

#endif
