/* SPDX-License-Identifier: MIT */
/*
 * Taking over a detached claim: find it by its owner, renew its lease (or give it one of another
 * ttl), and write down that it is this store now that is to be told.
 */
#include "engine/etcd/ec.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

struct adoption {
    struct hfi_op *op;
    struct ec_record record;
    struct ec_lease *lease; /* a reference */
    struct ec_ask ask;
};

static void end(struct hfi_conn *conn, struct adoption *adoption, hf_status status,
                const hf_error *err)
{
    if (adoption->lease && status != HF_OK)
        adoption->lease->spare = true; /* it may carry the claim still: it ends by itself */
    hfi_ec_finish(conn, adoption->op, status, err);
    hfi_ec_lease_drop(conn, adoption->lease);
    hfi_free(adoption);
}

static void written(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                    const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    struct adoption *adoption = call->data;
    struct hfi_claim *claim = adoption->op->claim;
    struct ec_lease *lease = adoption->lease;

    if (outcome != EC_ANSWERED) {
        end(conn, adoption, hfi_ec_status(outcome, err), err);
        return;
    }
    if (!json_is_true(json_object_get(reply, "succeeded"))) {
        end(conn, adoption, HF_NOT_FOUND, NULL);
        return;
    }
    claim->mode = adoption->record.mode;
    claim->capacity = adoption->record.capacity;
    claim->permits = adoption->record.permits;
    claim->token = adoption->record.revision;
    claim->tokens = 1;
    claim->granted_ttl_ms = lease->granted_ms;
    claim->sent_ms = lease->base_ms;
    claim->flags |= HFI_CLAIM_DETACHED;
    hfi_ec_claim_at(claim, &adoption->record);
    lease->refs++;
    hfi_ec_claim_set_lease(claim, lease);
    hfi_ec_claim_add(conn, claim);
    hfi_ec_inbox_want(conn, hfi_ec_revision(reply));
    end(conn, adoption, HF_OK, NULL);
}

static void ready(struct hfi_conn *conn, struct ec_lease *lease, hf_status status,
                  const hf_error *err, void *data)
{
    struct adoption *adoption = data;
    struct hfi_claim claim = *adoption->op->claim;
    struct ec_call *call;
    struct ec_key key;

    if (status != HF_OK) {
        end(conn, adoption, status == HF_LOST ? HF_NOT_FOUND : status, err);
        return;
    }
    call = hfi_ec_call_new(conn, "/v3/kv/txn", written, NULL);
    if (!call) {
        end(conn, adoption, HF_NO_MEMORY, NULL);
        return;
    }
    claim.mode = adoption->record.mode;
    claim.capacity = adoption->record.capacity;
    claim.permits = adoption->record.permits;
    claim.flags |= HFI_CLAIM_DETACHED;
    hfi_ec_claim_at(&claim, &adoption->record);
    call->data = adoption;
    call->again = true;
    hfi_ec_claim_key(conn->conf->prefix, &claim, &key);
    hfi_ec_add(&call->body, "{\"compare\":[");
    hfi_ec_add_compare(&call->body, &key, NULL, "EQUAL", "CREATE",
                       (int64_t)adoption->record.revision);
    hfi_ec_add(&call->body, "],\"success\":[{\"request_put\":{");
    hfi_ec_add_key(&call->body, "key", &key);
    hfi_ec_add(&call->body, ",\"value\":\"");
    hfi_ec_add_value(&call->body, &claim, lease->ttl_s, adoption->record.since_ms, conn->store,
                     adoption->record.label);
    hfi_ec_add(&call->body, "\",\"lease\":\"");
    hfi_ec_add_number(&call->body, lease->id);
    hfi_ec_add(&call->body, "\"}}]}");
    hfi_ec_call_send(call);
}

static void found(struct ec_call *call, enum ec_outcome outcome, json_t *reply, const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    struct hfi_op *op = call->op;
    const json_t *kvs = json_object_get(reply, "kvs");
    struct adoption *adoption;
    size_t i;

    if (outcome != EC_ANSWERED) {
        hfi_ec_finish(conn, op, outcome == EC_MAYBE ? HF_UNAVAILABLE : hfi_ec_status(outcome, err),
                      err);
        return;
    }
    adoption = hfi_calloc(1, sizeof *adoption);
    if (!adoption) {
        hfi_ec_finish(conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    adoption->op = op;
    for (i = 0; i < json_array_size(kvs); i++)
        if (hfi_ec_kv(conn, json_array_get(kvs, i), &adoption->record) &&
            memcmp(adoption->record.owner, op->claim->owner, HFI_OWNER_LEN) == 0)
            break;
    if (i == json_array_size(kvs) || !adoption->record.detached ||
        (op->claim->token && adoption->record.revision != op->claim->token)) {
        end(conn, adoption, HF_NOT_FOUND, NULL);
        return;
    }
    adoption->lease = hfi_ec_seconds(op->claim->ttl_ms) == adoption->record.ttl_s
                          ? hfi_ec_lease_known(conn, adoption->record.lease, adoption->record.ttl_s)
                          : hfi_ec_lease_get(conn, op->claim->ttl_ms, true);
    if (!adoption->lease) {
        end(conn, adoption, HF_NO_MEMORY, NULL);
        return;
    }
    adoption->ask = (struct ec_ask){ .ready = ready, .data = adoption };
    hfi_ec_lease_ready(conn, adoption->lease, 5, &adoption->ask);
}

void hfi_ec_adopt(struct hfi_conn *conn, struct hfi_op *op)
{
    struct ec_call *call = hfi_ec_call_new(conn, "/v3/kv/range", found, op);
    struct ec_key from, to;

    if (!call)
        return;
    call->again = true;
    hfi_ec_name_range(conn->conf->prefix, op->claim->name.bytes, op->claim->name.len, &from, &to);
    hfi_ec_add(&call->body, "{");
    hfi_ec_add_key(&call->body, "key", &from);
    hfi_ec_add(&call->body, ",");
    hfi_ec_add_key(&call->body, "range_end", &to);
    hfi_ec_add(&call->body, "}");
    hfi_ec_call_send(call);
}
