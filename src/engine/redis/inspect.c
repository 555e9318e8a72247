/* SPDX-License-Identifier: MIT */
/*
 * LIST: one SCAN, of the server, or of one master of a cluster after the other: bare names, or those that have a queue. LOOK
 * (look.c): one script call, and the labels of the clients that it found. With the lock; answers come from the driver.
 */
#include "engine/redis/internal.h"

#include "engine/redis/scan.h"

hf_status redis_unanswered(enum hfi_outcome outcome, const hf_error *err)
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
                           : redis_unanswered(outcome, err);

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
