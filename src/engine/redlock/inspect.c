/* SPDX-License-Identifier: MIT */
/*
 * LIST, LOOK and BREAK. A page is a SCAN of every node that has more to show, for names that have keys, and then an HSCAN of
 * its counters, for leases that are alone: bare names. A LOOK is a round; so is the first half of a BREAK, to learn which owner has that token by majority. Its second half ends the attempt of that owner at every
 * node.
 *
 * With the lock; answers come from the driver.
 */
#include "engine/redlock/inspect.h"

#include "engine/redis/scan.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNTERS    1000 /* that one HSCAN visits */
#define COUNTER_LEN 9    /* a longer one has a lease behind it */

/* One name being read, for a LOOK or for a BREAK. */
struct look {
    struct hfi_op *op;
    const struct hfi_name *name;
    struct redlock_view view;
    hf_status status; /* of the last node that said no */
    hf_error err;
};

static void break_found(struct redlock_store *store, const struct look *look,
                        const struct redlock_merged *merged);

uint32_t redlock_nodes_askable(const struct redlock_store *store)
{
    uint32_t up = redlock_nodes_up(store), quick = up;
    int64_t now_ms = hfi_now_ms();

    for (unsigned i = 0; i < store->n; i++)
        if (up & 1u << i && redlock_node_silent(&store->nodes[i], now_ms))
            quick &= ~(1u << i);
    return redlock_count(quick) >= store->need ? quick : up;
}

/* Too few nodes have answered: why. */
static hf_status too_few(const struct redlock_store *store, unsigned answered, hf_status status,
                         hf_error *err)
{
    if (status == HF_OK || status == HF_UNAVAILABLE)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "%u of %u nodes answered, and %u are needed",
                             answered, store->n, store->need);
    return status;
}

/* ---- LIST ----------------------------------------------------------------------------------- */

struct places {                   /* the cursor */
    uint32_t more;                /* nodes that have not listed all */
    uint32_t counters;            /* ... of these: that have listed their keys */
    uint32_t shown;               /* nodes that have listed all */
    uint64_t scan[HFI_NODES_MAX]; /* of each node */
};

/* One page under way. */
struct page {
    struct hfi_op *op;
    unsigned asking;  /* nodes, and 1 until all have been asked */
    hf_status status; /* what ends it */
    hf_error err;
};

static struct places *places_of(struct hfi_op *op)
{
    return (struct places *)(void *)op->u.list.cursor->bytes;
}

static void end_page(struct redlock_store *store, struct page *page)
{
    struct places *places = places_of(page->op);
    unsigned answered = redlock_count(places->more | places->shown);

    if (--page->asking > 0)
        return;
    if (page->status == HF_OK && answered < store->need)
        page->status = too_few(store, answered, page->err.status, &page->err);
    page->op->u.list.cursor->len = places->more ? sizeof *places : 0;
    hfi_reactor_finish(&store->reactor, page->op, page->status, &page->err);
    hfi_free(page);
}

/* The names whose counter has a lease behind it: it may have been released since, which a LOOK finds out. */
static hf_status take_counters(const struct hfi_reply *reply, struct hfi_sink *sink,
                               uint64_t *ret_cursor)
{
    const struct hfi_reply *fields = hfi_reply_at(reply, 1, HFI_REPLY_LIST);

    if (!fields || !hfi_scan_cursor(hfi_reply_at(reply, 0, HFI_REPLY_TEXT), ret_cursor))
        return HF_CORRUPT;
    for (size_t i = 0; i + 1 < fields->count; i += 2) {
        const struct hfi_reply *field = hfi_reply_at(fields, i, HFI_REPLY_TEXT);
        const struct hfi_reply *value = hfi_reply_at(fields, i + 1, HFI_REPLY_TEXT);

        if (field && value && field->len > 1 && field->len <= 1 + HF_NAME_MAX &&
            field->text[0] == 'n' && value->len > COUNTER_LEN &&
            !sink->name(sink, (const unsigned char *)field->text + 1, field->len - 1))
            return HF_NO_MEMORY;
    }
    return HF_OK;
}

static void scanned(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct page *page = round->data;
    struct places *places = places_of(page->op);
    hf_status status;

    if (outcome != HFI_ANSWERED) { /* the others may be enough */
        places->more &= ~(1u << node);
        if (page->status == HF_OK)
            page->err = *err;
        return;
    }
    if (places->counters & 1u << node)
        status = take_counters(reply, page->op->u.list.sink, &places->scan[node]);
    else
        status = hfi_scan_take(reply, round->store->prefix, page->op->u.list.waited,
                               page->op->u.list.sink, &places->scan[node]);
    if (status != HF_OK && page->status == HF_OK) {
        hfi_error_clear(&page->err);
        page->status = status;
    }
    if (places->scan[node] == 0 && !page->op->u.list.waited && !(places->counters & 1u << node)) {
        places->counters |= 1u << node; /* of leases that nobody waits for */
    } else if (places->scan[node] == 0) {
        places->more &= ~(1u << node);
        places->shown |= 1u << node;
    }
}

