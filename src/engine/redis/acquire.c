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
 * The validity of a grant that came as a message counts from heard_ms: the local send of the
 * last enqueue or heartbeat that the server answered with "still waiting". That is earlier
 * than the server's own reading of it, which is no later than the grant: so we may stop
 * early but never late, without knowing when the message was sent.
 */
#include "engine/redis/rd.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define FLAG_WAIT     1
#define FLAG_BARGE    2
#define FLAG_DETACHED 4

#define RETRY_MS  250  /* after a refusal that may pass (LOADING, READONLY): about so often */
#define CANCEL_MS 1000 /* how long who wants to leave waits for a line that is down */
#define EARLY_MS  5    /* past the time that the server named, so that it has come there too */

static void confirm(struct hfi_conn *conn, struct rd_wait *wait);
static void ask(struct hfi_conn *conn, struct rd_wait *wait);
static void asked(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err);
static void cancel_native(struct hfi_conn *conn, struct rd_wait *wait);
static void denied(struct hfi_conn *conn, struct rd_wait *wait, hf_status status,
                   const hf_error *err);
static void beat_all(struct hfi_conn *conn, int64_t now_ms);

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

static void grant(struct hfi_conn *conn, struct rd_wait *wait, uint64_t token, uint32_t tokens,
                  int64_t ttl_ms, int64_t from_ms)
{
    struct hfi_claim *claim = wait->claim;

    claim->token = token;
    claim->tokens = tokens;
    claim->granted_ttl_ms = ttl_ms;
    claim->sent_ms = from_ms;
    if (conn->sync.link ||
        (ttl_ms < claim->ttl_ms && from_ms + ttl_ms - hfi_now_ms() < 2 * claim->min_valid_ms))
        confirm(conn, wait); /* it must be on replicas; or is too short for who asked */
    else
        hfi_rd_wait_end(conn, wait, HF_OK, NULL);
}

/*
 * Confirming: a grant that is not enough as it is gets a renewal for the whole ttl before anybody hears
 * of it. With sync=N that is a write on a line of its own, with a WAIT behind it: the lease
 * counts from there, and if too few replicas have it, it is given back.
 */
static void rolled_back(struct rd_call *call, enum rd_outcome outcome,
                        const struct hfi_reply *reply, const hf_error *err)
{
    (void)reply;
    (void)err;
    hfi_rd_wait_end(
        call->conn, call->data, outcome == RD_ANSWERED ? HF_UNAVAILABLE : HF_UNKNOWN,
        &(hf_error){ .status = HF_UNAVAILABLE, .text = "sync: too few replicas had it in time" });
}

static void roll_back(struct hfi_conn *conn, struct rd_wait *wait)
{
    struct rd_call *call = hfi_rd_call_new(conn, &hfi_script_release, 3, rolled_back, NULL);

    if (!call) {
        hfi_rd_wait_end(conn, wait, HF_UNKNOWN, NULL);
        return;
    }
    call->data = wait;
    call->again = true;
    hfi_rd_add_keys(call, &wait->claim->name, true);
    hfi_rd_add_owner(call, wait->claim->owner);
    hfi_command_add_number(&call->command, wait->unsure ? RD_TOMBSTONE_MS : 0);
    hfi_rd_call_send(call);
}

static void end_confirm(struct hfi_conn *conn, struct rd_wait *wait, bool enough)
{
    if (wait->confirmed == HF_OK && enough)
        hfi_rd_wait_end(conn, wait, HF_OK, NULL);
    else if (wait->confirmed == HF_OK)
        roll_back(conn, wait);
    else if (wait->confirmed != HF_LOST)
        hfi_rd_wait_end(conn, wait, HF_UNKNOWN, NULL);
    else if (wait->stop != HF_OK)
        denied(conn, wait, wait->stop, NULL); /* it has lapsed, and nobody wants it */
    else
        ask(conn, wait); /* it has lapsed: stand in line again */
}

static void replicated(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                       const hf_error *err)
{
    hf_error why;

    (void)err;
    end_confirm(call->conn, call->data, hfi_rd_wait_enough(call->conn, outcome, reply, &why));
}

static void confirmed(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                      const hf_error *err)
{
    struct rd_wait *wait = call->data;
    const struct hfi_reply *answer = hfi_reply_at(reply, 0, HFI_REPLY_INTEGER);

    (void)err;
    wait->confirmed = outcome != RD_ANSWERED || !answer ? HF_UNKNOWN
                      : answer->integer == 1            ? HF_OK
                                                        : HF_LOST;
    wait->claim->granted_ttl_ms = wait->claim->ttl_ms;
    wait->claim->sent_ms = call->sent.sent_ms;
    if (!call->synced)
        end_confirm(call->conn, wait, true);
}

