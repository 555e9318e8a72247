/* SPDX-License-Identifier: MIT */
/* Cells: bytes and a version, which is the key's mod revision: it never comes back. */
#include "engine/etcd/ec.h"

#include "util/alloc.h"
#include "util/error.h"

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
        hfi_free(op->u.cell.ret_bytes);
        op->u.cell.ret_bytes = NULL;
        hfi_ec_finish_odd(call->conn, op);
        return;
    }
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
    hfi_ec_finish(call->conn, op, done ? HF_OK : HF_BUSY, NULL);
}

void hfi_ec_cell_swap(struct hfi_conn *conn, struct hfi_op *op)
{
    struct ec_call *call = hfi_ec_call_new(conn, "/v3/kv/txn", cell_swapped, op);
    struct ec_key key;

    if (!call)
        return;
    hfi_ec_cell_key(conn->conf->prefix, &op->u.cell.name, &key);
    hfi_ec_add(&call->body, "{\"compare\":[");
    hfi_ec_add_compare(&call->body, &key, NULL, "EQUAL", "MOD", (int64_t)op->u.cell.version);
    hfi_ec_add(&call->body, "],\"success\":[");
    if (op->u.cell.bytes) {
        hfi_ec_add(&call->body, "{\"request_put\":{");
        hfi_ec_add_key(&call->body, "key", &key);
        hfi_ec_add(&call->body, ",\"value\":\"");
        hfi_ec_add_base64(&call->body, op->u.cell.bytes, op->u.cell.len);
        hfi_ec_add(&call->body, "\"}}");
    } else {
        hfi_ec_add_delete(&call->body, &key);
    }
    hfi_ec_add(&call->body, "],\"failure\":[");
    hfi_ec_add_range(&call->body, &key, NULL, ",\"keys_only\":true");
    hfi_ec_add(&call->body, "]}");
    hfi_ec_call_send(call);
}
