/* SPDX-License-Identifier: MIT */
/*
 * Which waiters can proceed. A holder that is not known to wait is assumed to release. What is then
 * free goes to the waiters, in their order, and they release what they hold; this is repeated until
 * nothing changes.
 */
#include "deadlock/graph_internal.h"

static void name_due(struct hfi_graph *g, uint32_t name, uint32_t *count)
{
    if (g->names[name].due)
        return;
    g->names[name].due = true;
    g->due[(*count)++] = name;
}

/* This waiter gets what it waits for: it proceeds, and releases what it holds. If it waits for any of several names, it leaves
 * the other queues. */
static void proceed(struct hfi_graph *g, struct hfi_graph_waiter *waiter, uint32_t *count)
{
    waiter->stuck = false;
    for (struct hfi_graph_waiter *other = &g->waiters[waiter->other]; other != waiter;
         other = &g->waiters[other->other]) {
        other->stuck = false;
        name_due(g, other->name, count);
    }
    for (uint32_t i = 0; i < waiter->held_count; i++) {
        struct hfi_graph_holder *holder = &g->holders[waiter->held[i]];

        if (!holder->stuck)
            continue;
        holder->stuck = false;
        g->names[holder->name].kept -= holder->info->permits;
        name_due(g, holder->name, count);
    }
}

/* Give the permits of a name that can become free to its waiters. They give them back: so a waiter
 * that fits alone fits in the end. */
static void grant(struct hfi_graph *g, uint32_t index, uint32_t *count)
{
    struct hfi_graph_name *name = &g->names[index];
    uint64_t capacity = name->entry->capacity;
    bool closed = false; /* a waiter that does not fit is ahead */

    for (size_t i = 0; i < name->entry->waiter_count; i++) {
        struct hfi_graph_waiter *waiter = &g->waiters[name->first_waiter + i];
        /* One that asks for more than there is waits for hf_semaphore_resize(), and not for a holder. */
        bool fits =
            waiter->info->permits > capacity || name->kept + waiter->info->permits <= capacity;

        if (!waiter->stuck)
            continue;
        if (fits && (!closed || (waiter->tagged && waiter->tag.barge)))
            proceed(g, waiter, count);
        else if (g->fifo)
            closed = true;
    }
}

static void grant_due(struct hfi_graph *g, uint32_t count)
{
    while (count > 0) {
        uint32_t name = g->due[--count];

        g->names[name].due = false;
        grant(g, name, &count);
    }
}

void hfi_graph_drop_runnable(struct hfi_graph *g)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (!g->waiters[i].stuck)
            proceed(g, &g->waiters[i], &count);
    for (uint32_t i = 0; i < g->name_count; i++)
        name_due(g, i, &count);
    grant_due(g, count);
}

bool hfi_graph_would_help(struct hfi_graph *g, uint32_t victim)
{
    uint32_t count = 0;

    proceed(g, &g->waiters[victim], &count);
    name_due(g, g->waiters[victim].name, &count); /* it blocks nobody in that queue any more */
    grant_due(g, count);
    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (!hfi_graph_together(g, i, victim) && g->parts[i] == g->parts[victim] &&
            !g->waiters[i].stuck)
            return true;
    return false;
}
