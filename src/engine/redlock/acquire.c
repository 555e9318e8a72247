/* SPDX-License-Identifier: MIT */
/*
 * An acquisition: ask all nodes at once, decide by what they say (quorum.h), write back where
 * a majority holds but with different counters, win, or give back everywhere. wait.c has the
 * waiting. With the lock.
 *
 * An attempt means one ballot in one epoch. Whatever starts over (a refused try, a new epoch, a grant
 * that lapsed) is a new attempt of the same owner, and nodes treat it as they would a new owner.
 */
#include "engine/redlock/rl.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/random.h"

#include <string.h>

#define FLAG_WAIT     1
#define FLAG_BARGE    2
#define FLAG_DETACHED 4

#define LIMIT_MIN_MS 250 /* how long an attempt waits for answers: a tenth of the ttl, but ... */
#define LIMIT_MAX_MS 2000
#define TRIES_MAX    4 /* a try without waiting that met others half way is made again so often */
#define TRY_MS       4 /* ... after about so long, and twice that, ... */
#define CONFIRM_MS   2000 /* a confirmation that takes longer is none */
#define FEW_MS       150  /* too few nodes: about so long until a waiter looks again */

static void asked(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err);
static void voted(struct hfi_conn *conn, struct rl_wait *wait, struct rl_round *round,
                  unsigned node, const struct hfi_reply *reply);
static void win(struct hfi_conn *conn, struct rl_wait *wait, const struct hfi_outcome *out);
static void confirm(struct hfi_conn *conn, struct rl_wait *wait);
static void write_back(struct hfi_conn *conn, struct rl_wait *wait, const struct hfi_outcome *out);
static bool send_token(struct hfi_conn *conn, struct rl_wait *wait, uint64_t token, uint32_t nodes);
static void lose(struct hfi_conn *conn, struct rl_wait *wait, const struct hfi_outcome *out);

int64_t hfi_rl_window_ms(const struct hfi_conn *conn, const struct hfi_claim *claim)
{
    int64_t most_ms = conn->max_ttl_ms - claim->lock_delay_ms, window_ms = claim->ttl_ms;

    window_ms = window_ms < RL_WINDOW_MIN_MS ? RL_WINDOW_MIN_MS : window_ms;
    window_ms = window_ms > RL_WINDOW_MAX_MS ? RL_WINDOW_MAX_MS : window_ms;
    return window_ms > most_ms ? most_ms : window_ms; /* no grant outlives what heal waits for */
}

uint64_t hfi_rl_choice(const char *slots, size_t len)
{
    uint64_t hash[2];

    if (len == 0)
        return 0;
    hfi_hash128(slots, len, hash);
    return hash[0] ? hash[0] : 1;
}

/* ---- beginning and ending ---------------------------------------------------------------- */

/* What no node would grant. */
static hf_status refusal(const struct hfi_conn *conn, const struct hfi_claim *claim, hf_error *err)
{
    if (claim->mode == HFI_MODE_SEMAPHORE && claim->permits > RL_SLOTS_MAX)
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "permits: one lease on redlock has at most %d",
                             RL_SLOTS_MAX);
    if (claim->ttl_ms + claim->lock_delay_ms > conn->max_ttl_ms)
        return hfi_error_set(
            err, HF_INVALID, 0,
            "ttl_ms: with lock_delay_ms at most %lld here (max_ttl of this cluster)",
            (long long)conn->max_ttl_ms);
    return HF_OK;
}

