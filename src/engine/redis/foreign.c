/* SPDX-License-Identifier: MIT */
/*
 * The foreign wire modes: locks that we share with clients of other libraries.
 *
 *   wire=plain      a string at exactly the name: redis-py, node-redlock, redis-semaphore, and
 *                   everybody with SET NX PX and compare-and-delete
 *   wire=redisson   a hash at exactly the name, field "<uuid>:<thread>" -> hold count, and a
 *                   message when it is unlocked: Redisson's RLock
 *
 * Other libraries have no queue and no tokens, so there are none here either. A waiter tries again:
 * when the holder's lease expires, when an unlock message comes (redisson), or after a jittered
 * pause of at most conf->poll_ms.
 *
 *   ASKING --busy--> RESTING --pause, expiry, message--> ASKING --> granted
 *
 * An acquire whose answer was lost is sent again by the same owner, and finds what the first copy
 * did. But there are no tombstones: a copy that is executed very late, after we gave up, holds the
 * name for one ttl.
 */
#include "engine/redis/internal.h"

#include "engine/redis/plain.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define FIELD_LEN   38 /* "01234567-89ab-cdef-0123-456789abcdef:1" */
#define CHANNEL_MAX (HF_NAME_MAX + 32)
#define CANCEL_MS   1000 /* how long a cancel waits for a connection that is down */

static void asked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err);

static void ask(struct redis_store *store, struct redis_wait *wait);

static bool is_redisson(const struct redis_store *store)
{
    return store->conf->wire == HFI_WIRE_REDISSON;
}

static void add_key(struct redis_call *call, const struct hfi_name *name)
{
    if (call->store->slots)
        call->command.slot = hfi_key_slot(name->bytes, name->len);
    hfi_command_add(&call->command, name->bytes, name->len);
}

static void add_field(struct redis_call *call, const unsigned char *owner)
{
    char hex[2 * HFI_OWNER_LEN + 1], field[FIELD_LEN + 1];

    hfi_hex(owner, HFI_OWNER_LEN, hex);
    snprintf(field, sizeof field, "%.8s-%.4s-%.4s-%.4s-%.12s:1", hex, hex + 8, hex + 12, hex + 16,
             hex + 20);
    hfi_command_add(&call->command, field, FIELD_LEN);
}

static void add_owner(struct redis_call *call, const struct hfi_claim *claim)
{
    if (is_redisson(call->store))
        add_field(call, claim->owner);
    else
        redis_add_owner(&call->command, claim->owner);
}

/* How often it is held; 1 before it is granted. */
static void add_holds(struct redis_call *call, const _Atomic uint32_t *holds)
{
    uint32_t count = atomic_load(holds);

    hfi_command_add_number(&call->command, count ? count : 1);
}

static void add_renewal(struct redis_call *call, const struct hfi_claim *claim, int64_t ttl_ms,
                        uint32_t tokens)
{
    (void)tokens;
    add_owner(call, claim);
    hfi_command_add_number(&call->command, ttl_ms);
    if (is_redisson(call->store))
        add_holds(call, &claim->holds);
}

/* Redisson's channel for a name; its length. */
static size_t channel_of(const struct hfi_name *name, char ret_channel[CHANNEL_MAX])
{
    static const char prefix[] = "redisson_lock__channel:";
    bool tagged = memchr(name->bytes, '{', name->len) != NULL;
    size_t len = sizeof prefix - 1;

    memcpy(ret_channel, prefix, len);
    if (!tagged)
        ret_channel[len++] = '{';
    memcpy(ret_channel + len, name->bytes, name->len);
    len += name->len;
    if (!tagged)
        ret_channel[len++] = '}';
    return len;
}

/* ---- unlock messages ------------------------------------------------------------------- */

static bool same_name(const struct redis_wait *a, const struct redis_wait *b)
{
    return a->claim->name.len == b->claim->name.len &&
           memcmp(a->claim->name.bytes, b->claim->name.bytes, a->claim->name.len) == 0;
}

static void subscribed(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    (void)reply; /* refused or unanswered: the pause still limits the wait */
    (void)maybe;
    hfi_free(sent);
}

static void listen_for(struct redis_store *store, struct redis_wait *wait)
{
    char channel[CHANNEL_MAX];
    struct redis_sent *sent;

    if (!is_redisson(store) || wait->listens || !store->inbox_up)
        return;
    sent = hfi_calloc(1, sizeof *sent);
    if (!sent)
        return;
    sent->answered = subscribed;
    wait->listens = true;
    hfi_link_subscribe(store->inbox.link, channel, channel_of(&wait->claim->name, channel), sent);
}

static void stop_listening(struct redis_store *store, struct redis_wait *wait)
{
    char channel[CHANNEL_MAX];

    if (!wait->listens)
        return;
    wait->listens = false;
    hfi_list_each (const struct redis_wait, other, &store->waits, listed)
        if (other != wait && other->listens && same_name(other, wait))
            return;
    hfi_link_unsubscribe(store->inbox.link, channel, channel_of(&wait->claim->name, channel));
}

/* An unlock message came: one of our waiters for that name tries now. The others are told by the
 * next unlock, or try after their pause. */
