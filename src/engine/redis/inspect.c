/* SPDX-License-Identifier: MIT */
/*
 * LIST: one SCAN, of the server, or of one master of a cluster after the other: bare names, or those that have a queue.
 * LOOK: one script call.
 * With the lock; answers come from the driver.
 */
#include "engine/redis/internal.h"

#include "engine/redis/scan.h"

/* The status of an outcome without an answer: inspection changes nothing. */
static hf_status unanswered(enum hfi_outcome outcome, const hf_error *err)
{
    hf_status status = hfi_outcome_status(outcome, err);

    return status == HF_UNKNOWN ? HF_UNAVAILABLE : status;
}

/* ---- LIST ------------------------------------------------------------------------------------ */

struct place { /* the cursor */
    uint32_t node;
    uint64_t scan;
};

static struct place *place_of(struct hfi_op *op)
{
    return (struct place *)(void *)op->u.list.cursor->bytes;
}

static void scanned(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct hfi_op *op = call->op;
    struct place *place = place_of(op);
    hf_status status = outcome == HFI_ANSWERED
                           ? hfi_scan_take(reply, store->conf->prefix, op->u.list.waited,
                                           op->u.list.sink, &place->scan)
                           : unanswered(outcome, err);

    if (place->scan == 0)
        place->node = store->slots ? redis_cluster_next(store, place->node + 1) : REDIS_NODE_ANY;
    op->u.list.cursor->len = place->scan || place->node != REDIS_NODE_ANY ? sizeof *place : 0;
    hfi_reactor_finish(&store->reactor, op, status, err);
}

void redis_list(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct place *place = place_of(op);
    struct redis_call *call;

    redis_notes_send(store);
    if (op->u.list.cursor->len == 0)
        *place =
            (struct place){ .node = store->slots ? redis_cluster_next(store, 0) : REDIS_NODE_ANY };
    call = redis_call_new(store, NULL, 0, scanned, op);
    if (!call)
        return;
    call->idempotent = true;
    call->node = place->node;
    hfi_scan_add(&call->command, store->conf->prefix, place->scan, op->u.list.waited);
    redis_call_send(call);
}

/* ---- LOOK ------------------------------------------------------------------------------------ */

static int64_t number(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_INTEGER);

    return item && item->integer > 0 ? item->integer : 0;
}

static const char *text(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_TEXT);

    return item ? item->text : "";
}

static bool emit_holder(struct hfi_sink *sink, const struct hfi_reply *item)
{
    hf_holder holder = { .token = (uint64_t)number(item, 1),
                         .first = (uint64_t)number(item, 2),
                         .permits = (uint32_t)number(item, 4),
                         .detached = number(item, 5) & 4 ? 1 : 0,
                         .age_ms = hfi_told_ms(number(item, 6)),
                         .ttl_ms = hfi_told_ms(number(item, 7)),
                         .tid = number(item, 10),
                         .label = text(item, 11) };

    return sink->holder(sink, &holder);
}

static bool emit_waiter(struct hfi_sink *sink, const struct hfi_reply *item, uint32_t position,
                        int64_t mode)
{
    hf_waiter waiter = { .position = position,
                         .permits = (uint32_t)number(item, 1),
                         .age_ms = hfi_told_ms(number(item, 3)),
                         .label = text(item, 5) };

    waiter.kind = hfi_shown_kind(mode, waiter.permits == HFI_RW_MAX);
    return sink->waiter(sink, &waiter);
}

/* `L`, mode, capacity, taken, closed, holders, waiters (scripts/look.lua). */
static bool emit(struct hfi_sink *sink, const struct hfi_name *name, const struct hfi_reply *reply)
{
    const struct hfi_reply *holders = hfi_reply_at(reply, 5, HFI_REPLY_LIST);
    const struct hfi_reply *waiters = hfi_reply_at(reply, 6, HFI_REPLY_LIST);
    int64_t mode = number(reply, 1);
    hf_entry entry = { .name = name->bytes,
                       .name_len = name->len,
                       .kind = hfi_shown_kind(mode, false),
                       .capacity = (uint32_t)number(reply, 2),
                       .taken = (uint32_t)number(reply, 3),
                       .closed_ms = hfi_told_ms(number(reply, 4)) };
    bool ok = sink->entry(sink, &entry);

    for (size_t i = 0; ok && holders && i < holders->count; i++)
        ok = emit_holder(sink, &holders->items[i]);
    for (size_t i = 0; ok && waiters && i < waiters->count; i++)
        ok = emit_waiter(sink, &waiters->items[i], (uint32_t)i + 1, mode);
    return ok;
}

static void looked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    struct hfi_op *op = call->op;
    char letter = hfi_reply_letter(reply);
    hf_status status = HF_OK; /* also if nobody holds it */

    if (outcome != HFI_ANSWERED)
        status = unanswered(outcome, err);
    else if (letter == 'L')
        status = emit(op->u.look.sink, &op->u.look.name, reply) ? HF_OK : HF_NO_MEMORY;
    else if (letter != 'N')
        status = HF_CORRUPT;
    hfi_reactor_finish(&call->store->reactor, op, status, err);
}

void redis_look(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call;

    redis_notes_send(store);
    call = redis_call_new(store, &hfi_script_look, 3, looked, op);
    if (!call)
        return;
    call->idempotent = true;
    redis_add_keys(call, &op->u.look.name, true);
    redis_call_send(call);
}
