/* SPDX-License-Identifier: MIT */
/*
 * Builds a graph: reads the view and matches tags with leases. Then reduce.c removes every waiter
 * that can proceed, and cycles.c finds the cycles among the rest. graph_internal.h lists the parts.
 */
#include "deadlock/graph_internal.h"

#include "core/view.h"
#include "util/alloc.h"
#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

static bool read_view(struct hfi_graph *g, hf_view *view);
static void match(struct hfi_graph *g, const struct hfi_graph *before);

struct hfi_graph *hfi_graph_new(hf_view *view, bool fifo, const struct hfi_graph *before)
{
    struct hfi_graph *g = hfi_calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->fifo = fifo;
    if (!read_view(g, view)) {
        hfi_graph_free(g);
        return NULL;
    }
    match(g, before);
    hfi_graph_drop_runnable(g);
    if (!hfi_graph_find_cycles(g)) {
        hfi_graph_free(g);
        return NULL;
    }
    return g;
}

void hfi_graph_free(struct hfi_graph *g)
{
    if (!g)
        return;
    hfi_free(g->names);
    hfi_free(g->holders);
    hfi_free(g->waiters);
    hfi_free(g->claims);
    hfi_free(g->by_id);
    hfi_free(g->keys);
    hfi_free(g->due);
    hfi_free(g->parts);
    hfi_free(g->cycles);
    hfi_free(g->scratch);
    hfi_free(g);
}

void *hfi_graph_array(size_t count, size_t size)
{
    return hfi_calloc(count ? count : 1, size);
}

bool hfi_graph_stuck(const struct hfi_graph *g, size_t index)
{
    return g->waiters[index].stuck;
}

size_t hfi_graph_cycles(const struct hfi_graph *g)
{
    return g->cycle_count;
}

const struct hfi_tag *hfi_graph_victim(const struct hfi_graph *g, size_t cycle)
{
    return &g->waiters[g->cycles[cycle]].tag;
}

/* ---- reading --------------------------------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return *a < *b ? -1 : *a > *b;
}

static void read_entry(struct hfi_graph *g, uint32_t index, const struct hfi_entry *whole)
{
    struct hfi_graph_name *name = &g->names[index];
    const hf_entry *entry = &whole->entry;

    *name = (struct hfi_graph_name){ .entry = entry,
                                     .first_holder = g->holder_count,
                                     .first_waiter = g->waiter_count };
    hfi_hash128(entry->name, entry->name_len, name->hash);
    for (size_t i = 0; i < entry->holder_count; i++) {
        struct hfi_graph_holder *holder = &g->holders[g->holder_count++];

        holder->info = &whole->holders[i];
        holder->id = hfi_hold_id(name->hash,
                                 holder->info->first ? holder->info->first : holder->info->token);
        holder->name = index;
        (void)hfi_tag_cut((char *)(uintptr_t)holder->info->label, &(struct hfi_tag){ 0 });
    }
    for (size_t i = 0; i < entry->waiter_count; i++) {
        struct hfi_graph_waiter *waiter = &g->waiters[g->waiter_count];

        waiter->info = &whole->waiters[i];
        waiter->name = index;
        waiter->tagged = hfi_tag_cut((char *)(uintptr_t)waiter->info->label, &waiter->tag);
        waiter->stuck = true;
        if (waiter->tagged) {
            uint64_t what[3] = { name->hash[0], waiter->tag.session,
                                 (uint64_t)waiter->tag.began << 12 | waiter->tag.number };
            uint64_t hash[2];

            hfi_hash128(what, sizeof what, hash);
            waiter->key = hash[0];
            waiter->info->session = waiter->tag.session;
        }
        g->keys[g->waiter_count++] = waiter->key;
    }
}

/* false: out of memory, or more than we can count. */
static bool read_view(struct hfi_graph *g, hf_view *view)
{
    size_t holders = 0, waiters = 0, nodes;

    for (size_t i = 0; i < view->count; i++) {
        holders += view->entries[i].entry.holder_count;
        waiters += view->entries[i].entry.waiter_count;
    }
    nodes = view->count + waiters;
    if (nodes >= HFI_GRAPH_NONE / 2 || holders >= HFI_GRAPH_NONE / 2 ||
        waiters * HFI_HOLDS_MAX >= HFI_GRAPH_NONE / 2)
        return false;

    g->names = hfi_graph_array(view->count, sizeof *g->names);
    g->holders = hfi_graph_array(holders, sizeof *g->holders);
    g->waiters = hfi_graph_array(waiters, sizeof *g->waiters);
    g->claims = hfi_graph_array(waiters * HFI_HOLDS_MAX, sizeof *g->claims);
    g->by_id = hfi_graph_array(holders, sizeof *g->by_id);
    g->keys = hfi_graph_array(waiters, sizeof *g->keys);
    g->due = hfi_graph_array(view->count, sizeof *g->due);
    g->parts = hfi_graph_array(nodes, sizeof *g->parts);
    g->cycles = hfi_graph_array(waiters, sizeof *g->cycles);
    g->scratch = hfi_graph_array(nodes * 5, sizeof *g->scratch);
    if (!g->names || !g->holders || !g->waiters || !g->claims || !g->by_id || !g->keys || !g->due ||
        !g->parts || !g->cycles || !g->scratch)
        return false;

    for (size_t i = 0; i < view->count; i++)
        read_entry(g, (uint32_t)i, &view->entries[i]);
    g->name_count = (uint32_t)view->count;
    qsort(g->keys, g->waiter_count, sizeof *g->keys, by_number);
    return true;
}

