/* SPDX-License-Identifier: MIT */
/*
 * Acquire, and its waiting, in the native wire mode.
 *
 * kit/handover.h has the states and the rules, message.c has grants by message, heartbeat.c has heartbeats.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

#define RETRY_MS 250 /* pause after a temporary refusal (LOADING, READONLY) */
#define CANCEL_MS \
    1000 /* how long a cancel waits for a connection that is down, or for its answer */

#define FLAG_WATCHED  16 /* of an acquire; the others are those of Redlock too (protocol.h) */
#define FLAG_LINGERS  32
#define FLAG_NUMBERED 64

#define REQUEST_LEN 39 /* without the label; scripts/README.md */

static void asked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err);
static void cancel_native(struct redis_store *store, struct redis_wait *wait);

int64_t redis_window_ms(int64_t ttl_ms)
{
    return hfi_window_ms(ttl_ms, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS);
}

/* ---- beginning and ending -------------------------------------------------------------- */

void redis_acquire(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_wait *wait = &redis_op(op)->wait;

    wait->op = op;
    wait->claim = op->claim;
    wait->heartbeat_ms = HFI_NEVER;
    wait->slot = store->slots && store->wire->slot ? store->wire->slot(store, &op->claim->name) : 0;
    hfi_list_append(&store->waits, &wait->listed);
    redis_claim(op->claim)->wait = wait;
    redis_claim_add(store, op->claim);
    store->wire->acquire(store, wait);
}

void redis_wait_end(struct redis_store *store, struct redis_wait *wait, hf_status status,
                    const hf_error *err)
{
    struct redis_claim *claim = redis_claim(wait->claim);
    struct hfi_op *op = wait->op;

    hfi_list_remove(&wait->listed);
    claim->wait = NULL;
    claim->unsure = claim->unsure || wait->unsure;
    if (status != HF_OK)
        redis_claim_remove(store, wait->claim);
    wait->op = NULL;
    hfi_reactor_finish(&store->reactor, op, status, err);
}

/* ---- asking ------------------------------------------------------------------------------ */

/* What the server is asked for: it keeps no more than this. */
static uint32_t tokens_asked(const struct hfi_claim *claim)
{
    return claim->tokens_wanted < UINT16_MAX ? claim->tokens_wanted : UINT16_MAX;
}

static unsigned char *put(unsigned char *to, uint32_t number, size_t len)
{
    for (size_t i = 0; i < len; i++)
        *to++ = (unsigned char)(number >> 8 * i);
    return to;
}

/* The request of a plain mutex; of anything else, what differs follows. */
static void add_request(struct redis_call *call, const struct redis_wait *wait)
{
    const struct redis_store *store = call->store;
    const struct hfi_claim *claim = wait->claim;
    unsigned char request[REQUEST_LEN + HF_LABEL_MAX], *to = request;
    const char *label = redis_request_label(store, claim);
    size_t label_len = strnlen(label, HF_LABEL_MAX);
    bool plain = claim->mode == HFI_MODE_MUTEX && claim->capacity == 1 &&
                 claim->lock_delay_ms == 0 && claim->ttl_ms <= UINT32_MAX;

    to = mempcpy(to, claim->owner, HFI_OWNER_LEN);
    to = put(to, plain ? (uint32_t)claim->ttl_ms : 0, 4);
    to = put(to, (uint32_t)redis_window_ms(claim->ttl_ms), 4);
    to = put(to, tokens_asked(claim), 2);
    to = put(to,
             (uint32_t)redis_acquire_flags(wait->op, store->inbox_up && !store->slots) |
                 (claim->flags & HFI_CLAIM_WATCHED ? FLAG_WATCHED : 0) |
                 (claim->flags & HFI_CLAIM_LINGERS ? FLAG_LINGERS : 0) |
                 (claim->flags & HFI_CLAIM_NUMBERED ? FLAG_NUMBERED : 0),
             1);
    to = mempcpy(to, store->client, REDIS_CLIENT_LEN);
    to = put(to, (uint32_t)wait->attempt, 4);
    to = mempcpy(to, label, label_len);
    hfi_command_add(&call->command, request, (size_t)(to - request));
    if (!plain || claim->tokens_wanted > 1)
        hfi_command_add_number(&call->command, tokens_asked(claim));
    if (plain)
        return;
    hfi_command_add_number(&call->command, (int64_t)claim->mode);
    hfi_command_add_number(&call->command, claim->capacity);
    hfi_command_add_number(&call->command, claim->permits);
    hfi_command_add_number(&call->command, claim->lock_delay_ms);
    hfi_command_add_number(&call->command, claim->ttl_ms);
    if (claim->flags & HFI_CLAIM_REPLACES)
        hfi_command_add(&call->command, claim->replaced, HFI_OWNER_LEN);
}

