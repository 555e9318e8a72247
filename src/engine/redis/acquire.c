/* SPDX-License-Identifier: MIT */
/*
 * Acquire, and its waiting, in the native wire mode.
 *
 *            acquire                     message, or a heartbeat that finds itself granted
 *   ASKING ----------> QUEUED ---------------------------------------------------> granted
 *     |  ^               |  |                                                        ^
 *     |  |  forgotten    |  | cancel                                                 |
 *     |  +---------------+  +--------> CANCELLING --> taken out of the queue         |
 *     |                                     +--------------------------------------->+
 *     +--> granted, busy, refused
 *
 * grant.c has what a grant is worth, beat.c has heartbeats.
 */
#include "engine/redis/rd.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#define FLAG_WAIT     1
#define FLAG_BARGE    2
#define FLAG_DETACHED 4

#define RETRY_MS  250  /* after a refusal that may pass (LOADING, READONLY): about so often */
#define CANCEL_MS 1000 /* how long who wants to leave waits for a line that is down */

static void asked(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err);
static void cancel_native(struct hfi_conn *conn, struct rd_wait *wait);

int64_t hfi_rd_window_ms(int64_t ttl_ms)
{
    return ttl_ms < RD_WINDOW_MIN_MS   ? RD_WINDOW_MIN_MS
           : ttl_ms > RD_WINDOW_MAX_MS ? RD_WINDOW_MAX_MS
                                       : ttl_ms;
}

/* ---- beginning and ending -------------------------------------------------------------- */