static void heard(struct redis_store *store, const char *channel, size_t len)
{
    char own[CHANNEL_MAX];
    struct redis_wait *first = NULL;

    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        if (!first && wait->state == HFI_WAITER_RESTING &&
            channel_of(&wait->claim->name, own) == len && memcmp(own, channel, len) == 0)
            first = wait;
    if (first) {
        first->heartbeat_ms = 0;
        hfi_source_at(&store->heartbeat, 0);
    }
}

/* ---- acquiring ---------------------------------------------------------------------------- */

static void end(struct redis_store *store, struct redis_wait *wait, hf_status status,
                const hf_error *err)
{
    stop_listening(store, wait);
    redis_wait_end(store, wait, status, err);
}

/* NULL: out of memory, and the wait has ended. */
static struct redis_call *new_ask(struct redis_store *store, struct redis_wait *wait,
                                  const struct hfi_script *script, redis_answer_fn *answer)
{
    struct redis_call *call = redis_call_new(store, script, 1, answer, NULL);

    if (!call) {
        end(store, wait, wait->unsure ? HF_UNKNOWN : HF_NO_MEMORY, NULL);
        return NULL;
    }
    wait->state = HFI_WAITER_ASKING;
    wait->heartbeat_ms = HFI_NEVER;
    wait->call = call;
    call->data = wait;
    call->idempotent = true;
    call->was_sent = wait->unsure;
    if (wait->stop != HF_OK)
        call->request.give_up_ms = hfi_now_ms() + CANCEL_MS;
    else if (wait->op->may_wait)
        call->request.give_up_ms = HFI_NEVER;
    return call;
}

/* What the server of a free name needs: SET NX PX. It says nothing of a name that is taken, be it by an earlier copy of this
 * very command: then the script is asked. */
static void set_first(struct redis_call *call, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct redis_wait *wait = call->data;

    if (outcome == HFI_ANSWERED && reply->type == HFI_REPLY_NIL) {
        wait->call = NULL;
        wait->unsure = wait->unsure || call->was_sent;
        ask(store, wait);
    } else {
        asked(call, outcome, reply, err);
    }
}

static void begin(struct redis_store *store, struct redis_wait *wait)
{
    struct redis_call *call;
    char value[2 * HFI_OWNER_LEN + 1];

    if (is_redisson(store) || wait->unsure || wait->tried) {
        ask(store, wait);
        return;
    }
    call = new_ask(store, wait, NULL, set_first);
    if (!call)
        return;
    wait->tried = true;
    hfi_hex(wait->claim->owner, HFI_OWNER_LEN, value);
    if (store->slots)
        call->command.slot = hfi_key_slot(wait->claim->name.bytes, wait->claim->name.len);
    hfi_plain_add_set(&call->command, &wait->claim->name, value, sizeof value - 1,
                      wait->claim->ttl_ms);
    redis_call_send(call);
}

static void ask(struct redis_store *store, struct redis_wait *wait)
{
    const struct hfi_script *script =
        is_redisson(store) ? &hfi_script_redisson_acquire : &hfi_script_plain_acquire;
    struct redis_call *call = new_ask(store, wait, script, asked);

    if (!call)
        return;
    add_key(call, &wait->claim->name);
    add_owner(call, wait->claim);
    hfi_command_add_number(&call->command, wait->claim->ttl_ms);
    if (!is_redisson(store))
        hfi_command_add_number(&call->command, store->conf->repair_expiry_ms);
    redis_call_send(call);
}

/* Rest until the holder's lease expires, if that is known, but no longer than the pause. */
static void rest(struct redis_store *store, struct redis_wait *wait, int64_t left_ms)
{
    int64_t pause_ms = store->conf->poll_ms;

    pause_ms = pause_ms / 2 + (int64_t)(hfi_random_u64() % (uint64_t)(pause_ms / 2 + 1));
    if (left_ms > 0 && left_ms + 1 < pause_ms)
        pause_ms = left_ms + 1;
    listen_for(store, wait);
    wait->state = HFI_WAITER_RESTING;
    wait->heartbeat_ms = hfi_now_ms() + pause_ms;
    hfi_source_by(&store->heartbeat, wait->heartbeat_ms);
}

static void not_now(struct redis_store *store, struct redis_wait *wait, enum hfi_outcome outcome,
                    const hf_error *err)
{
    hf_status status = hfi_outcome_status(outcome, err);

    if (wait->stop != HF_OK && status != HF_UNKNOWN)
        end(store, wait, wait->stop, NULL);
    else if (wait->stop == HF_OK && wait->op->may_wait && status == HF_UNAVAILABLE)
        rest(store, wait, 0);
    else
        end(store, wait, status, err);
}

