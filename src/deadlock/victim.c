/* SPDX-License-Identifier: MIT */
/*
 * Which member of a cycle gives up: the first, in an order that stands in the tags, so that all processes
 * agree, whose end would let another one of it go on.
 */
#include "deadlock/graph_internal.h"

#include "util/alloc.h"

/* Should `a` rather than `b` be the one to give up? One with a limit first, then the latest. */
static bool rather(const struct hfi_tag *a, const struct hfi_tag *b)
{
    if (a->timed != b->timed)
        return a->timed;
    if (a->began != b->began)
        return a->began > b->began;
    if (a->session != b->session)
        return a->session > b->session;
    return a->number > b->number;
}

/* What hfi_graph_would_help() changes, kept and put back. */
struct memory {
    bool *holders, *waiters;
    uint64_t *kept;
};

static void keep(const struct hfi_graph *g, const struct memory *memory)
{
    for (uint32_t i = 0; i < g->holder_count; i++)
        memory->holders[i] = g->holders[i].stuck;
    for (uint32_t i = 0; i < g->waiter_count; i++)
        memory->waiters[i] = g->waiters[i].stuck;
    for (uint32_t i = 0; i < g->name_count; i++)
        memory->kept[i] = g->names[i].kept;
}

static void put_back(struct hfi_graph *g, const struct memory *memory)
{
    for (uint32_t i = 0; i < g->holder_count; i++)
        g->holders[i].stuck = memory->holders[i];
    for (uint32_t i = 0; i < g->waiter_count; i++)
        g->waiters[i].stuck = memory->waiters[i];
    for (uint32_t i = 0; i < g->name_count; i++)
        g->names[i].kept = memory->kept[i];
}

/* The first of a cycle, in the order of rather(), behind `last` (HFI_GRAPH_NONE: from the beginning). */
static uint32_t candidate(const struct hfi_graph *g, uint32_t part, uint32_t last)
{
    uint32_t best = HFI_GRAPH_NONE;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (g->parts[i] == part &&
            (last == HFI_GRAPH_NONE || rather(&g->waiters[last].tag, &g->waiters[i].tag)) &&
            (best == HFI_GRAPH_NONE || rather(&g->waiters[i].tag, &g->waiters[best].tag)))
            best = i;
    return best;
}

/*
 * A waiter in a queue of the cycle may be part of it although no member needs what it holds: that it gave
 * up would help nobody. So the first whose end helps is chosen; if more than one must give up, the first.
 */
static uint32_t choose(struct hfi_graph *g, uint32_t part, const struct memory *memory)
{
    uint32_t first = candidate(g, part, HFI_GRAPH_NONE);

    for (uint32_t i = first; i != HFI_GRAPH_NONE; i = candidate(g, part, i)) {
        bool helps = hfi_graph_would_help(g, i);

        put_back(g, memory);
        if (helps)
            return i;
    }
    return first;
}

bool hfi_graph_choose(struct hfi_graph *g)
{
    struct memory memory = { hfi_graph_array(g->holder_count, sizeof(bool)),
                             hfi_graph_array(g->waiter_count, sizeof(bool)),
                             hfi_graph_array(g->name_count, sizeof(uint64_t)) };
    bool ok = memory.holders && memory.waiters && memory.kept;

    if (ok) {
        keep(g, &memory);
        for (uint32_t i = 0; i < g->cycle_count; i++)
            g->cycles[i] = choose(g, g->parts[g->cycles[i]], &memory);
    }
    hfi_free(memory.holders);
    hfi_free(memory.waiters);
    hfi_free(memory.kept);
    return ok;
}
