/* SPDX-License-Identifier: MIT */
/*
 * Describes a cycle: a shortest circle through the victim, as links for a program and as text for
 * people.
 */
#include "deadlock/graph_internal.h"

#include "util/alloc.h"
#include "util/text.h"

#include <stdio.h>

/* The lease of `name` that this waiter holds. NULL: none. */
static const hf_holder *lease_of(const struct hfi_graph *g, const struct hfi_graph_waiter *waiter,
                                 uint32_t name)
{
    for (uint32_t i = 0; i < waiter->held_count; i++)
        if (g->holders[waiter->held[i]].name == name)
            return g->holders[waiter->held[i]].info;
    return NULL;
}

static hf_deadlock_waiter make_link(const struct hfi_graph *g, uint32_t node, uint32_t before)
{
    const struct hfi_graph_waiter *waiter = &g->waiters[node];
    const hf_entry *entry = g->names[waiter->name].entry;
    const hf_holder *lease = lease_of(g, waiter, g->waiters[before].name);

    return (hf_deadlock_waiter){ .name = entry->name,
                                 .name_len = entry->name_len,
                                 .token = lease ? lease->token : 0,
                                 .session = waiter->tag.session,
                                 .age_ms = waiter->info->age_ms,
                                 .pid = waiter->info->pid,
                                 .label = waiter->info->label };
}

/* Search breadth first from the victim until an edge leads back to it; `from` says from which node
 * each node was reached. Returns the last node of the circle. */
static uint32_t go_round(const struct hfi_graph *g, uint32_t victim, uint32_t *from,
                         uint32_t *queue)
{
    uint32_t head = 0, tail = 0;

    queue[tail++] = victim;
    while (head < tail) {
        uint32_t node = queue[head++], cursor = 0, to;

        while ((to = hfi_graph_next_edge(g, node, &cursor)) != HFI_GRAPH_NONE) {
            if (to == victim)
                return node;
            if (from[to] == 0) {
                from[to] = node + 1;
                queue[tail++] = to;
            }
        }
    }
    return victim; /* cannot be: it is in a cycle */
}

hf_deadlock_waiter *hfi_graph_circle(const struct hfi_graph *g, size_t cycle, size_t *ret_count)
{
    uint32_t nodes = g->waiter_count + g->name_count, victim = g->cycles[cycle];
    uint32_t *from = hfi_graph_array((size_t)nodes * 2, sizeof *from);
    hf_deadlock_waiter *links = NULL;
    uint32_t last, count = 1;

    if (!from)
        return NULL;
    last = go_round(g, victim, from, from + nodes);
    for (uint32_t node = last; node != victim; node = from[node] - 1)
        count += node < g->waiter_count;

    links = hfi_graph_array(count, sizeof *links);
    if (links) {
        uint32_t at = count, next = HFI_GRAPH_NONE;

        /* From the end of the circle to its beginning, without the nodes that are names. */
        for (uint32_t node = last; node != victim; node = from[node] - 1) {
            if (node >= g->waiter_count)
                continue;
            if (next != HFI_GRAPH_NONE)
                links[at] = make_link(g, next, node);
            at--;
            next = node;
        }
        if (next != HFI_GRAPH_NONE)
            links[at] = make_link(g, next, victim);
        while (last >= g->waiter_count)
            last = from[last] - 1;
        links[0] = make_link(g, victim, last);
        *ret_count = count;
    }
    hfi_free(from);
    return links;
}

#define NAME_SHOWN 60 /* bytes of each name: a circle may have several, and the text is bounded */

void hfi_circle_words(const hf_deadlock_waiter *links, size_t count, char *ret_text, size_t size)
{
    size_t at = 0;

    ret_text[0] = 0;
    for (size_t i = 0; i < count && at < size; i++) {
        const hf_deadlock_waiter *next = &links[(i + 1) % count];
        char name[NAME_SHOWN], token[48] = "";
        bool us = i + 1 == count, first = i == 0;
        int len;

        hfi_quote_name(links[i].name, links[i].name_len, name, sizeof name);
        if (next->token)
            snprintf(token, sizeof token, " (token %llu)", (unsigned long long)next->token);
        if (us)
            len = snprintf(ret_text + at, size - at, "%s'%s', %s%s",
                           first ? "" : ", who waits for ", name,
                           next->token ? "which we hold" : "for which we wait ahead of it", token);
        else
            len = snprintf(ret_text + at, size - at, "%s'%s' %s %s%s",
                           first ? "" : ", who waits for ", name,
                           next->token ? "held by" : "which is next for", next->label, token);
        at += len > 0 ? (size_t)len : 0;
    }
}
