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

static void written(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
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
    if (!etcd_number(reply, ETCD_TXN_SUCCEEDED)) {
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
    char value[ETCD_VALUE_MAX];
    struct etcd_call *call;
    struct etcd_key key;
    size_t len;

    if (status != HF_OK) {
        end(store, adoption, status == HF_LOST ? HF_NOT_FOUND : status, err);
        return;
    }
    call = etcd_call_new(store, &etcd_txn_method, written, NULL);
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
    len = etcd_write_value(&claim, lease->ttl_s, adoption->record.since_ms, store->id,
                           adoption->record.label, value);
    etcd_add_compare(&call->body, &key, NULL, ETCD_CREATED_AT, (int64_t)adoption->record.revision);
    etcd_add_op_put(&call->body, ETCD_THEN, &key, value, len, lease->id);
    etcd_call_send(call);
}

static void found(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                  const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct hfi_op *op = call->op;
    struct etcd_message one;
    struct adoption *adoption;
    bool here = false;

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
    while (!here && etcd_next(&reply, ETCD_RANGE_KVS, &one))
        here = etcd_kv(store->conf->prefix, one, &adoption->record) &&
               memcmp(adoption->record.owner, op->claim->owner, HFI_OWNER_LEN) == 0;
    if (!here || !adoption->record.detached ||
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
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, found, op);
    struct etcd_key from, to;

    if (!call)
        return;
    call->again = true;
    etcd_name_range(store->conf->prefix, op->claim->name.bytes, op->claim->name.len, &from, &to);
    etcd_add_range(&call->body, &(struct etcd_range){ .key = &from, .to = &to });
    etcd_call_send(call);
}
