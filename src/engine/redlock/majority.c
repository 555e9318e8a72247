/* SPDX-License-Identifier: MIT */
/*
 * A majority holds for us: if with one counter, the acquisition is won; if with different ones, the
 * largest is written back first. Late grants after a win, and the confirmation of a grant that is
 * too short, are here too. With the lock.
 */
#include "engine/redlock/internal.h"

#include "util/clock.h"

#include <string.h>
#include <strings.h>

#define CONFIRM_MS 2000 /* time limit of a confirmation */

static void confirm(struct redlock_store *store, struct redlock_wait *wait);
static bool send_token(struct redlock_store *store, struct redlock_wait *wait, uint64_t token,
                       uint32_t nodes);

/* ---- winning --------------------------------------------------------------------------------------- */

void redlock_win(struct redlock_store *store, struct redlock_wait *wait,
                 const struct hfi_ballot_outcome *out)
{
    struct hfi_claim *claim = wait->claim;
    struct redlock_hold *hold = wait->hold;
    int64_t left_ms = out->sent_ms + out->held_ms - hfi_now_ms();
    uint32_t behind = 0;

    claim->token = store->wire->bare ? 0 : out->token - claim->tokens_wanted + 1;
    claim->tokens = claim->tokens_wanted;
    if (out->token > store->last_token)
        store->last_token = out->token;
    claim->granted_ttl_ms = out->held_ms;
    claim->sent_ms = out->sent_ms;
    claim->others_wait = hold->wanted != 0;
    if (claim->flags & HFI_CLAIM_NUMBERED)
        memcpy(claim->slots, wait->slots[ffs((int)out->nodes) - 1],
               claim->permits * sizeof *claim->slots);
    hold->choice = out->choice;
    hold->top = out->token;
    hold->before = hold->refill = 0;
    hold->counts = out->nodes;
    hold->released = hold->broken = 0;
    if (out->wrong) {
        uint32_t sent = hold->sent;

        redlock_give_back(store, claim, hold, out->wrong);
        hold->sent = sent; /* its attempt is still ours */
    }
    /* Let nodes that hold with another counter become witnesses too: then more nodes may be
     * lost. */
    for (unsigned i = 0; i < store->n; i++)
        if (wait->ballot.node[i].vote == HFI_VOTE_GRANTED &&
            wait->ballot.node[i].choice == out->choice && !(out->nodes & 1u << i))
            behind |= 1u << i;
    if (behind)
        (void)send_token(store, wait, out->token, behind);
    if (hfi_grant_needs_renewal(left_ms, out->held_ms, claim->ttl_ms, claim->min_valid_ms))
        confirm(store, wait);
    else
        redlock_wait_end(store, wait, HF_OK, NULL);
}

/* A grant of other slots of a semaphore is not kept. A grant with another counter may have come
 * after another client had won and released: it holds, but proves nothing. */
void redlock_late_grant(struct redlock_store *store, const unsigned char *owner, uint64_t attempt,
                        unsigned node, uint64_t counter, uint64_t choice)
{
    struct redlock_hold *hold = redlock_hold_find(store, owner);
    uint32_t sent;

    if (!hold || hold->attempt != attempt ||
        (hold->wait && hold->wait->state != HFI_WAITER_CONFIRMING) || !(hold->sent & 1u << node))
        return;
    if (hold->choice == choice) {
        if (hold->top == counter)
            hold->counts |= 1u << node;
        return;
    }
    sent = hold->sent;
    redlock_give_back(store, hold->entry.claim, hold, 1u << node);
    hold->sent = sent;
}

static void confirmed(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    struct redlock_hold *hold = redlock_hold_find(store, round->owner);
    struct redlock_wait *wait = hold && hold->attempt == round->attempt ? hold->wait : NULL;
    const struct hfi_reply *list = hfi_reply_at(reply, 0, HFI_REPLY_LIST);
    const struct hfi_reply *answer =
        list ? hfi_reply_at(list, 0, HFI_REPLY_INTEGER) : hfi_reply_at(reply, 0, HFI_REPLY_INTEGER);

    (void)err;
    if (outcome == HFI_MAYBE && hold)
        redlock_renewal_late(hold, hold->entry.claim->ttl_ms);
    if (!wait || wait->state != HFI_WAITER_CONFIRMING)
        return;
    if (outcome == HFI_ANSWERED && answer && (uint64_t)answer->integer == hold->top) {
        round->yes++;
        wait->claim->others_wait = redlock_others_wait(round->store, hold, node, list != NULL);
    } else if (outcome == HFI_ANSWERED) {
        round->no++;
    }
    switch (hfi_tally(store->n, round->yes, round->no, redlock_count(round->open))) {
    case HFI_TALLY_OPEN:
        return;
    case HFI_TALLY_YES:
        wait->claim->granted_ttl_ms = wait->claim->ttl_ms;
        wait->claim->sent_ms = round->sent_ms;
        redlock_wait_end(store, wait, HF_OK, NULL);
        return;
    default:
        redlock_unconfirmed(store, wait);
    }
}