void redis_ask(struct redis_store *store, struct redis_wait *wait)
{
    struct redis_call *call;

    redis_identify(store);
    call = redis_call_new(store, &hfi_script_acquire, REDIS_NAME_KEYS, asked, NULL);
    if (!call) {
        redis_wait_end(store, wait, wait->unsure ? HF_UNKNOWN : HF_NO_MEMORY, NULL);
        return;
    }
    call->data = wait;
    call->idempotent = true; /* by the owner: a second copy finds what the first has done */
    call->was_sent = wait->unsure;
    if (wait->op->may_wait)
        call->request.give_up_ms = HFI_NEVER; /* core cancels it when its time is up */
    wait->state = HFI_WAITER_ASKING;
    wait->attempt = ++store->last_attempt;
    wait->heartbeat_ms = HFI_NEVER;
    wait->call = call;
    redis_claim(wait->claim)->thin = false;

    redis_add_keys(call, &wait->claim->name, true);
    add_request(call, wait);
    redis_call_send(call);
}

/* The server cannot be used now. An acquire that may wait tries again later. */
static void put_off(struct redis_store *store, struct redis_wait *wait, enum hfi_outcome outcome,
                    const hf_error *err)
{
    hf_status status = hfi_outcome_status(outcome, err);

    if (outcome == HFI_MAYBE)
        wait->unsure = true;
    if (!wait->op->may_wait || (status != HF_UNAVAILABLE && status != HF_UNKNOWN)) {
        redis_wait_end(store, wait, status, err);
        return;
    }
    wait->state = HFI_WAITER_RESTING;
    wait->heartbeat_ms = hfi_now_ms() + RETRY_MS / 2 + (int64_t)(hfi_random_u64() % RETRY_MS);
    hfi_source_by(&store->heartbeat, wait->heartbeat_ms);
}

void redis_denied(struct redis_store *store, struct redis_wait *wait, hf_status status,
                  const hf_error *err)
{
    if (!wait->unsure) {
        redis_wait_end(store, wait, status, err);
        return;
    }
    wait->stop = status;
    cancel_native(store, wait);
}

/* ---- granted ---------------------------------------------------------------------------------- */

void redis_granted(struct redis_store *store, struct redis_wait *wait, uint64_t token,
                   uint32_t tokens, int64_t ttl_ms, int64_t from_ms)
{
    struct hfi_claim *claim = wait->claim;

    claim->token = token;
    claim->tokens = tokens;
    claim->granted_ttl_ms = ttl_ms;
    claim->sent_ms = from_ms;
    if (store->sync.link || hfi_grant_needs_renewal(from_ms + ttl_ms - hfi_now_ms(), ttl_ms,
                                                    claim->ttl_ms, claim->min_valid_ms))
        redis_confirm(store, wait); /* it must reach replicas, or is too short */
    else
        redis_wait_end(store, wait, HF_OK, NULL);
}

/* The numbers of its permits, if it asked for them. false: not as it must be. */
static bool take_numbers(struct hfi_claim *claim, const struct hfi_reply *numbers)
{
    if (!(claim->flags & HFI_CLAIM_NUMBERED))
        return true;
    return numbers && redis_numbers_read(numbers->text, numbers->len, claim->permits, claim->slots);
}

