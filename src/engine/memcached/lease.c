/* SPDX-License-Identifier: MIT */
/*
 * A lease after it was granted: release, renew, adopt. All three take the same steps:
 *
 *   number known on this connection?  yes: change by it -----> done
 *        no |                               | it is another number, or the line broke
 *           v                               v
 *        get: is the owner ours? <----------+
 *           | yes: change by the number that the get has brought
 *           | no, or not there: LOST
 *
 * So an item is changed only if it is still as we have read it: there is no gap between a get and a
 * delete. The number may differ although the lease is ours: after a renewal whose answer was lost,
 * or one by another process with the same handle.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define TRIES_MAX 5 /* attempts after the number has changed */

struct memcached_hold *memcached_hold_of(const struct hfi_claim *claim)
{
    return ((const struct memcached_claim *)(const void *)claim->room)->hold;
}

/* Did the get find our lease? */
static bool is_ours(const struct memcached_reply *reply, const struct hfi_claim *claim,
                    struct memcached_record *ret_record)
{
    hf_error err;

    return reply->kind == MEMCACHED_VA && reply->has_cas &&
           memcached_read(reply, &claim->name, ret_record, &err) == HF_OK &&
           memcmp(ret_record->owner, claim->owner, HFI_OWNER_LEN) == 0;
}

static bool is_get_answer(enum hfi_outcome outcome, const struct memcached_reply *reply)
{
    return outcome == HFI_ANSWERED && (reply->kind == MEMCACHED_VA || reply->kind == MEMCACHED_EN);
}

/* Stored, but the server's clock may have been late: store it again when the clock is right. */
static bool swap_again(struct memcached_call *call, const struct memcached_reply *reply,
                       memcached_answer_fn *answer)
{
    int64_t delay_ms = memcached_settles_in_ms(call);

    if (delay_ms < 0 || !reply->has_cas || call->tries++ >= TRIES_MAX)
        return false;
    call->cas = reply->cas;
    memcached_call_later(call, delay_ms, answer);
    return true;
}

static void drop_hold(struct memcached_store *store, struct memcached_hold *hold)
{
    if (!hold)
        return;
    (void)store;
    hfi_list_remove(&hold->listed);
    memcached_claim(hold->claim)->hold = NULL;
    hfi_free(hold);
}

/* ---- release -------------------------------------------------------------------------------- */

static void release_deleted(struct memcached_call *call, enum hfi_outcome outcome,
                            const struct memcached_reply *reply);
static void release_looked(struct memcached_call *call, enum hfi_outcome outcome,
                           const struct memcached_reply *reply);

/* HF_OK, HF_LOST: the lease has ended, and core may reuse the claim. An add whose connection broke
 * may still be executed, and then nobody wants it. */
static void release_end(struct memcached_call *call, hf_status status, const hf_error *err)
{
    struct memcached_store *store = call->store;
    struct hfi_claim *claim = call->op->claim;
    struct memcached_hold *hold = memcached_hold_of(claim);

    if (status == HF_OK || status == HF_LOST) {
        if (hold && hold->unsure)
            memcached_late_add_note(store, &claim->name, claim->owner);
        drop_hold(store, hold);
    }
    hfi_reactor_finish(&store->reactor, call->op, status, err);
}

/* Others wait for what we release: pace.h says what follows from that. */
static void note_manners(struct memcached_store *store, const struct memcached_hold *hold,
                         bool marked)
{
    memcached_manners_note(&store->manners, hold->claim->name.hash, &hold->pace, marked,
                           hfi_now_ms());
}

/* If the connection broke, we do not know whether our delete removed it: it is gone, which is what
 * was asked for. */
static void release_gone(struct memcached_call *call)
{
    release_end(call, call->was_sent ? HF_OK : HF_LOST, NULL);
}

void memcached_release(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    const struct memcached_hold *hold = memcached_hold_of(op->claim);
    struct memcached_call *call = memcached_call_new(store, 'l', &op->claim->name, op);

    if (!call)
        return;
    if (hold && hold->pace.ticket)
        note_manners(store, hold, false);
    if (hold && memcached_fresh(store, hold)) {
        call->cas = hold->cas;
        memcached_call_go(call, MEMCACHED_DELETE, release_deleted);
    } else {
        memcached_call_go(call, MEMCACHED_GET, release_looked);
    }
}

static void release_trouble(struct memcached_call *call, enum hfi_outcome outcome,
                            const struct memcached_reply *reply)
{
    hf_error err;
    hf_status status = memcached_trouble(call->store, outcome, call->was_sent, reply, &err);

    release_end(call, call->was_sent ? HF_UNKNOWN : status, &err);
}