void hfi_rl_acquire(struct hfi_conn *conn, struct hfi_op *op)
{
    struct hfi_claim *claim = op->claim;
    struct rl_wait *wait;
    struct rl_hold *hold;
    hf_error err;
    hf_status status = refusal(conn, claim, &err);

    if (status != HF_OK) {
        hfi_rl_finish(conn, op, status, &err);
        return;
    }
    wait = hfi_calloc(1, sizeof *wait);
    hold = wait ? hfi_rl_hold_new(conn, claim) : NULL;
    if (!hold) {
        hfi_free(wait);
        hfi_rl_finish(conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    wait->op = op;
    wait->claim = claim;
    wait->hold = hold;
    wait->due_ms = HFI_NEVER;
    wait->stamp = hfi_rl_proposal(conn);
    if (claim->mode == HFI_MODE_SEMAPHORE)
        wait->start = (uint32_t)(hfi_random_u64() % claim->capacity);
    hold->wait = wait;
    op->engine[RL_OP_WAIT] = wait;
    wait->next = conn->waits;
    if (conn->waits)
        conn->waits->prev = wait;
    conn->waits = wait;
    hfi_rl_begin(conn, wait);
}

void hfi_rl_wait_end(struct hfi_conn *conn, struct rl_wait *wait, hf_status status,
                     const hf_error *err)
{
    if (wait->next)
        wait->next->prev = wait->prev;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        conn->waits = wait->next;
    wait->hold->wait = NULL;
    if (status != HF_OK && status != HF_UNKNOWN) /* of an unknown one core sends a release */
        hfi_rl_hold_free(conn, wait->hold);
    hfi_rl_finish(conn, wait->op, status, err);
    hfi_free(wait);
}

void hfi_rl_rest(struct hfi_conn *conn, struct rl_wait *wait, int64_t pause_ms)
{
    hfi_rl_give_back(conn, wait->claim, wait->hold, wait->hold->sent);
    wait->tries++;
    if (wait->claim->mode == HFI_MODE_SEMAPHORE) /* others may be after the same slots */
        wait->start = (uint32_t)(hfi_random_u64() % wait->claim->capacity);
    wait->state = RL_WAIT_RESTING;
    wait->due_ms = hfi_now_ms() + 1 + (int64_t)(hfi_random_u64() % (uint64_t)(2 * pause_ms));
    hfi_rl_hasten(conn, wait->due_ms);
}

static void end_refused(struct hfi_conn *conn, struct rl_wait *wait, hf_status status)
{
    hf_error err = wait->err;

    hfi_rl_give_back(conn, wait->claim, wait->hold, wait->hold->sent);
    hfi_rl_wait_end(conn, wait, status, err.status == status ? &err : NULL);
}

/* ---- asking -------------------------------------------------------------------------------- */

void hfi_rl_begin(struct hfi_conn *conn, struct rl_wait *wait)
{
    int64_t now_ms = hfi_now_ms(), limit_ms = wait->claim->ttl_ms / 10;

    limit_ms = limit_ms < LIMIT_MIN_MS ? LIMIT_MIN_MS : limit_ms;
    limit_ms = limit_ms > LIMIT_MAX_MS ? LIMIT_MAX_MS : limit_ms;
    wait->hold->attempt++;
    wait->epoch = conn->epoch;
    wait->state = RL_WAIT_ASKING;
    wait->due_ms = now_ms + limit_ms;
    wait->moved = false;
    wait->splits = 0;
    wait->err.status = HF_OK;
    memset(wait->heard_ms, 0, sizeof wait->heard_ms);
    memset(wait->known, 0, sizeof wait->known);
    hfi_ballot_init(&wait->ballot, conn->n);
    hfi_rl_hasten(conn, wait->due_ms);
    hfi_rl_ask(conn, wait, hfi_rl_nodes_voting(conn, now_ms));
    hfi_rl_step(conn, wait);
}

static void add_request(struct rl_round *round, const struct rl_wait *wait)
{
    struct hfi_conn *conn = round->conn;
    const struct hfi_claim *claim = wait->claim;
    struct hfi_command *command = &round->command;

    uint64_t flags = (wait->op->may_wait ? FLAG_WAIT : 0) |
                     (claim->flags & HFI_CLAIM_BARGE ? FLAG_BARGE : 0) |
                     (claim->flags & HFI_CLAIM_DETACHED ? FLAG_DETACHED : 0);
    const uint64_t numbers[] = {
        round->attempt,
        (uint64_t)claim->mode,
        claim->capacity,
        claim->permits,
        flags,
        hfi_rl_proposal(conn),
        claim->tokens_wanted,
        (uint64_t)claim->ttl_ms,
        (uint64_t)claim->lock_delay_ms,
        (uint64_t)hfi_rl_window_ms(conn, claim),
        wait->stamp,
        wait->start,
    };
    unsigned char request[sizeof numbers];

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hfi_rl_put_number(request + 8 * i, numbers[i]);
    hfi_rl_add_cluster(round);
    hfi_rl_add_name(round, &claim->name);
    hfi_rl_add_epoch(round, &wait->epoch);
    hfi_command_add(command, claim->name.bytes, claim->name.len);
    hfi_rl_add_owner(round, claim->owner);
    hfi_command_add(command, request, sizeof request);
    hfi_command_add(command, conn->inbox_name, conn->inbox_len);
    hfi_command_add_text(command, claim->label ? claim->label : conn->pump.host->label);
}

/* An acquire that a node did not carry out for want of the script must not be sent again behind its
 * own release, which may have found its script there. */
static bool still_wanted(const struct rl_round *round)
{
    return hfi_rl_wait_find(round->conn, round->owner, round->attempt) != NULL;
}

void hfi_rl_ask(struct hfi_conn *conn, struct rl_wait *wait, uint32_t nodes)
{
    struct rl_round *round;

    nodes &= hfi_rl_nodes_up(conn);
    if (!nodes)
        return;
    round = hfi_rl_round_new(conn, &hfi_rl_script_acquire, 2, asked);
    if (!round) { /* no vote for want of memory, here */
        hfi_error_memory(&wait->err);
        return;
    }
    memcpy(round->owner, wait->claim->owner, HFI_OWNER_LEN);
    round->attempt = wait->hold->attempt;
    round->wanted = still_wanted;
    add_request(round, wait);
    wait->hold->sent |= nodes;
    for (unsigned i = 0; i < conn->n; i++)
        if (nodes & 1u << i) {
            hfi_ballot_asked(&wait->ballot, i);
            if (wait->heard_ms[i] == 0)
                wait->heard_ms[i] = hfi_now_ms();
            else /* a message of a grant that ended may be under way: first its answer */
                wait->known[i] = UINT64_MAX;
        }
    hfi_rl_round_send(round, nodes);
}

struct rl_wait *hfi_rl_wait_find(struct hfi_conn *conn, const unsigned char *owner,
                                 uint64_t attempt)
{
    struct rl_hold *hold = hfi_rl_hold_find(conn, owner);
    struct rl_wait *wait = hold && hold->attempt == attempt ? hold->wait : NULL;

    return wait && (wait->state == RL_WAIT_ASKING || wait->state == RL_WAIT_QUEUED) ? wait : NULL;
}

static void late_answer(struct rl_round *round, unsigned node, const struct hfi_reply *reply)
{
    const struct hfi_reply *counter = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *slots = hfi_reply_at(reply, 4, HFI_REPLY_TEXT);

    if (reply && reply->type == HFI_REPLY_INTEGER)
        hfi_rl_late_grant(round->conn, round->owner, round->attempt, node, (uint64_t)reply->integer,
                          0);
    else if (hfi_rl_letter(reply) == 'G' && counter && slots)
        hfi_rl_late_grant(round->conn, round->owner, round->attempt, node,
                          (uint64_t)counter->integer, hfi_rl_choice(slots->text, slots->len));
}

static void asked(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_conn *conn = round->conn;
    struct rl_wait *wait = hfi_rl_wait_find(conn, round->owner, round->attempt);
    struct rl_hold *hold;

    if (outcome == RL_MAYBE && (hold = hfi_rl_hold_find(conn, round->owner)))
        hold->unsure |= 1u << node;
    if (!wait) {
        late_answer(round, node, reply);
        return;
    }
    switch (outcome) {
    case RL_ANSWERED:
        voted(conn, wait, round, node, reply);
        break;
    case RL_REFUSED:
        wait->err = *err;
        hfi_ballot_voted(&wait->ballot, node,
                         err->status == HF_FULL ? HFI_VOTE_FULL : HFI_VOTE_OTHER);
        break;
    case RL_UNSENT:
        if (err->status == HF_NO_MEMORY)
            wait->err = *err;
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_NONE);
        break;
    case RL_MAYBE:
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_SILENT);
        break;
    }
    if (!round->sending)
        hfi_rl_step(conn, wait);
}

