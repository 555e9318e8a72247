/* SPDX-License-Identifier: MIT */
/*
 * An acquisition: ask all nodes at once, decide by their votes (quorum.h), or release everywhere.
 * majority.c has what follows when a majority holds, wait.c the waiting. With the lock.
 *
 * An attempt is one ballot in one epoch. Everything that starts over (a refused try, a new epoch,
 * an expired grant) is a new attempt of the same owner, and nodes treat it like a new owner.
 */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/random.h"

#include <string.h>

#define FLAG_WATCHED  16 /* as the scripts have them */
#define FLAG_LINGERS  32
#define FLAG_NUMBERED 64
#define LIMIT_MIN_MS  250 /* how long an attempt waits for answers: a tenth of the ttl, but ... */
#define LIMIT_MAX_MS  2000
#define TRIES_MAX     4   /* attempts of a try that lost votes to other tries */
#define FEW_MS        150 /* too few nodes: the pause before a waiter tries again */

static void asked(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err);
static void lose(struct redlock_store *store, struct redlock_wait *wait,
                 const struct hfi_ballot_outcome *out);

int64_t redlock_window_ms(const struct redlock_store *store, const struct hfi_claim *claim)
{
    int64_t most_ms = store->max_ttl_ms - claim->lock_delay_ms; /* the time that healing waits */

    return hfi_window_ms(claim->ttl_ms, HFI_WINDOW_MIN_MS,
                         most_ms < HFI_WINDOW_MAX_MS ? most_ms : HFI_WINDOW_MAX_MS);
}

uint64_t redlock_choice(const char *slots, size_t len)
{
    uint64_t hash[2];

    if (len == 0)
        return 0;
    hfi_hash128(slots, len, hash);
    return hash[0] ? hash[0] : 1;
}

bool redlock_note_slots(struct redlock_wait *wait, unsigned node, const char *text, size_t len)
{
    return !(wait->claim->flags & HFI_CLAIM_NUMBERED) ||
           hfi_slots_read(text, len, wait->claim->permits, wait->slots[node]);
}

/* ---- beginning and ending ---------------------------------------------------------------- */

/* Requests that no node would grant. */
static hf_status refusal(const struct redlock_store *store, const struct hfi_claim *claim,
                         hf_error *err)
{
    if (claim->mode == HFI_MODE_SEMAPHORE && claim->permits > REDLOCK_SLOTS_MAX)
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "permits: one lease on redlock has at most %d",
                             REDLOCK_SLOTS_MAX);
    if (claim->ttl_ms + claim->lock_delay_ms > store->max_ttl_ms)
        return hfi_error_set(
            err, HF_INVALID, 0,
            "ttl_ms: with lock_delay_ms at most %lld here (max_ttl of this cluster)",
            (long long)store->max_ttl_ms);
    return HF_OK;
}

