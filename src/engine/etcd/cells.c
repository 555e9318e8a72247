/* SPDX-License-Identifier: MIT */
/*
 * Cells: bytes and a version, which is the key's mod revision: it never comes back.
 *
 * A ttl is a lease of etcd's of its own, which nobody keeps alive: granted first, then tied to the key
 * by the swap. A swap that failed gives it back; one whose outcome is unknown leaves it to end by
 * itself. etcd counts in seconds, and has a least ttl: a cell may live longer than was asked for.
 */
#include "engine/etcd/ec.h"

#include "util/alloc.h"
#include "util/error.h"

/* ---- read --------------------------------------------------------------------------------------- */

static void forget_bytes(struct hfi_op *op)
{
    hfi_free(op->u.cell.ret_bytes);
    op->u.cell.ret_bytes = NULL;
}

static void ttl_read(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                     const hf_error *err)
{
    struct hfi_op *op = call->op;
    int64_t left_ms = hfi_ec_seconds_ms(reply, "TTL");

    if (outcome != EC_ANSWERED) {
        forget_bytes(op);
        hfi_ec_finish(call->conn, op,
                      outcome == EC_MAYBE ? HF_UNAVAILABLE : hfi_ec_status(outcome, err), err);
        return;
    }
    op->u.cell.ret_ttl_ms = left_ms > 0 ? left_ms : 1; /* it ends just now */
    hfi_ec_finish(call->conn, op, HF_OK, NULL);
}

