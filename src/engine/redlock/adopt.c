/* SPDX-License-Identifier: MIT */
/* Adopts a detached lease by its owner: it succeeds if a majority of the nodes agree on the lease.
 * With the lock. */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

/* The answers of the nodes about a lease that another process acquired. */
struct adoption {
    unsigned count;
    struct {
        uint64_t attempt, choice, counter;
        unsigned node;
        bool numbered;
        uint32_t slots[HF_SLOTS_MAX];
    } said[HFI_NODES_MAX];
    int64_t mode, capacity, permits, tokens, ttl_ms, delay_ms;
};

static void adoption_over(struct redlock_round *round)
{
    hfi_free(round->data);
}

static bool take_adoption(struct adoption *adoption, unsigned node, const struct hfi_reply *reply)
{
    static const int64_t most[8] = { HFI_MODE_SEMAPHORE,           UINT32_MAX,        UINT32_MAX,
                                     (int64_t)HFI_TOKEN_LIMIT - 1, UINT32_MAX,        INT64_MAX,
                                     HF_DURATION_MAX_MS,           HF_DURATION_MAX_MS };
    const struct hfi_reply *slots = hfi_reply_at(reply, 9, HFI_REPLY_TEXT);
    int64_t number[8];

    if (!slots || !hfi_reply_numbers(reply, 1, 8, most, number))
        return false;
    adoption->said[adoption->count].numbered = hfi_reply_int_at(reply, 10) > 0;
    if (adoption->said[adoption->count].numbered &&
        !hfi_slots_read(slots->text, slots->len, (uint32_t)number[2],
                        adoption->said[adoption->count].slots))
        return false;
    adoption->said[adoption->count].attempt = (uint64_t)number[5];
    adoption->said[adoption->count].choice = redlock_choice(slots->text, slots->len);
    adoption->said[adoption->count].counter = (uint64_t)number[3];
    adoption->said[adoption->count].node = node;
    adoption->count++;
    adoption->mode = number[0];
    adoption->capacity = number[1];
    adoption->permits = number[2];
    adoption->tokens = number[4];
    adoption->ttl_ms = number[6];
    adoption->delay_ms = number[7];
    return true;
}

/* The largest group that agrees on the attempt, the slots and the counter; its first member. */
static unsigned agree(const struct adoption *adoption, unsigned *ret_first)
{
    unsigned most = 0;

    for (unsigned i = 0; i < adoption->count; i++) {
        unsigned same = 0;

        for (unsigned k = 0; k < adoption->count; k++)
            same += adoption->said[k].attempt == adoption->said[i].attempt &&
                    adoption->said[k].choice == adoption->said[i].choice &&
                    adoption->said[k].counter == adoption->said[i].counter;
        if (same > most) {
            most = same;
            *ret_first = i;
        }
    }
    return most;
}

static hf_status adopt_it(struct redlock_round *round, const struct adoption *adoption,
                          unsigned first)
{
    struct redlock_store *store = round->store;
    struct hfi_claim *claim = round->op->claim;
    struct redlock_hold *hold = redlock_hold_new(store, claim);

    if (!hold)
        return HF_NO_MEMORY;
    hold->attempt = adoption->said[first].attempt;
    hold->choice = adoption->said[first].choice;
    hold->sent = hold->full = redlock_all(store);
    hold->top = adoption->said[first].counter;
    for (unsigned i = 0; i < adoption->count; i++)
        if (adoption->said[i].counter == hold->top && adoption->said[i].choice == hold->choice)
            hold->counts |= 1u << adoption->said[i].node;
    if (adoption->said[first].numbered) {
        claim->flags |= HFI_CLAIM_NUMBERED;
        memcpy(claim->slots, adoption->said[first].slots, sizeof claim->slots);
    }
    claim->mode = (enum hfi_mode)adoption->mode;
    claim->capacity = (uint32_t)adoption->capacity;
    claim->permits = (uint32_t)adoption->permits;
    claim->tokens = (uint32_t)adoption->tokens;
    claim->lock_delay_ms = adoption->delay_ms;
    claim->ttl_ms = adoption->ttl_ms;
    claim->granted_ttl_ms = adoption->ttl_ms;
    claim->sent_ms = round->sent_ms;
    return HF_OK;
}

static void decide_adoption(struct redlock_round *round)
{
    struct redlock_store *store = round->store;
    const struct adoption *adoption = round->data;
    struct hfi_op *op = round->op;
    unsigned first = 0;
    hf_status status;

    if (!op)
        return;
    switch (hfi_tally(store->n, agree(adoption, &first), round->no, redlock_count(round->open))) {
    case HFI_TALLY_OPEN:
        return;
    case HFI_TALLY_YES:
        status = adopt_it(round, adoption, first);
        break;
    case HFI_TALLY_NO:
        status = HF_NOT_FOUND;
        break;
    default:
        status = HF_UNAVAILABLE;
    }
    round->op = NULL;
    hfi_reactor_finish(&store->reactor, op, status, NULL);
}

static void adopted(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    char letter = outcome == HFI_ANSWERED ? hfi_reply_letter(reply) : 0;

    (void)err;
    if (letter == 'N')
        round->no++;
    else if (letter == 'A')
        (void)take_adoption(round->data, node, reply);
    if (!round->sending)
        decide_adoption(round);
}

void redlock_adopt(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    struct redlock_round *round;
    struct adoption *adoption;
    hf_error err;

    if (op->claim->ttl_ms > store->max_ttl_ms) { /* nodes would answer that there is no such
                                                  * lease */
        hfi_error_set(&err, HF_INVALID, 0, "ttl_ms: at most %lld here (max_ttl of this cluster)",
                      (long long)store->max_ttl_ms);
        hfi_reactor_finish(&store->reactor, op, HF_INVALID, &err);
        return;
    }
    round = redlock_round_new(store, &redlock_script_adopt, 2, adopted);
    adoption = hfi_calloc(1, sizeof *adoption);
    if (round) {
        redlock_add_cluster(round);
        redlock_add_name(round, &op->claim->name);
        hfi_command_add(&round->command, op->claim->name.bytes, op->claim->name.len);
        redis_add_owner(&round->command, op->claim->owner);
        hfi_command_add_number(&round->command, op->claim->ttl_ms);
    }
    if (!round || !adoption || round->command.failed) {
        if (round)
            redlock_round_free(round);
        hfi_free(adoption);
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    round->op = op;
    round->data = adoption;
    round->over = adoption_over;
    redlock_round_decide(round, redlock_all(store), decide_adoption);
}
