/* SPDX-License-Identifier: MIT */
/*
 * Grants in the native wire mode: how long they are valid, and what follows. A grant comes as the
 * answer to an acquire, a heartbeat or a cancel, or as a message.
 *
 * kit/handover.h has the rules for both. The attempt number alone does not distinguish a message of
 * this grant from an old one: the waiter may have been granted under this very number without
 * noticing, and passed over, and a late copy of an earlier acquire may have queued it again;
 * heartbeats do not show that. The token does (wait->past).
 */
#include "engine/redis/internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <string.h>

/* ---- messages ------------------------------------------------------------------------------ */

/* "W<owner> <1 or 0>", "A<owner> <text>" */
static void wanted(struct redis_store *store, struct hfi_claim *claim,
                   const struct redis_message *message)
{
    if (message->letter == 'A')
        hfi_reactor_wanted(&store->reactor, claim, HFI_WANTED_ASKED, message->rest,
                           message->rest_len);
    else if (message->count == 1)
        hfi_reactor_wanted(&store->reactor, claim,
                           message->numbers[0] ? HFI_WANTED_YES : HFI_WANTED_NO, "", 0);
}

/* "G<owner> <attempt> <token> <tokens> <window ms>" (and "1" if others wait; or that or "0", and numbers), "L<owner> <token>", and those above. Anything
 * else is ignored. A message can come late: for a claim that has moved on it has no meaning. */
void redis_message(struct redis_store *store, const char *payload, size_t len)
{
    struct redis_message message;
    const uint64_t *numbers = message.numbers;
    uint64_t token, tokens, window;
    uint32_t slots[HF_SLOTS_MAX];
    struct redis_claim *own;
    struct hfi_claim *claim;
    struct redis_wait *wait;

    if (!redis_message_read_raw(payload, len, &message) ||
        !(own = redis_claim_find(store, message.owner)))
        return;
    claim = own->entry.claim;
    wait = own->wait;
    if (message.letter == 'L' && !wait && message.count > 0 &&
        (claim->flags & HFI_CLAIM_LINGERS ||
         (numbers[0] >= claim->token && numbers[0] < claim->token + claim->tokens))) {
        hfi_reactor_lost(&store->reactor, claim, "it was broken");
        return;
    }
    if (claim->flags & HFI_CLAIM_WATCHED && (message.letter == 'W' || message.letter == 'A')) {
        own->thin = own->thin && message.letter == 'A';
        wanted(store, claim, &message);
        return;
    }
    if (message.letter != 'G' || !wait || message.count < 4 ||
        numbers[0] != (uint32_t)wait->attempt)
        return;
    token = numbers[1];
    tokens = numbers[2];
    window = numbers[3];
    if (token >= HFI_TOKEN_LIMIT || tokens == 0 || tokens > claim->tokens_wanted ||
        window > HF_DURATION_MAX_MS ||
        (claim->flags & HFI_CLAIM_NUMBERED &&
         !redis_numbers_read(message.rest, message.rest_len, claim->permits, slots)))
        return;
    switch (hfi_message_judge(wait->state, wait->call ? wait->call->first_ms : wait->heard_ms,
                              wait->past, token, (int64_t)window, hfi_now_ms())) {
    case HFI_MESSAGE_IGNORE:
        return;
    case HFI_MESSAGE_RECHECK: /* a heartbeat renews the grant, if it still exists */
        wait->heartbeat_ms = 0;
        hfi_source_at(&store->heartbeat, 0);
        return;
    case HFI_MESSAGE_GRANT:
        break;
    }
    if (wait->call) {
        /* The message overtook the answer to our acquire, and its first copy may have caused it: so
         * we count from the send of that copy. */
        wait->heard_ms = wait->call->first_ms;
        wait->unsure = wait->unsure || wait->call->was_sent; /* another copy may be under way */
        wait->call->data = NULL;
        wait->call->idempotent = false; /* otherwise a copy could be executed after the release */
        if (hfi_request_unpark(&store->requests, &wait->call->request))
            redis_call_free(wait->call);
        wait->call = NULL;
    }
    claim->others_wait = message.count > 4 && numbers[4] > 0;
    if (claim->flags & HFI_CLAIM_NUMBERED)
        memcpy(claim->slots, slots, claim->permits * sizeof *slots);
    redis_granted(store, wait, token, (uint32_t)tokens, (int64_t)window, wait->heard_ms);
}