/* ---- whose is what ----------------------------------------------------------------------- */

static int by_id(const void *left, const void *right, void *holders)
{
    const struct hfi_graph_holder *all = holders;
    uint64_t a = all[*(const uint32_t *)left].id, b = all[*(const uint32_t *)right].id;

    return a < b ? -1 : a > b;
}

static int by_name(const void *left, const void *right)
{
    const struct hfi_graph_claim *a = left, *b = right;

    return a->name < b->name ? -1 : a->name > b->name;
}

/* The one lease with this id; HFI_GRAPH_NONE: there is none, or two that we cannot tell apart. */
static uint32_t find_holder(const struct hfi_graph *g, uint64_t id)
{
    uint32_t low = 0, high = g->holder_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (g->holders[g->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == g->holder_count || g->holders[g->by_id[low]].id != id ||
        (low + 1 < g->holder_count && g->holders[g->by_id[low + 1]].id == id))
        return HFI_GRAPH_NONE;
    return g->by_id[low];
}

/* Was this wait in the earlier view? */
static bool was_there(const struct hfi_graph *before, const struct hfi_graph_waiter *waiter)
{
    return !before || bsearch(&waiter->key, before->keys, before->waiter_count,
                              sizeof *before->keys, by_number);
}

static void add_claim(struct hfi_graph *g, uint32_t waiter, uint64_t id,
                      const struct hfi_graph *before)
{
    struct hfi_graph_waiter *w = &g->waiters[waiter];
    uint32_t holder = find_holder(g, id);

    if (holder == HFI_GRAPH_NONE || (before && find_holder(before, id) == HFI_GRAPH_NONE))
        return;
    for (uint32_t i = 0; i < w->held_count; i++)
        if (w->held[i] == holder)
            return; /* said twice */
    w->held[w->held_count++] = holder;
    g->holders[holder].stuck = true; /* until we know better */
    g->holders[holder].info->session = w->tag.session;
    g->claims[g->claim_count++] = (struct hfi_graph_claim){ .name = g->holders[holder].name,
                                                            .holder = holder,
                                                            .waiter = waiter };
}

static int by_request(const void *left, const void *right, void *waiters)
{
    const struct hfi_graph_waiter *all = waiters;
    const struct hfi_tag *a = &all[*(const uint32_t *)left].tag;
    const struct hfi_tag *b = &all[*(const uint32_t *)right].tag;

    if (a->session != b->session)
        return a->session < b->session ? -1 : 1;
    if (a->began != b->began)
        return a->began < b->began ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Some waits of this request are not in the view: they are in the queue of a process, on their way, or over. Any of them may be
 * granted. */
static void note_missing(struct hfi_graph *g, const uint32_t *waits, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (count < g->waiters[waits[i]].tag.any)
            g->waiters[waits[i]].stuck = false;
}

/* Join the waits of each request for any of several names to a ring. */
static void join_rings(struct hfi_graph *g)
{
    uint32_t *any = g->scratch, count = 0, first = 0;

    for (uint32_t i = 0; i < g->waiter_count; i++) {
        g->waiters[i].other = i;
        if (g->waiters[i].tagged && g->waiters[i].tag.any > 0)
            any[count++] = i;
    }
    qsort_r(any, count, sizeof *any, by_request, g->waiters);
    for (uint32_t i = 0; i < count; i++) {
        if (!hfi_graph_together(g, any[first], any[i])) {
            note_missing(g, any + first, i - first);
            first = i;
        }
        g->waiters[any[i]].other = any[first];
        if (i > first)
            g->waiters[any[i - 1]].other = any[i];
    }
    note_missing(g, any + first, count - first);
    memset(any, 0, count * sizeof *any);
}

static void match(struct hfi_graph *g, const struct hfi_graph *before)
{
    join_rings(g);
    for (uint32_t i = 0; i < g->holder_count; i++)
        g->by_id[i] = i;
    qsort_r(g->by_id, g->holder_count, sizeof *g->by_id, by_id, g->holders);

    for (uint32_t i = 0; i < g->waiter_count; i++)
        for (uint32_t k = 0; g->waiters[i].tagged && k < g->waiters[i].tag.count; k++)
            add_claim(g, i, g->waiters[i].tag.holds[k], before);
    qsort(g->claims, g->claim_count, sizeof *g->claims, by_name);
    for (uint32_t i = g->claim_count; i-- > 0;) {
        g->names[g->claims[i].name].first_claim = i;
        g->names[g->claims[i].name].claims++;
    }
    for (uint32_t i = 0; i < g->holder_count; i++)
        if (g->holders[i].stuck)
            g->names[g->holders[i].name].kept += g->holders[i].info->permits;

    /* A wait that is new in the second view is in its first second: too young to be examined. */
    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (g->waiters[i].tagged && !was_there(before, &g->waiters[i]))
            g->waiters[i].stuck = false;
}