static void mismatch(const struct hfi_reply *reply, hf_error *ret_err)
{
    const struct hfi_reply *mode = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *capacity = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);

    if (mode && capacity && mode->integer == HFI_MODE_SEMAPHORE)
        hfi_error_set(ret_err, HF_MISMATCH, 0, "the name is in use as a semaphore of %lld",
                      (long long)capacity->integer);
    else
        hfi_error_set(ret_err, HF_MISMATCH, 0, "the name is in use as %s",
                      mode && mode->integer == HFI_MODE_RW ? "a read-write lock" : "a mutex");
}

/* What it is in now is for heal.c to find out, together with what the others are in. */
void hfi_rl_no_vote(struct rl_node *node)
{
    node->view.state = HFI_NODE_UNKNOWN;
    hfi_rl_heal_doubt(node->conn);
}

bool hfi_rl_take_grant(struct rl_wait *wait, unsigned node, const struct hfi_reply *reply,
                       int64_t sent_ms)
{
    const struct hfi_reply *counter = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *tokens = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);
    const struct hfi_reply *ms = hfi_reply_at(reply, 3, HFI_REPLY_INTEGER);
    const struct hfi_reply *slots = hfi_reply_at(reply, 4, HFI_REPLY_TEXT);

    if (!counter || !tokens || !ms || !slots || ms->integer <= 0 ||
        tokens->integer != wait->claim->tokens_wanted || counter->integer < tokens->integer)
        return false;
    hfi_ballot_granted(&wait->ballot, node, (uint64_t)counter->integer,
                       hfi_rl_choice(slots->text, slots->len), sent_ms, ms->integer);
    return true;
}

