/* SPDX-License-Identifier: MIT */
/* A claim after it was granted: release, renew, break, and expiry by our own clock. */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <string.h>

#define LAPSE_AGAIN_MS 1000

/* ---- release ------------------------------------------------------------------------------------------ */

static void released(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                     const hf_error *err)
{
    struct hfi_op *op = call->op;
    struct etcd_lease *lease = etcd_claim(op->claim)->lease;
    bool there = etcd_number(reply, ETCD_TXN_SUCCEEDED);
    hf_error gone;

    if (outcome != HFI_ANSWERED) {
        etcd_finish(call->store, op, hfi_outcome_status(outcome, err), err); /* core comes again */
        return;
    }
    if (!there && call->maybe) { /* the outcome is not known; core asks once more, and that answer
                                  * decides */
        hfi_error_set(&gone, HF_UNKNOWN, 0,
                      "the connection broke, and the lease no longer exists: it was released, or "
                      "lost before");
        etcd_finish(call->store, op, HF_UNKNOWN, &gone);
        return;
    }
    etcd_claim(op->claim)->lease = NULL;
    etcd_slot_drop(call->store, op->claim);
    etcd_lease_drop(call->store, lease);
    etcd_finish(call->store, op, there ? HF_OK : HF_LOST, NULL);
}

static void send_release(struct etcd_store *store, struct hfi_op *op, uint64_t token)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, released, op);
    struct etcd_key key;

    if (!call)
        return;
    call->again = true;
    etcd_claim_key(store->conf->prefix, op->claim, &key);
    etcd_add_delete_if(&call->body, &key, (int64_t)token);
    etcd_call_send(call);
}

/* It is not known whether it was ever granted: does its key exist, with its owner? */
static void release_found(struct etcd_call *call, enum hfi_outcome outcome,
                          struct etcd_message reply, const hf_error *err)
{
    struct etcd_message kv = etcd_part(reply, ETCD_RANGE_KVS);
    struct hfi_op *op = call->op;
    struct etcd_record record;

    if (outcome != HFI_ANSWERED)
        etcd_finish(call->store, op, hfi_outcome_status(outcome, err), err);
    else if (etcd_kv(call->store->conf->prefix, kv, &record) &&
             memcmp(record.owner, op->claim->owner, HFI_OWNER_LEN) == 0)
        send_release(call->store, op, record.revision);
    else
        send_release(call->store, op, HFI_TOKEN_LIMIT); /* no key has that revision: LOST */
}

void etcd_release(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call;
    struct etcd_key key;

    etcd_claim_remove(store, op->claim);
    if (op->claim->token) {
        send_release(store, op, op->claim->token);
        return;
    }
    call = etcd_call_new(store, &etcd_range_method, release_found, op);
    if (!call)
        return;
    call->again = true;
    etcd_claim_key(store->conf->prefix, op->claim, &key);
    etcd_add_range(&call->body, &(struct etcd_range){ .key = &key });
    etcd_call_send(call);
}

/* ---- lapsed ----------------------------------------------------------------------------------------------- */

static void lapsed(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                   const hf_error *err)
{
    struct hfi_claim *claim = etcd_claim_find(call->store, call->owner);

    (void)reply, (void)err;
    if (claim && outcome != HFI_ANSWERED && outcome != HFI_REFUSED) {
        etcd_claim(claim)->lapsed = false;
        call->store->expiry_ms = hfi_now_ms() + LAPSE_AGAIN_MS;
    }
}

static bool lapse(struct etcd_store *store, struct hfi_claim *claim)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, lapsed, NULL);
    struct etcd_key key;

    if (!call)
        return false;
    memcpy(call->owner, claim->owner, HFI_OWNER_LEN);
    call->again = true;
    etcd_claim_key(store->conf->prefix, claim, &key);
    etcd_add_delete_if(&call->body, &key, (int64_t)claim->token);
    etcd_call_send(call);
    return true;
}

/*
 * A claim that was not renewed has ended by our clock, and core has reported that. Its etcd lease
 * may live on for other claims, so we delete its key. Not that of a detached claim: another process
 * may have adopted it, and it has a lease of its own.
 */
void etcd_lapse_tick(struct etcd_store *store, int64_t now_ms)
{
    if (now_ms < store->expiry_ms)
        return;
    store->expiry_ms = HFI_NEVER;
    for (const struct hfi_list *at = store->claims.next; at != &store->claims; at = at->next) {
        struct hfi_claim *claim = etcd_claim_listed(at);
        int64_t end_ms = claim->sent_ms + claim->granted_ttl_ms;

        if (etcd_claim(claim)->lapsed || claim->flags & HFI_CLAIM_DETACHED)
            continue;
        if (end_ms <= now_ms) {
            if (lapse(store, claim))
                etcd_claim(claim)->lapsed = true;
            else
                end_ms = now_ms + LAPSE_AGAIN_MS;
        }
        if (end_ms > now_ms && end_ms < store->expiry_ms)
            store->expiry_ms = end_ms;
    }
}

