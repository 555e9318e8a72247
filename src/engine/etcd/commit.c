/* SPDX-License-Identifier: MIT */
/*
 * Several cells in one step: HFI_OP_CELLS_COMMIT, one transaction. With the lock.
 *
 * It compares the mod revision of every key (0: there is none), and then puts and deletes, or else reads them all. Its revision is
 * the version of every cell that it writes. etcd counts comparisons, and the operations of each branch, against --max-txn-ops,
 * which is 128 unless somebody has set it: HF_CELLS_MAX stays below.
 *
 * Cells with a ttl need etcd leases (cells.c), which are granted first, one for all items with the same ttl: they end together.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

#define CODE_INVALID 3 /* gRPC's */

/* One commit under way. */
struct commit {
    struct hfi_op *op;
    size_t next;                  /* the item whose lease is being granted */
    int64_t leases[HF_CELLS_MAX]; /* of each item; 0: none */
};

static void grant_next(struct etcd_store *store, struct commit *commit);

/* `keep`: the leases belong to cells now, or may do so. */
static void commit_end(struct etcd_store *store, struct commit *commit, hf_status status,
                       const hf_error *err, bool keep)
{
    const struct hfi_commit_op *list = commit->op->u.commit;

    for (size_t i = 0; !keep && i < list->count; i++) {
        bool twin = false;

        for (size_t j = 0; j < i; j++)
            twin = twin || commit->leases[j] == commit->leases[i];
        if (commit->leases[i] && !twin)
            etcd_cell_give_back(store, commit->leases[i]);
    }
    etcd_finish(store, commit->op, status, err);
    hfi_free(commit);
}

/* What the server's own limits say, in the words of a caller who made a list. */
static hf_status refusal(const struct etcd_call *call, const hf_error *err, hf_error *ret_err)
{
    const struct hfi_commit_op *list = call->op->u.commit;

    if (call->code == CODE_INVALID && strstr(err->text, "too many operations"))
        return hfi_error_set(ret_err, HF_INVALID, call->code,
                             "items: %zu are more than the server takes in one transaction "
                             "(--max-txn-ops)",
                             list->count);
    if (call->code == CODE_INVALID && strstr(err->text, "too large"))
        return hfi_error_set(
            ret_err, HF_INVALID, call->code,
            "items: more bytes than the server takes in one request (--max-request-bytes)");
    *ret_err = *err;
    return err->status;
}

/* false: an unexpected answer. */
static bool take_versions(struct hfi_commit_op *list, struct etcd_message reply, bool done)
{
    for (size_t i = 0; i < list->count; i++) {
        struct hfi_commit_item *item = &list->items[i];
        struct etcd_message range = etcd_response(reply, i, ETCD_RESPONSE_RANGE);

        if (!done && !range.at)
            return false;
        if (!done)
            item->ret_version =
                (uint64_t)etcd_number(etcd_part(range, ETCD_RANGE_KVS), ETCD_KV_MODIFIED);
        else
            item->ret_version = item->action == HF_CELL_ACTION_LEAVE ? item->version
                                : item->action == HF_CELL_ACTION_WRITE
                                    ? (uint64_t)etcd_revision(reply)
                                    : 0;
    }
    return true;
}

static void committed(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    struct commit *commit = call->data;
    bool done = etcd_number(reply, ETCD_TXN_SUCCEEDED);
    hf_error why;

    if (outcome == HFI_REFUSED && err) {
        hf_status status = refusal(call, err, &why);

        commit_end(call->store, commit, call->maybe ? HF_UNKNOWN : status, &why, call->maybe);
    } else if (outcome != HFI_ANSWERED) {
        commit_end(call->store, commit, hfi_outcome_status(outcome, err), err,
                   outcome == HFI_MAYBE);
    } else if (!take_versions(call->op->u.commit, reply, done)) {
        hfi_error_set(&why, HF_CORRUPT, 0, "an unexpected answer");
        commit_end(call->store, commit, HF_CORRUPT, &why, true);
    } else if (!done && call->maybe) { /* our first copy may have written what is there */
        commit_end(call->store, commit, HF_UNKNOWN, NULL, true);
    } else {
        commit_end(call->store, commit, done ? HF_OK : HF_BUSY, NULL, done);
    }
}

static void send_commit(struct etcd_store *store, struct commit *commit)
{
    struct hfi_commit_op *list = commit->op->u.commit;
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, committed, NULL);
    struct etcd_key key;

    if (!call) {
        commit_end(store, commit, HF_NO_MEMORY, NULL, false);
        return;
    }
    call->op = commit->op;
    call->data = commit;
    for (size_t i = 0; i < list->count; i++) {
        const struct hfi_commit_item *item = &list->items[i];

        etcd_cell_key(store->conf->prefix, &item->name, &key);
        etcd_add_compare(&call->body, &key, NULL, ETCD_MODIFIED_AT, (int64_t)item->version);
        if (item->action == HF_CELL_ACTION_WRITE)
            etcd_add_op_put(&call->body, ETCD_THEN, &key, item->bytes, item->len,
                            commit->leases[i]);
        else if (item->action == HF_CELL_ACTION_DELETE)
            etcd_add_op_delete(&call->body, ETCD_THEN, &key);
        etcd_add_op_range(&call->body, ETCD_ELSE,
                          &(struct etcd_range){ .key = &key, .keys_only = true });
    }
    etcd_call_send(call);
}

static void granted(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                    const hf_error *err)
{
    struct commit *commit = call->data;
    struct hfi_commit_op *list = commit->op->u.commit;
    int64_t lease = etcd_number(reply, ETCD_LEASE_ID);
    hf_error odd;

    if (outcome != HFI_ANSWERED) { /* only an unused lease may exist: nothing was done */
        commit_end(call->store, commit, hfi_outcome_read_status(outcome, err), err, false);
        return;
    }
    if (lease == 0) {
        hfi_error_set(&odd, HF_CORRUPT, 0, "an unexpected answer");
        commit_end(call->store, commit, HF_CORRUPT, &odd, false);
        return;
    }
    for (size_t i = commit->next; i < list->count; i++)
        if (list->items[i].action == HF_CELL_ACTION_WRITE &&
            list->items[i].ttl_ms == list->items[commit->next].ttl_ms)
            commit->leases[i] = lease;
    grant_next(call->store, commit);
}

static void grant_next(struct etcd_store *store, struct commit *commit)
{
    struct hfi_commit_op *list = commit->op->u.commit;
    struct etcd_call *call;

    while (commit->next < list->count &&
           (list->items[commit->next].action != HF_CELL_ACTION_WRITE ||
            list->items[commit->next].ttl_ms == 0 || commit->leases[commit->next] != 0))
        commit->next++;
    if (commit->next == list->count) {
        send_commit(store, commit);
        return;
    }
    call = etcd_call_new(store, &etcd_grant_method, granted, NULL);
    if (!call) {
        commit_end(store, commit, HF_NO_MEMORY, NULL, false);
        return;
    }
    call->op = commit->op;
    call->data = commit;
    call->again = true;
    etcd_add_id(&call->body, etcd_seconds(list->items[commit->next].ttl_ms));
    etcd_call_send(call);
}

void etcd_cells_commit(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct commit *commit = hfi_calloc(1, sizeof *commit);

    if (!commit) {
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    commit->op = op;
    grant_next(store, commit);
}
