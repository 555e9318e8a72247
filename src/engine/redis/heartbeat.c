/* SPDX-License-Identifier: MIT */
/*
 * Heartbeats, in the native wire mode: a queued waiter reports at intervals that it still waits, in
 * one command with others, and learns of its grant if a message was lost. The same timer lets
 * resting waiters ask again, and ends waiters whose cancel is not answered.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/list.h"

#include <string.h>

static void beat_all(struct redis_store *store, int64_t now_ms);

void redis_queued(struct redis_store *store, struct redis_wait *wait, const struct hfi_reply *reply,
                  int64_t sent_ms)
{
    const struct hfi_reply *next = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *last = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);
    int64_t beat_ms = hfi_heartbeat_ms(redis_window_ms(wait->claim->ttl_ms));

    if (!next || !last || last->integer < 0) {
        redis_odd(store, wait);
        return;
    }
    if (next->integer > 0 && next->integer < beat_ms - HFI_RECHECK_MS)
        beat_ms = next->integer + HFI_RECHECK_MS;
    wait->state = HFI_WAITER_QUEUED;
    if (wait->op)
        wait->op->ret_queued = true;
    wait->heard_ms = sent_ms;
    wait->past = (uint64_t)last->integer;
    wait->heartbeat_ms = hfi_now_ms() + beat_ms;
    hfi_source_by(&store->heartbeat, wait->heartbeat_ms);
}

void redis_waits_hurry(struct redis_store *store)
{
    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        if (wait->state == HFI_WAITER_QUEUED || wait->state == HFI_WAITER_RESTING)
            wait->heartbeat_ms = 0;
    hfi_source_at(&store->heartbeat, 0);
}

void redis_heartbeat_due(struct hfi_source *heartbeat, int64_t now_ms)
{
    struct redis_store *store = hfi_container(heartbeat, struct redis_store, heartbeat);

    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        if (wait->heartbeat_ms <= now_ms && wait->state == HFI_WAITER_RESTING)
            store->wire->acquire(store, wait);
        else if (wait->heartbeat_ms <= now_ms && wait->state == HFI_WAITER_CANCELLING)
            redis_cancel_late(store, wait);
    beat_all(store, now_ms);
    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        hfi_source_by(heartbeat, wait->heartbeat_ms);
}

/* One heartbeat of several waiters: notes which they were, since they may end before the answer. */
struct beat {
    size_t count;
    unsigned char owners[REDIS_BATCH][HFI_OWNER_LEN];
    uint64_t attempts[REDIS_BATCH];
};

static void beaten(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err);

/* Is it due, or will it be soon enough to go with those that are? */
static bool beats_now(const struct redis_wait *wait, int64_t now_ms)
{
    return wait->state == HFI_WAITER_QUEUED &&
           (wait->heartbeat_ms <= now_ms ||
            (wait->heartbeat_ms != HFI_NEVER && now_ms - wait->heard_ms >= REDIS_HEARTBEAT_MIN_MS));
}

static void beat_later(struct redis_store *store, struct redis_wait *wait)
{
    wait->heartbeat_ms = hfi_now_ms() + REDIS_HEARTBEAT_MIN_MS;
    hfi_source_by(&store->heartbeat, wait->heartbeat_ms);
}

static void send_beat(struct redis_store *store, struct redis_wait *const batch[], uint32_t count)
{
    struct beat *beat = hfi_malloc(sizeof *beat);
    struct redis_call *call =
        beat ? redis_call_new(store, &hfi_script_beat, REDIS_NAME_KEYS * count, beaten, NULL)
             : NULL;

    if (!call) {
        hfi_free(beat);
        for (uint32_t i = 0; i < count; i++)
            beat_later(store, batch[i]);
        return;
    }
    call->data = beat;
    call->idempotent = true;
    beat->count = count;
    for (uint32_t i = 0; i < count; i++)
        redis_add_keys(call, &batch[i]->claim->name, true);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(beat->owners[i], batch[i]->claim->owner, HFI_OWNER_LEN);
        beat->attempts[i] = batch[i]->attempt;
        hfi_command_add(&call->command, batch[i]->claim->owner, HFI_OWNER_LEN);
        hfi_command_add_number(&call->command, redis_window_ms(batch[i]->claim->ttl_ms));
    }
    redis_call_send(call);
}

/* Send the heartbeat of this waiter and of following ones that fit into one command: in a cluster,
 * those of the same slot. */