void hfi_rd_acquire(struct hfi_conn *conn, struct hfi_op *op)
{
    struct rd_wait *wait = hfi_calloc(1, sizeof *wait);

    if (!wait) {
        hfi_rd_finish(conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    wait->op = op;
    wait->claim = op->claim;
    wait->beat_ms = HFI_NEVER;
    wait->slot = conn->slots && conn->way->slot ? conn->way->slot(conn, &op->claim->name) : 0;
    wait->next = conn->waits;
    if (conn->waits)
        conn->waits->prev = wait;
    conn->waits = wait;
    op->engine[RD_OP_WAIT] = wait;
    op->claim->engine[RD_CLAIM_WAIT] = wait;
    hfi_rd_claim_add(conn, op->claim);
    conn->way->acquire(conn, wait);
}

void hfi_rd_wait_end(struct hfi_conn *conn, struct rd_wait *wait, hf_status status,
                     const hf_error *err)
{
    struct hfi_claim *claim = wait->claim;

    if (wait->next)
        wait->next->prev = wait->prev;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        conn->waits = wait->next;
    claim->engine[RD_CLAIM_WAIT] = NULL;
    if (wait->unsure)
        claim->engine[RD_CLAIM_FLAGS] =
            (void *)((uintptr_t)claim->engine[RD_CLAIM_FLAGS] | RD_FLAG_UNSURE);
    if (status != HF_OK)
        hfi_rd_claim_remove(conn, claim);
    hfi_rd_finish(conn, wait->op, status, err);
    hfi_free(wait);
}

/* ---- asking ------------------------------------------------------------------------------ */

void hfi_rd_ask(struct hfi_conn *conn, struct rd_wait *wait)
{
    struct rd_call *call = hfi_rd_call_new(conn, &hfi_script_acquire, 3, asked, NULL);
    const struct hfi_claim *claim = wait->claim;
    struct hfi_command *command;

    if (!call) {
        hfi_rd_wait_end(conn, wait, wait->unsure ? HF_UNKNOWN : HF_NO_MEMORY, NULL);
        return;
    }
    command = &call->command;
    call->data = wait;
    call->again = true; /* by the owner: a second copy finds what the first has done */
    call->was_sent = wait->unsure;
    if (wait->op->may_wait)
        call->give_up_ms = HFI_NEVER; /* core cancels it when its time is up */
    wait->state = RD_WAIT_ASKING;
    wait->attempt = ++conn->last_attempt;
    wait->beat_ms = HFI_NEVER;
    wait->call = call;

    hfi_rd_add_keys(call, &claim->name, true);
    hfi_rd_add_owner(call, claim->owner);
    hfi_command_add_number(command, (int64_t)claim->mode);
    hfi_command_add_number(command, claim->capacity);
    hfi_command_add_number(command, claim->permits);
    hfi_command_add_number(command, (wait->op->may_wait ? FLAG_WAIT : 0) |
                                        (claim->flags & HFI_CLAIM_BARGE ? FLAG_BARGE : 0) |
                                        (claim->flags & HFI_CLAIM_DETACHED ? FLAG_DETACHED : 0));
    hfi_command_add_number(command, claim->tokens_wanted);
    hfi_command_add_number(command, claim->ttl_ms);
    hfi_command_add_number(command, claim->lock_delay_ms);
    hfi_command_add_number(command, hfi_rd_window_ms(claim->ttl_ms));
    hfi_command_add_number(command, (int64_t)wait->attempt);
    hfi_command_add(command, conn->inbox_name, conn->inbox_len);
    hfi_command_add_text(command, claim->label ? claim->label : conn->pump.host->label);
    hfi_rd_call_send(call);
}

/* Not now. A waiter tries again, for that is what it was told to do. */
static void put_off(struct hfi_conn *conn, struct rd_wait *wait, enum rd_outcome outcome,
                    const hf_error *err)
{
    hf_status status = hfi_rd_status(outcome, err);

    if (outcome == RD_MAYBE)
        wait->unsure = true;
    if (!wait->op->may_wait || (status != HF_UNAVAILABLE && status != HF_UNKNOWN)) {
        hfi_rd_wait_end(conn, wait, status, err);
        return;
    }
    wait->state = RD_WAIT_RESTING;
    wait->beat_ms = hfi_now_ms() + RETRY_MS / 2 + (int64_t)(hfi_random_u64() % RETRY_MS);
    if (wait->beat_ms < conn->beat_ms)
        conn->beat_ms = wait->beat_ms;
}

static void mismatch(const struct hfi_reply *reply, hf_error *ret_err)
{
    static const char *const kinds[] = { "a mutex", "a read-write lock", "a semaphore" };
    const struct hfi_reply *mode = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *capacity = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);

    if (mode && capacity && mode->integer == HFI_MODE_SEMAPHORE)
        hfi_error_set(ret_err, HF_MISMATCH, 0, "the name is in use as a semaphore of %lld",
                      (long long)capacity->integer);
    else
        hfi_error_set(ret_err, HF_MISMATCH, 0, "the name is in use as %s",
                      mode && mode->integer >= 0 && mode->integer < 2 ? kinds[mode->integer]
                                                                      : "another kind");
}

void hfi_rd_denied(struct hfi_conn *conn, struct rd_wait *wait, hf_status status,
                   const hf_error *err)
{
    if (!wait->unsure) {
        hfi_rd_wait_end(conn, wait, status, err);
        return;
    }
    wait->stop = status;
    cancel_native(conn, wait);
}

static void asked(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    struct rd_wait *wait = call->data;
    hf_error other;

    if (!wait)
        return; /* granted by a message before this came, or being cancelled */
    wait->call = NULL;
    wait->unsure = wait->unsure || call->was_sent;
    if (outcome != RD_ANSWERED) {
        put_off(conn, wait, outcome, err);
        return;
    }

    switch (hfi_rd_letter(reply)) {
    case 'G':
        if (!hfi_rd_take_grant(conn, wait, reply, call->sent.sent_ms))
            hfi_rd_odd(conn, wait);
        return;
    case 'Q':
        /* The first copy may have been queued, granted and passed over; its message, with this
         * attempt, may still come, and would be taken for a grant of what stands in line now. It
         * keeps its place under a new number. */
        if (call->copied)
            hfi_rd_ask(conn, wait);
        else
            hfi_rd_queued(conn, wait, reply, call->sent.sent_ms);
        return;
    case 'B':
        hfi_rd_denied(conn, wait, HF_BUSY, NULL);
        return;
    case 'M':
        mismatch(reply, &other);
        hfi_rd_denied(conn, wait, HF_MISMATCH, &other);
        return;
    case 'F':
        hfi_rd_denied(conn, wait, HF_FULL, NULL);
        return;
    default:
        hfi_rd_odd(conn, wait);
        return;
    }
}

/* ---- cancelling --------------------------------------------------------------------------------- */

void hfi_rd_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    struct rd_wait *wait = op->engine[RD_OP_WAIT];

    if (op->kind != HFI_OP_ACQUIRE || !wait || wait->stop != HF_OK)
        return;
    wait->stop = status;
    if (wait->state != RD_WAIT_CONFIRMING) /* that one ends by itself, and soon */
        conn->way->cancel(conn, wait);
}

