/* SPDX-License-Identifier: MIT */
/* A lease after it was granted: release, renew, adopt, break, and notes of local passes. */
#include "engine/redis/rd.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- release ------------------------------------------------------------------------ */

static void released(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                     const hf_error *err)
{
    char letter = hfi_rd_letter(reply);

    if (outcome != RD_ANSWERED)
        hfi_rd_finish(call->conn, call->op, hfi_rd_status(outcome, err), err);
    else if (letter == 'R' || (letter == 'N' && call->was_sent))
        hfi_rd_finish(call->conn, call->op, HF_OK, NULL); /* it may have been the first copy */
    else if (letter == 'N')
        hfi_rd_finish(call->conn, call->op, HF_LOST, NULL);
    else
        hfi_rd_finish_odd(call->conn, call->op, reply);
}

/* Over by our own clock, which is ahead of the server's, and its lock delay must run: a release that
 * arrived a moment too early would be a clean end, and open the name at once. */
static bool must_lapse(const struct hfi_claim *claim)
{
    return claim->lock_delay_ms > 0 && claim->granted_ttl_ms > 0 &&
           hfi_now_ms() >= claim->sent_ms + claim->granted_ttl_ms;
}

void hfi_rd_release(struct hfi_conn *conn, struct hfi_op *op)
{
    bool unsure = (uintptr_t)op->claim->engine[RD_CLAIM_FLAGS] & RD_FLAG_UNSURE;
    struct rd_call *call;

    if (must_lapse(op->claim)) {
        hfi_rd_finish(conn, op, HF_LOST, NULL);
        return;
    }
    call = hfi_rd_call_new(conn, &hfi_script_release, 3, released, op);
    if (!call)
        return;
    call->again = true;
    hfi_rd_add_keys(call, &op->claim->name, true);
    hfi_rd_add_owner(call, op->claim->owner);
    hfi_command_add_number(&call->command, unsure ? RD_TOMBSTONE_MS : 0);
    hfi_rd_call_send(call);
}

/* ---- renew ---------------------------------------------------------------------------- */

/* One command's share of a renewal. */
struct share {
    uint32_t count;
    uint32_t slot;
    struct hfi_renewal *items[RD_BATCH];
};

static void end_share(struct hfi_conn *conn, struct hfi_op *op)
{
    uintptr_t left = (uintptr_t)op->engine[RD_OP_LEFT] - 1;

    op->engine[RD_OP_LEFT] = (void *)left;
    if (left == 0)
        hfi_rd_finish(conn, op, HF_OK, NULL);
}

static void renewed(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                    const hf_error *err)
{
    struct share *share = call->data;

    for (uint32_t i = 0; i < share->count; i++) {
        struct hfi_renewal *item = share->items[i];
        const struct hfi_reply *answer =
            outcome == RD_ANSWERED ? hfi_reply_at(reply, i, HFI_REPLY_INTEGER) : NULL;

        if (!answer) {
            item->status = outcome == RD_ANSWERED ? HF_UNKNOWN : hfi_rd_status(outcome, err);
        } else if (answer->integer == 1) {
            item->status = HF_OK;
            item->claim->granted_ttl_ms = item->ttl_ms;
            item->claim->sent_ms = call->sent.sent_ms;
        } else {
            item->status = HF_LOST;
        }
    }
    if (call->synced)
        return; /* the WAIT behind it ends the share */
    end_share(call->conn, call->op);
    hfi_free(share);
}

/* What too few replicas have is not renewed: a failover would forget it. */
static void replicated(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                       const hf_error *err)
{
    struct share *share = call->data;
    hf_error why;

    (void)err;
    if (!hfi_rd_wait_enough(call->conn, outcome, reply, &why))
        for (uint32_t i = 0; i < share->count; i++)
            if (share->items[i]->status == HF_OK)
                share->items[i]->status = HF_UNKNOWN;
    end_share(call->conn, call->op);
    hfi_free(share);
}

