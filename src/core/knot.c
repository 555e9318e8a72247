/* SPDX-License-Identifier: MIT */
/*
 * Knots: see knot.h. In this order: read the view, match tags with leases, let go on
 * who can, find the knots among the rest (Tarjan's strongly connected components),
 * and say which circle each has.
 */
#include "core/knot.h"

#include "util/alloc.h"
#include "util/hash.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct name {
    const hf_entry *entry;
    uint64_t hash[2];
    uint32_t first_holder, first_waiter, first_claim, claims;
    uint64_t kept; /* permits of those who are stuck, or not known yet to go on */
    bool due;      /* on the list of names to look at */
};

struct holder {
    hf_holder *info;
    uint64_t id;
    uint32_t name;
    bool stuck;
};

struct waiter {
    hf_waiter *info;
    struct hfi_tag tag; /* if it is `tagged` */
    uint64_t key;       /* the same in every look at the same wait */
    uint32_t name;
    uint32_t held[HFI_HOLDS_MAX], held_count; /* holders */
    bool tagged, stuck;
};

/* `waiter` holds `holder`. */
struct claim {
    uint32_t name, holder, waiter;
};

/* Waiters are nodes 0 to waiter_count - 1; names come behind them. */
struct hfi_graph {
    bool fifo;
    uint32_t name_count, holder_count, waiter_count, claim_count, knot_count;
    struct name *names;
    struct holder *holders;
    struct waiter *waiters;
    struct claim *claims;                    /* sorted by name */
    uint32_t *by_id;                         /* holders, sorted by id */
    uint64_t *keys;                          /* of waiters, sorted */
    uint32_t *due, *parts, *knots, *scratch; /* parts: which component a node is of */
};

static bool read_view(struct hfi_graph *g, hf_view *view);
static void match(struct hfi_graph *g, const struct hfi_graph *before);
static void let_go_on(struct hfi_graph *g);
static bool find_knots(struct hfi_graph *g);

/* An array that is there also if it is empty. */
static void *array(size_t count, size_t size)
{
    return hfi_calloc(count ? count : 1, size);
}

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
    let_go_on(g);
    if (!find_knots(g)) {
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
    hfi_free(g->knots);
    hfi_free(g->scratch);
    hfi_free(g);
}

/* ---- reading --------------------------------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return *a < *b ? -1 : *a > *b;
}

static void read_entry(struct hfi_graph *g, uint32_t index, const hf_entry *entry)
{
    struct name *name = &g->names[index];

    *name = (struct name){ .entry = entry,
                           .first_holder = g->holder_count,
                           .first_waiter = g->waiter_count };
    hfi_hash128(entry->name, entry->name_len, name->hash);
    for (size_t i = 0; i < entry->holder_count; i++) {
        struct holder *holder = &g->holders[g->holder_count++];

        /* Views are ours: const is for those who get them from hf_inspect(). */
        holder->info = (hf_holder *)(uintptr_t)&entry->holders[i];
        holder->id = hfi_hold_id(name->hash,
                                 holder->info->first ? holder->info->first : holder->info->token);
        holder->name = index;
        (void)hfi_tag_cut((char *)(uintptr_t)holder->info->label, &(struct hfi_tag){ 0 });
    }
    for (size_t i = 0; i < entry->waiter_count; i++) {
        struct waiter *waiter = &g->waiters[g->waiter_count];

        waiter->info = (hf_waiter *)(uintptr_t)&entry->waiters[i];
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
        holders += view->entries[i].holder_count;
        waiters += view->entries[i].waiter_count;
    }
    nodes = view->count + waiters;
    if (nodes >= NONE / 2 || holders >= NONE / 2 || waiters * HFI_HOLDS_MAX >= NONE / 2)
        return false;

    g->names = array(view->count, sizeof *g->names);
    g->holders = array(holders, sizeof *g->holders);
    g->waiters = array(waiters, sizeof *g->waiters);
    g->claims = array(waiters * HFI_HOLDS_MAX, sizeof *g->claims);
    g->by_id = array(holders, sizeof *g->by_id);
    g->keys = array(waiters, sizeof *g->keys);
    g->due = array(view->count, sizeof *g->due);
    g->parts = array(nodes, sizeof *g->parts);
    g->knots = array(waiters, sizeof *g->knots);
    g->scratch = array(nodes * 5, sizeof *g->scratch);
    if (!g->names || !g->holders || !g->waiters || !g->claims || !g->by_id || !g->keys || !g->due ||
        !g->parts || !g->knots || !g->scratch)
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
    const struct holder *all = holders;
    uint64_t a = all[*(const uint32_t *)left].id, b = all[*(const uint32_t *)right].id;

    return a < b ? -1 : a > b;
}

