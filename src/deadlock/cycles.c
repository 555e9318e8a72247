/* SPDX-License-Identifier: MIT */
/*
 * Finds the cycles among the stuck waiters: groups whose members all wait for each other, directly
 * or not, and for nothing outside the group. They are the strongly connected components that no
 * edge leaves.
 */
#include "deadlock/graph_internal.h"

#include "util/alloc.h"

/* A waiter that holds nothing blocks nobody for ever: it is in no cycle. */
static bool is_node(const struct hfi_graph_waiter *waiter)
{
    return waiter->tagged && waiter->stuck && waiter->tag.count > 0;
}

uint32_t hfi_graph_next_edge(const struct hfi_graph *g, uint32_t node, uint32_t *cursor)
{
    const struct hfi_graph_waiter *waiter;
    const struct hfi_graph_name *name;

    if (node >= g->waiter_count) {
        name = &g->names[node - g->waiter_count];
        while (*cursor < name->claims) {
            const struct hfi_graph_claim *claim = &g->claims[name->first_claim + (*cursor)++];

            if (g->holders[claim->holder].stuck && is_node(&g->waiters[claim->waiter]))
                return claim->waiter;
        }
        return HFI_GRAPH_NONE;
    }

    waiter = &g->waiters[node];
    name = &g->names[waiter->name];
    if ((*cursor)++ == 0)
        return g->waiter_count + waiter->name;
    if (!g->fifo || waiter->tag.barge)
        return HFI_GRAPH_NONE;
    for (uint32_t back = *cursor - 1; back <= node - name->first_waiter; back++) {
        const struct hfi_graph_waiter *ahead = &g->waiters[node - back];

        *cursor = back + 1;
        if (!is_node(ahead))
            continue;
        if (!ahead->tag.barge)
            *cursor = HFI_GRAPH_NONE - 1; /* this one waits for the rest itself */
        return node - back;
    }
    return HFI_GRAPH_NONE;
}

/* Tarjan's algorithm with a stack of its own, so that a long queue is not a deep recursion. */
struct search {
    uint32_t *order, *low, *cursor, *open, *path; /* order 0: not visited yet */
    uint32_t visited, open_count, path_count, part_count;
};

static void visit(struct search *s, uint32_t node)
{
    s->order[node] = s->low[node] = ++s->visited;
    s->open[s->open_count++] = node;
    s->path[s->path_count++] = node;
}

/* All edges of the node have been followed. */
static void leave(struct hfi_graph *g, struct search *s, uint32_t node)
{
    uint32_t member;

    s->path_count--;
    if (s->path_count > 0) {
        uint32_t parent = s->path[s->path_count - 1];

        if (s->low[node] < s->low[parent])
            s->low[parent] = s->low[node];
    }
    if (s->low[node] != s->order[node])
        return;
    s->part_count++;
    do {
        member = s->open[--s->open_count];
        g->parts[member] = s->part_count;
    } while (member != node);
}

static void search_from(struct hfi_graph *g, struct search *s, uint32_t start)
{
    visit(s, start);
    while (s->path_count > 0) {
        uint32_t node = s->path[s->path_count - 1];
        uint32_t to = hfi_graph_next_edge(g, node, &s->cursor[node]);

        if (to == HFI_GRAPH_NONE)
            leave(g, s, node);
        else if (s->order[to] == 0)
            visit(s, to);
        else if (g->parts[to] == 0 && s->order[to] < s->low[node])
            s->low[node] = s->order[to];
    }
}

/* Does this session wait for itself alone, with a time limit? That is no deadlock: it waits until
 * the limit, as it asked. */
static bool is_alone(const struct hfi_graph *g, uint32_t victim)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        others += !hfi_graph_together(g, i, victim) && g->parts[i] == g->parts[victim];
    return others == 0 && g->waiters[victim].tag.timed;
}

bool hfi_graph_find_cycles(struct hfi_graph *g)
{
    uint32_t nodes = g->waiter_count + g->name_count;
    struct search s = { .order = g->scratch,
                        .low = g->scratch + nodes,
                        .cursor = g->scratch + 2 * (size_t)nodes,
                        .open = g->scratch + 3 * (size_t)nodes,
                        .path = g->scratch + 4 * (size_t)nodes };
    /* For each component one of its members, + 1; 0: none seen yet; HFI_GRAPH_NONE: the component
     * waits for another one. */
    uint32_t *members;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (is_node(&g->waiters[i]) && s.order[i] == 0)
            search_from(g, &s, i);

    members = hfi_graph_array((size_t)s.part_count + 1, sizeof *members);
    if (!members)
        return false;
    for (uint32_t node = 0; node < nodes; node++) {
        uint32_t part = g->parts[node], cursor = 0, to;

        while (part && (to = hfi_graph_next_edge(g, node, &cursor)) != HFI_GRAPH_NONE)
            if (g->parts[to] != part)
                members[part] = HFI_GRAPH_NONE;
        if (part && node < g->waiter_count && members[part] == 0)
            members[part] = node + 1;
    }
    for (uint32_t part = 1; part <= s.part_count; part++)
        if (members[part] != 0 && members[part] != HFI_GRAPH_NONE &&
            !is_alone(g, members[part] - 1))
            g->cycles[g->cycle_count++] = members[part] - 1;
    hfi_free(members);
    return g->cycle_count == 0 || hfi_graph_choose(g);
}