bool redis_take_grant(struct redis_store *store, struct redis_wait *wait,
                      const struct hfi_reply *reply, int64_t from_ms)
{
    const struct hfi_reply *token = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *tokens = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);
    const struct hfi_reply *ttl = hfi_reply_at(reply, 3, HFI_REPLY_INTEGER);

    wait->claim->others_wait = hfi_reply_int_at(reply, 4) > 0;
    if (!take_numbers(wait->claim, hfi_reply_at(reply, 5, HFI_REPLY_TEXT)))
        return false;
    if (reply->type == HFI_REPLY_INTEGER && reply->integer > 0 &&
        reply->integer < (int64_t)HFI_TOKEN_LIMIT) { /* exactly what was asked for, and thin */
        redis_claim(wait->claim)->thin = true;
        redis_claim(wait->claim)->granted_ns = hfi_now_ns();
        redis_granted(store, wait, (uint64_t)reply->integer, tokens_asked(wait->claim),
                      wait->claim->ttl_ms, from_ms);
        return true;
    }
    if (!token || !tokens || !ttl || token->integer <= 0 ||
        token->integer >= (int64_t)HFI_TOKEN_LIMIT || tokens->integer <= 0 ||
        tokens->integer > wait->claim->tokens_wanted || ttl->integer <= 0)
        return false;
    redis_granted(store, wait, (uint64_t)token->integer, (uint32_t)tokens->integer,
                  hfi_told_ms(ttl->integer), from_ms);
    return true;
}

void redis_odd(struct redis_store *store, struct redis_wait *wait)
{
    hf_error err;

    hfi_error_set(&err, HF_UNKNOWN, 0, "the server gave an unexpected answer to a script");
    wait->unsure = true;
    redis_wait_end(store, wait, HF_UNKNOWN, &err);
}

static void asked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err)
{
    struct redis_store *store = call->store;
    struct redis_wait *wait = call->data;
    hf_error other;

    if (!wait)
        return; /* a message granted it before, or it is being cancelled */
    wait->call = NULL;
    wait->unsure = wait->unsure || call->was_sent;
    if (outcome != HFI_ANSWERED) {
        put_off(store, wait, outcome, err);
        return;
    }

    switch (reply->type == HFI_REPLY_INTEGER
                ? HFI_ANSWER_GRANTED
                : hfi_waiter_answered(HFI_WAITER_ASKING, hfi_reply_letter(reply))) {
    case HFI_ANSWER_GRANTED:
        if (!redis_take_grant(store, wait, reply, call->sent.base.sent_ms))
            redis_odd(store, wait);
        return;
    case HFI_ANSWER_QUEUED:
        /* The first copy may have been queued, granted and passed over; its message, with this
         * attempt number, may still come. On one server its token shows that (wait->past), but
         * after a failover the new server may have granted fewer tokens. So the waiter keeps its
         * place under a new attempt number. */
        if (call->resent)
            redis_ask(store, wait);
        else
            redis_queued(store, wait, reply, call->sent.base.sent_ms);
        return;
    case HFI_ANSWER_BUSY:
        wait->op->ret_lingers = hfi_reply_int_at(reply, 2) > 0;
        redis_denied(store, wait, HF_BUSY, NULL);
        return;
    case HFI_ANSWER_MISMATCH:
        (void)hfi_mismatch_set(&other, hfi_reply_int_at(reply, 1), hfi_reply_int_at(reply, 2));
        redis_denied(store, wait, HF_MISMATCH, &other);
        return;
    case HFI_ANSWER_FULL:
        redis_denied(store, wait, HF_FULL, NULL);
        return;
    case HFI_ANSWER_FORGOTTEN:
        if (wait->claim->flags & HFI_CLAIM_REPLACES)
            redis_denied(store, wait, HF_LOST, NULL);
        else
            redis_odd(store, wait);
        return;
    default:
        redis_odd(store, wait);
        return;
    }
}

/* ---- cancelling --------------------------------------------------------------------------------- */

void redis_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct redis_store *store = self;
    struct redis_wait *wait = &redis_op(op)->wait;

    if (!wait->op || wait->stop != HF_OK)
        return;
    wait->stop = status;
    if (wait->state != HFI_WAITER_CONFIRMING) /* a confirmation ends by itself, and soon */
        store->wire->cancel(store, wait);
}

/* If the acquire is under way, the cancel follows it on the same connection: so its answer covers
 * everything that was sent before. */