static int by_name(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;

    return a->name < b->name ? -1 : a->name > b->name;
}

/* The one lease with this id; NONE: there is none, or two that we cannot tell apart. */
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
        return NONE;
    return g->by_id[low];
}

/* Was this wait there at the earlier look? */
static bool was_there(const struct hfi_graph *before, const struct waiter *waiter)
{
    return !before || bsearch(&waiter->key, before->keys, before->waiter_count,
                              sizeof *before->keys, by_number);
}

static void add_claim(struct hfi_graph *g, uint32_t waiter, uint64_t id,
                      const struct hfi_graph *before)
{
    struct waiter *w = &g->waiters[waiter];
    uint32_t holder = find_holder(g, id);

    if (holder == NONE || (before && find_holder(before, id) == NONE))
        return;
    for (uint32_t i = 0; i < w->held_count; i++)
        if (w->held[i] == holder)
            return; /* said twice */
    w->held[w->held_count++] = holder;
    g->holders[holder].stuck = true; /* until we know better */
    g->holders[holder].info->session = w->tag.session;
    g->claims[g->claim_count++] =
        (struct claim){ .name = g->holders[holder].name, .holder = holder, .waiter = waiter };
}

static void match(struct hfi_graph *g, const struct hfi_graph *before)
{
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

    /* A wait that is new at the second look is in its first second: not our business. */
    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (g->waiters[i].tagged && !was_there(before, &g->waiters[i]))
            g->waiters[i].stuck = false;
}

/* ---- who can go on ------------------------------------------------------------------------- */

static void name_due(struct hfi_graph *g, uint32_t name, uint32_t *count)
{
    if (g->names[name].due)
        return;
    g->names[name].due = true;
    g->due[(*count)++] = name;
}

/* It gets what it waits for: it goes on, and releases what it holds. */
static void goes_on(struct hfi_graph *g, struct waiter *waiter, uint32_t *count)
{
    waiter->stuck = false;
    for (uint32_t i = 0; i < waiter->held_count; i++) {
        struct holder *holder = &g->holders[waiter->held[i]];

        if (!holder->stuck)
            continue;
        holder->stuck = false;
        g->names[holder->name].kept -= holder->info->permits;
        name_due(g, holder->name, count);
    }
}

/* Give what can be free of a name to those who wait for it. They give it back: so whoever fits alone
 * fits in the end. */
static void grant(struct hfi_graph *g, uint32_t index, uint32_t *count)
{
    struct name *name = &g->names[index];
    uint64_t capacity = name->entry->capacity;
    bool closed = false; /* somebody who does not fit is ahead */

    for (size_t i = 0; i < name->entry->waiter_count; i++) {
        struct waiter *waiter = &g->waiters[name->first_waiter + i];
        bool fits = name->kept + waiter->info->permits <= capacity;

        if (!waiter->stuck)
            continue;
        if (fits && (!closed || (waiter->tagged && waiter->tag.barge)))
            goes_on(g, waiter, count);
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

static void let_go_on(struct hfi_graph *g)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (!g->waiters[i].stuck)
            goes_on(g, &g->waiters[i], &count);
    for (uint32_t i = 0; i < g->name_count; i++)
        name_due(g, i, &count);
    grant_due(g, count);
}

bool hfi_graph_stuck(const struct hfi_graph *g, size_t index)
{
    return g->waiters[index].stuck;
}

/* ---- knots ------------------------------------------------------------------------------------ */

static bool is_node(const struct waiter *waiter)
{
    return waiter->tagged && waiter->stuck;
}

/*
 * The edges of a node, one after the other; *cursor is 0 at first. A waiter waits for its name and for
 * those ahead of it; that is, for the nearest of them, who waits for the next, unless it may overtake.
 * A name waits for those who hold it. NONE: there are no more.
 */
static uint32_t next_edge(const struct hfi_graph *g, uint32_t node, uint32_t *cursor)
{
    const struct waiter *waiter;
    const struct name *name;

    if (node >= g->waiter_count) {
        name = &g->names[node - g->waiter_count];
        while (*cursor < name->claims) {
            const struct claim *claim = &g->claims[name->first_claim + (*cursor)++];

            if (g->holders[claim->holder].stuck && is_node(&g->waiters[claim->waiter]))
                return claim->waiter;
        }
        return NONE;
    }

    waiter = &g->waiters[node];
    name = &g->names[waiter->name];
    if ((*cursor)++ == 0)
        return g->waiter_count + waiter->name;
    if (!g->fifo || waiter->tag.barge)
        return NONE;
    for (uint32_t back = *cursor - 1; back <= node - name->first_waiter; back++) {
        const struct waiter *ahead = &g->waiters[node - back];

        *cursor = back + 1;
        if (!is_node(ahead))
            continue;
        if (!ahead->tag.barge)
            *cursor = NONE - 1; /* the rest is ahead of this one too */
        return node - back;
    }
    return NONE;
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

/* All edges of the node are gone through. */
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
        uint32_t to = next_edge(g, node, &s->cursor[node]);

        if (to == NONE)
            leave(g, s, node);
        else if (s->order[to] == 0)
            visit(s, to);
        else if (g->parts[to] == 0 && s->order[to] < s->low[node])
            s->low[node] = s->order[to];
    }
}