/* Never sent twice: a late copy could shorten the lease under its holder. */
static void send_share(struct hfi_conn *conn, struct hfi_op *op, struct share *share,
                       const struct hfi_script *script)
{
    struct rd_call *call = hfi_rd_call_new(conn, script, share->count, renewed, NULL);
    struct rd_call *behind = call && conn->sync.link ? hfi_rd_wait_call(conn, replicated) : NULL;

    op->engine[RD_OP_LEFT] = (void *)((uintptr_t)op->engine[RD_OP_LEFT] + 1);
    if (!call || (conn->sync.link && !behind)) {
        if (call)
            hfi_rd_call_free(call);
        for (uint32_t i = 0; i < share->count; i++)
            share->items[i]->status = HF_NO_MEMORY;
        hfi_free(share);
        end_share(conn, op);
        return;
    }
    call->op = op;
    call->data = share;
    call->synced = behind != NULL;
    call->hasty = true; /* core asks again soon; meanwhile the holder is told that it is AT_RISK */
    for (uint32_t i = 0; i < share->count; i++)
        conn->way->add_key(call, &share->items[i]->claim->name);
    for (uint32_t i = 0; i < share->count; i++) {
        conn->way->add_owner(call, share->items[i]->claim);
        hfi_command_add_number(&call->command, share->items[i]->ttl_ms);
    }
    if (op->deadline_ms != HFI_NEVER && op->deadline_ms < hfi_now_ms() + conn->conf->op_ms)
        call->give_up_ms = op->deadline_ms;
    if (behind) {
        behind->op = op;
        behind->data = share;
        behind->give_up_ms = call->give_up_ms;
        behind->hasty = true;
    }
    hfi_rd_call_send(call);
    if (behind)
        hfi_rd_call_send(behind); /* its answer is always the second */
}

struct placed {
    uint32_t slot;
    struct hfi_renewal *item;
};

static int by_slot(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* In a cluster the keys of one command must be in one slot: its leases in the order of slots. NULL:
 * not needed, or no memory, and then every lease gets a command of its own. */
static struct placed *place(struct hfi_conn *conn, struct hfi_op *op)
{
    size_t count = op->u.renew.count;
    struct placed *placed =
        conn->slots && conn->way->slot && count > 1 ? hfi_malloc(count * sizeof *placed) : NULL;

    if (!placed)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        placed[i].item = &op->u.renew.items[i];
        placed[i].slot = conn->way->slot(conn, &placed[i].item->claim->name);
    }
    qsort(placed, count, sizeof *placed, by_slot);
    return placed;
}

void hfi_rd_renew_by(struct hfi_conn *conn, struct hfi_op *op, const struct hfi_script *script)
{
    struct placed *placed = place(conn, op);
    uint32_t most = conn->slots && !placed ? 1 : RD_BATCH;
    struct share *share = NULL;

    op->engine[RD_OP_LEFT] = (void *)(uintptr_t)1; /* ours, until all are sent */
    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = placed ? placed[i].item : &op->u.renew.items[i];
        uint32_t slot = placed ? placed[i].slot : 0;

        if (share && (share->count == most || share->slot != slot)) {
            send_share(conn, op, share, script);
            share = NULL;
        }
        if (!share) {
            share = hfi_malloc(sizeof *share);
            if (!share) {
                item->status = HF_NO_MEMORY;
                continue;
            }
            share->count = 0;
            share->slot = slot;
        }
        share->items[share->count++] = item;
    }
    if (share)
        send_share(conn, op, share, script);
    hfi_free(placed);
    end_share(conn, op);
}

void hfi_rd_renew(struct hfi_conn *conn, struct hfi_op *op)
{
    hfi_rd_renew_by(conn, op, &hfi_script_renew);
}

/* ---- adopt ------------------------------------------------------------------------------ */

static void adopted(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                    const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    struct hfi_claim *claim = call->op->claim;
    static const int64_t most[6] = { HFI_MODE_SEMAPHORE,           UINT32_MAX, UINT32_MAX,
                                     (int64_t)HFI_TOKEN_LIMIT - 1, UINT32_MAX, INT64_MAX };
    int64_t fields[6];

    if (outcome != RD_ANSWERED) {
        hfi_rd_finish(conn, call->op, hfi_rd_status(outcome, err), err);
        return;
    }
    if (hfi_rd_letter(reply) == 'N') {
        hfi_rd_finish(conn, call->op, HF_NOT_FOUND, NULL);
        return;
    }
    for (size_t i = 0; i < 6; i++) {
        const struct hfi_reply *item = hfi_reply_at(reply, i + 1, HFI_REPLY_INTEGER);

        if (hfi_rd_letter(reply) != 'A' || !item || item->integer < 0 || item->integer > most[i]) {
            hfi_rd_finish_odd(conn, call->op, reply);
            return;
        }
        fields[i] = item->integer;
    }
    claim->mode = (enum hfi_mode)fields[0];
    claim->capacity = (uint32_t)fields[1];
    claim->permits = (uint32_t)fields[2];
    claim->token = (uint64_t)fields[3];
    claim->tokens = (uint32_t)fields[4];
    claim->granted_ttl_ms = hfi_told_ms(fields[5]);
    claim->sent_ms = call->sent.sent_ms;
    hfi_rd_claim_add(conn, claim);
    hfi_rd_finish(conn, call->op, HF_OK, NULL);
}