static void cancel_native(struct redis_store *store, struct redis_wait *wait)
{
    struct redis_call *call;

    if (wait->call) {
        wait->unsure = wait->unsure || wait->call->was_sent;
        wait->call->data = NULL; /* ignore its answer */
        wait->call->idempotent = false;
        if (hfi_request_unpark(&store->requests, &wait->call->request))
            redis_call_free(wait->call);
        else
            wait->unsure = true; /* if the connection breaks now, it may be executed after its own
                                  * cancel */
        wait->call = NULL;
    }
    if (!wait->unsure && wait->heard_ms == 0) {
        redis_wait_end(store, wait, wait->stop, NULL); /* no copy of it was ever sent */
        return;
    }
    call = redis_call_new(store, &hfi_script_cancel, REDIS_NAME_KEYS, redis_cancelled, NULL);
    if (!call) {
        wait->unsure = true;
        redis_wait_end(store, wait, HF_UNKNOWN, NULL);
        return;
    }
    wait->state = HFI_WAITER_CANCELLING;
    wait->cancelling = call;
    call->data = wait;
    call->idempotent = true;
    /* After that it is UNKNOWN, and core settles it: its caller wants to leave, and the time limit of the connection may be long. */
    call->request.give_up_ms = wait->heartbeat_ms = hfi_now_ms() + CANCEL_MS;
    hfi_source_by(&store->heartbeat, wait->heartbeat_ms);
    redis_add_keys(call, &wait->claim->name, true);
    hfi_command_add(&call->command, wait->claim->owner, HFI_OWNER_LEN);
    hfi_command_add_number(&call->command, wait->unsure ? REDIS_TOMBSTONE_MS : 0);
    redis_call_send(call);
}

void redis_cancelled(struct redis_call *call, enum hfi_outcome outcome,
                     const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct redis_wait *wait = call->data;

    if (!wait)
        return; /* too late: core settles it */
    wait->cancelling = NULL;
    wait->heartbeat_ms = HFI_NEVER;
    if (outcome != HFI_ANSWERED) {
        wait->unsure = true;
        redis_wait_end(store, wait, HF_UNKNOWN, err);
        return;
    }
    switch (hfi_waiter_answered(HFI_WAITER_CANCELLING, hfi_reply_letter(reply))) {
    case HFI_ANSWER_LEFT:
        redis_wait_end(store, wait, wait->stop, NULL);
        return;
    case HFI_ANSWER_GRANTED:
        if (!redis_take_grant(store, wait, reply, call->sent.base.sent_ms))
            redis_odd(store, wait);
        return;
    default:
        redis_odd(store, wait);
        return;
    }
}

void redis_cancel_late(struct redis_store *store, struct redis_wait *wait)
{
    wait->cancelling->data = NULL; /* ignore its answer */
    wait->cancelling = NULL;
    wait->unsure = true;
    redis_wait_end(store, wait, HF_UNKNOWN, NULL);
}

/* ---- the native way ------------------------------------------------------------------------------- */

static const struct hfi_op_calls native_ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { redis_acquire, redis_cancel },
    [HFI_OP_RELEASE] = { redis_release, NULL },
    [HFI_OP_RENEW] = { redis_renew, NULL },
    [HFI_OP_ADOPT] = { redis_adopt, NULL },
    [HFI_OP_LIST] = { redis_list, NULL },
    [HFI_OP_LOOK] = { redis_look, NULL },
    [HFI_OP_BREAK] = { redis_break, NULL },
    [HFI_OP_RESIZE] = { redis_resize, NULL },
    [HFI_OP_ASK] = { redis_ask_holders, NULL },
    [HFI_OP_CELL_READ] = { redis_cell_read, NULL },
    [HFI_OP_CELL_SWAP] = { redis_cell_swap, NULL },
    [HFI_OP_CELLS_COMMIT] = { redis_cells_commit, NULL },
    [HFI_OP_CELL_WAIT] = { redis_cell_wait, redis_cell_cancel },
    [HFI_OP_CHANGE_WAIT] = { redis_change_wait, redis_change_cancel },
    [HFI_OP_TIME] = { redis_time, NULL },
    [HFI_OP_COUNTER] = { redis_counter, NULL },
    [HFI_OP_LIMIT] = { redis_limit, NULL },
    [HFI_OP_SCRIPT] = { redis_script, NULL },
};

const struct redis_wire redis_native = {
    .ops = native_ops,
    .acquire = redis_ask,
    .cancel = cancel_native,
    .add_key = redis_add_renewal_keys,
    .add_renewal = redis_add_renewal,
    .slot = redis_name_slot,
};