/* ---- confirming ---------------------------------------------------------------------------- */

/*
 * A grant that is too short, or must reach replicas, is renewed for the whole ttl before the
 * acquire ends. With sync=N that is a write on a separate connection, followed by a WAIT: the lease
 * counts from there, and if too few replicas have it, it is released.
 */
static void rolled_back(struct redis_call *call, enum hfi_outcome outcome,
                        const struct hfi_reply *reply, const hf_error *err)
{
    (void)reply;
    (void)err;
    redis_wait_end(
        call->store, call->data, outcome == HFI_ANSWERED ? HF_UNAVAILABLE : HF_UNKNOWN,
        &(hf_error){ .status = HF_UNAVAILABLE, .text = "sync: too few replicas had it in time" });
}

static void roll_back(struct redis_store *store, struct redis_wait *wait)
{
    struct redis_call *call =
        wait->claim->flags & HFI_CLAIM_REPLACES
            ? NULL /* what it has replaced cannot come back: core must know first */
            : redis_call_new(store, &hfi_script_release, REDIS_NAME_KEYS, rolled_back, NULL);

    if (!call) {
        redis_wait_end(store, wait, HF_UNKNOWN, NULL);
        return;
    }
    call->data = wait;
    redis_send_release(call, wait->claim, wait->unsure);
}

static void end_confirm(struct redis_store *store, struct redis_wait *wait, bool enough)
{
    if (wait->confirmed == HF_OK && enough)
        redis_wait_end(store, wait, HF_OK, NULL);
    else if (wait->confirmed == HF_OK)
        roll_back(store, wait);
    else if (wait->confirmed != HF_LOST)
        redis_wait_end(store, wait, HF_UNKNOWN, NULL);
    else if (wait->claim->flags & HFI_CLAIM_REPLACES)
        redis_wait_end(store, wait, HF_LOST, NULL);
    else if (wait->stop != HF_OK)
        redis_denied(store, wait, wait->stop, NULL); /* it has expired, and the acquire was
                                                      * cancelled */
    else
        redis_ask(store, wait); /* it has expired: ask again */
}

static void replicated(struct redis_call *call, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, const hf_error *err)
{
    hf_error why;

    (void)err;
    end_confirm(call->store, call->data, redis_wait_enough(call->store, outcome, reply, &why));
}

static void confirmed(struct redis_call *call, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_wait *wait = call->data;
    const struct hfi_reply *answer = hfi_reply_at(reply, 0, HFI_REPLY_INTEGER);

    (void)err;
    wait->confirmed = outcome != HFI_ANSWERED || !answer             ? HF_UNKNOWN
                      : answer->integer == 1 || answer->integer == 2 ? HF_OK
                                                                     : HF_LOST;
    if (wait->confirmed == HF_OK)
        wait->claim->others_wait = answer->integer == 2;
    wait->claim->granted_ttl_ms = wait->claim->ttl_ms;
    wait->claim->sent_ms = call->sent.base.sent_ms;
    if (!call->synced)
        end_confirm(call->store, wait, true);
}

void redis_confirm(struct redis_store *store, struct redis_wait *wait)
{
    struct redis_call *call =
        redis_call_new(store, &hfi_script_renew, redis_renewal_keys(store), confirmed, NULL);
    struct redis_call *behind =
        call && store->sync.link ? redis_wait_call(store, replicated) : NULL;

    if (!call || (store->sync.link && !behind)) {
        if (call)
            redis_call_free(call);
        redis_wait_end(store, wait, HF_UNKNOWN, NULL);
        return;
    }
    wait->state = HFI_WAITER_CONFIRMING;
    wait->heartbeat_ms = HFI_NEVER;
    call->data = wait;
    call->synced = behind != NULL;
    redis_add_renewal_keys(call, &wait->claim->name);
    redis_add_renewal(call, wait->claim, wait->claim->ttl_ms, 0);
    redis_call_send(call);
    if (behind) {
        behind->data = wait;
        redis_call_send(behind); /* its answer is always the second */
    }
}