/* ---- renew --------------------------------------------------------------------------------------------------- */

/* Claims of one renewal that use the same lease afterwards. */
struct share {
    struct share *next;
    struct hfi_op *op;
    struct etcd_lease *lease; /* a reference */
    struct etcd_ask ask;
    bool moves; /* they move from another lease, or have a new ttl */
    size_t count;
    struct hfi_renewal *items[ETCD_BATCH];
};

static void end_share(struct etcd_store *store, struct share *share)
{
    struct hfi_op *op = share->op;

    etcd_lease_drop(store, share->lease);
    hfi_free(share);
    if (--etcd_op(op)->shares == 0)
        etcd_finish(store, op, HF_OK, NULL);
}

static void set_all(struct share *share, hf_status status)
{
    for (size_t i = 0; i < share->count; i++)
        share->items[i]->status = status;
}

static void renewed_one(struct etcd_store *store, struct share *share, struct hfi_renewal *item)
{
    struct hfi_claim *claim = item->claim;

    item->status = HF_OK;
    item->others_wait = etcd_want_yes(claim);
    claim->granted_ttl_ms = share->lease->granted_ms;
    claim->sent_ms = share->lease->base_ms;
    if (share->moves && etcd_claim(claim)->held) {
        etcd_lease_drop(store, etcd_claim(claim)->lease);
        etcd_claim(claim)->lease = share->lease;
        share->lease->refs++;
    }
}

/* Which of them still exist? */
static void renewed(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                    const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct share *share = call->data;

    if (outcome != HFI_ANSWERED)
        set_all(share, outcome == HFI_REFUSED && err->status == HF_NOT_FOUND
                           ? HF_UNKNOWN
                           : hfi_outcome_status(outcome, err));
    for (size_t i = 0; outcome == HFI_ANSWERED && i < share->count; i++) {
        struct hfi_renewal *item = share->items[i];
        struct etcd_message one =
            etcd_response(reply, i, share->moves ? ETCD_RESPONSE_TXN : ETCD_RESPONSE_RANGE);
        struct etcd_message kv = etcd_part(one, ETCD_RANGE_KVS);

        if (!one.at)
            item->status = HF_UNKNOWN;
        else if (share->moves && !etcd_number(one, ETCD_TXN_SUCCEEDED))
            item->status = HF_LOST;
        else if (!share->moves && (uint64_t)etcd_number(kv, ETCD_KV_CREATED) != item->claim->token)
            item->status = HF_LOST;
        else if (!share->moves && etcd_number(kv, ETCD_KV_LEASE) != share->lease->id)
            item->status = HF_UNKNOWN; /* a late copy moved it back: the next renewal moves it
                                        * again */
        else
            renewed_one(store, share, item);
    }
    end_share(store, share);
}

static void write_share(struct etcd_text *body, const struct etcd_store *store,
                        const struct share *share)
{
    struct etcd_key key;

    for (size_t i = 0; i < share->count; i++) {
        const struct hfi_claim *claim = share->items[i]->claim;

        etcd_claim_key(store->conf->prefix, claim, &key);
        if (share->moves)
            etcd_add_op_move(body, &key, (int64_t)claim->token, share->lease->id);
        else
            etcd_add_op_range(body, ETCD_THEN,
                              &(struct etcd_range){ .key = &key, .keys_only = true });
    }
}

/* The lease is renewed; now check or move the claims. */
static void share_ready(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                        const hf_error *err, void *data)
{
    struct share *share = data;
    struct etcd_call *call = NULL;

    (void)lease, (void)err;
    if (status == HF_OK && !(call = etcd_call_new(store, &etcd_txn_method, renewed, NULL)))
        status = HF_NO_MEMORY;
    if (!call) {
        set_all(share, status == HF_LOST && share->moves ? HF_UNAVAILABLE : status);
        end_share(store, share);
        return;
    }
    call->data = share;
    call->again = true; /* it compares the token: a second copy finds what the first has done */
    if (share->op->deadline_ms < call->request.give_up_ms)
        call->request.give_up_ms = share->op->deadline_ms;
    write_share(&call->body, store, share);
    etcd_call_send(call);
}

