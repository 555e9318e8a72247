/* SPDX-License-Identifier: MIT */
/*
 * Who waits for whom, and who of them for ever. Pure: a view of a store goes in, cycles
 * come out; no clock, no lock, no I/O.
 *
 * The question is turned round: who can go on? Whoever holds something and is not
 * known to wait is taken to release it some day. What is then free is given to those
 * who wait, in their order, and who gets what it waits for goes on too, and releases
 * all that it holds; until nothing moves any more. Who is left is stuck, for good:
 * nothing that anybody else does can help. That is exact for permits of semaphores
 * and for readers and writers too, where a circle alone would prove nothing.
 *
 * Of the stuck, some only wait for others who wait in a circle. A *cycle* is a group in
 * which everybody waits for everybody, directly or not, and for nobody outside of it:
 * one of each must give up.
 *
 * A view of a store is read piece by piece, and what was read first may have changed
 * when the last was read. So what is found is looked at a second time, and what is not
 * the same lease (its token) and the same wait (its number) in both does not count. A
 * lease or a wait that is seen before and after a moment was there at that moment: all
 * of a cycle that is seen twice existed at once, between the two looks. And who is
 * ahead of us in a queue was so before.
 */
#ifndef HFI_DEADLOCK_GRAPH_H
#define HFI_DEADLOCK_GRAPH_H

#include "deadlock/session.h"

struct hfi_graph;

/*
 * What a view says. It takes the tags off the labels of the view, in place, and fills in the sessions;
 * the view must outlive the graph. `fifo`: nobody is overtaken who does not fit. `before`: an earlier
 * look, NULL: none. NULL: out of memory.
 */
struct hfi_graph *hfi_graph_new(hf_view *view, bool fifo, const struct hfi_graph *before);
void hfi_graph_free(struct hfi_graph *graph);

/* How many cycles there are. Which wait is to end: its tag. */
size_t hfi_graph_cycles(const struct hfi_graph *graph);
const struct hfi_tag *hfi_graph_victim(const struct hfi_graph *graph, size_t cycle);
/* Does the waiter at `index` (all of the view's, counted through) wait for ever? */
bool hfi_graph_stuck(const struct hfi_graph *graph, size_t index);

/* A shortest circle through the victim, which comes first; from hfi_malloc(). NULL: out of memory. */
hf_deadlock_waiter *hfi_graph_circle(const struct hfi_graph *graph, size_t cycle,
                                     size_t *ret_count);
/* All circles, for the caller of the library: one block, from hfi_malloc(). `graph` NULL: none. false: out of memory. */
bool hfi_deadlocks_new(const struct hfi_graph *graph, hf_deadlocks **ret_deadlocks);
/* The circle in words, as said to the first of it. */
void hfi_circle_words(const hf_deadlock_waiter *links, size_t count, char *ret_text, size_t size);

static inline bool hfi_tag_same(const struct hfi_tag *a, const struct hfi_tag *b)
{
    return a->session == b->session && a->number == b->number && a->began == b->began;
}

#endif