void redlock_acquire(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    struct hfi_claim *claim = op->claim;
    struct redlock_wait *wait;
    struct redlock_hold *hold;
    hf_error err;
    hf_status status = refusal(store, claim, &err);

    if (status != HF_OK) {
        hfi_reactor_finish(&store->reactor, op, status, &err);
        return;
    }
    wait = hfi_calloc(
        1, sizeof *wait + (claim->flags & HFI_CLAIM_NUMBERED ? store->n * sizeof *wait->slots : 0));
    hold = wait ? redlock_hold_new(store, claim) : NULL;
    if (!hold) {
        hfi_free(wait);
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    wait->op = op;
    wait->claim = claim;
    wait->hold = hold;
    wait->due_ms = HFI_NEVER;
    wait->stamp = redlock_proposal(store);
    /* Unused parts of token blocks make counters run ahead of the clock, and a cluster that is
     * started again by force continues from the clock (join.c). So only one token is asked for
     * until the clock has caught up: then every process exceeds the limit by one block at most. */
    if (store->last_token > wait->stamp + REDLOCK_AHEAD_US)
        claim->tokens_wanted = 1;
    if (claim->mode == HFI_MODE_SEMAPHORE)
        wait->start = (uint32_t)(hfi_random_u64() % claim->capacity);
    hold->wait = wait;
    redlock_op(op)->wait = wait;
    hfi_list_append(&store->waits, &wait->listed);
    redlock_begin(store, wait);
}

void redlock_wait_end(struct redlock_store *store, struct redlock_wait *wait, hf_status status,
                      const hf_error *err)
{
    hfi_list_remove(&wait->listed);
    wait->hold->wait = NULL;
    if (status != HF_OK && status != HF_UNKNOWN) /* core releases an unknown one */
        redlock_hold_free(store, wait->hold);
    redlock_op(wait->op)->wait = NULL;
    hfi_reactor_finish(&store->reactor, wait->op, status, err);
    hfi_free(wait);
}

void redlock_rest(struct redlock_store *store, struct redlock_wait *wait, int64_t pause_ms)
{
    redlock_give_back(store, wait->claim, wait->hold, wait->hold->sent);
    wait->tries++;
    if (wait->claim->mode == HFI_MODE_SEMAPHORE) /* others may want the same slots */
        wait->start = (uint32_t)(hfi_random_u64() % wait->claim->capacity);
    wait->state = HFI_WAITER_RESTING;
    wait->due_ms = hfi_now_ms() + 1 + (int64_t)(hfi_random_u64() % (uint64_t)(2 * pause_ms));
    redlock_hasten(store, wait->due_ms);
}

void redlock_end_refused(struct redlock_store *store, struct redlock_wait *wait, hf_status status)
{
    hf_error err = wait->err;

    redlock_give_back(store, wait->claim, wait->hold, wait->hold->sent);
    redlock_wait_end(store, wait, status, err.status == status ? &err : NULL);
}

/* ---- asking -------------------------------------------------------------------------------- */

void redlock_begin(struct redlock_store *store, struct redlock_wait *wait)
{
    int64_t now_ms = hfi_now_ms(), limit_ms = wait->claim->ttl_ms / 10;

    limit_ms = limit_ms < LIMIT_MIN_MS ? LIMIT_MIN_MS : limit_ms;
    limit_ms = limit_ms > LIMIT_MAX_MS ? LIMIT_MAX_MS : limit_ms;
    wait->hold->attempt++;
    wait->hold->wanted = 0;
    wait->hold->full =
        !store->wire->bare && redlock_may_be_alone(wait->claim) ? 0 : redlock_all(store);
    wait->epoch = store->epoch;
    wait->state = HFI_WAITER_ASKING;
    wait->due_ms = now_ms + limit_ms;
    wait->moved = wait->lingers = false;
    wait->splits = 0;
    wait->left_ms = 0;
    wait->err.status = HF_OK;
    memset(wait->heard_ms, 0, sizeof wait->heard_ms);
    memset(wait->known, 0, sizeof wait->known);
    hfi_ballot_init(&wait->ballot, store->n);
    redlock_hasten(store, wait->due_ms);
    redlock_ask(store, wait, redlock_nodes_voting(store, now_ms));
    redlock_step(store, wait);
}

static bool hears(const struct redlock_store *store, uint32_t nodes)
{
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i && !store->nodes[i].inbox_up)
            return false;
    return true;
}

static int64_t wish_flags(const struct hfi_claim *claim)
{
    return (claim->flags & HFI_CLAIM_WATCHED ? FLAG_WATCHED : 0) |
           (claim->flags & HFI_CLAIM_LINGERS ? FLAG_LINGERS : 0) |
           (claim->flags & HFI_CLAIM_NUMBERED ? FLAG_NUMBERED : 0);
}

/* Kinds other than a mutex without a lock delay, which is what most claims are: mode, capacity, permits, lock delay, start. */
static void add_kind(struct redlock_round *round, const struct redlock_wait *wait)
{
    const struct hfi_claim *claim = wait->claim;
    const uint64_t numbers[] = { (uint64_t)claim->mode, claim->capacity, claim->permits,
                                 (uint64_t)claim->lock_delay_ms, wait->start };
    unsigned char kind[sizeof numbers];

    if (redlock_may_be_alone(claim))
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        redlock_put_number(kind + 8 * i, numbers[i]);
    hfi_command_add(&round->command, kind, sizeof kind);
}

