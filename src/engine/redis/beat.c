/* SPDX-License-Identifier: MIT */
/*
 * Heartbeats, in the native wire mode: who stands in a queue says now and then that it is still
 * there, in one command with others, and hears what became of it if a message was lost. The same
 * tick lets those ask again who rest.
 */
#include "engine/redis/rd.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <string.h>

#define EARLY_MS 5 /* past the time that the server named, so that it has come there too */

static void beat_all(struct hfi_conn *conn, int64_t now_ms);

void hfi_rd_queued(struct hfi_conn *conn, struct rd_wait *wait, const struct hfi_reply *reply,
                   int64_t sent_ms)
{
    const struct hfi_reply *next = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    int64_t beat_ms = hfi_rd_window_ms(wait->claim->ttl_ms) / 3;

    if (beat_ms < RD_BEAT_MIN_MS)
        beat_ms = RD_BEAT_MIN_MS;
    if (next && next->integer > 0 && next->integer < beat_ms - EARLY_MS)
        beat_ms = next->integer + EARLY_MS;
    wait->state = RD_WAIT_QUEUED;
    wait->heard_ms = sent_ms;
    wait->beat_ms = hfi_now_ms() + beat_ms;
    if (wait->beat_ms < conn->beat_ms)
        conn->beat_ms = wait->beat_ms;
}

void hfi_rd_waits_hurry(struct hfi_conn *conn)
{
    for (struct rd_wait *wait = conn->waits; wait; wait = wait->next)
        if (wait->state == RD_WAIT_QUEUED || wait->state == RD_WAIT_RESTING)
            wait->beat_ms = 0;
    conn->beat_ms = 0;
}

void hfi_rd_waits_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct rd_wait *wait, *next;

    if (conn->beat_ms > now_ms)
        return;
    conn->beat_ms = HFI_NEVER;
    for (wait = conn->waits; wait; wait = next) {
        next = wait->next;
        if (wait->beat_ms <= now_ms && wait->state == RD_WAIT_RESTING)
            conn->way->acquire(conn, wait);
    }
    beat_all(conn, now_ms);
    for (wait = conn->waits; wait; wait = wait->next)
        if (wait->beat_ms < conn->beat_ms)
            conn->beat_ms = wait->beat_ms;
}

/* One heartbeat of several waiters: who they were, for they may end before the answer. */
struct beat {
    size_t count;
    unsigned char owners[RD_BATCH][HFI_OWNER_LEN];
    uint64_t attempts[RD_BATCH];
};

static void beaten(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err);

/* Is it due, or will it be soon enough to go with those that are? */
static bool beats_now(const struct rd_wait *wait, int64_t now_ms)
{
    return wait->state == RD_WAIT_QUEUED &&
           (wait->beat_ms <= now_ms ||
            (wait->beat_ms != HFI_NEVER && now_ms - wait->heard_ms >= RD_BEAT_MIN_MS));
}

/* Of this waiter, and of those behind it that may go in one command: in a cluster, those of its
 * slot that are not far. */
static void send_beat(struct hfi_conn *conn, struct rd_wait *from, int64_t now_ms)
{
    struct rd_wait *batch[RD_BATCH], *wait = from;
    struct beat *beat;
    struct rd_call *call;
    uint32_t count = 0, far = 0;

    for (; wait && count < RD_BATCH && far < RD_BATCH; wait = wait->next) {
        if (wait->slot != from->slot)
            far++;
        if (!beats_now(wait, now_ms) || wait->slot != from->slot)
            continue;
        batch[count++] = wait;
        wait->beat_ms = HFI_NEVER;
    }

    beat = hfi_malloc(sizeof *beat);
    call = beat ? hfi_rd_call_new(conn, &hfi_script_beat, 3 * count, beaten, NULL) : NULL;
    if (!call) {
        hfi_free(beat);
        for (uint32_t i = 0; i < count; i++)
            batch[i]->beat_ms = now_ms + RD_BEAT_MIN_MS;
        return;
    }
    call->data = beat;
    call->again = true;
    beat->count = count;
    for (uint32_t i = 0; i < count; i++)
        hfi_rd_add_keys(call, &batch[i]->claim->name, true);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(beat->owners[i], batch[i]->claim->owner, HFI_OWNER_LEN);
        beat->attempts[i] = batch[i]->attempt;
        hfi_rd_add_owner(call, batch[i]->claim->owner);
        hfi_command_add_number(&call->command, hfi_rd_window_ms(batch[i]->claim->ttl_ms));
    }
    hfi_rd_call_send(call);
}

static void beat_all(struct hfi_conn *conn, int64_t now_ms)
{
    struct rd_wait *wait = conn->waits;
    bool due = false;

    for (; wait && !due; wait = wait->next)
        due = wait->state == RD_WAIT_QUEUED && wait->beat_ms <= now_ms;
    if (!due)
        return;
    for (wait = conn->waits; wait; wait = wait->next)
        if (beats_now(wait, now_ms))
            send_beat(conn, wait, now_ms);
}

/* What the server says to one waiter's heartbeat. */
static void beaten_one(struct hfi_conn *conn, struct rd_wait *wait, const struct hfi_reply *reply,
                       int64_t sent_ms)
{
    switch (hfi_rd_letter(reply)) {
    case 'Q':
        hfi_rd_queued(conn, wait, reply, sent_ms);
        return;
    case 'G': /* its message was lost; this was a renewal, too */
        if (!hfi_rd_take_grant(conn, wait, reply, sent_ms))
            hfi_rd_odd(conn, wait);
        return;
    case 'N': /* the server has forgotten us, or given us up: begin again, at the end */
        conn->way->acquire(conn, wait);
        return;
    default:
        hfi_rd_odd(conn, wait);
        return;
    }
}

static void beaten(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    struct beat *beat = call->data;

    (void)err;
    for (size_t i = 0; i < beat->count; i++) {
        struct hfi_claim *claim = hfi_rd_claim_find(conn, beat->owners[i]);
        struct rd_wait *wait = claim ? claim->engine[RD_CLAIM_WAIT] : NULL;

        if (!wait || wait->state != RD_WAIT_QUEUED || wait->attempt != beat->attempts[i])
            continue;
        if (outcome == RD_ANSWERED && reply->type == HFI_REPLY_LIST && i < reply->count) {
            beaten_one(conn, wait, &reply->items[i], call->sent.sent_ms);
        } else {
            wait->beat_ms = hfi_now_ms() + RD_BEAT_MIN_MS;
            if (wait->beat_ms < conn->beat_ms)
                conn->beat_ms = wait->beat_ms;
        }
    }
    hfi_free(beat);
}