static void release_deleted(struct memcached_call *call, enum hfi_outcome outcome,
                            const struct memcached_reply *reply)
{
    if (outcome == HFI_MAYBE)
        call->was_sent = true;
    if (outcome != HFI_ANSWERED)
        memcached_call_go(call, MEMCACHED_GET, release_looked); /* or gives up, if its time is up */
    else if (reply->kind == MEMCACHED_HD)
        release_end(call, HF_OK, NULL);
    else if (reply->kind == MEMCACHED_NF)
        release_gone(call);
    else if (reply->kind == MEMCACHED_EX && call->tries++ < TRIES_MAX)
        memcached_call_go(call, MEMCACHED_GET, release_looked);
    else
        release_trouble(call, outcome, reply);
}

static void release_looked(struct memcached_call *call, enum hfi_outcome outcome,
                           const struct memcached_reply *reply)
{
    struct memcached_record record;

    if (!is_get_answer(outcome, reply)) {
        release_trouble(call, outcome, reply);
    } else if (!is_ours(reply, call->op->claim, &record)) {
        release_gone(call);
    } else {
        if (reply->stale && memcached_hold_of(call->op->claim))
            note_manners(call->store, memcached_hold_of(call->op->claim), true);
        call->cas = reply->cas;
        memcached_call_go(call, MEMCACHED_DELETE, release_deleted);
    }
}

/* ---- renew ------------------------------------------------------------------------------------- */

static void renew_swapped(struct memcached_call *call, enum hfi_outcome outcome,
                          const struct memcached_reply *reply);
static void renew_looked(struct memcached_call *call, enum hfi_outcome outcome,
                         const struct memcached_reply *reply);

static void renew_count(struct memcached_store *store, struct hfi_op *op, int change)
{
    memcached_op(op)->left += change;
    if (memcached_op(op)->left == 0)
        hfi_reactor_finish(&store->reactor, op, HF_OK, NULL);
}

static void renew_end(struct memcached_call *call, hf_status status)
{
    struct hfi_renewal *item = call->data;

    item->status = status;
    renew_count(call->store, call->op, -1);
}

void memcached_renew(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;

    renew_count(store, op, 1); /* our own count: the op must not finish before all are under way */
    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = &op->u.renew.items[i];
        const struct memcached_hold *hold = memcached_hold_of(item->claim);
        struct memcached_call *call =
            hold ? memcached_call_new(store, 'l', &item->claim->name, NULL) : NULL;

        item->status = hold ? HF_NO_MEMORY : HF_LOST;
        if (!call)
            continue;
        renew_count(store, op, 1);
        call->op = op;
        call->data = item;
        call->hold = hold;
        call->ttl_ms = item->ttl_ms;
        call->cas = hold->cas;
        if (memcached_fresh(store, hold))
            memcached_call_go(call, MEMCACHED_SWAP, renew_swapped);
        else
            memcached_call_go(call, MEMCACHED_GET, renew_looked);
    }
    renew_count(store, op, -1);
}

static void renew_trouble(struct memcached_call *call, enum hfi_outcome outcome, bool changed,
                          const struct memcached_reply *reply)
{
    hf_error err;

    renew_end(call, memcached_trouble(call->store, outcome, changed, reply, &err));
}

/* It is renewed for the ttl that we asked for; if the answer took too long to be trusted, renew
 * once more. */
static void renewed(struct memcached_call *call, const struct memcached_reply *reply)
{
    const struct hfi_renewal *item = call->data;
    struct memcached_hold *hold = memcached_hold_of(item->claim);

    hold->cas = reply->cas;
    hold->epoch = reply->has_cas && reply->cas ? call->store->epoch : 0;
    hold->ttl_ms = call->ttl_ms;
    if (swap_again(call, reply, renew_swapped))
        return;
    item->claim->granted_ttl_ms = call->granted_ms;
    item->claim->sent_ms = call->sent.sent.sent_ms;
    renew_end(call, HF_OK);
}

/*
 * A swap whose answer was lost is not repeated. It may be executed late, and then matches its
 * number only if nothing has happened since, so it cannot shorten anything. The next renewal finds
 * out what it did.
 *
 * SERVER_ERROR: there was no memory for the new value, and then memcached deletes the old one too
 * (1.6, -M). The get finds that out, so that a lease that is gone is LOST now and not at its end.
 */
static void renew_swapped(struct memcached_call *call, enum hfi_outcome outcome,
                          const struct memcached_reply *reply)
{
    const struct hfi_renewal *item = call->data;
    struct memcached_hold *hold = memcached_hold_of(item->claim);

    if (!hold) {
        renew_end(call, HF_LOST); /* released meanwhile */
        return;
    }
    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_HD) {
        renewed(call, reply);
        return;
    }
    hold->epoch = 0;
    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_NF)
        renew_end(call, HF_LOST);
    else if (outcome == HFI_ANSWERED &&
             (reply->kind == MEMCACHED_EX || reply->kind == MEMCACHED_ERROR) &&
             call->tries++ < TRIES_MAX)
        memcached_call_go(call, MEMCACHED_GET, renew_looked);
    else
        renew_trouble(call, outcome, true, reply);
}

