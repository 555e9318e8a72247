/* SPDX-License-Identifier: MIT */
/*
 * Which member of a cycle gives up: the first one whose end would let another member proceed. The
 * order is that of the tags, so all processes choose the same one.
 */
#include "deadlock/graph_internal.h"

#include "util/alloc.h"

/* Does `a` give up rather than `b`? A wait with a time limit does first, then the latest. */
static bool gives_up_first(const struct hfi_tag *a, const struct hfi_tag *b)
{
    if (a->timed != b->timed)
        return a->timed;
    if (a->began != b->began)
        return a->began > b->began;
    if (a->session != b->session)
        return a->session > b->session;
    return a->number > b->number;
}

/* A copy of what hfi_graph_would_help() changes. */
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

/* The member of a cycle that comes next after `last` in the order of gives_up_first();
 * HFI_GRAPH_NONE: the first of all. */
static uint32_t candidate(const struct hfi_graph *g, uint32_t part, uint32_t last)
{
    uint32_t best = HFI_GRAPH_NONE;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (g->parts[i] == part &&
            (last == HFI_GRAPH_NONE || gives_up_first(&g->waiters[last].tag, &g->waiters[i].tag)) &&
            (best == HFI_GRAPH_NONE || gives_up_first(&g->waiters[i].tag, &g->waiters[best].tag)))
            best = i;
    return best;
}

/*
 * A waiter in a queue of the cycle may belong to it although no member needs what it holds: its end
 * would help nobody. So the first member whose end helps is chosen. If no single end helps, because
 * several must give up, it is the first member.
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