/* One node's answer. A later reason never hides that the kind is another one, or that we are refused. */
static void voted(struct hfi_conn *conn, struct rl_wait *wait, struct rl_round *round,
                  unsigned node, const struct hfi_reply *reply)
{
    enum hfi_vote vote = HFI_VOTE_OTHER;
    char letter = hfi_rl_letter(reply);

    if (reply->type == HFI_REPLY_INTEGER && reply->integer >= wait->claim->tokens_wanted) {
        hfi_ballot_granted(&wait->ballot, node, (uint64_t)reply->integer, 0, round->sent_ms,
                           wait->claim->ttl_ms);
        return;
    }
    switch (letter) {
    case 'G':
        if (hfi_rl_take_grant(wait, node, reply, round->sent_ms))
            return;
        break;
    case 'Q':
        hfi_rl_still_waiting(conn, wait, node, reply, round->sent_ms);
        return;
    case 'B':
        vote = HFI_VOTE_BUSY;
        break;
    case 'M':
        vote = HFI_VOTE_KIND;
        mismatch(reply, &wait->err);
        break;
    case 'F':
        vote = HFI_VOTE_FULL;
        hfi_error_set(&wait->err, HF_FULL, 0, "no token is left for this name");
        break;
    case 'E':
    case 'U':
        wait->moved = true;
        hfi_rl_no_vote(&conn->nodes[node]);
        break;
    case 'T':
        hfi_error_set(&wait->err, HF_INVALID, 0, "ttl_ms: longer than max_ttl of this cluster");
        break;
    case 'X': /* a tombstone of this attempt: somebody broke it, or it is a copy that came late */
        break;
    default:
        hfi_error_set(&wait->err, HF_CORRUPT, 0, "%s: an answer that none of our scripts gives",
                      hfi_link_address(conn->nodes[node].link)->shown);
        wait->hold->unsure |= 1u << node;
    }
    hfi_ballot_voted(&wait->ballot, node, vote);
}

/* ---- deciding ---------------------------------------------------------------------------------- */

void hfi_rl_step(struct hfi_conn *conn, struct rl_wait *wait)
{
    struct hfi_outcome out = hfi_ballot_decide(&wait->ballot, wait->op->may_wait);

    switch (out.verdict) {
    case HFI_BALLOT_OPEN:
        return;
    case HFI_BALLOT_WON:
        win(conn, wait, &out);
        return;
    case HFI_BALLOT_WRITE:
        write_back(conn, wait, &out);
        return;
    case HFI_BALLOT_WAITING:
        hfi_rl_queued(conn, wait);
        return;
    case HFI_BALLOT_SPLIT:
        hfi_rl_split(conn, wait, out.nodes);
        return;
    case HFI_BALLOT_BUSY:
    case HFI_BALLOT_KIND:
    case HFI_BALLOT_FULL:
    case HFI_BALLOT_FEW:
        lose(conn, wait, &out);
        return;
    }
}

/* A majority cannot be had in this attempt. */
static void lose(struct hfi_conn *conn, struct rl_wait *wait, const struct hfi_outcome *out)
{
    hf_status why = wait->err.status;

    if (out->verdict == HFI_BALLOT_KIND || out->verdict == HFI_BALLOT_FULL) {
        end_refused(conn, wait, out->verdict == HFI_BALLOT_KIND ? HF_MISMATCH : HF_FULL);
        return;
    }
    if (out->verdict == HFI_BALLOT_BUSY) {
        /* Granted at some: perhaps nobody has a majority, and all who tried at once refuse each other. */
        if (out->nodes && wait->tries < TRIES_MAX)
            hfi_rl_rest(conn, wait, TRY_MS << wait->tries);
        else
            end_refused(conn, wait, HF_BUSY);
        return;
    }
    if (why == HF_DENIED || why == HF_INVALID || why == HF_CONFIG || why == HF_VERSION) {
        end_refused(conn, wait, why);
        return;
    }
    if (wait->op->may_wait || (wait->moved && wait->tries < TRIES_MAX)) {
        hfi_rl_rest(conn, wait,
                    wait->moved ? TRY_MS << (wait->tries < 6 ? wait->tries : 6) : FEW_MS);
        return;
    }
    if (why == HF_NO_MEMORY) {
        end_refused(conn, wait, why);
        return;
    }
    if (why == HF_OK || why == HF_MISMATCH || why == HF_FULL) {
        if (!conn->has_epoch && conn->stuck.status != HF_OK)
            wait->err = conn->stuck;
        else
            hfi_error_set(&wait->err, HF_UNAVAILABLE, 0,
                          "too few nodes answer: %u of %u are connected, %u are needed",
                          (unsigned)__builtin_popcount(hfi_rl_nodes_up(conn)), conn->n, conn->need);
    }
    wait->err.status = HF_UNAVAILABLE;
    end_refused(conn, wait, HF_UNAVAILABLE);
}

