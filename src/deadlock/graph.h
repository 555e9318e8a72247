/* SPDX-License-Identifier: MIT */
/*
 * The wait-for graph of a store: which waiters will never proceed. Pure: a view of a store
 * goes in, cycles come out; no clock, no lock, no I/O.
 *
 * The graph is reduced by everything that can proceed. A holder that is not known to wait is
 * assumed to release some day. What is then free goes to the waiters, in their order. A waiter that
 * gets what it waits for proceeds too, and releases all that it holds; this is repeated until
 * nothing changes. The remaining waiters are stuck for good: nothing that another process does can
 * help them. That is exact for permits of semaphores and for readers and writers too, where a
 * circle alone would prove nothing.
 *
 * Some stuck waiters only wait for others that wait in a circle. A *cycle* is a group in which each
 * member waits for every other, directly or not, and for nothing outside of the group. One member
 * of each cycle must give up.
 *
 * A view of a store is read piece by piece, and what was read first may have changed before the
 * last was read. So a second view is read, and only leases (by their tokens) and waits (by their
 * numbers) that are in both views count. Such a lease or wait existed at every moment between the
 * two views: so all of a cycle that is in both existed at the same time. And a waiter that is ahead
 * of us in a queue was ahead before.
 */
#ifndef HFI_DEADLOCK_GRAPH_H
#define HFI_DEADLOCK_GRAPH_H

#include "deadlock/session.h"

struct hfi_graph;

/*
 * The graph of a view. This takes the tags off the labels of the view, in place, and fills in the
 * sessions; the view must outlive the graph. `fifo`: a waiter that does not fit is not overtaken.
 * `before`: the graph of an earlier view; NULL: none. Returns NULL if out of memory.
 */
struct hfi_graph *hfi_graph_new(hf_view *view, bool fifo, const struct hfi_graph *before);
void hfi_graph_free(struct hfi_graph *graph);

/* The number of cycles; and of each the tag of the wait that must end. */
size_t hfi_graph_cycles(const struct hfi_graph *graph);
const struct hfi_tag *hfi_graph_victim(const struct hfi_graph *graph, size_t cycle);
/* Does the waiter at `index` (counted over all names of the view) wait for ever? */
bool hfi_graph_stuck(const struct hfi_graph *graph, size_t index);

/* A shortest circle through the victim, which comes first; from hfi_malloc(). NULL: out of memory. */
hf_deadlock_waiter *hfi_graph_circle(const struct hfi_graph *graph, size_t cycle,
                                     size_t *ret_count);
/* All circles, for the caller of the library: one block, from hfi_malloc(). `graph` NULL: none. false: out of memory. */
bool hfi_deadlocks_new(const struct hfi_graph *graph, hf_deadlocks **ret_deadlocks);
/* The circle as text, addressed to its first member. */
void hfi_circle_words(const hf_deadlock_waiter *links, size_t count, char *ret_text, size_t size);

static inline bool hfi_tag_same(const struct hfi_tag *a, const struct hfi_tag *b)
{
    return a->session == b->session && a->number == b->number && a->began == b->began;
}

#endif
