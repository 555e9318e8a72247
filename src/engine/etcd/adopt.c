/* SPDX-License-Identifier: MIT */
/*
 * Adopts a detached claim: find it by its owner, renew its lease (or give it one of another ttl),
 * and record that this store is to be told if it is broken.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

struct adoption {
    struct hfi_op *op;
    struct etcd_record record;
    struct etcd_lease *lease; /* a reference */
    struct etcd_ask ask;
};

static void end(struct etcd_store *store, struct adoption *adoption, hf_status status,
                const hf_error *err)
{
    if (adoption->lease && status != HF_OK)
        adoption->lease->spare = true; /* the claim may still use it: it ends by itself */
    etcd_finish(store, adoption->op, status, err);
    etcd_lease_drop(store, adoption->lease);
    hfi_free(adoption);
}

static void written(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                    const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct adoption *adoption = call->data;
    struct hfi_claim *claim = adoption->op->claim;
    struct etcd_lease *lease = adoption->lease;

    if (outcome != HFI_ANSWERED) {
        end(store, adoption, hfi_outcome_status(outcome, err), err);
        return;
    }
    if (!json_is_true(json_object_get(reply, "succeeded"))) {
        end(store, adoption, HF_NOT_FOUND, NULL);
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
    etcd_claim_at(claim, &adoption->record);
    lease->refs++;
    etcd_claim(claim)->lease = lease;
    etcd_claim_add(store, claim);
    etcd_inbox_want(store, etcd_revision(reply));
    end(store, adoption, HF_OK, NULL);
}

static void ready(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                  const hf_error *err, void *data)
{
    struct adoption *adoption = data;
    struct hfi_claim claim = *adoption->op->claim;
    struct etcd_call *call;
    struct etcd_key key;

    if (status != HF_OK) {
        end(store, adoption, status == HF_LOST ? HF_NOT_FOUND : status, err);
        return;
    }
    call = etcd_call_new(store, "/v3/kv/txn", written, NULL);
    if (!call) {
        end(store, adoption, HF_NO_MEMORY, NULL);
        return;
    }
    claim.mode = adoption->record.mode;
    claim.capacity = adoption->record.capacity;
    claim.permits = adoption->record.permits;
    claim.flags |= HFI_CLAIM_DETACHED;
    etcd_claim_at(&claim, &adoption->record);
    call->data = adoption;
    call->again = true;
    etcd_claim_key(store->conf->prefix, &claim, &key);
    etcd_add(&call->body, "{\"compare\":[");
    etcd_add_compare(&call->body, &key, NULL, "EQUAL", "CREATE",
                     (int64_t)adoption->record.revision);
    etcd_add(&call->body, "],\"success\":[{\"request_put\":{");
    etcd_add_key(&call->body, "key", &key);
    etcd_add(&call->body, ",\"value\":\"");
    etcd_add_value(&call->body, &claim, lease->ttl_s, adoption->record.since_ms, store->id,
                   adoption->record.label);
    etcd_add(&call->body, "\",\"lease\":\"");
    etcd_add_number(&call->body, lease->id);
    etcd_add(&call->body, "\"}}]}");
    etcd_call_send(call);
}

static void found(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                  const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct hfi_op *op = call->op;
    const json_t *kvs = json_object_get(reply, "kvs");
    struct adoption *adoption;
    size_t i;

    if (outcome != HFI_ANSWERED) {
        etcd_finish(store, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    adoption = hfi_calloc(1, sizeof *adoption);
    if (!adoption) {
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    adoption->op = op;
    for (i = 0; i < json_array_size(kvs); i++)
        if (etcd_kv(store, json_array_get(kvs, i), &adoption->record) &&
            memcmp(adoption->record.owner, op->claim->owner, HFI_OWNER_LEN) == 0)
            break;
    if (i == json_array_size(kvs) || !adoption->record.detached ||
        (op->claim->token && adoption->record.revision != op->claim->token)) {
        end(store, adoption, HF_NOT_FOUND, NULL);
        return;
    }
    adoption->lease = etcd_seconds(op->claim->ttl_ms) == adoption->record.ttl_s
                          ? etcd_lease_known(store, adoption->record.lease, adoption->record.ttl_s)
                          : etcd_lease_get(store, op->claim->ttl_ms, true);
    if (!adoption->lease) {
        end(store, adoption, HF_NO_MEMORY, NULL);
        return;
    }
    adoption->ask = (struct etcd_ask){ .ready = ready, .data = adoption };
    etcd_lease_ready(store, adoption->lease, 5, &adoption->ask);
}

void etcd_adopt(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call = etcd_call_new(store, "/v3/kv/range", found, op);
    struct etcd_key from, to;

    if (!call)
        return;
    call->again = true;
    etcd_name_range(store->conf->prefix, op->claim->name.bytes, op->claim->name.len, &from, &to);
    etcd_add(&call->body, "{");
    etcd_add_key(&call->body, "key", &from);
    etcd_add(&call->body, ",");
    etcd_add_key(&call->body, "range_end", &to);
    etcd_add(&call->body, "}");
    etcd_call_send(call);
}
