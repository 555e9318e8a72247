/* SPDX-License-Identifier: MIT */
/* A lease after it was granted: renew, adopt, break, and notes of local passes; and the size of a semaphore. */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- renew ---------------------------------------------------------------------------- */

/*
 * Each lease has its own outcome: the server's answer for one name is the status of that lease. Two
 * things could let one name affect all others in the command: a script that stops there (it does
 * not: each.lua), and rights to keys, which the server checks before it runs a script. A share that
 * is refused because of rights has not been executed: it is sent again in halves, until only the
 * refused name is left.
 */

/* One command's share of a renewal. */
struct share {
    uint32_t count;
    uint32_t slot;
    struct hfi_renewal *items[REDIS_BATCH];
};

static void end_share(struct redis_store *store, struct hfi_op *op)
{
    if (--redis_op(op)->shares == 0)
        hfi_reactor_finish(&store->reactor, op, HF_OK, NULL);
}

/* `renewed token tokens`: the further block; returns its first item, NULL: it has no such numbers. */
static const struct hfi_reply *take_block(struct hfi_renewal *item, const struct hfi_reply *answer)
{
    const int64_t most[2] = { (int64_t)HFI_TOKEN_LIMIT - 1, item->tokens_wanted };
    int64_t block[2];

    if (!hfi_reply_numbers(answer, 1, 2, most, block))
        return NULL;
    item->token = (uint64_t)block[0];
    item->tokens = (uint32_t)block[1];
    return hfi_reply_at(answer, 0, HFI_REPLY_INTEGER);
}

/* The server's answer for one lease. op->error gets the text of the last one that failed. */
static void judge(struct hfi_op *op, struct hfi_renewal *item, const struct hfi_reply *answer,
                  int64_t sent_ms)
{
    const struct hfi_reply *given = answer;

    if (answer && answer->type == HFI_REPLY_LIST && answer->count == 3)
        given = take_block(item, answer);
    if (given && given->type == HFI_REPLY_INTEGER &&
        (given->integer == 1 || (given->integer == 2 && item->claim->flags & HFI_CLAIM_WATCHED))) {
        item->status = HF_OK;
        item->others_wait = given->integer == 2;
        item->claim->granted_ttl_ms = item->ttl_ms;
        item->claim->sent_ms = sent_ms;
    } else if (given && given->type == HFI_REPLY_INTEGER) {
        item->status = HF_LOST;
    } else if (answer && answer->type == HFI_REPLY_ERROR) {
        item->status = hfi_reply_status(answer, &op->error);
    } else {
        item->status = HF_UNKNOWN;
    }
}

static bool split(struct redis_store *store, struct hfi_op *op, struct share *share,
                  const struct hfi_script *script);

static void renewed(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct share *share = call->data;
    bool listed = outcome == HFI_ANSWERED && reply->type == HFI_REPLY_LIST;

    if (outcome != HFI_REFUSED || err->status != HF_DENIED ||
        !split(call->store, call->op, share, call->command.script)) {
        for (uint32_t i = 0; i < share->count; i++)
            if (outcome == HFI_ANSWERED)
                judge(call->op, share->items[i],
                      listed && i < reply->count ? &reply->items[i] : NULL,
                      call->sent.base.sent_ms);
            else
                share->items[i]->status = hfi_outcome_status(outcome, err);
        if (outcome != HFI_ANSWERED && share->count > 0 && err)
            call->op->error = *err;
    }
    if (call->synced)
        return; /* the WAIT behind it ends the share */
    end_share(call->store, call->op);
    hfi_free(share);
}

/* A renewal that too few replicas have does not count: a failover would forget it. */
static void replicated(struct redis_call *call, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, const hf_error *err)
{
    struct share *share = call->data;
    hf_error why;

    (void)err;
    if (!redis_wait_enough(call->store, outcome, reply, &why))
        for (uint32_t i = 0; i < share->count; i++)
            if (share->items[i]->status == HF_OK)
                share->items[i]->status = HF_UNKNOWN;
    end_share(call->store, call->op);
    hfi_free(share);
}