/* Should `a` rather than `b` be the one to give up? Who does so anyway, then who came last. */
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

/* Who waits for itself alone, with an end to that, gets what it asked for: to wait so long. */
static bool is_alone(const struct hfi_graph *g, uint32_t victim)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        others += i != victim && g->parts[i] == g->parts[victim];
    return others == 0 && g->waiters[victim].tag.timed;
}

/* ---- who gives up ---- */

/* If this wait ended, would anybody else of its knot go on? Changes all that let_go_on() does; the caller
 * has a copy. */
static bool would_help(struct hfi_graph *g, uint32_t victim)
{
    uint32_t count = 0;

    goes_on(g, &g->waiters[victim], &count);
    name_due(g, g->waiters[victim].name, &count); /* it is in nobody's way there any more */
    grant_due(g, count);
    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (i != victim && g->parts[i] == g->parts[victim] && !g->waiters[i].stuck)
            return true;
    return false;
}

/* What would_help() changes, kept and put back. */
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

/* The first of a knot, in the order of rather(), behind `last` (NONE: from the beginning). */
static uint32_t candidate(const struct hfi_graph *g, uint32_t part, uint32_t last)
{
    uint32_t best = NONE;

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (g->parts[i] == part &&
            (last == NONE || rather(&g->waiters[last].tag, &g->waiters[i].tag)) &&
            (best == NONE || rather(&g->waiters[i].tag, &g->waiters[best].tag)))
            best = i;
    return best;
}

/*
 * Who stands in a queue of the knot may be part of it without anybody needing what it holds: that it gave
 * up would help nobody. So the first whose end helps is chosen; if more than one must give up, the first.
 */
static uint32_t choose(struct hfi_graph *g, uint32_t part, const struct memory *memory)
{
    uint32_t first = candidate(g, part, NONE);

    for (uint32_t i = first; i != NONE; i = candidate(g, part, i)) {
        bool helps = would_help(g, i);

        put_back(g, memory);
        if (helps)
            return i;
    }
    return first;
}

/* false: out of memory. */
static bool choose_all(struct hfi_graph *g)
{
    struct memory memory = { array(g->holder_count, sizeof(bool)),
                             array(g->waiter_count, sizeof(bool)),
                             array(g->name_count, sizeof(uint64_t)) };
    bool ok = memory.holders && memory.waiters && memory.kept;

    if (ok) {
        keep(g, &memory);
        for (uint32_t i = 0; i < g->knot_count; i++)
            g->knots[i] = choose(g, g->parts[g->knots[i]], &memory);
    }
    hfi_free(memory.holders);
    hfi_free(memory.waiters);
    hfi_free(memory.kept);
    return ok;
}