void redlock_unconfirmed(struct redlock_store *store, struct redlock_wait *wait)
{
    if (wait->stop != HF_OK)
        redlock_end_refused(store, wait, wait->stop);
    else
        redlock_rest(store, wait, REDLOCK_TRY_MS);
}

static void confirm(struct redlock_store *store, struct redlock_wait *wait)
{
    struct redlock_round *round = redlock_renewal_round(store, 1, confirmed);
    const struct hfi_claim *claim = wait->claim;

    if (!round) {
        redlock_rest(store, wait, REDLOCK_TRY_MS);
        return;
    }
    wait->state = HFI_WAITER_CONFIRMING;
    wait->due_ms = hfi_now_ms() + CONFIRM_MS;
    redlock_hasten(store, wait->due_ms);
    memcpy(round->owner, claim->owner, HFI_OWNER_LEN);
    round->attempt = wait->hold->attempt;
    store->wire->add_key(round, &claim->name);
    store->wire->add_renewal(round, claim, claim->ttl_ms, 0);
    redlock_round_send(round, wait->hold->sent);
}

/* ---- write-back -------------------------------------------------------------------------------------- */

static void wrote(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    struct redlock_wait *wait = redlock_wait_find(store, round->owner, round->attempt);
    const struct hfi_reply *counter = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    char letter = outcome == HFI_ANSWERED ? hfi_reply_letter(reply) : 0;
    const struct redlock_hold *hold;

    if (!wait) {
        if (letter == 'G' && counter && (hold = redlock_hold_find(store, round->owner)))
            redlock_late_grant(store, round->owner, round->attempt, node,
                               (uint64_t)counter->integer, hold->choice);
        return;
    }
    if (letter == 'G' && counter && counter->integer > 0) {
        hfi_ballot_wrote(&wait->ballot, node, (uint64_t)counter->integer);
    } else if (letter == 'N') {
        hfi_ballot_wrote(&wait->ballot, node, 0);
    } else {
        if (letter == 'E' || letter == 'U') {
            wait->moved = true;
            redlock_no_vote(&store->nodes[node]);
        }
        if (err)
            wait->err = *err;
        hfi_ballot_voted(&wait->ballot, node,
                         outcome == HFI_MAYBE ? HFI_VOTE_SILENT : HFI_VOTE_OTHER);
    }
    if (!round->sending)
        redlock_step(store, wait);
}

/* false: out of memory. */
static bool send_token(struct redlock_store *store, struct redlock_wait *wait, uint64_t token,
                       uint32_t nodes)
{
    const struct hfi_claim *claim = wait->claim;
    struct redlock_round *round = redlock_round_new(store, &redlock_script_write, 2, wrote);

    if (!round)
        return false;
    memcpy(round->owner, claim->owner, HFI_OWNER_LEN);
    round->attempt = wait->hold->attempt;
    redlock_add_cluster(round);
    redlock_add_name(round, &claim->name);
    redlock_add_epoch(round, &wait->epoch);
    hfi_command_add(&round->command, claim->name.bytes, claim->name.len);
    redis_add_owner(&round->command, claim->owner);
    hfi_command_add_number(&round->command, (int64_t)round->attempt);
    hfi_command_add_number(&round->command, (int64_t)token);
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i)
            hfi_ballot_writing(&wait->ballot, i, token);
    redlock_round_send(round, nodes);
    return true;
}

/* A majority holds for us, with different counters: raise them to one. Nodes that were not up have
 * lost their vote; if that decides the attempt, the next answer or the time limit shows it. */
void redlock_write_back(struct redlock_store *store, struct redlock_wait *wait,
                        const struct hfi_ballot_outcome *out)
{
    if (!send_token(store, wait, out->token, out->nodes))
        redlock_end_refused(store, wait, HF_NO_MEMORY);
}