/* Never sent twice: a late copy could shorten the lease under its holder. */
static void send_share(struct redis_store *store, struct hfi_op *op, struct share *share,
                       const struct hfi_script *script)
{
    uint32_t keys = store->wire == &redis_native ? redis_renewal_keys(store) : 1;
    struct redis_call *call = redis_call_new(store, script, keys * share->count, renewed, NULL);
    struct redis_call *behind =
        call && store->sync.link ? redis_wait_call(store, replicated) : NULL;

    redis_op(op)->shares++;
    if (!call || (store->sync.link && !behind)) {
        if (call)
            redis_call_free(call);
        for (uint32_t i = 0; i < share->count; i++)
            share->items[i]->status = HF_NO_MEMORY;
        hfi_free(share);
        end_share(store, op);
        return;
    }
    call->op = op;
    call->data = share;
    call->synced = behind != NULL;
    call->fail_fast = true; /* core tries again soon; meanwhile the lease is AT_RISK */
    for (uint32_t i = 0; i < share->count; i++)
        store->wire->add_key(call, &share->items[i]->claim->name);
    for (uint32_t i = 0; i < share->count; i++)
        store->wire->add_renewal(call, share->items[i]->claim, share->items[i]->ttl_ms,
                                 share->items[i]->tokens_wanted);
    if (op->deadline_ms != HFI_NEVER && op->deadline_ms < hfi_now_ms() + store->conf->op_ms)
        call->request.give_up_ms = op->deadline_ms;
    if (behind) {
        behind->op = op;
        behind->data = share;
        behind->request.give_up_ms = call->request.give_up_ms;
        behind->fail_fast = true;
    }
    redis_call_send(call);
    if (behind)
        redis_call_send(behind); /* its answer is always the second */
}

/* Send a refused share, which was not executed, as two halves; it is empty then. false: it has only
 * one lease, or there is no memory. */
static bool split(struct redis_store *store, struct hfi_op *op, struct share *share,
                  const struct hfi_script *script)
{
    uint32_t half = share->count / 2;
    struct share *first = half ? hfi_malloc(sizeof *first) : NULL;
    struct share *second = first ? hfi_malloc(sizeof *second) : NULL;

    if (!second) {
        hfi_free(first);
        return false;
    }
    *first = (struct share){ .count = half, .slot = share->slot };
    *second = (struct share){ .count = share->count - half, .slot = share->slot };
    memcpy(first->items, share->items, half * sizeof *share->items);
    memcpy(second->items, share->items + half, second->count * sizeof *share->items);
    share->count = 0;
    send_share(store, op, first, script);
    send_share(store, op, second, script);
    return true;
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

/* In a cluster the keys of one command must be in one slot: sort the leases by slot. NULL: not
 * needed, or no memory; then every lease gets a command of its own. */
static struct placed *place(struct redis_store *store, struct hfi_op *op)
{
    size_t count = op->u.renew.count;
    struct placed *placed =
        store->slots && store->wire->slot && count > 1 ? hfi_malloc(count * sizeof *placed) : NULL;

    if (!placed)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        placed[i].item = &op->u.renew.items[i];
        placed[i].slot = store->wire->slot(store, &placed[i].item->claim->name);
    }
    qsort(placed, count, sizeof *placed, by_slot);
    return placed;
}

void redis_renew_by(struct redis_store *store, struct hfi_op *op, const struct hfi_script *script)
{
    struct placed *placed = place(store, op);
    uint32_t most = store->slots && !placed ? 1 : REDIS_BATCH;
    struct share *share = NULL;

    redis_op(op)->shares = 1; /* our own count, until all are sent */
    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = placed ? placed[i].item : &op->u.renew.items[i];
        uint32_t slot = placed ? placed[i].slot : 0;

        if (share && (share->count == most || share->slot != slot)) {
            send_share(store, op, share, script);
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
        send_share(store, op, share, script);
    hfi_free(placed);
    end_share(store, op);
}

void redis_add_renewal(struct redis_call *call, const struct hfi_claim *claim, int64_t ttl_ms,
                       uint32_t tokens)
{
    const struct redis_claim *own = (const struct redis_claim *)claim->room;
    char both[48];

    hfi_command_add(&call->command, claim->owner, HFI_OWNER_LEN);
    if (tokens > 0) {
        snprintf(both, sizeof both, "%" PRId64 ":%" PRIu32, ttl_ms, tokens);
        hfi_command_add_text(&call->command, both);
    } else {
        hfi_command_add_number(&call->command, ttl_ms);
    }
    hfi_command_add_number(&call->command, (int64_t)own->token);
    hfi_command_add_number(&call->command, own->tid);
}

void redis_renew(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;

    redis_renew_by(store, op, &hfi_script_renew);
}

/* ---- adopt ------------------------------------------------------------------------------ */

static void adopted(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct hfi_claim *claim = call->op->claim;
    static const int64_t most[6] = { HFI_MODE_SEMAPHORE,           UINT32_MAX, UINT32_MAX,
                                     (int64_t)HFI_TOKEN_LIMIT - 1, UINT32_MAX, INT64_MAX };
    const struct hfi_reply *numbers = hfi_reply_at(reply, 8, HFI_REPLY_TEXT);
    uint32_t slots[HF_SLOTS_MAX];
    int64_t fields[6];

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&store->reactor, call->op, hfi_outcome_status(outcome, err), err);
        return;
    }
    if (hfi_reply_letter(reply) == 'N') {
        hfi_reactor_finish(&store->reactor, call->op, HF_NOT_FOUND, NULL);
        return;
    }
    if (hfi_reply_letter(reply) != 'A' || !hfi_reply_numbers(reply, 1, 6, most, fields) ||
        (numbers && !redis_numbers_read(numbers->text, numbers->len, (uint32_t)fields[2], slots))) {
        redis_finish_odd(store, call->op, reply);
        return;
    }
    if (numbers) {
        claim->flags |= HFI_CLAIM_NUMBERED;
        memcpy(claim->slots, slots, (size_t)fields[2] * sizeof *slots);
    }
    claim->mode = (enum hfi_mode)fields[0];
    claim->capacity = (uint32_t)fields[1];
    claim->permits = (uint32_t)fields[2];
    claim->token = (uint64_t)fields[3];
    claim->tokens = (uint32_t)fields[4];
    claim->granted_ttl_ms = hfi_told_ms(fields[5]);
    claim->sent_ms = call->sent.base.sent_ms;
    redis_claim_add(store, claim);
    hfi_reactor_finish(&store->reactor, call->op, HF_OK, NULL);
}