/* The lease that this claim shall use, with a reference, and whether it must move there. */
static struct etcd_lease *target(struct etcd_store *store, const struct hfi_renewal *item,
                                 bool *ret_moves)
{
    struct etcd_lease *lease = etcd_claim(item->claim)->lease;

    *ret_moves = lease->retiring || lease->ttl_s != etcd_seconds(item->ttl_ms);
    if (*ret_moves)
        return etcd_lease_get(store, item->ttl_ms, lease->own);
    lease->refs++;
    return lease;
}

static struct share *find_share(struct share **shares, struct hfi_op *op, struct etcd_lease *lease,
                                bool moves)
{
    struct share *share = *shares;

    while (share && (share->lease != lease || share->moves != moves || share->count == ETCD_BATCH))
        share = share->next;
    if (share)
        return share;
    share = hfi_calloc(1, sizeof *share);
    if (!share)
        return NULL;
    share->op = op;
    share->lease = lease;
    share->moves = moves;
    lease->refs++;
    share->ask = (struct etcd_ask){ .ready = share_ready, .data = share };
    share->next = *shares;
    *shares = share;
    return share;
}

void etcd_renew(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct share *shares = NULL, *share, *next;

    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = &op->u.renew.items[i];
        struct etcd_lease *lease = etcd_claim(item->claim)->lease;
        bool moves = false;

        if (!lease || lease->state == ETCD_LEASE_GONE) {
            item->status = HF_LOST;
            continue;
        }
        lease = target(store, item, &moves);
        share = lease ? find_share(&shares, op, lease, moves) : NULL;
        if (share)
            share->items[share->count++] = item;
        else
            item->status = HF_NO_MEMORY;
        etcd_lease_drop(store, lease);
    }
    etcd_op(op)->shares = 1; /* our own count, until all have begun */
    for (share = shares; share; share = share->next)
        etcd_op(op)->shares++;
    for (share = shares; share; share = next) {
        next = share->next;
        etcd_lease_ready(store, share->lease, 5, &share->ask);
    }
    if (--etcd_op(op)->shares == 0)
        etcd_finish(store, op, HF_OK, NULL);
}

/* ---- break ------------------------------------------------------------------------------------------------------ */

static void broken(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                   const hf_error *err)
{
    if (outcome == HFI_REFUSED && err->status == HF_NOT_FOUND)
        etcd_finish(call->store, call->op, HF_NOT_FOUND, NULL); /* its lease has ended just now */
    else if (outcome != HFI_ANSWERED)
        etcd_finish(call->store, call->op, hfi_outcome_status(outcome, err), err);
    else if (etcd_number(reply, ETCD_TXN_SUCCEEDED) || call->maybe)
        etcd_finish(call->store, call->op, HF_OK, NULL);
    else
        etcd_finish(call->store, call->op, HF_NOT_FOUND, NULL);
}

/* Delete exactly that key, and tell the store behind it, in one transaction. */
static void send_break(struct etcd_store *store, struct hfi_op *op,
                       const struct etcd_record *record)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, broken, op);
    struct hfi_claim claim = { .name = op->u.brk.name,
                               .mode = record->mode,
                               .capacity = record->capacity };
    char owner[ETCD_OWNER_HEX + 1];
    struct etcd_key key, note;

    if (!call)
        return;
    call->again = true;
    etcd_claim_at(&claim, record);
    hfi_hex(record->owner, HFI_OWNER_LEN, owner);
    etcd_claim_key(store->conf->prefix, &claim, &key);
    etcd_told_key(store->conf->prefix, record->store, owner, &note);
    etcd_add_delete_if(&call->body, &key, (int64_t)op->u.brk.token);
    etcd_add_op_put(&call->body, ETCD_THEN, &note, "", 0, record->lease);
    etcd_call_send(call);
}

static void break_found(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                        const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct hfi_op *op = call->op;
    struct etcd_message one;
    struct etcd_record record;
    uint64_t taken = 0;

    if (outcome != HFI_ANSWERED) {
        etcd_finish(store, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    while (etcd_next(&reply, ETCD_RANGE_KVS, &one)) { /* oldest first */
        if (!etcd_kv(store->conf->prefix, one, &record))
            continue;
        taken += record.permits;
        if (record.revision == op->u.brk.token && taken <= record.capacity) {
            send_break(store, op, &record);
            return;
        }
    }
    etcd_finish(store, op, HF_NOT_FOUND, NULL);
}

void etcd_break(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, break_found, op);
    struct etcd_key from, to;

    if (!call)
        return;
    call->again = true;
    etcd_name_range(store->conf->prefix, op->u.brk.name.bytes, op->u.brk.name.len, &from, &to);
    etcd_add_range(&call->body,
                   &(struct etcd_range){ .key = &from, .to = &to, .order = ETCD_OLDEST_FIRST });
    etcd_call_send(call);
}
