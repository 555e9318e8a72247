/* SPDX-License-Identifier: MIT */
/*
 * Cells: bytes and a version, which is the key's mod revision: it never repeats.
 *
 * A ttl is a separate etcd lease that nobody keeps alive: granted first, then attached to the key
 * by the swap. A swap that fails revokes it; if the outcome is unknown it ends by itself. etcd
 * counts in seconds, and has a minimum ttl: a cell may live longer than was asked for.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

/* ---- read --------------------------------------------------------------------------------------- */

static void forget_bytes(struct hfi_op *op)
{
    hfi_free(op->u.cell.ret_bytes);
    op->u.cell.ret_bytes = NULL;
}

static void ttl_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                     const hf_error *err)
{
    struct hfi_op *op = call->op;
    int64_t left_ms = etcd_ttl_ms(reply);

    if (outcome != HFI_ANSWERED) {
        forget_bytes(op);
        etcd_finish(call->store, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    op->u.cell.ret_ttl_ms = left_ms > 0 ? left_ms : 1; /* it ends just now */
    etcd_finish(call->store, op, HF_OK, NULL);
}

static void read_ttl(struct etcd_store *store, struct hfi_op *op, int64_t lease)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_ttl_method, ttl_read, NULL);

    if (!call) {
        forget_bytes(op);
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->again = true;
    etcd_add_id(&call->body, lease);
    etcd_call_send(call);
}

static void cell_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    struct hfi_op *op = call->op;
    struct etcd_message kv = etcd_part(reply, ETCD_RANGE_KVS);
    struct etcd_message value = etcd_part(kv, ETCD_KV_VALUE);

    if (outcome != HFI_ANSWERED) {
        etcd_finish(call->store, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    if (!kv.at) {
        etcd_finish(call->store, op, HF_NOT_FOUND, NULL);
        return;
    }
    op->u.cell.ret_bytes = hfi_malloc(value.len ? value.len : 1);
    if (!op->u.cell.ret_bytes) {
        etcd_finish(call->store, op, HF_NO_MEMORY, NULL);
        return;
    }
    if (value.len > 0)
        memcpy(op->u.cell.ret_bytes, value.at, value.len);
    op->u.cell.ret_len = value.len;
    op->u.cell.ret_version = (uint64_t)etcd_number(kv, ETCD_KV_MODIFIED);
    if (op->u.cell.ret_version == 0) {
        forget_bytes(op);
        etcd_finish_odd(call->store, op);
        return;
    }
    op->u.cell.ret_ttl_ms = -1;
    if (etcd_number(kv, ETCD_KV_LEASE) != 0)
        read_ttl(call->store, op, etcd_number(kv, ETCD_KV_LEASE));
    else
        etcd_finish(call->store, op, HF_OK, NULL);
}

void etcd_cell_read(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, cell_read, op);
    struct etcd_key key;

    if (!call)
        return;
    call->again = true;
    etcd_cell_key(store->conf->prefix, &op->u.cell.name, &key);
    etcd_add_range(&call->body, &(struct etcd_range){ .key = &key });
    etcd_call_send(call);
}

/* ---- swap --------------------------------------------------------------------------------------- */

static void given_back(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                       const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err; /* else it ends by itself */
}

void etcd_cell_give_back(struct etcd_store *store, int64_t lease)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_revoke_method, given_back, NULL);

    if (!call)
        return;
    etcd_add_id(&call->body, lease);
    etcd_call_send(call);
}

static void cell_swapped(struct etcd_call *call, enum hfi_outcome outcome,
                         struct etcd_message reply, const hf_error *err)
{
    struct hfi_op *op = call->op;
    bool done = etcd_number(reply, ETCD_TXN_SUCCEEDED);
    struct etcd_message range = etcd_response(reply, 0, ETCD_RESPONSE_RANGE);

    if (outcome != HFI_ANSWERED) {
        etcd_finish(call->store, op, hfi_outcome_status(outcome, err), err);
        return;
    }
    if (!done && !range.at) {
        etcd_finish_odd(call->store, op);
        return;
    }
    if (!done && call->maybe) { /* our first copy may have written what is there */
        etcd_finish(call->store, op, HF_UNKNOWN, NULL);
        return;
    }
    op->u.cell.ret_version =
        done ? (op->u.cell.bytes ? (uint64_t)etcd_revision(reply) : 0)
             : (uint64_t)etcd_number(etcd_part(range, ETCD_RANGE_KVS), ETCD_KV_MODIFIED);
    if (!done && call->data)
        etcd_cell_give_back(call->store, (int64_t)(intptr_t)call->data);
    etcd_finish(call->store, op, done ? HF_OK : HF_BUSY, NULL);
}

/* `lease` 0: it has no end. */
static void send_swap(struct etcd_store *store, struct hfi_op *op, int64_t lease)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, cell_swapped, op);
    struct etcd_key key;

    if (!call)
        return;
    call->data = (void *)(intptr_t)lease; /* NOLINT: a number */
    etcd_cell_key(store->conf->prefix, &op->u.cell.name, &key);
    etcd_add_compare(&call->body, &key, NULL, ETCD_MODIFIED_AT, (int64_t)op->u.cell.version);
    if (op->u.cell.bytes)
        etcd_add_op_put(&call->body, ETCD_THEN, &key, op->u.cell.bytes, op->u.cell.len, lease);
    else
        etcd_add_op_delete(&call->body, ETCD_THEN, &key);
    etcd_add_op_range(&call->body, ETCD_ELSE,
                      &(struct etcd_range){ .key = &key, .keys_only = true });
    etcd_call_send(call);
}

static void granted(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                    const hf_error *err)
{
    int64_t lease = etcd_number(reply, ETCD_LEASE_ID);

    if (outcome != HFI_ANSWERED) /* only an unused lease may exist: nothing was done */
        etcd_finish(call->store, call->op, hfi_outcome_read_status(outcome, err), err);
    else if (lease == 0)
        etcd_finish_odd(call->store, call->op);
    else
        send_swap(call->store, call->op, lease);
}

void etcd_cell_swap(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call;

    if (!op->u.cell.bytes || op->u.cell.ttl_ms == 0) {
        send_swap(store, op, 0);
        return;
    }
    call = etcd_call_new(store, &etcd_grant_method, granted, op);
    if (!call)
        return;
    call->again = true;
    etcd_add_id(&call->body, etcd_seconds(op->u.cell.ttl_ms));
    etcd_call_send(call);
}
