/* SPDX-License-Identifier: MIT */
/*
 * Release in the native wire mode.
 *
 * A lease in the thin form is released by a plain HDEL of the field that has its owner's name, which costs the server a tenth of
 * a script. It answers 0 if a waiter has made the name full meanwhile, or if the lease is gone: then the script decides. That
 * is one round trip more for a hand-over. So only short holds end by it, and a name where it was in vain is released by the script
 * for a while.
 */
#include "engine/redis/internal.h"

#include "util/clock.h"

#define THIN_TTL_MS 600000 /* the script lets the key of a longer lease expire sooner */
#define CROWDED_FOR 32     /* releases by the script, after a waiter was found */
#define THIN_HOLD_NS \
    INT64_C(         \
        1000000) /* after a longer hold a waiter is likelier, and the server is not what limits the rate */

void redis_released(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    if (outcome != HFI_ANSWERED)
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_status(outcome, err), err);
    else if (reply->type == HFI_REPLY_INTEGER && reply->integer == 1)
        hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
    else if (reply->type == HFI_REPLY_INTEGER && reply->integer == 0)
        redis_finish_gone(call);
    else
        redis_finish_odd(call->store, call->op, reply);
}

/* The lease has ended by our own clock, which is ahead of the server's, and its lock delay must
 * run: a release that arrives a moment too early would be a clean end, and open the name at
 * once. */
static bool must_lapse(const struct hfi_claim *claim)
{
    return claim->lock_delay_ms > 0 && claim->granted_ttl_ms > 0 &&
           hfi_now_ms() >= claim->sent_ms + claim->granted_ttl_ms;
}

static unsigned char *crowded(struct redis_store *store, const struct hfi_claim *claim)
{
    return &store->crowded[claim->name.hash[0] % REDIS_CROWDED];
}

/* May the field be there, with nothing else to do for this release? A holder that was told that others wait, or has passed the
 * lease on, knows that the name is full; a lease that lingers ends because others want it. */
static bool may_be_thin(struct redis_store *store, const struct hfi_claim *claim)
{
    const struct redis_claim *own = (const struct redis_claim *)claim->room;

    if (!own->thin || own->unsure || own->token || claim->others_wait ||
        claim->flags & HFI_CLAIM_LINGERS || claim->ttl_ms > THIN_TTL_MS ||
        claim->granted_ttl_ms > THIN_TTL_MS || hfi_now_ns() - own->granted_ns > THIN_HOLD_NS)
        return false;
    if (*crowded(store, claim) == 0)
        return true;
    --*crowded(store, claim);
    return false;
}

static void release_by_script(struct redis_store *store, struct hfi_op *op,
                              const struct redis_call *before)
{
    struct redis_call *call =
        redis_call_new(store, &hfi_script_release, REDIS_NAME_KEYS, redis_released, op);

    if (!call)
        return;
    if (before) {
        call->was_sent = before->was_sent;
        call->request.give_up_ms = before->request.give_up_ms;
    }
    redis_send_release(call, op->claim, redis_claim(op->claim)->unsure);
}

/* How many fields were deleted. */
static void field_deleted(struct redis_call *call, enum hfi_outcome outcome,
                          const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;

    if (outcome != HFI_ANSWERED || reply->type != HFI_REPLY_INTEGER || reply->integer != 0) {
        redis_released(call, outcome, reply, err);
        return;
    }
    redis_claim(call->op->claim)->thin = false;
    *crowded(store, call->op->claim) = CROWDED_FOR;
    release_by_script(store, call->op, call);
}

static void delete_field(struct redis_store *store, struct hfi_op *op)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, field_deleted, op);

    if (!call)
        return;
    call->idempotent = true; /* a second copy finds nothing, and the script says so */
    hfi_command_add_text(&call->command, "HDEL");
    redis_add_keys(call, &op->claim->name, false);
    hfi_command_add(&call->command, op->claim->owner, HFI_OWNER_LEN);
    redis_call_send(call);
}

void redis_release(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;

    redis_claim_remove(store, op->claim);
    if (must_lapse(op->claim)) {
        hfi_reactor_finish(&store->reactor, op, HF_LOST, NULL);
        return;
    }
    if (may_be_thin(store, op->claim))
        delete_field(store, op);
    else
        release_by_script(store, op, NULL);
}

void redis_send_release(struct redis_call *call, const struct hfi_claim *claim, bool unsure)
{
    call->idempotent = true;
    redis_add_keys(call, &claim->name, true);
    hfi_command_add(&call->command, claim->owner, HFI_OWNER_LEN);
    if (unsure)
        hfi_command_add_number(&call->command, REDIS_TOMBSTONE_MS);
    redis_call_send(call);
}