static void read_ttl(struct hfi_conn *conn, struct hfi_op *op, int64_t lease)
{
    struct ec_call *call = hfi_ec_call_new(conn, "/v3/lease/timetolive", ttl_read, NULL);

    if (!call) {
        forget_bytes(op);
        hfi_ec_finish(conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->again = true;
    hfi_ec_add(&call->body, "{\"ID\":\"");
    hfi_ec_add_number(&call->body, lease);
    hfi_ec_add(&call->body, "\"}");
    hfi_ec_call_send(call);
}

static void cell_read(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                      const hf_error *err)
{
    struct hfi_op *op = call->op;
    const json_t *kv = json_array_get(json_object_get(reply, "kvs"), 0);
    const json_t *value = json_object_get(kv, "value");
    size_t len = json_string_length(value);

    if (outcome != EC_ANSWERED) {
        hfi_ec_finish(call->conn, op,
                      outcome == EC_MAYBE ? HF_UNAVAILABLE : hfi_ec_status(outcome, err), err);
        return;
    }
    if (!kv) {
        hfi_ec_finish(call->conn, op, HF_NOT_FOUND, NULL);
        return;
    }
    op->u.cell.ret_bytes = hfi_malloc(len ? len : 1);
    if (!op->u.cell.ret_bytes) {
        hfi_ec_finish(call->conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    op->u.cell.ret_len =
        value ? hfi_ec_unbase64(json_string_value(value), len, op->u.cell.ret_bytes, len) : 0;
    op->u.cell.ret_version = (uint64_t)hfi_ec_number(kv, "mod_revision");
    if (op->u.cell.ret_len == SIZE_MAX || op->u.cell.ret_version == 0) {
        forget_bytes(op);
        hfi_ec_finish_odd(call->conn, op);
        return;
    }
    op->u.cell.ret_ttl_ms = -1;
    if (hfi_ec_number(kv, "lease") != 0)
        read_ttl(call->conn, op, hfi_ec_number(kv, "lease"));
    else
        hfi_ec_finish(call->conn, op, HF_OK, NULL);
}

void hfi_ec_cell_read(struct hfi_conn *conn, struct hfi_op *op)
{
    struct ec_call *call = hfi_ec_call_new(conn, "/v3/kv/range", cell_read, op);
    struct ec_key key;

    if (!call)
        return;
    call->again = true;
    hfi_ec_cell_key(conn->conf->prefix, &op->u.cell.name, &key);
    hfi_ec_add(&call->body, "{");
    hfi_ec_add_key(&call->body, "key", &key);
    hfi_ec_add(&call->body, "}");
    hfi_ec_call_send(call);
}

/* ---- swap --------------------------------------------------------------------------------------- */

static void given_back(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                       const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err; /* else it ends by itself */
}

static void give_back(struct hfi_conn *conn, int64_t lease)
{
    struct ec_call *call = hfi_ec_call_new(conn, "/v3/lease/revoke", given_back, NULL);

    if (!call)
        return;
    hfi_ec_add(&call->body, "{\"ID\":\"");
    hfi_ec_add_number(&call->body, lease);
    hfi_ec_add(&call->body, "\"}");
    hfi_ec_call_send(call);
}

static void cell_swapped(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                         const hf_error *err)
{
    struct hfi_op *op = call->op;
    bool done = json_is_true(json_object_get(reply, "succeeded"));
    const json_t *range = hfi_ec_response(reply, 0, "response_range");

    if (outcome != EC_ANSWERED) {
        hfi_ec_finish(call->conn, op, hfi_ec_status(outcome, err), err);
        return;
    }
    if (!done && !range) {
        hfi_ec_finish_odd(call->conn, op);
        return;
    }
    if (!done && call->maybe) { /* what stands there may be the work of our first copy */
        hfi_ec_finish(call->conn, op, HF_UNKNOWN, NULL);
        return;
    }
    op->u.cell.ret_version =
        done ? (op->u.cell.bytes ? (uint64_t)hfi_ec_revision(reply) : 0)
             : (uint64_t)hfi_ec_number(json_array_get(json_object_get(range, "kvs"), 0),
                                       "mod_revision");
    if (!done && call->data)
        give_back(call->conn, (int64_t)(intptr_t)call->data);
    hfi_ec_finish(call->conn, op, done ? HF_OK : HF_BUSY, NULL);
}

/* `lease` 0: it has no end. */
static void send_swap(struct hfi_conn *conn, struct hfi_op *op, int64_t lease)
{
    struct ec_call *call = hfi_ec_call_new(conn, "/v3/kv/txn", cell_swapped, op);
    struct ec_key key;

    if (!call)
        return;
    call->data = (void *)(intptr_t)lease; /* NOLINT: a number */
    hfi_ec_cell_key(conn->conf->prefix, &op->u.cell.name, &key);
    hfi_ec_add(&call->body, "{\"compare\":[");
    hfi_ec_add_compare(&call->body, &key, NULL, "EQUAL", "MOD", (int64_t)op->u.cell.version);
    hfi_ec_add(&call->body, "],\"success\":[");
    if (op->u.cell.bytes) {
        hfi_ec_add(&call->body, "{\"request_put\":{");
        hfi_ec_add_key(&call->body, "key", &key);
        hfi_ec_add(&call->body, ",\"value\":\"");
        hfi_ec_add_base64(&call->body, op->u.cell.bytes, op->u.cell.len);
        hfi_ec_add(&call->body, "\",\"lease\":\"");
        hfi_ec_add_number(&call->body, lease);
        hfi_ec_add(&call->body, "\"}}");
    } else {
        hfi_ec_add_delete(&call->body, &key);
    }
    hfi_ec_add(&call->body, "],\"failure\":[");
    hfi_ec_add_range(&call->body, &key, NULL, ",\"keys_only\":true");
    hfi_ec_add(&call->body, "]}");
    hfi_ec_call_send(call);
}

static void granted(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                    const hf_error *err)
{
    int64_t lease = hfi_ec_number(reply, "ID");

    if (outcome !=
        EC_ANSWERED) /* a lease that nobody uses is not what was asked for: nothing is done */
        hfi_ec_finish(call->conn, call->op,
                      outcome == EC_MAYBE ? HF_UNAVAILABLE : hfi_ec_status(outcome, err), err);
    else if (lease == 0)
        hfi_ec_finish_odd(call->conn, call->op);
    else
        send_swap(call->conn, call->op, lease);
}

void hfi_ec_cell_swap(struct hfi_conn *conn, struct hfi_op *op)
{
    struct ec_call *call;

    if (!op->u.cell.bytes || op->u.cell.ttl_ms == 0) {
        send_swap(conn, op, 0);
        return;
    }
    call = hfi_ec_call_new(conn, "/v3/lease/grant", granted, op);
    if (!call)
        return;
    call->again = true;
    hfi_ec_add(&call->body, "{\"TTL\":\"");
    hfi_ec_add_number(&call->body, hfi_ec_seconds(op->u.cell.ttl_ms));
    hfi_ec_add(&call->body, "\"}");
    hfi_ec_call_send(call);
}