static void confirm(struct hfi_conn *conn, struct rd_wait *wait)
{
    struct rd_call *call = hfi_rd_call_new(conn, &hfi_script_renew, 1, confirmed, NULL);
    struct rd_call *behind = call && conn->sync.link ? hfi_rd_wait_call(conn, replicated) : NULL;

    if (!call || (conn->sync.link && !behind)) {
        if (call)
            hfi_rd_call_free(call);
        hfi_rd_wait_end(conn, wait, HF_UNKNOWN, NULL);
        return;
    }
    wait->state = RD_WAIT_CONFIRMING;
    wait->beat_ms = HFI_NEVER;
    call->data = wait;
    call->synced = behind != NULL;
    hfi_rd_add_keys(call, &wait->claim->name, false);
    hfi_rd_add_owner(call, wait->claim->owner);
    hfi_command_add_number(&call->command, wait->claim->ttl_ms);
    hfi_rd_call_send(call);
    if (behind) {
        behind->data = wait;
        hfi_rd_call_send(behind); /* its answer is always the second */
    }
}

/* `G token tokens ttl`; false: it is not that. */
static bool take_grant(struct hfi_conn *conn, struct rd_wait *wait, const struct hfi_reply *reply,
                       int64_t from_ms)
{
    const struct hfi_reply *token = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *tokens = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);
    const struct hfi_reply *ttl = hfi_reply_at(reply, 3, HFI_REPLY_INTEGER);

    if (!token || !tokens || !ttl || token->integer <= 0 || tokens->integer <= 0 ||
        tokens->integer > wait->claim->tokens_wanted || ttl->integer <= 0)
        return false;
    grant(conn, wait, (uint64_t)token->integer, (uint32_t)tokens->integer, ttl->integer, from_ms);
    return true;
}

static void odd(struct hfi_conn *conn, struct rd_wait *wait)
{
    hf_error err;

    hfi_error_set(&err, HF_UNKNOWN, 0, "the server gave an answer that none of our scripts gives");
    wait->unsure = true;
    hfi_rd_wait_end(conn, wait, HF_UNKNOWN, &err);
}

/* ---- asking ------------------------------------------------------------------------------ */

static void ask(struct hfi_conn *conn, struct rd_wait *wait)
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

/* The server has it in its queue, or still has: when do we look again? */
static void queued(struct hfi_conn *conn, struct rd_wait *wait, const struct hfi_reply *reply,
                   int64_t sent_ms)
{
    const struct hfi_reply *next = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    int64_t beat_ms = hfi_rd_window_ms(wait->claim->ttl_ms) / 3;

    if (beat_ms < RD_BEAT_MIN_MS)
        beat_ms = RD_BEAT_MIN_MS;
    if (next && next->integer > 0 && next->integer + EARLY_MS < beat_ms)
        beat_ms = next->integer + EARLY_MS;
    wait->state = RD_WAIT_QUEUED;
    wait->heard_ms = sent_ms;
    wait->beat_ms = hfi_now_ms() + beat_ms;
    if (wait->beat_ms < conn->beat_ms)
        conn->beat_ms = wait->beat_ms;
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

/* The server said no to this copy. If an earlier one may still be executed, it must find a
 * tombstone, and not a name that has become free. */
static void denied(struct hfi_conn *conn, struct rd_wait *wait, hf_status status,
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
        if (!take_grant(conn, wait, reply, call->sent.sent_ms))
            odd(conn, wait);
        return;
    case 'Q':
        /* The first copy may have been queued, granted and passed over; its message, with this
         * attempt, may still come, and would be taken for a grant of what stands in line now. It
         * keeps its place under a new number. */
        if (call->copied)
            ask(conn, wait);
        else
            queued(conn, wait, reply, call->sent.sent_ms);
        return;
    case 'B':
        denied(conn, wait, HF_BUSY, NULL);
        return;
    case 'M':
        mismatch(reply, &other);
        denied(conn, wait, HF_MISMATCH, &other);
        return;
    case 'F':
        denied(conn, wait, HF_FULL, NULL);
        return;
    default:
        odd(conn, wait);
        return;
    }
}

/* ---- messages ------------------------------------------------------------------------------ */