/* ---- winning --------------------------------------------------------------------------------------- */

static void win(struct hfi_conn *conn, struct rl_wait *wait, const struct hfi_outcome *out)
{
    struct hfi_claim *claim = wait->claim;
    struct rl_hold *hold = wait->hold;
    int64_t left_ms = out->sent_ms + out->held_ms - hfi_now_ms();
    uint32_t behind = 0;

    claim->token = out->token - claim->tokens_wanted + 1;
    claim->tokens = claim->tokens_wanted;
    claim->granted_ttl_ms = out->held_ms;
    claim->sent_ms = out->sent_ms;
    hold->choice = out->choice;
    hold->top = out->token;
    hold->counts = out->nodes;
    hold->released = hold->broken = 0;
    if (out->wrong) {
        uint32_t sent = hold->sent;

        hfi_rl_give_back(conn, claim, hold, out->wrong);
        hold->sent = sent; /* its attempt is still ours */
    }
    /* Those that hold with another counter become witnesses too, if they can: so that more may be lost. */
    for (unsigned i = 0; i < conn->n; i++)
        if (wait->ballot.node[i].vote == HFI_VOTE_GRANTED &&
            wait->ballot.node[i].choice == out->choice && !(out->nodes & 1u << i))
            behind |= 1u << i;
    if (behind)
        (void)send_token(conn, wait, out->token, behind);
    /* Handed over for a window, or some time ago (this process was stopped): not enough for who asked? */
    if ((out->held_ms < claim->ttl_ms || left_ms < out->held_ms - out->held_ms / 8) &&
        (left_ms < out->held_ms / 2 || left_ms < 2 * claim->min_valid_ms))
        confirm(conn, wait);
    else
        hfi_rl_wait_end(conn, wait, HF_OK, NULL);
}

/* The slots decide which lock of a semaphore it is: other ones are not ours to keep. A grant with another
 * counter may have come after somebody else had won and gone: it holds, but proves nothing. */
void hfi_rl_late_grant(struct hfi_conn *conn, const unsigned char *owner, uint64_t attempt,
                       unsigned node, uint64_t counter, uint64_t choice)
{
    struct rl_hold *hold = hfi_rl_hold_find(conn, owner);
    uint32_t sent;

    if (!hold || hold->attempt != attempt ||
        (hold->wait && hold->wait->state != RL_WAIT_CONFIRMING) || !(hold->sent & 1u << node))
        return;
    if (hold->choice == choice) {
        if (hold->top == counter)
            hold->counts |= 1u << node;
        return;
    }
    sent = hold->sent;
    hfi_rl_give_back(conn, hold->claim, hold, 1u << node);
    hold->sent = sent;
}

static void confirmed(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_conn *conn = round->conn;
    struct rl_hold *hold = hfi_rl_hold_find(conn, round->owner);
    struct rl_wait *wait = hold && hold->attempt == round->attempt ? hold->wait : NULL;
    const struct hfi_reply *answer = hfi_reply_at(reply, 0, HFI_REPLY_INTEGER);

    (void)err;
    (void)node;
    if (outcome == RL_MAYBE && hold)
        hfi_rl_renewal_late(hold, hold->claim->ttl_ms);
    if (!wait || wait->state != RL_WAIT_CONFIRMING)
        return;
    if (outcome == RL_ANSWERED && answer && (uint64_t)answer->integer == hold->top)
        round->yes++;
    else if (outcome == RL_ANSWERED)
        round->no++;
    switch (hfi_tally(conn->n, round->yes, round->no, (unsigned)__builtin_popcount(round->open))) {
    case HFI_TALLY_OPEN:
        return;
    case HFI_TALLY_YES:
        wait->claim->granted_ttl_ms = wait->claim->ttl_ms;
        wait->claim->sent_ms = round->sent_ms;
        hfi_rl_wait_end(conn, wait, HF_OK, NULL);
        return;
    default:
        hfi_rl_unconfirmed(conn, wait);
    }
}