/* As scripts/README.md has it: one argument, which a node stores as it came. Each argument costs a node more than all bytes. */
static void add_request(struct redlock_round *round, const struct redlock_wait *wait,
                        uint32_t nodes)
{
    struct redlock_store *store = round->store;
    const struct hfi_claim *claim = wait->claim;
    const char *label = claim->label ? claim->label : store->reactor.host->label;
    size_t label_len = strnlen(label, HF_LABEL_MAX), inbox_len = store->inbox_name.len;
    const uint64_t numbers[] = { (uint64_t)claim->ttl_ms, (uint64_t)redlock_window_ms(store, claim),
                                 claim->tokens_wanted, redlock_proposal(store), wait->stamp };
    unsigned char field[1 + HF_NAME_MAX];
    unsigned char request[1 + REDLOCK_EPOCH_LEN + 2 * REDLOCK_LEASE_LEN + 1 + sizeof numbers + 1 +
                          sizeof store->inbox_name.text + HF_LABEL_MAX];
    unsigned char *to = request;

    *to++ = REDLOCK_VERSION;
    redlock_put_epoch(to, &wait->epoch);
    to += REDLOCK_EPOCH_LEN;
    redlock_put_lease(to, claim->owner, round->attempt);
    to += REDLOCK_LEASE_LEN;
    *to++ = (unsigned char)(redis_acquire_flags(wait->op, hears(store, nodes)) | wish_flags(claim));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++, to += 8)
        redlock_put_number(to, numbers[i]);
    to = mempcpy(to, redlock_last_lease(store, &claim->name), REDLOCK_LEASE_LEN);
    *to++ = (unsigned char)inbox_len;
    to = mempcpy(to, store->inbox_name.text, inbox_len);
    to = mempcpy(to, label, label_len);

    field[0] = 'n';
    memcpy(field + 1, claim->name.bytes, claim->name.len);
    redlock_add_cluster(round);
    redlock_add_name_keys(round, &claim->name);
    hfi_command_add(&round->command, field, 1 + claim->name.len);
    hfi_command_add(&round->command, request, (size_t)(to - request));
    add_kind(round, wait);
}

/* An acquire that a node did not execute, because it lacked the script, must not be sent again
 * after its own release, whose script may have been there. */
static bool still_wanted(const struct redlock_round *round)
{
    return redlock_wait_find(round->store, round->owner, round->attempt) != NULL;
}

void redlock_ask(struct redlock_store *store, struct redlock_wait *wait, uint32_t nodes)
{
    struct redlock_round *round;

    nodes &= redlock_nodes_up(store);
    if (!nodes)
        return;
    round = redlock_round_new(store, store->wire->acquire,
                              store->wire->keys + store->wire->name_keys, asked);
    if (!round) { /* out of memory: no vote */
        hfi_error_memory(&wait->err);
        return;
    }
    memcpy(round->owner, wait->claim->owner, HFI_OWNER_LEN);
    round->attempt = wait->hold->attempt;
    round->wanted = still_wanted;
    store->wire->add_ask(round, wait, nodes);
    wait->hold->sent |= nodes;
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i) {
            hfi_ballot_asked(&wait->ballot, i);
            if (wait->heard_ms[i] == 0)
                wait->heard_ms[i] = hfi_now_ms();
            else /* a message of an ended grant may be under way: wait for the answer */
                wait->known[i] = UINT64_MAX;
        }
    redlock_round_send(round, nodes);
}

struct redlock_wait *redlock_wait_find(struct redlock_store *store, const unsigned char *owner,
                                       uint64_t attempt)
{
    struct redlock_hold *hold = redlock_hold_find(store, owner);
    struct redlock_wait *wait = hold && hold->attempt == attempt ? hold->wait : NULL;

    return wait && (wait->state == HFI_WAITER_ASKING || wait->state == HFI_WAITER_QUEUED) ? wait
                                                                                          : NULL;
}

static void late_answer(struct redlock_round *round, unsigned node, const struct hfi_reply *reply)
{
    const struct hfi_reply *counter = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *slots = hfi_reply_at(reply, 4, HFI_REPLY_TEXT);

    if (reply->type == HFI_REPLY_INTEGER)
        redlock_late_grant(round->store, round->owner, round->attempt, node,
                           (uint64_t)reply->integer, 0);
    else if (hfi_reply_letter(reply) == 'G' && counter && slots)
        redlock_late_grant(round->store, round->owner, round->attempt, node,
                           (uint64_t)counter->integer, redlock_choice(slots->text, slots->len));
}

static void asked(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    struct redlock_wait *wait = redlock_wait_find(store, round->owner, round->attempt);
    struct redlock_hold *hold;

    if (outcome == HFI_MAYBE && (hold = redlock_hold_find(store, round->owner)))
        hold->unsure |= 1u << node;
    if (!wait) {
        if (outcome == HFI_ANSWERED)
            store->wire->voted_late(round, node, reply);
        return;
    }
    if ((outcome == HFI_UNSENT || outcome == HFI_MAYBE) && err->status == HF_NO_MEMORY)
        wait->err = *err;
    switch (outcome) {
    case HFI_ANSWERED:
        if (!store->wire->voted(store, wait, round, node, reply))
            return; /* it is asked again, and `wait` may have ended meanwhile */
        break;
    case HFI_REFUSED:
        wait->err = *err;
        hfi_ballot_voted(&wait->ballot, node,
                         err->status == HF_FULL ? HFI_VOTE_FULL : HFI_VOTE_OTHER);
        break;
    case HFI_UNSENT:
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_NONE);
        break;
    case HFI_MAYBE:
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_SILENT);
        break;
    }
    if (!round->sending)
        redlock_step(store, wait);
}