void redis_adopt(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call = redis_call_new(store, &hfi_script_adopt, 1, adopted, op);

    if (!call)
        return;
    redis_add_keys(call, &op->claim->name, false);
    hfi_command_add(&call->command, op->claim->owner, HFI_OWNER_LEN);
    hfi_command_add_number(&call->command, (int64_t)op->claim->token);
    hfi_command_add_number(&call->command, op->claim->ttl_ms);
    redis_call_send(call);
}

/* ---- break -------------------------------------------------------------------------------- */

static void broken(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    char letter = hfi_reply_letter(reply);

    if (outcome != HFI_ANSWERED)
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_status(outcome, err), err);
    else if (letter == 'R' || letter == 'N')
        hfi_reactor_finish(&call->store->reactor, call->op, letter == 'R' ? HF_OK : HF_NOT_FOUND,
                           NULL);
    else
        redis_finish_odd(call->store, call->op, reply);
}

void redis_break(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call;

    redis_notes_send(store); /* send our notes first: break compares tokens */
    call = redis_call_new(store, &hfi_script_break, REDIS_NAME_KEYS, broken, op);
    if (!call)
        return;
    redis_add_keys(call, &op->u.brk.name, true);
    hfi_command_add_number(&call->command, (int64_t)op->u.brk.token);
    redis_call_send(call);
}

/* ---- resize ------------------------------------------------------------------------------- */

static void resized(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_reactor *reactor = &call->store->reactor;
    char letter = hfi_reply_letter(reply);
    hf_error other;

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(reactor, call->op, hfi_outcome_status(outcome, err), err);
    } else if (letter == 'R') {
        hfi_reactor_finish(reactor, call->op, HF_OK, NULL);
    } else if (letter == 'M') {
        (void)hfi_mismatch_set(&other, hfi_reply_int_at(reply, 1), hfi_reply_int_at(reply, 2));
        hfi_reactor_finish(reactor, call->op, HF_MISMATCH, &other);
    } else {
        redis_finish_odd(call->store, call->op, reply);
    }
}

/* Never sent twice: a late copy could undo what somebody else has set meanwhile. */
void redis_resize(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call =
        redis_call_new(store, &hfi_script_resize, REDIS_NAME_KEYS, resized, op);

    if (!call)
        return;
    redis_add_keys(call, &op->u.resize.name, true);
    hfi_command_add_number(&call->command, op->u.resize.capacity);
    redis_call_send(call);
}

/* ---- ask ---------------------------------------------------------------------------------- */

static void holders_asked(struct redis_call *call, enum hfi_outcome outcome,
                          const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_reactor *reactor = &call->store->reactor;

    if (outcome != HFI_ANSWERED)
        hfi_reactor_finish(reactor, call->op, redis_unanswered(outcome, err), err);
    else if (reply->type != HFI_REPLY_INTEGER)
        redis_finish_odd(call->store, call->op, reply);
    else
        hfi_reactor_finish(reactor, call->op,
                           reply->integer > 0    ? HF_OK
                           : reply->integer == 0 ? HF_BUSY
                                                 : HF_NOT_FOUND,
                           NULL);
}