static void asked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err)
{
    struct redis_store *store = call->store;
    struct redis_wait *wait = call->data;
    int64_t ms;

    wait->call = NULL;
    wait->unsure = wait->unsure || call->was_sent;
    if (outcome != HFI_ANSWERED) {
        not_now(store, wait, outcome, err);
        return;
    }
    switch (hfi_plain_read(reply, wait->claim->ttl_ms, &ms)) {
    case HFI_PLAIN_GRANTED:
        wait->claim->token = 0;
        wait->claim->tokens = 1;
        wait->claim->granted_ttl_ms = ms;
        wait->claim->sent_ms = call->sent.base.sent_ms;
        end(store, wait, HF_OK, NULL);
        return;
    case HFI_PLAIN_KIND:
        end(store, wait, HF_MISMATCH,
            &(hf_error){ .status = HF_MISMATCH, .text = "a key of another type has this name" });
        return;
    case HFI_PLAIN_BUSY:
        if (wait->stop != HF_OK)
            end(store, wait, wait->stop, NULL);
        else if (!wait->op->may_wait)
            end(store, wait, HF_BUSY, NULL);
        else {
            wait->op->ret_queued = true;
            rest(store, wait, ms);
        }
        return;
    case HFI_PLAIN_TAKEN:
    case HFI_PLAIN_ODD:
        wait->unsure = true;
        end(store, wait, HF_UNKNOWN, NULL);
    }
}

static void cancel(struct redis_store *store, struct redis_wait *wait)
{
    struct redis_call *call = wait->call;
    bool maybe;

    if (!call) {
        end(store, wait, wait->stop, NULL);
        return;
    }
    if (!hfi_request_unpark(&store->requests, &call->request)) {
        /* It is under way: its answer decides. If the connection breaks, it is parked for a limited
         * time only. */
        call->request.give_up_ms = hfi_now_ms() + CANCEL_MS;
        return;
    }
    maybe = call->was_sent;
    redis_call_free(call);
    wait->call = NULL;
    wait->unsure = wait->unsure || maybe;
    end(store, wait, maybe ? HF_UNKNOWN : wait->stop, NULL);
}

/* ---- holding ------------------------------------------------------------------------------- */

static void release(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    const struct hfi_script *script =
        is_redisson(store) ? &hfi_script_redisson_release : &hfi_script_plain_release;
    struct redis_call *call = redis_call_new(store, script, 1, redis_released, op);
    char channel[CHANNEL_MAX];

    redis_claim_remove(store, op->claim);
    if (!call)
        return;
    call->idempotent = true;
    add_key(call, &op->claim->name);
    add_owner(call, op->claim);
    if (is_redisson(store))
        hfi_command_add(&call->command, channel, channel_of(&op->claim->name, channel));
    redis_call_send(call);
}

static void renew(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;

    redis_renew_by(store, op,
                   is_redisson(store) ? &hfi_script_redisson_renew : &hfi_script_plain_renew);
}

static void adopted(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    const struct hfi_reply *answer = hfi_reply_at(reply, 0, HFI_REPLY_INTEGER);
    struct hfi_claim *claim = call->op->claim;

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_status(outcome, err), err);
    } else if (!answer) {
        redis_finish_odd(call->store, call->op, reply);
    } else if (answer->integer != 1) {
        hfi_reactor_finish(&call->store->reactor, call->op, HF_NOT_FOUND, NULL);
    } else {
        claim->mode = HFI_MODE_MUTEX;
        claim->capacity = claim->permits = 1;
        claim->token = 0;
        claim->tokens = 1;
        claim->granted_ttl_ms = claim->ttl_ms;
        claim->sent_ms = call->sent.base.sent_ms;
        redis_claim_add(call->store, claim);
        hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
    }
}

/* The value does not contain its original ttl: if the caller gives none, the default is used. */
static void adopt(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call = redis_call_new(
        store, is_redisson(store) ? &hfi_script_redisson_renew : &hfi_script_plain_renew, 1,
        adopted, op);

    if (!call)
        return;
    if (op->claim->ttl_ms == 0)
        op->claim->ttl_ms = REDIS_TTL_MS;
    add_key(call, &op->claim->name);
    add_renewal(call, op->claim, op->claim->ttl_ms, 0);
    redis_call_send(call);
}

/* wire=redisson: how often it is held, for Redisson's clients to see. Not sent again by itself: a later number may have gone out. */
static void count(void *self, struct hfi_op *op)
{
    struct redis_call *call =
        redis_call_new(self, &hfi_script_redisson_count, 1, redis_released, op);

    if (!call)
        return;
    add_key(call, &op->u.count.name);
    add_field(call, op->u.count.owner);
    add_holds(call, op->u.count.holds);
    hfi_command_add_number(&call->command, op->u.count.ttl_ms);
    redis_call_send(call);
}

static const struct hfi_op_calls foreign_ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { redis_acquire, redis_cancel },
    [HFI_OP_RELEASE] = { release, NULL },
    [HFI_OP_RENEW] = { renew, NULL },
    [HFI_OP_ADOPT] = { adopt, NULL },
    [HFI_OP_COUNT] = { count, NULL },
};

#define FOREIGN                                                                                 \
    .ops = foreign_ops, .acquire = begin, .cancel = cancel, .heard = heard, .add_key = add_key, \
    .add_renewal = add_renewal

const struct redis_wire redis_plain = { FOREIGN };
const struct redis_wire redis_redisson = { FOREIGN };