/* heal.c finds out in which epoch this node is, together with the others. */
void redlock_no_vote(struct redlock_node *node)
{
    node->view.state = HFI_NODE_UNKNOWN;
    redlock_heal_doubt(node->store);
}

bool redlock_take_grant(struct redlock_wait *wait, unsigned node, const struct hfi_reply *reply,
                        int64_t sent_ms)
{
    const struct hfi_reply *counter = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *tokens = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);
    const struct hfi_reply *ms = hfi_reply_at(reply, 3, HFI_REPLY_INTEGER);
    const struct hfi_reply *slots = hfi_reply_at(reply, 4, HFI_REPLY_TEXT);

    if (!counter || !tokens || !ms || !slots || ms->integer <= 0 ||
        tokens->integer != wait->claim->tokens_wanted || counter->integer < tokens->integer ||
        counter->integer >= (int64_t)HFI_TOKEN_LIMIT ||
        !redlock_note_slots(wait, node, slots->text, slots->len))
        return false;
    wait->hold->full |= 1u << node;
    hfi_ballot_granted(&wait->ballot, node, (uint64_t)counter->integer,
                       redlock_choice(slots->text, slots->len), sent_ms, hfi_told_ms(ms->integer));
    return true;
}

/* One node's answer. A later reason never replaces a mismatch or a refusal. */
static bool voted(struct redlock_store *store, struct redlock_wait *wait,
                  struct redlock_round *round, unsigned node, const struct hfi_reply *reply)
{
    enum hfi_vote vote = HFI_VOTE_OTHER;
    char letter = hfi_reply_letter(reply);

    if (reply->type == HFI_REPLY_INTEGER && reply->integer >= wait->claim->tokens_wanted &&
        reply->integer < (int64_t)HFI_TOKEN_LIMIT) {
        hfi_ballot_granted(&wait->ballot, node, (uint64_t)reply->integer, 0, round->sent_ms,
                           wait->claim->ttl_ms);
        return true;
    }
    switch (letter) {
    case 'G':
        if (redlock_take_grant(wait, node, reply, round->sent_ms))
            return true;
        break;
    case 'Q':
        redlock_still_waiting(store, wait, node, reply, round->sent_ms);
        return true;
    case 'B':
        vote = HFI_VOTE_BUSY;
        wait->lingers |= hfi_reply_int_at(reply, 2) > 0;
        break;
    case 'M':
        vote = HFI_VOTE_KIND;
        (void)hfi_mismatch_set(&wait->err, hfi_reply_int_at(reply, 1), hfi_reply_int_at(reply, 2));
        break;
    case 'F':
        vote = HFI_VOTE_FULL;
        hfi_error_set(&wait->err, HF_FULL, 0, "no token is left for this name");
        break;
    case 'E':
    case 'U':
        wait->moved = true;
        redlock_no_vote(&store->nodes[node]);
        break;
    case 'T':
        hfi_error_set(&wait->err, HF_INVALID, 0, "ttl_ms: longer than max_ttl of this cluster");
        break;
    case 'X': /* a tombstone of this attempt: it was broken, or this is a late copy */
        break;
    default:
        hfi_error_set(&wait->err, HF_CORRUPT, 0, "%s: an unexpected answer to a script",
                      hfi_link_address(store->nodes[node].link)->shown);
        wait->hold->unsure |= 1u << node;
    }
    hfi_ballot_voted(&wait->ballot, node, vote);
    return true;
}

/* ---- deciding ---------------------------------------------------------------------------------- */

void redlock_step(struct redlock_store *store, struct redlock_wait *wait)
{
    struct hfi_ballot_outcome out =
        hfi_ballot_decide(&wait->ballot, wait->op->may_wait && !store->wire->bare);

    switch (out.verdict) {
    case HFI_BALLOT_OPEN:
        return;
    case HFI_BALLOT_WON:
        redlock_win(store, wait, &out);
        return;
    case HFI_BALLOT_WRITE:
        redlock_write_back(store, wait, &out);
        return;
    case HFI_BALLOT_WAITING:
        redlock_queued(store, wait);
        return;
    case HFI_BALLOT_SPLIT:
        redlock_split(store, wait, out.nodes);
        return;
    case HFI_BALLOT_BUSY:
    case HFI_BALLOT_KIND:
    case HFI_BALLOT_FULL:
    case HFI_BALLOT_FEW:
        lose(store, wait, &out);
        return;
    }
}

