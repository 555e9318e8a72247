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

/* ---- read --------------------------------------------------------------------------------------- */

static void forget_bytes(struct hfi_op *op)
{
    hfi_free(op->u.cell.ret_bytes);
    op->u.cell.ret_bytes = NULL;
}

static void ttl_read(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                     const hf_error *err)
{
    struct hfi_op *op = call->op;
    int64_t left_ms = etcd_seconds_ms(reply, "TTL");

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
    struct etcd_call *call = etcd_call_new(store, "/v3/lease/timetolive", ttl_read, NULL);

    if (!call) {
        forget_bytes(op);
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->again = true;
    etcd_add(&call->body, "{\"ID\":\"");
    etcd_add_number(&call->body, lease);
    etcd_add(&call->body, "\"}");
    etcd_call_send(call);
}

static void cell_read(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                      const hf_error *err)
{
    struct hfi_op *op = call->op;
    const json_t *kv = json_array_get(json_object_get(reply, "kvs"), 0);
    const json_t *value = json_object_get(kv, "value");
    size_t len = json_string_length(value);

    if (outcome != HFI_ANSWERED) {
        etcd_finish(call->store, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    if (!kv) {
        etcd_finish(call->store, op, HF_NOT_FOUND, NULL);
        return;
    }
    op->u.cell.ret_bytes = hfi_malloc(len ? len : 1);
    if (!op->u.cell.ret_bytes) {
        etcd_finish(call->store, op, HF_NO_MEMORY, NULL);
        return;
    }
    op->u.cell.ret_len =
        value ? etcd_unbase64(json_string_value(value), len, op->u.cell.ret_bytes, len) : 0;
    op->u.cell.ret_version = (uint64_t)etcd_read_number(kv, "mod_revision");
    if (op->u.cell.ret_len == SIZE_MAX || op->u.cell.ret_version == 0) {
        forget_bytes(op);
        etcd_finish_odd(call->store, op);
        return;
    }
    op->u.cell.ret_ttl_ms = -1;
    if (etcd_read_number(kv, "lease") != 0)
        read_ttl(call->store, op, etcd_read_number(kv, "lease"));
    else
        etcd_finish(call->store, op, HF_OK, NULL);
}

void etcd_cell_read(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call = etcd_call_new(store, "/v3/kv/range", cell_read, op);
    struct etcd_key key;

    if (!call)
        return;
    call->again = true;
    etcd_cell_key(store->conf->prefix, &op->u.cell.name, &key);
    etcd_add(&call->body, "{");
    etcd_add_key(&call->body, "key", &key);
    etcd_add(&call->body, "}");
    etcd_call_send(call);
}

/* ---- swap --------------------------------------------------------------------------------------- */

static void given_back(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                       const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err; /* else it ends by itself */
}

static void give_back(struct etcd_store *store, int64_t lease)
{
    struct etcd_call *call = etcd_call_new(store, "/v3/lease/revoke", given_back, NULL);

    if (!call)
        return;
    etcd_add(&call->body, "{\"ID\":\"");
    etcd_add_number(&call->body, lease);
    etcd_add(&call->body, "\"}");
    etcd_call_send(call);
}

static void cell_swapped(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                         const hf_error *err)
{
    struct hfi_op *op = call->op;
    bool done = json_is_true(json_object_get(reply, "succeeded"));
    const json_t *range = etcd_response(reply, 0, "response_range");

    if (outcome != HFI_ANSWERED) {
        etcd_finish(call->store, op, hfi_outcome_status(outcome, err), err);
        return;
    }
    if (!done && !range) {
        etcd_finish_odd(call->store, op);
        return;
    }
    if (!done && call->maybe) { /* our first copy may have written what is there */
        etcd_finish(call->store, op, HF_UNKNOWN, NULL);
        return;
    }
    op->u.cell.ret_version =
        done ? (op->u.cell.bytes ? (uint64_t)etcd_revision(reply) : 0)
             : (uint64_t)etcd_read_number(json_array_get(json_object_get(range, "kvs"), 0),
                                          "mod_revision");
    if (!done && call->data)
        give_back(call->store, (int64_t)(intptr_t)call->data);
    etcd_finish(call->store, op, done ? HF_OK : HF_BUSY, NULL);
}

/* `lease` 0: it has no end. */
static void send_swap(struct etcd_store *store, struct hfi_op *op, int64_t lease)
{
    struct etcd_call *call = etcd_call_new(store, "/v3/kv/txn", cell_swapped, op);
    struct etcd_key key;

    if (!call)
        return;
    call->data = (void *)(intptr_t)lease; /* NOLINT: a number */
    etcd_cell_key(store->conf->prefix, &op->u.cell.name, &key);
    etcd_add(&call->body, "{\"compare\":[");
    etcd_add_compare(&call->body, &key, NULL, "EQUAL", "MOD", (int64_t)op->u.cell.version);
    etcd_add(&call->body, "],\"success\":[");
    if (op->u.cell.bytes) {
        etcd_add(&call->body, "{\"request_put\":{");
        etcd_add_key(&call->body, "key", &key);
        etcd_add(&call->body, ",\"value\":\"");
        etcd_add_base64(&call->body, op->u.cell.bytes, op->u.cell.len);
        etcd_add(&call->body, "\",\"lease\":\"");
        etcd_add_number(&call->body, lease);
        etcd_add(&call->body, "\"}}");
    } else {
        etcd_add_delete(&call->body, &key);
    }
    etcd_add(&call->body, "],\"failure\":[");
    etcd_add_range(&call->body, &key, NULL, ",\"keys_only\":true");
    etcd_add(&call->body, "]}");
    etcd_call_send(call);
}

static void granted(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                    const hf_error *err)
{
    int64_t lease = etcd_read_number(reply, "ID");

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
    call = etcd_call_new(store, "/v3/lease/grant", granted, op);
    if (!call)
        return;
    call->again = true;
    etcd_add(&call->body, "{\"TTL\":\"");
    etcd_add_number(&call->body, etcd_seconds(op->u.cell.ttl_ms));
    etcd_add(&call->body, "\"}");
    etcd_call_send(call);
}