static bool find_knots(struct hfi_graph *g)
{
    uint32_t nodes = g->waiter_count + g->name_count;
    struct search s = { .order = g->scratch,
                        .low = g->scratch + nodes,
                        .cursor = g->scratch + 2 * (size_t)nodes,
                        .open = g->scratch + 3 * (size_t)nodes,
                        .path = g->scratch + 4 * (size_t)nodes };
    uint32_t
        *members; /* one of each component: + 1; 0: none, NONE: it waits for another component */

    for (uint32_t i = 0; i < g->waiter_count; i++)
        if (is_node(&g->waiters[i]) && s.order[i] == 0)
            search_from(g, &s, i);

    members = array((size_t)s.part_count + 1, sizeof *members);
    if (!members)
        return false;
    for (uint32_t node = 0; node < nodes; node++) {
        uint32_t part = g->parts[node], cursor = 0, to;

        while (part && (to = next_edge(g, node, &cursor)) != NONE)
            if (g->parts[to] != part)
                members[part] = NONE;
        if (part && node < g->waiter_count && members[part] == 0)
            members[part] = node + 1;
    }
    for (uint32_t part = 1; part <= s.part_count; part++)
        if (members[part] != 0 && members[part] != NONE && !is_alone(g, members[part] - 1))
            g->knots[g->knot_count++] = members[part] - 1;
    hfi_free(members);
    return g->knot_count == 0 || choose_all(g);
}

size_t hfi_graph_knots(const struct hfi_graph *g)
{
    return g->knot_count;
}

const struct hfi_tag *hfi_graph_victim(const struct hfi_graph *g, size_t knot)
{
    return &g->waiters[g->knots[knot]].tag;
}

/* ---- circles --------------------------------------------------------------------------------- */

/* The lease of `name` that this waiter holds. NULL: none. */
static const hf_holder *lease_of(const struct hfi_graph *g, const struct waiter *waiter,
                                 uint32_t name)
{
    for (uint32_t i = 0; i < waiter->held_count; i++)
        if (g->holders[waiter->held[i]].name == name)
            return g->holders[waiter->held[i]].info;
    return NULL;
}

static hf_deadlock_link make_link(const struct hfi_graph *g, uint32_t node, uint32_t before)
{
    const struct waiter *waiter = &g->waiters[node];
    const hf_entry *entry = g->names[waiter->name].entry;
    const hf_holder *lease = lease_of(g, waiter, g->waiters[before].name);

    return (hf_deadlock_link){ .name = entry->name,
                               .name_len = entry->name_len,
                               .token = lease ? lease->token : 0,
                               .session = waiter->tag.session,
                               .age_ms = waiter->info->age_ms,
                               .pid = waiter->info->pid,
                               .label = waiter->info->label };
}

/* Breadth first from the victim until it comes round: who was reached from whom, in `from`. Returns the
 * last before it. */
static uint32_t go_round(const struct hfi_graph *g, uint32_t victim, uint32_t *from,
                         uint32_t *queue)
{
    uint32_t head = 0, tail = 0;

    queue[tail++] = victim;
    while (head < tail) {
        uint32_t node = queue[head++], cursor = 0, to;

        while ((to = next_edge(g, node, &cursor)) != NONE) {
            if (to == victim)
                return node;
            if (from[to] == 0) {
                from[to] = node + 1;
                queue[tail++] = to;
            }
        }
    }
    return victim; /* cannot be: it is in a knot */
}

hf_deadlock_link *hfi_graph_circle(const struct hfi_graph *g, size_t knot, size_t *ret_count)
{
    uint32_t nodes = g->waiter_count + g->name_count, victim = g->knots[knot];
    uint32_t *from = array((size_t)nodes * 2, sizeof *from);
    hf_deadlock_link *links = NULL;
    uint32_t last, count = 1;

    if (!from)
        return NULL;
    last = go_round(g, victim, from, from + nodes);
    for (uint32_t node = last; node != victim; node = from[node] - 1)
        count += node < g->waiter_count;

    links = array(count, sizeof *links);
    if (links) {
        uint32_t at = count, next = NONE;

        /* From its end to its beginning, leaving out the names in between. */
        for (uint32_t node = last; node != victim; node = from[node] - 1) {
            if (node >= g->waiter_count)
                continue;
            if (next != NONE)
                links[at] = make_link(g, next, node);
            at--;
            next = node;
        }
        if (next != NONE)
            links[at] = make_link(g, next, victim);
        while (last >= g->waiter_count)
            last = from[last] - 1;
        links[0] = make_link(g, victim, last);
        *ret_count = count;
    }
    hfi_free(from);
    return links;
}

#define NAME_SHOWN 60 /* of each: there may be several, and the text has an end */

void hfi_circle_words(const hf_deadlock_link *links, size_t count, char *ret_text, size_t size)
{
    size_t at = 0;

    ret_text[0] = 0;
    for (size_t i = 0; i < count && at < size; i++) {
        const hf_deadlock_link *next = &links[(i + 1) % count];
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