void hfi_rl_unconfirmed(struct hfi_conn *conn, struct rl_wait *wait)
{
    if (wait->stop != HF_OK)
        end_refused(conn, wait, wait->stop);
    else
        hfi_rl_rest(conn, wait, TRY_MS);
}

static void confirm(struct hfi_conn *conn, struct rl_wait *wait)
{
    struct rl_round *round = hfi_rl_round_new(conn, &hfi_rl_script_renew, 1, confirmed);
    const struct hfi_claim *claim = wait->claim;

    if (!round) {
        hfi_rl_rest(conn, wait, TRY_MS);
        return;
    }
    wait->state = RL_WAIT_CONFIRMING;
    wait->due_ms = hfi_now_ms() + CONFIRM_MS;
    hfi_rl_hasten(conn, wait->due_ms);
    memcpy(round->owner, claim->owner, HFI_OWNER_LEN);
    round->attempt = wait->hold->attempt;
    hfi_rl_add_name(round, &claim->name);
    hfi_rl_add_owner(round, claim->owner);
    hfi_command_add_number(&round->command, (int64_t)round->attempt);
    hfi_command_add_number(&round->command, claim->ttl_ms);
    hfi_rl_round_send(round, wait->hold->sent);
}

/* ---- write-back -------------------------------------------------------------------------------------- */

static void wrote(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_conn *conn = round->conn;
    struct rl_wait *wait = hfi_rl_wait_find(conn, round->owner, round->attempt);
    const struct hfi_reply *counter = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    char letter = outcome == RL_ANSWERED ? hfi_rl_letter(reply) : 0;
    const struct rl_hold *hold;

    if (!wait) {
        if (letter == 'G' && counter && (hold = hfi_rl_hold_find(conn, round->owner)))
            hfi_rl_late_grant(conn, round->owner, round->attempt, node, (uint64_t)counter->integer,
                              hold->choice);
        return;
    }
    if (letter == 'G' && counter && counter->integer > 0) {
        hfi_ballot_wrote(&wait->ballot, node, (uint64_t)counter->integer);
    } else if (letter == 'N') {
        hfi_ballot_wrote(&wait->ballot, node, 0);
    } else {
        if (letter == 'E' || letter == 'U') {
            wait->moved = true;
            hfi_rl_no_vote(&conn->nodes[node]);
        }
        if (err)
            wait->err = *err;
        hfi_ballot_voted(&wait->ballot, node,
                         outcome == RL_MAYBE ? HFI_VOTE_SILENT : HFI_VOTE_OTHER);
    }
    if (!round->sending)
        hfi_rl_step(conn, wait);
}

/* false: out of memory. */
static bool send_token(struct hfi_conn *conn, struct rl_wait *wait, uint64_t token, uint32_t nodes)
{
    const struct hfi_claim *claim = wait->claim;
    struct rl_round *round = hfi_rl_round_new(conn, &hfi_rl_script_write, 2, wrote);

    if (!round)
        return false;
    memcpy(round->owner, claim->owner, HFI_OWNER_LEN);
    round->attempt = wait->hold->attempt;
    hfi_rl_add_cluster(round);
    hfi_rl_add_name(round, &claim->name);
    hfi_rl_add_epoch(round, &wait->epoch);
    hfi_command_add(&round->command, claim->name.bytes, claim->name.len);
    hfi_rl_add_owner(round, claim->owner);
    hfi_command_add_number(&round->command, (int64_t)round->attempt);
    hfi_command_add_number(&round->command, (int64_t)token);
    for (unsigned i = 0; i < conn->n; i++)
        if (nodes & 1u << i)
            hfi_ballot_writing(&wait->ballot, i, token);
    hfi_rl_round_send(round, nodes);
    return true;
}

/* A majority holds for us, with different counters: raise them to one. Nodes that were not up are without a
 * vote by now; if that decides it, the next answer or the limit of this attempt says so. */
static void write_back(struct hfi_conn *conn, struct rl_wait *wait, const struct hfi_outcome *out)
{
    if (!send_token(conn, wait, out->token, out->nodes))
        end_refused(conn, wait, HF_NO_MEMORY);
}