/* The cancel travels behind the acquire on the same line, if that is under way: so its answer is
 * about all that was sent before. */
static void cancel_native(struct hfi_conn *conn, struct rd_wait *wait)
{
    struct rd_call *call;

    if (wait->call) {
        wait->unsure = wait->unsure || wait->call->was_sent;
        wait->call->data = NULL; /* its answer does not matter any more */
        wait->call->again = false;
        if (hfi_rd_net_unsend(conn, wait->call))
            hfi_rd_call_free(wait->call);
        else
            wait->unsure = true; /* if the line breaks now, it may come after its own cancel */
        wait->call = NULL;
    }
    if (!wait->unsure && wait->heard_ms == 0) {
        hfi_rd_wait_end(conn, wait, wait->stop, NULL); /* nothing of it has ever left */
        return;
    }
    call = hfi_rd_call_new(conn, &hfi_script_cancel, 3, hfi_rd_cancelled, NULL);
    if (!call) {
        wait->unsure = true;
        hfi_rd_wait_end(conn, wait, HF_UNKNOWN, NULL);
        return;
    }
    wait->state = RD_WAIT_CANCELLING;
    wait->beat_ms = HFI_NEVER;
    call->data = wait;
    call->again = true;
    call->give_up_ms = hfi_now_ms() + CANCEL_MS; /* after that it is UNKNOWN, and core settles it */
    hfi_rd_add_keys(call, &wait->claim->name, true);
    hfi_rd_add_owner(call, wait->claim->owner);
    hfi_command_add_number(&call->command, wait->unsure ? RD_TOMBSTONE_MS : 0);
    hfi_rd_call_send(call);
}

void hfi_rd_cancelled(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                      const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    struct rd_wait *wait = call->data;

    if (outcome != RD_ANSWERED) {
        wait->unsure = true;
        hfi_rd_wait_end(conn, wait, HF_UNKNOWN, err);
        return;
    }
    switch (hfi_rd_letter(reply)) {
    case 'C':
    case 'N':
        hfi_rd_wait_end(conn, wait, wait->stop, NULL);
        return;
    case 'G':
        if (!hfi_rd_take_grant(conn, wait, reply, call->sent.sent_ms))
            hfi_rd_odd(conn, wait);
        return;
    default:
        hfi_rd_odd(conn, wait);
        return;
    }
}

/* ---- the native way ------------------------------------------------------------------------------- */

static void add_key(struct rd_call *call, const struct hfi_name *name)
{
    hfi_rd_add_keys(call, name, false);
}

const struct rd_way hfi_rd_native = {
    .acquire = hfi_rd_ask,
    .cancel = cancel_native,
    .release = hfi_rd_release,
    .renew = hfi_rd_renew,
    .adopt = hfi_rd_adopt,
    .brk = hfi_rd_break,
    .inspect = hfi_rd_inspect,
    .add_key = add_key,
    .add_renewal = hfi_rd_add_renewal,
    .slot = hfi_rd_name_slot,
};