void hfi_rd_adopt(struct hfi_conn *conn, struct hfi_op *op)
{
    struct rd_call *call = hfi_rd_call_new(conn, &hfi_script_adopt, 1, adopted, op);

    if (!call)
        return;
    hfi_rd_add_keys(call, &op->claim->name, false);
    hfi_rd_add_owner(call, op->claim->owner);
    hfi_command_add_number(&call->command, (int64_t)op->claim->token);
    hfi_command_add_number(&call->command, op->claim->ttl_ms);
    hfi_rd_call_send(call);
}

/* ---- break -------------------------------------------------------------------------------- */

static void broken(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    char letter = hfi_rd_letter(reply);

    if (outcome != RD_ANSWERED)
        hfi_rd_finish(call->conn, call->op, hfi_rd_status(outcome, err), err);
    else if (letter == 'R' || letter == 'N')
        hfi_rd_finish(call->conn, call->op, letter == 'R' ? HF_OK : HF_NOT_FOUND, NULL);
    else
        hfi_rd_finish_odd(call->conn, call->op, reply);
}

void hfi_rd_break(struct hfi_conn *conn, struct hfi_op *op)
{
    struct rd_call *call;

    hfi_rd_notes_send(conn); /* our own passes, before anybody's token is compared */
    call = hfi_rd_call_new(conn, &hfi_script_break, 3, broken, op);
    if (!call)
        return;
    hfi_rd_add_keys(call, &op->u.brk.name, true);
    hfi_command_add_number(&call->command, (int64_t)op->u.brk.token);
    hfi_rd_call_send(call);
}

/* ---- notes of local passes --------------------------------------------------------------------- */

/*
 * Passes are many, and only `show` and `break` want to know of them: the store is told a moment
 * later, of the newest only, many claims in one command; and before our own inspect or
 * break, which travel on the same line behind it.
 */
void hfi_rd_passed(struct hfi_conn *conn, struct hfi_claim *claim, uint64_t token, int64_t tid)
{
    bool sooner = false;

    hfi_pump_enter(&conn->pump);
    if ((uintptr_t)claim->engine[RD_CLAIM_FLAGS] & RD_FLAG_LISTED) { /* else it is being released */
        claim->engine[RD_CLAIM_TOKEN] = (void *)(uintptr_t)token;
        claim->engine[RD_CLAIM_TID] = (void *)(uintptr_t)tid;
        if (!claim->engine[RD_CLAIM_NOTED]) {
            claim->engine[RD_CLAIM_NOTED] = conn->noted ? conn->noted : claim;
            conn->noted = claim;
        }
        if (conn->note_ms == HFI_NEVER) {
            conn->note_ms = hfi_now_ms() + RD_NOTE_MS;
            sooner = true;
        }
    }
    hfi_pump_slip(&conn->pump, sooner);
}

/* Nobody waits for the answer: a note that is lost is followed by another. */
static void noted(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err)
{
    (void)call;
    (void)outcome;
    (void)reply;
    (void)err;
}

static struct hfi_claim *pop_note(struct hfi_conn *conn)
{
    struct hfi_claim *claim = conn->noted;

    if (!claim)
        return NULL;
    conn->noted = claim->engine[RD_CLAIM_NOTED] == claim ? NULL : claim->engine[RD_CLAIM_NOTED];
    claim->engine[RD_CLAIM_NOTED] = NULL;
    return claim;
}

void hfi_rd_notes_send(struct hfi_conn *conn)
{
    struct hfi_claim *batch[RD_BATCH];
    struct rd_call *call;
    uint32_t count;

    conn->note_ms = HFI_NEVER;
    do {
        for (count = 0; count < (conn->slots ? 1 : RD_BATCH); count++)
            if (!(batch[count] = pop_note(conn)))
                break;
        call = count ? hfi_rd_call_new(conn, &hfi_script_note, count, noted, NULL) : NULL;
        if (!call)
            continue;
        for (uint32_t i = 0; i < count; i++)
            hfi_rd_add_keys(call, &batch[i]->name, false);
        for (uint32_t i = 0; i < count; i++) {
            hfi_rd_add_owner(call, batch[i]->owner);
            hfi_command_add_number(&call->command,
                                   (int64_t)(uintptr_t)batch[i]->engine[RD_CLAIM_TOKEN]);
            hfi_command_add_number(&call->command,
                                   (int64_t)(uintptr_t)batch[i]->engine[RD_CLAIM_TID]);
        }
        hfi_rd_call_send(call);
    } while (count > 0);
}