static void renew_looked(struct memcached_call *call, enum hfi_outcome outcome,
                         const struct memcached_reply *reply)
{
    const struct hfi_renewal *item = call->data;
    struct memcached_record record;

    if (!is_get_answer(outcome, reply)) {
        renew_trouble(call, outcome, false, reply);
    } else if (!memcached_hold_of(item->claim) || !is_ours(reply, item->claim, &record)) {
        renew_end(call, HF_LOST);
    } else {
        call->cas = reply->cas;
        memcached_call_go(call, MEMCACHED_SWAP, renew_swapped);
    }
}

/* ---- adopt ---------------------------------------------------------------------------------------- */

static void adopt_looked(struct memcached_call *call, enum hfi_outcome outcome,
                         const struct memcached_reply *reply);

static void adopt_end(struct memcached_call *call, hf_status status, const hf_error *err)
{
    if (status != HF_OK)
        drop_hold(call->store, memcached_hold_of(call->op->claim));
    hfi_reactor_finish(&call->store->reactor, call->op, status, err);
}

static void adopt_trouble(struct memcached_call *call, enum hfi_outcome outcome, bool changed,
                          const struct memcached_reply *reply)
{
    hf_error err;

    adopt_end(call, memcached_trouble(call->store, outcome, changed, reply, &err), &err);
}

void memcached_adopt(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    struct memcached_hold *hold = hfi_calloc(1, sizeof *hold);
    struct memcached_call *call;

    if (!hold) {
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    call = memcached_call_new(store, 'l', &op->claim->name, op);
    if (!call) {
        hfi_free(hold);
        return;
    }
    hold->claim = op->claim;
    hold->state = MEMCACHED_HELD;
    memcached_claim(op->claim)->hold = hold;
    hfi_list_append(&store->held, &hold->listed);
    call->hold = hold;
    memcached_call_go(call, MEMCACHED_GET, adopt_looked);
}

static void adopt_swapped(struct memcached_call *call, enum hfi_outcome outcome,
                          const struct memcached_reply *reply)
{
    struct hfi_claim *claim = call->op->claim;
    struct memcached_hold *hold = memcached_hold_of(claim);

    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_HD &&
        swap_again(call, reply, adopt_swapped))
        return;
    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_HD) {
        hold->cas = reply->cas;
        hold->epoch = reply->has_cas && reply->cas ? call->store->epoch : 0;
        claim->mode = HFI_MODE_MUTEX;
        claim->capacity = claim->permits = 1;
        claim->token = 0;
        claim->tokens = 1;
        claim->granted_ttl_ms = call->granted_ms;
        claim->sent_ms = call->sent.sent.sent_ms;
        adopt_end(call, HF_OK, NULL);
    } else if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_NF) {
        adopt_end(call, HF_NOT_FOUND, NULL);
    } else if (outcome == HFI_ANSWERED &&
               (reply->kind == MEMCACHED_EX || reply->kind == MEMCACHED_ERROR) &&
               call->tries++ < TRIES_MAX) {
        memcached_call_go(call, MEMCACHED_GET, adopt_looked);
    } else {
        adopt_trouble(call, outcome, true, reply);
    }
}

/* The record keeps its label, age and ttl: the process that adopts it is not the one that asked for
 * it. */
static void adopt_looked(struct memcached_call *call, enum hfi_outcome outcome,
                         const struct memcached_reply *reply)
{
    struct hfi_claim *claim = call->op->claim;
    struct memcached_hold *hold = memcached_hold_of(claim);
    struct memcached_record record;

    if (!is_get_answer(outcome, reply)) {
        adopt_trouble(call, outcome, false, reply);
        return;
    }
    if (!is_ours(reply, claim, &record) || !record.detached) {
        adopt_end(call, HF_NOT_FOUND, NULL);
        return;
    }
    hold->detached = true;
    hold->since_ms = record.since_ms;
    hold->label_len = record.label_len;
    memcpy(hold->label, record.label, record.label_len);
    hold->ttl_ms = claim->ttl_ms > 0 ? claim->ttl_ms : record.ttl_ms;
    if (claim->ttl_ms == 0)
        claim->ttl_ms = record.ttl_ms;
    call->ttl_ms = hold->ttl_ms;
    call->cas = reply->cas;
    memcached_call_go(call, MEMCACHED_SWAP, adopt_swapped);
}