static void refuse_busy(struct redlock_store *store, struct redlock_wait *wait)
{
    wait->op->ret_lingers = wait->lingers;
    redlock_end_refused(store, wait, HF_BUSY);
}

/* Nobody queues: give everything back, and try again after a while that chance chooses, or soon after the holder's keys have ended.
 * Sooner at first if it was granted at some nodes: then perhaps nobody has it, because several ask at once. */
static void try_later(struct redlock_store *store, struct redlock_wait *wait, bool split)
{
    int64_t soon_ms = (int64_t)REDLOCK_TRY_MS << (wait->tries < 6 ? wait->tries : 6);
    int64_t pause_ms = store->conf->poll_ms > 1 ? store->conf->poll_ms / 2 : 1, ended_ms;

    redlock_rest(store, wait, split && soon_ms < pause_ms ? soon_ms : pause_ms);
    ended_ms =
        hfi_now_ms() + wait->left_ms + (int64_t)(hfi_random_u64() % (uint64_t)(pause_ms + 1));
    if (wait->left_ms > 0 && ended_ms < wait->due_ms) {
        wait->due_ms = ended_ms;
        redlock_hasten(store, ended_ms);
    }
}

/* This attempt cannot win a majority. */
static void lose(struct redlock_store *store, struct redlock_wait *wait,
                 const struct hfi_ballot_outcome *out)
{
    hf_status why = wait->err.status;

    if (out->verdict == HFI_BALLOT_KIND || out->verdict == HFI_BALLOT_FULL) {
        redlock_end_refused(store, wait, out->verdict == HFI_BALLOT_KIND ? HF_MISMATCH : HF_FULL);
        return;
    }
    if (out->verdict == HFI_BALLOT_BUSY) {
        if (store->wire->bare && wait->op->may_wait)
            try_later(store, wait, out->nodes != 0);
        /* Granted at some nodes: perhaps several tries at once refuse each other, and none has a
         * majority. */
        else if (out->nodes && wait->tries < TRIES_MAX)
            redlock_rest(store, wait, REDLOCK_TRY_MS << wait->tries);
        else
            refuse_busy(store, wait);
        return;
    }
    if (why == HF_DENIED || why == HF_INVALID || why == HF_CONFIG || why == HF_VERSION) {
        redlock_end_refused(store, wait, why);
        return;
    }
    if (wait->op->may_wait || (wait->moved && wait->tries < TRIES_MAX)) {
        redlock_rest(store, wait,
                     wait->moved ? REDLOCK_TRY_MS << (wait->tries < 6 ? wait->tries : 6) : FEW_MS);
        return;
    }
    if (why == HF_NO_MEMORY) {
        redlock_end_refused(store, wait, why);
        return;
    }
    if (why == HF_OK || why == HF_MISMATCH || why == HF_FULL) {
        if (!store->has_epoch && store->stuck.status != HF_OK)
            wait->err = store->stuck;
        else
            hfi_error_set(&wait->err, HF_UNAVAILABLE, 0,
                          "too few nodes answer: %u of %u are connected, %u are needed",
                          redlock_count(redlock_nodes_up(store)), store->n, store->need);
    }
    wait->err.status = HF_UNAVAILABLE;
    redlock_end_refused(store, wait, HF_UNAVAILABLE);
}

/* ---- the native wire ------------------------------------------------------------------------ */

/* No cells: a majority cannot compare and swap without consensus. */
static const struct hfi_op_calls native_ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { redlock_acquire, redlock_cancel },
    [HFI_OP_RELEASE] = { redlock_release, NULL },
    [HFI_OP_RENEW] = { redlock_renew, NULL },
    [HFI_OP_ADOPT] = { redlock_adopt, NULL },
    [HFI_OP_LIST] = { redlock_list, NULL },
    [HFI_OP_LOOK] = { redlock_look, NULL },
    [HFI_OP_BREAK] = { redlock_break, NULL },
    [HFI_OP_ASK] = { redlock_ask_holder, NULL },
};

const struct redlock_wire redlock_native = {
    .ops = native_ops,
    .acquire = &redlock_script_acquire,
    .release = &redlock_script_release,
    .renew = &redlock_script_renew,
    .keys = 1,
    .name_keys = REDLOCK_NAME_KEYS,
    .add_key = redlock_add_name_keys,
    .add_ask = add_request,
    .voted = voted,
    .voted_late = late_answer,
    .add_release = redlock_add_release,
    .add_renewal = redlock_add_renewal,
    .up = redlock_heal_node_up,
    .down = redlock_heal_node_down,
};