void redis_ask_holders(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call = redis_call_new(store, &hfi_script_ask, 1, holders_asked, op);

    if (!call)
        return;
    redis_add_keys(call, &op->u.ask.name, false);
    hfi_command_add(&call->command, op->u.ask.text, strnlen(op->u.ask.text, HF_LABEL_MAX));
    redis_call_send(call);
}

/* ---- notes of local passes --------------------------------------------------------------------- */

/*
 * Local passes are frequent, and only `show` and `break` need them: so they are sent a moment
 * later, only the newest of each claim, many claims in one command; and before our own inspect or
 * break, which follow on the same connection. A note without an answer is queued again. Every
 * renewal carries the same information, so no pass stays unknown for longer than that.
 */
static void push_note(struct redis_store *store, struct redis_claim *claim)
{
    if (hfi_list_empty(&claim->noted))
        hfi_list_append(&store->noted, &claim->noted);
}

/* Send the notes at `at_ms` at the latest. Returns whether the driver must read its timers
 * again. */
static bool hasten_notes(struct redis_store *store, int64_t at_ms)
{
    if (store->notes.due_ms <= at_ms)
        return false;
    hfi_source_at(&store->notes, at_ms);
    return true;
}

void redis_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid)
{
    struct redis_store *store = self;
    struct redis_claim *own = redis_claim(claim);
    bool sooner = false;

    hfi_reactor_enter(&store->reactor);
    if (own->entry.claim) { /* else it is being released */
        own->token = token;
        own->tid = tid ? tid : REDIS_IDLE;
        push_note(store, own);
        sooner = hasten_notes(store, hfi_now_ms() + REDIS_NOTE_MS);
    }
    hfi_reactor_leave_quietly(&store->reactor, sooner);
}

/* The claims whose notes are under way. */
struct notes {
    uint32_t count;
    unsigned char owners[][HFI_OWNER_LEN];
};

/* Notes that the server may not have received are queued again. Notes that it refused permanently
 * are sent with the next renewal, which reports why. */
static void noted(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err)
{
    struct redis_store *store = call->store;
    struct notes *notes = call->data;
    bool again =
        outcome != HFI_ANSWERED && !store->closing &&
        (outcome != HFI_REFUSED || err->status == HF_UNAVAILABLE || err->status == HF_FULL);

    (void)reply;
    for (uint32_t i = 0; again && notes && i < notes->count; i++) {
        struct redis_claim *claim = redis_claim_find(store, notes->owners[i]);

        if (claim)
            push_note(store, claim);
    }
    if (!hfi_list_empty(&store->noted))
        (void)hasten_notes(store, hfi_now_ms() + REDIS_NOTE_AGAIN_MS);
    hfi_free(notes);
}

/* No memory: send them later. */
static void put_back(struct redis_store *store, struct redis_claim *const claims[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        push_note(store, claims[i]);
    if (count)
        (void)hasten_notes(store, hfi_now_ms() + REDIS_NOTE_AGAIN_MS);
}

void redis_notes_send(struct redis_store *store)
{
    struct redis_claim *batch[REDIS_BATCH];
    struct hfi_list list, *node;
    struct redis_call *call;
    struct notes *notes;
    uint32_t count;

    hfi_list_init(&list); /* what fails at once is put back into store->noted, for later */
    hfi_list_move(&list, &store->noted);
    hfi_source_at(&store->notes, HFI_NEVER);
    do {
        for (count = 0; count < (store->slots ? 1 : REDIS_BATCH); count++) {
            if (!(node = hfi_list_pop(&list)))
                break;
            batch[count] = hfi_container(node, struct redis_claim, noted);
        }
        call = count ? redis_call_new(store, &hfi_script_note, count, noted, NULL) : NULL;
        if (!call) {
            put_back(store, batch, count);
            continue;
        }
        notes = hfi_malloc(sizeof *notes + count * sizeof *notes->owners);
        if (notes)
            notes->count = count;
        call->data = notes; /* without memory they are not put back: the renewal has them */
        for (uint32_t i = 0; i < count; i++)
            redis_add_keys(call, &batch[i]->entry.claim->name, false);
        for (uint32_t i = 0; i < count; i++) {
            if (notes)
                memcpy(notes->owners[i], batch[i]->entry.owner, HFI_OWNER_LEN);
            hfi_command_add(&call->command, batch[i]->entry.owner, HFI_OWNER_LEN);
            hfi_command_add_number(&call->command, (int64_t)batch[i]->token);
            hfi_command_add_number(&call->command, batch[i]->tid);
        }
        redis_call_send(call);
    } while (count > 0);
}

void redis_notes_due(struct hfi_source *notes, int64_t now_ms)
{
    (void)now_ms;
    redis_notes_send(hfi_container(notes, struct redis_store, notes));
}