static void scan_over(struct redlock_round *round)
{
    end_page(round->store, round->data);
}

static void add_hscan(struct redlock_round *round, uint64_t cursor)
{
    char number[24];

    snprintf(number, sizeof number, "%" PRIu64, cursor);
    hfi_command_add_text(&round->command, "HSCAN");
    redlock_add_cluster(round);
    hfi_command_add_text(&round->command, number);
    hfi_command_add_text(&round->command, "MATCH");
    hfi_command_add_text(&round->command, "n*");
    hfi_command_add_text(&round->command, "COUNT");
    hfi_command_add_number(&round->command, COUNTERS);
}

static void scan(struct redlock_store *store, struct page *page, unsigned node)
{
    struct redlock_round *round = redlock_round_new(store, NULL, 0, scanned);

    if (!round) {
        page->status = hfi_error_memory(&page->err);
        return;
    }
    round->data = page;
    round->over = scan_over;
    page->asking++;
    if (places_of(page->op)->counters & 1u << node)
        add_hscan(round, places_of(page->op)->scan[node]);
    else
        hfi_scan_add(&round->command, store->prefix, places_of(page->op)->scan[node],
                     page->op->u.list.waited);
    redlock_round_send(round, 1u << node);
}

void redlock_list(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    struct page *page = hfi_calloc(1, sizeof *page);
    struct places *places = places_of(op);
    uint32_t nodes;

    redlock_notes_send(store); /* send our notes first: the view shows tokens */
    if (!page) {
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    if (op->u.list.cursor->len == 0)
        *places = (struct places){ .more = redlock_nodes_askable(store) };
    page->op = op;
    page->asking = 1; /* a round may end at once: do not end the search during this loop */
    nodes = places->more;
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i)
            scan(store, page, i);
    end_page(store, page);
}

/* ---- LOOK ----------------------------------------------------------------------------------- */

static bool emit_party(struct hfi_sink *sink, const struct redlock_party *party, uint32_t position,
                       int64_t mode)
{
    const struct redlock_record *record = party->record;
    hf_holder holder = { .token = party->token,
                         .first = party->first,
                         .permits = record->permits,
                         .detached = record->detached,
                         .lingers = record->lingers,
                         .watched = record->watched,
                         .idle = party->idle,
                         .age_ms = party->age_ms,
                         .ttl_ms = party->left_ms,
                         .tid = party->tid,
                         .label = record->label,
                         .slot_count = record->slot_count };
    hf_waiter waiter = { .position = position,
                         .permits = record->permits,
                         .kind = hfi_shown_kind(mode, record->permits),
                         .age_ms = party->age_ms,
                         .label = record->label };

    memcpy(holder.slots, record->slots, sizeof holder.slots);
    return party->holds ? sink->holder(sink, &holder) : sink->waiter(sink, &waiter);
}

static hf_status emit(struct hfi_sink *sink, const struct hfi_name *name,
                      const struct redlock_merged *merged)
{
    hf_entry entry = { .name = name->bytes,
                       .name_len = name->len,
                       .kind = hfi_shown_kind(merged->mode, 1),
                       .capacity = (uint32_t)merged->capacity,
                       .taken = merged->taken,
                       .closed_ms = merged->closed_ms };
    bool ok;

    if (!merged->holders && !merged->waiters && !merged->closed_ms)
        return HF_OK; /* nothing to show */
    ok = sink->entry(sink, &entry);
    for (size_t i = 0; ok && i < merged->holders + merged->waiters; i++)
        ok = emit_party(sink, &merged->parties[i], (uint32_t)(i + 1 - merged->holders),
                        merged->mode);
    return ok ? HF_OK : HF_NO_MEMORY;
}

static void looked(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err)
{
    struct look *look = round->data;

    if (outcome != HFI_ANSWERED) {
        look->status = err->status;
        look->err = *err;
    } else if (!redlock_view_take(&look->view, node, reply)) {
        look->status =
            hfi_error_set(&look->err, HF_CORRUPT, 0, "%s: an unexpected answer of the script look",
                          round->store->conf->url.hosts[node].shown);
    }
}