static void beat_from(struct redis_store *store, struct redis_wait *from, int64_t now_ms)
{
    struct redis_wait *batch[REDIS_BATCH], *wait;
    struct hfi_list *at = &from->listed;
    uint32_t count = 0, far = 0;

    for (; at != &store->waits && count < REDIS_BATCH && far < REDIS_BATCH; at = at->next) {
        wait = hfi_container(at, struct redis_wait, listed);
        if (wait->slot != from->slot)
            far++;
        if (!beats_now(wait, now_ms) || wait->slot != from->slot)
            continue;
        batch[count++] = wait;
        wait->heartbeat_ms = HFI_NEVER;
    }
    send_beat(store, batch, count);
}

static void beat_all(struct redis_store *store, int64_t now_ms)
{
    bool due = false;

    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        due = due || (wait->state == HFI_WAITER_QUEUED && wait->heartbeat_ms <= now_ms);
    if (!due)
        return;
    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        if (beats_now(wait, now_ms))
            beat_from(store, wait, now_ms);
}

/*
 * The server cannot handle this name (another type of key, another version, no rights). That may be
 * temporary: within the window we keep our place. After it the wait ends with this error, as an
 * acquire would.
 */
static void beat_failed(struct redis_store *store, struct redis_wait *wait, const hf_error *err)
{
    int64_t window_ms = redis_window_ms(wait->claim->ttl_ms);

    if (err->status == HF_UNAVAILABLE || err->status == HF_FULL ||
        hfi_now_ms() <= wait->heard_ms + window_ms) {
        beat_later(store, wait);
        return;
    }
    wait->stop = err->status;
    store->wire->cancel(store, wait);
}

/* The server's answer to the heartbeat of one waiter. */
static void beaten_one(struct redis_store *store, struct redis_wait *wait,
                       const struct hfi_reply *reply, int64_t sent_ms)
{
    hf_error err;

    if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &err);
        beat_failed(store, wait, &err);
        return;
    }
    switch (hfi_waiter_answered(HFI_WAITER_QUEUED, hfi_reply_letter(reply))) {
    case HFI_ANSWER_QUEUED:
        redis_queued(store, wait, reply, sent_ms);
        return;
    case HFI_ANSWER_GRANTED: /* its message was lost; the heartbeat has renewed the grant too */
        if (!redis_take_grant(store, wait, reply, sent_ms))
            redis_odd(store, wait);
        return;
    case HFI_ANSWER_FORGOTTEN: /* the server dropped it: it joins the queue again, at the end */
        store->wire->acquire(store, wait);
        return;
    default:
        redis_odd(store, wait);
        return;
    }
}

/* A waiter of this heartbeat, if it still waits in the same way. */
static struct redis_wait *still_there(struct redis_store *store, const struct beat *beat, size_t i)
{
    struct redis_claim *claim = redis_claim_find(store, beat->owners[i]);
    struct redis_wait *wait = claim ? claim->wait : NULL;

    return wait && wait->state == HFI_WAITER_QUEUED && wait->attempt == beat->attempts[i] ? wait
                                                                                          : NULL;
}

/* The rights to one key are missing, so the server has executed none of it. Send halves, until only
 * the refused one fails. */
static void beat_halves(struct redis_store *store, const struct beat *beat)
{
    struct redis_wait *batch[REDIS_BATCH];
    uint32_t count = 0;

    for (size_t i = 0; i < beat->count; i++)
        if ((batch[count] = still_there(store, beat, i)))
            count++;
    if (count > 1)
        send_beat(store, batch, count / 2);
    if (count > 0)
        send_beat(store, batch + count / 2, count - count / 2);
}

static void beaten(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    struct redis_store *store = call->store;
    struct beat *beat = call->data;
    struct redis_wait *wait;

    if (outcome == HFI_REFUSED && err->status == HF_DENIED && beat->count > 1) {
        beat_halves(store, beat);
        hfi_free(beat);
        return;
    }
    for (size_t i = 0; i < beat->count; i++) {
        if (!(wait = still_there(store, beat, i)))
            continue;
        if (outcome == HFI_ANSWERED && reply->type == HFI_REPLY_LIST && i < reply->count)
            beaten_one(store, wait, &reply->items[i], call->sent.base.sent_ms);
        else if (outcome == HFI_REFUSED)
            beat_failed(store, wait, err);
        else
            beat_later(store, wait);
    }
    hfi_free(beat);
}