/* The next number of a message, and beyond it; false: there is none. */
static bool number(const char **at, uint64_t *ret_value)
{
    char *end;

    if (**at != ' ' || (*at)[1] < '0' || (*at)[1] > '9')
        return false;
    *ret_value = strtoull(*at + 1, &end, 10);
    *at = end;
    return true;
}

/* "G <owner> <attempt> <token> <tokens> <window ms>" or "L <owner> <token>". Anything else is not
 * ours, and a message can come late: for a claim that has gone on, it means nothing. */
void hfi_rd_message(struct hfi_conn *conn, const char *payload, size_t len)
{
    unsigned char owner[HFI_OWNER_LEN];
    const char *at = payload + 2 + 2 * HFI_OWNER_LEN;
    uint64_t attempt, token, tokens, window;
    struct hfi_claim *claim;
    struct rd_wait *wait;

    if (len < 3 + 2 * HFI_OWNER_LEN || payload[1] != ' ' ||
        !hfi_unhex(payload + 2, 2 * HFI_OWNER_LEN, owner, sizeof owner))
        return;
    claim = hfi_rd_claim_find(conn, owner);
    if (!claim)
        return;
    wait = claim->engine[RD_CLAIM_WAIT];
    if (payload[0] == 'L' && !wait && number(&at, &token) && token >= claim->token &&
        token < claim->token + claim->tokens) {
        hfi_pump_lost(&conn->pump, claim, "it was broken");
        return;
    }
    if (payload[0] != 'G' || !wait || !number(&at, &attempt) || !number(&at, &token) ||
        !number(&at, &tokens) || !number(&at, &window) || attempt != wait->attempt || tokens == 0 ||
        tokens > claim->tokens_wanted)
        return;
    if (!wait->call && wait->state == RD_WAIT_QUEUED &&
        hfi_now_ms() - wait->heard_ms > (int64_t)window / 10 * 9) {
        wait->beat_ms = conn->beat_ms =
            0; /* too old to be of use: a heartbeat renews it, if it is there */
        return;
    }
    if (wait->call) {
        /* It overtook the answer to our acquire, and may be the work of its first copy: what we
         * count from is the send of that. Or it crosses with our cancel, whose answer will say
         * the same: that one decides. */
        if (wait->state != RD_WAIT_ASKING)
            return;
        if (hfi_now_ms() - wait->call->first_ms > (int64_t)window / 10 * 9)
            return; /* too old as well: the answer to the copy that is under way decides */
        wait->heard_ms = wait->call->first_ms;
        wait->unsure = wait->unsure || wait->call->was_sent; /* another copy may be on its way */
        wait->call->data = NULL;
        wait->call->again = false; /* or a copy of it could come after the release */
        if (hfi_rd_net_unsend(conn, wait->call))
            hfi_rd_call_free(wait->call);
        wait->call = NULL;
    } else if (wait->state != RD_WAIT_QUEUED) {
        return;
    }
    grant(conn, wait, token, (uint32_t)tokens, (int64_t)window, wait->heard_ms);
}

/* ---- heartbeats ------------------------------------------------------------------------------ */

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
        queued(conn, wait, reply, sent_ms);
        return;
    case 'G': /* its message was lost; this was a renewal, too */
        if (!take_grant(conn, wait, reply, sent_ms))
            odd(conn, wait);
        return;
    case 'N': /* the server has forgotten us, or given us up: begin again, at the end */
        conn->way->acquire(conn, wait);
        return;
    default:
        odd(conn, wait);
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
        if (!take_grant(conn, wait, reply, call->sent.sent_ms))
            odd(conn, wait);
        return;
    default:
        odd(conn, wait);
        return;
    }
}

/* ---- the native way ------------------------------------------------------------------------------- */

static void add_key(struct rd_call *call, const struct hfi_name *name)
{
    hfi_rd_add_keys(call, name, false);
}

static void add_owner(struct rd_call *call, const struct hfi_claim *claim)
{
    hfi_rd_add_owner(call, claim->owner);
}

const struct rd_way hfi_rd_native = {
    .acquire = ask,
    .cancel = cancel_native,
    .release = hfi_rd_release,
    .renew = hfi_rd_renew,
    .adopt = hfi_rd_adopt,
    .brk = hfi_rd_break,
    .inspect = hfi_rd_inspect,
    .add_key = add_key,
    .add_owner = add_owner,
    .slot = hfi_rd_name_slot,
};