static void all_looked(struct redlock_round *round)
{
    struct redlock_store *store = round->store;
    struct look *look = round->data;
    struct redlock_merged merged = { .parties = NULL };
    hf_status status = HF_OK;

    if (look->view.failed)
        status = hfi_error_memory(&look->err);
    else if (look->view.answered < store->need)
        status = too_few(store, look->view.answered, look->status, &look->err);
    else if (!redlock_merge(&look->view, &merged))
        status = hfi_error_memory(&look->err);

    if (look->op->kind == HFI_OP_BREAK && status == HF_OK) {
        break_found(store, look, &merged);
    } else {
        if (status == HF_OK)
            status = emit(look->op->u.look.sink, look->name, &merged);
        hfi_reactor_finish(&store->reactor, look->op, status, &look->err);
    }
    redlock_merged_done(&merged);
    redlock_view_done(&look->view);
    hfi_free(look);
}

static void look_at(struct redlock_store *store, struct hfi_op *op, const struct hfi_name *name)
{
    struct look *look = hfi_calloc(1, sizeof *look);
    struct redlock_round *round;

    redlock_notes_send(store); /* ... or compared */
    round = redlock_round_new(store, &redlock_script_look, 1 + REDLOCK_NAME_KEYS, looked);
    if (!look || !round) {
        hfi_free(look);
        if (round)
            redlock_round_free(round);
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    look->op = op;
    look->name = name;
    look->view.n = store->n;
    look->view.need = store->need;
    round->data = look;
    round->over = all_looked;
    redlock_add_cluster(round);
    redlock_add_name_keys(round, name);
    hfi_command_add(&round->command, name->bytes, name->len);
    redlock_round_send(round, redlock_nodes_askable(store));
}

void redlock_look(void *self, struct hfi_op *op)
{
    look_at(self, op, &op->u.look.name);
}

/* ---- break ---------------------------------------------------------------------------------- */

/* Enough nodes have answered: whether they held it or not, they do not hold it now, and never will
 * again. */
static void broke(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    char letter = outcome == HFI_ANSWERED ? hfi_reply_letter(reply) : 0;
    const struct hfi_name *name = round->op ? &round->op->u.brk.name : NULL;

    (void)err;
    if (letter == 'R')
        round->yes++;
    else if (letter == 'N')
        round->no++;
    else if (name) /* the node is told when it can be reached */
        redlock_defer_release(&store->nodes[node], name, round->owner, round->attempt,
                              round->ttl_ms);
    if (round->op && round->yes + round->no >= store->need && !round->sending) {
        hfi_reactor_finish(&store->reactor, round->op, round->yes ? HF_OK : HF_NOT_FOUND, NULL);
        round->op = NULL;
    }
}

static void all_broke(struct redlock_round *round)
{
    hf_error err;

    if (!round->op)
        return;
    if (round->yes + round->no >= round->store->need)
        hfi_reactor_finish(&round->store->reactor, round->op, round->yes ? HF_OK : HF_NOT_FOUND,
                           NULL);
    else {
        hfi_error_set(&err, HF_UNKNOWN, 0, "%u of %u nodes confirmed it, and %u are needed",
                      round->yes + round->no, round->store->n, round->store->need);
        hfi_reactor_finish(&round->store->reactor, round->op, HF_UNKNOWN, &err);
    }
}

static void break_owner(struct redlock_store *store, struct hfi_op *op,
                        const struct redlock_record *record)
{
    struct redlock_round *round =
        redlock_round_new(store, &redlock_script_break, 1 + REDLOCK_NAME_KEYS, broke);
    const struct hfi_name *name = &op->u.brk.name;

    if (!round || !hfi_unhex(record->owner, sizeof record->owner, round->owner, HFI_OWNER_LEN)) {
        hfi_reactor_finish(&store->reactor, op, round ? HF_CORRUPT : HF_NO_MEMORY, NULL);
        if (round)
            redlock_round_free(round);
        return;
    }
    round->op = op;
    round->over = all_broke;
    round->attempt = record->attempt;
    round->ttl_ms = record->ttl_ms;
    redlock_add_cluster(round);
    redlock_add_name_keys(round, name);
    hfi_command_add(&round->command, name->bytes, name->len);
    redis_add_owner(&round->command, round->owner);
    hfi_command_add_number(&round->command, (int64_t)record->attempt);
    hfi_command_add_number(&round->command, record->ttl_ms);
    hfi_command_add_number(&round->command, (int64_t)redlock_proposal(store));
    redlock_round_send(round, (1u << store->n) - 1);
}

static void break_found(struct redlock_store *store, const struct look *look,
                        const struct redlock_merged *merged)
{
    for (size_t i = 0; i < merged->holders; i++)
        if (merged->parties[i].token == look->op->u.brk.token) {
            break_owner(store, look->op, merged->parties[i].record);
            return;
        }
    hfi_reactor_finish(&store->reactor, look->op, HF_NOT_FOUND, NULL);
}

void redlock_break(void *self, struct hfi_op *op)
{
    look_at(self, op, &op->u.brk.name);
}
