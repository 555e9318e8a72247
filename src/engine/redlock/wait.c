/* SPDX-License-Identifier: MIT */
/*
 * Waiting: a place in the queue of every node, kept by heartbeats; grants by message; yielding,
 * when several clients hold a part each; cancelling. With the lock.
 *
 * Every node serves its own queue, in the order of the waiters' stamps, so all nodes that know the
 * same waiters hand over to the same one: then a release is followed by a message from each node to
 * one winner, and no further command. If they differ, no client may have a majority. Then every
 * client that holds a part asks its nodes to hand over to an earlier waiter, if they have one: so
 * the earliest gets all of them. (scripts/README.md, "Yielding".)
 *
 * A message may be about a grant that has ended: a node may have granted to us, passed us over when
 * the window ended, and queued us again for a late copy of our acquire. The rule holds for each
 * node separately: the answer "queued" contains the counter of the name there, every grant before
 * that answer has at most that counter, and a message counts only above it (`known`). Between an
 * acquire that is sent again and its answer no message counts. The simulation has the mutant that
 * leaves this out (RL_STALE_MESSAGE in test/sim).
 */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_MS   250 /* time limit of requests after the limit of an attempt has passed */
#define FLAG_YIELD 1
#define FLAG_BACK  2

#define HANDOVER_MS 5 /* between the first message of a hand-over and those of the other nodes */

/* Nodes may see the same waiters in different orders, since they bound stamps by their own clocks
 * and some learn of a waiter late: then every client that holds a part is the first at those nodes.
 * After this many yields, chance decides which client releases its part all the same. */
#define SPLITS_PATIENT 3
#define YIELD_MS \
    4 /* the first pause between yields; it doubles, up to the heartbeat
                          * interval */

/* A heartbeat for several waiters at one node. */
struct batch {
    size_t count;
    struct {
        unsigned char owner[HFI_OWNER_LEN];
        uint64_t attempt;
        bool yields;
    } items[];
};

static void beat_all(struct redlock_store *store, int64_t now_ms);
static void beaten(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err);

static int64_t beat_interval_ms(const struct redlock_store *store, const struct redlock_wait *wait)
{
    return hfi_heartbeat_ms(redlock_window_ms(store, wait->claim));
}

static void set_due(struct redlock_store *store, struct redlock_wait *wait, int64_t due_ms)
{
    wait->due_ms = due_ms;
    redlock_hasten(store, due_ms);
}

static void set_times(struct redlock_store *store, struct redlock_wait *wait, int64_t heartbeat_ms,
                      int64_t yield_ms)
{
    wait->heartbeat_ms = heartbeat_ms;
    wait->yield_ms = yield_ms;
    set_due(store, wait, heartbeat_ms < yield_ms ? heartbeat_ms : yield_ms);
}

/* Enter QUEUED, if it is not yet. */
static void enter_queued(struct redlock_store *store, struct redlock_wait *wait)
{
    if (wait->state == HFI_WAITER_QUEUED)
        return;
    wait->state = HFI_WAITER_QUEUED;
    if (wait->op)
        wait->op->ret_queued = true;
    set_times(store, wait, hfi_now_ms() + beat_interval_ms(store, wait), HFI_NEVER);
}

/* ---- standing in line --------------------------------------------------------------------- */

void redlock_queued(struct redlock_store *store, struct redlock_wait *wait)
{
    enter_queued(store, wait);
    wait->splits = 0;
    if (wait->yield_ms != HFI_NEVER)
        set_times(store, wait, wait->heartbeat_ms, HFI_NEVER);
}

void redlock_still_waiting(struct redlock_store *store, struct redlock_wait *wait, unsigned node,
                           const struct hfi_reply *reply, int64_t sent_ms)
{
    const struct hfi_reply *next = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *counter = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);
    const struct hfi_ballot_node *vote = &wait->ballot.node[node];
    uint64_t known = counter && counter->integer >= 0 ? (uint64_t)counter->integer : UINT64_MAX;

    wait->hold->full |= 1u << node;
    if (wait->heard_ms[node] < sent_ms)
        wait->heard_ms[node] = sent_ms;
    /* A newer message may have come before this answer: they use two connections. */
    if (vote->vote != HFI_VOTE_GRANTED || vote->granted <= known) {
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_QUEUED);
        wait->known[node] = known;
    }
    if (next && next->integer > 0 && next->integer < beat_interval_ms(store, wait)) {
        int64_t due_ms = hfi_now_ms() + next->integer + HFI_RECHECK_MS;

        enter_queued(store, wait); /* answers that are still under way find it QUEUED */
        if (due_ms < wait->heartbeat_ms)
            set_times(store, wait, due_ms, wait->yield_ms);
    }
}

/* ---- a part, and not the whole --------------------------------------------------------------- */

/* `back`: even if no earlier waiter is there. */
static void yield(struct redlock_store *store, struct redlock_wait *wait, uint32_t nodes, bool back)
{
    struct redlock_round *round =
        redlock_round_new(store, &redlock_script_beat, 1 + REDLOCK_NAME_KEYS, beaten);
    struct batch *batch = hfi_malloc(sizeof *batch + sizeof *batch->items);

    if (!round || !batch) {
        if (round)
            redlock_round_free(round);
        hfi_free(batch);
        return; /* the next time */
    }
    batch->count = 1;
    memcpy(batch->items[0].owner, wait->claim->owner, HFI_OWNER_LEN);
    batch->items[0].attempt = wait->hold->attempt;
    batch->items[0].yields = true;
    round->data = batch;
    redlock_add_cluster(round);
    redlock_add_name_keys(round, &wait->claim->name);
    redlock_add_epoch(round, &wait->epoch);
    hfi_command_add_number(&round->command, (int64_t)redlock_proposal(store));
    hfi_command_add(&round->command, wait->claim->name.bytes, wait->claim->name.len);
    redis_add_owner(&round->command, wait->claim->owner);
    hfi_command_add_number(&round->command, (int64_t)wait->hold->attempt);
    hfi_command_add_number(&round->command, redlock_window_ms(round->store, wait->claim));
    hfi_command_add_number(&round->command, back ? FLAG_YIELD | FLAG_BACK : FLAG_YIELD);
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i) {
            const struct hfi_ballot_node *vote = &wait->ballot.node[i];

            /* It does not count for us until the node has answered whether it still holds. */
            wait->known[i] = vote->written > vote->granted ? vote->written : vote->granted;
            hfi_ballot_asked(&wait->ballot, i);
        }
    redlock_round_send(round, nodes);
}

/* At once the first time, since the other clients that hold a part notice it now too; then at
 * growing intervals: most likely there is a holder, and we have a part that it does not need. */
void redlock_split(struct redlock_store *store, struct redlock_wait *wait, uint32_t nodes)
{
    int64_t most_ms = beat_interval_ms(store, wait), pause_ms = YIELD_MS;

    /* A majority, but with different slots: yielding by others would not help. Only chance resolves
     * this. */
    if (redlock_count(nodes) >= store->need) {
        redlock_rest(store, wait, (int64_t)YIELD_MS << (wait->tries < 6 ? wait->tries : 6));
        return;
    }
    enter_queued(store, wait);
    if (wait->splits == 0) {
        if (wait->yield_ms != HFI_NEVER)
            return; /* it is being handed to us: messages of other nodes are on their way */
        wait->splits = 1;
        yield(store, wait, nodes, false);
        return;
    }
    for (unsigned i = 1; i < wait->splits && pause_ms < most_ms; i++)
        pause_ms *= 2;
    pause_ms = pause_ms > most_ms ? most_ms : pause_ms;
    pause_ms = hfi_now_ms() + pause_ms / 2 + (int64_t)(hfi_random_u64() % (uint64_t)pause_ms);
    if (wait->yield_ms == HFI_NEVER)
        set_times(store, wait, wait->heartbeat_ms, pause_ms);
}

/* ---- heartbeats -------------------------------------------------------------------------------- */

/* In the order of README: for each name, owner, attempt, window, flags. */
static void add_beat(struct redlock_round *round, const struct redlock_wait *wait)
{
    hfi_command_add(&round->command, wait->claim->name.bytes, wait->claim->name.len);
    redis_add_owner(&round->command, wait->claim->owner);
    hfi_command_add_number(&round->command, (int64_t)wait->hold->attempt);
    hfi_command_add_number(&round->command, redlock_window_ms(round->store, wait->claim));
    hfi_command_add_number(&round->command, 0); /* flags */
}

static void send_batch(struct redlock_store *store, unsigned node,
                       struct redlock_wait *const waits[], size_t count)
{
    struct redlock_round *round = redlock_round_new(
        store, &redlock_script_beat, (uint32_t)(1 + REDLOCK_NAME_KEYS * count), beaten);
    struct batch *batch = hfi_malloc(sizeof *batch + count * sizeof *batch->items);

    if (!round || !batch) {
        if (round)
            redlock_round_free(round);
        hfi_free(batch);
        return; /* the next heartbeat */
    }
    batch->count = count;
    round->data = batch;
    redlock_add_cluster(round);
    for (size_t i = 0; i < count; i++)
        redlock_add_name_keys(round, &waits[i]->claim->name);
    redlock_add_epoch(round, &waits[0]->epoch);
    hfi_command_add_number(&round->command, (int64_t)redlock_proposal(store));
    for (size_t i = 0; i < count; i++) {
        memcpy(batch->items[i].owner, waits[i]->claim->owner, HFI_OWNER_LEN);
        batch->items[i].attempt = waits[i]->hold->attempt;
        batch->items[i].yields = false;
        add_beat(round, waits[i]);
    }
    redlock_round_send(round, 1u << node);
}

static bool in_line(const struct redlock_wait *wait, unsigned node)
{
    enum hfi_vote vote = wait->ballot.node[node].vote;

    return vote == HFI_VOTE_QUEUED || vote == HFI_VOTE_GRANTED;
}

/* One command for each node, with all waits whose heartbeat is due; nodes that do not know a waiter
 * (they were away, or forgot it) get its acquire again. */
static void beat_all(struct redlock_store *store, int64_t now_ms)
{
    uint32_t voting = redlock_nodes_voting(store, now_ms);
    struct redlock_wait *some[REDLOCK_BATCH];

    for (unsigned node = 0; node < store->n; node++) {
        size_t count = 0;

        if (!(voting & 1u << node))
            continue;
        hfi_list_each (struct redlock_wait, wait, &store->waits, listed) {
            if (wait->state != HFI_WAITER_QUEUED || wait->heartbeat_ms > now_ms ||
                !in_line(wait, node) || hfi_epoch_compare(&wait->epoch, &store->epoch) != 0)
                continue;
            some[count++] = wait;
            if (count == REDLOCK_BATCH) {
                send_batch(store, node, some, count);
                count = 0;
            }
        }
        if (count)
            send_batch(store, node, some, count);
    }
    hfi_list_each (struct redlock_wait, wait, &store->waits, listed) {
        uint32_t unknown = 0;

        if (wait->state != HFI_WAITER_QUEUED || wait->heartbeat_ms > now_ms)
            continue;
        set_times(store, wait, now_ms + beat_interval_ms(store, wait), wait->yield_ms);
        for (unsigned node = 0; node < store->n; node++)
            if (!in_line(wait, node) && wait->ballot.node[node].vote != HFI_VOTE_ASKED &&
                !redlock_node_silent(&store->nodes[node], now_ms))
                unknown |= 1u << node;
        redlock_ask(store, wait, unknown & voting);
    }
}

static void beat_answer(struct redlock_store *store, struct redlock_wait *wait, unsigned node,
                        bool yields, const struct hfi_reply *reply, int64_t sent_ms)
{
    switch (hfi_reply_letter(reply)) {
    case 'Q':
        redlock_still_waiting(store, wait, node, reply, sent_ms);
        break;
    case 'G':
        if (wait->ballot.node[node].vote == HFI_VOTE_GRANTED || yields ||
            wait->ballot.node[node].vote == HFI_VOTE_QUEUED)
            (void)redlock_take_grant(wait, node, reply, sent_ms);
        break;
    default: /* it does not know us (any more): ask again */
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_NONE);
        redlock_ask(store, wait, 1u << node);
    }
}

static void beaten(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    struct batch *batch = round->data;
    char letter = outcome == HFI_ANSWERED ? hfi_reply_letter(reply) : 0;

    (void)err; /* refused, perhaps because of one name: each wait is sent again by itself */
    if (letter == 'E' || letter == 'U')
        redlock_no_vote(&store->nodes[node]);
    for (size_t i = 0; i < batch->count; i++) {
        struct redlock_wait *wait =
            redlock_wait_find(store, batch->items[i].owner, batch->items[i].attempt);
        const struct hfi_reply *one =
            outcome == HFI_ANSWERED && !letter ? hfi_reply_at(reply, i, HFI_REPLY_LIST) : NULL;

        if (!wait)
            continue;
        /* The yield may still be executed, and take back a later grant there: this attempt cannot
         * be used any more. */
        if (batch->items[i].yields && outcome == HFI_MAYBE) {
            redlock_rest(store, wait, YIELD_MS);
            continue;
        }
        if (one)
            beat_answer(store, wait, node, batch->items[i].yields, one, round->sent_ms);
        else
            hfi_ballot_voted(&wait->ballot, node,
                             letter                  ? HFI_VOTE_OTHER
                             : outcome == HFI_UNSENT ? HFI_VOTE_NONE
                                                     : HFI_VOTE_SILENT);
        if (!round->sending)
            redlock_step(store, wait);
    }
    if (!round->open) {
        hfi_free(batch);
        round->data = NULL;
    }
}

/* ---- messages ------------------------------------------------------------------------------------- */

static void granted_by_message(struct redlock_node *node, const struct redis_message *message)
{
    struct redlock_store *store = node->store;
    uint64_t attempt = message->numbers[0], counter = message->numbers[1];
    uint64_t tokens = message->numbers[2], window_ms = message->numbers[3];
    uint64_t choice = redlock_choice(message->rest, message->rest_len);
    struct redlock_wait *wait = redlock_wait_find(store, message->owner, attempt);

    if (counter == 0 || counter > HFI_TOKEN_LIMIT || tokens == 0 || window_ms == 0 ||
        window_ms > HF_DURATION_MAX_MS)
        return;
    if (!wait) {
        redlock_late_grant(store, message->owner, attempt, node->index, counter, choice);
        return;
    }
    if (tokens != wait->claim->tokens_wanted || counter < tokens)
        return;
    switch (hfi_message_judge(wait->state, wait->heard_ms[node->index], wait->known[node->index],
                              counter, (int64_t)window_ms, hfi_now_ms())) {
    case HFI_MESSAGE_IGNORE:
        return;
    case HFI_MESSAGE_RECHECK:
        set_times(store, wait, hfi_now_ms(), wait->yield_ms);
        return;
    case HFI_MESSAGE_GRANT:
        break;
    }
    if (!redlock_note_slots(wait, node->index, message->rest, message->rest_len))
        return;
    wait->hold->full |= 1u << node->index;
    /* A hand-over comes in one message for each node. The first ones are not yet a majority, and to yield them would cost a
     * round trip, and the votes until it is over. */
    if (wait->state == HFI_WAITER_QUEUED && wait->splits == 0 && wait->yield_ms == HFI_NEVER)
        set_times(store, wait, wait->heartbeat_ms, hfi_now_ms() + HANDOVER_MS);
    hfi_ballot_granted(&wait->ballot, node->index, counter, choice, wait->heard_ms[node->index],
                       (int64_t)window_ms);
    redlock_step(store, wait);
}

static void broken_by_message(struct redlock_node *node, const unsigned char *owner,
                              uint64_t attempt)
{
    struct redlock_store *store = node->store;
    struct redlock_hold *hold = redlock_hold_find(store, owner);

    if (!hold || hold->wait || hold->attempt != attempt)
        return;
    hold->broken |= 1u << node->index;
    if (redlock_count(hold->broken) == store->n - store->need + 1)
        hfi_reactor_lost(&store->reactor, hold->entry.claim, "broken by an operator");
}

/* "G owner attempt counter tokens window slots", "L owner attempt counter". Any client may publish
 * there: other messages are ignored. */
void redlock_message(struct redlock_node *node, const char *payload, size_t len)
{
    struct redis_message message;

    if (!redis_message_read(payload, len, &message))
        return;
    if (message.letter == 'G' && message.count == 4)
        granted_by_message(node, &message);
    else if (message.letter == 'L' && message.count >= 2)
        broken_by_message(node, message.owner, message.numbers[0]);
    else if (message.letter == 'W' || message.letter == 'A')
        redlock_wanted_message(node, &message);
}

void redlock_waits_hurry(struct redlock_store *store)
{
    hfi_list_each (struct redlock_wait, wait, &store->waits, listed)
        if (wait->state == HFI_WAITER_QUEUED)
            set_times(store, wait, hfi_now_ms(), wait->yield_ms);
}

/* All replies of the old epoch are void: begin a new attempt. */
void redlock_waits_restart(struct redlock_store *store)
{
    if (!store->has_epoch || store->closing)
        return;
    hfi_list_each (struct redlock_wait, wait, &store->waits, listed) {
        if (wait->state == HFI_WAITER_RESTING)
            set_due(store, wait, hfi_now_ms());
        else if ((wait->state == HFI_WAITER_ASKING || wait->state == HFI_WAITER_QUEUED) &&
                 hfi_epoch_compare(&wait->epoch, &store->epoch) != 0)
            redlock_begin(store, wait);
    }
}

/* ---- giving up --------------------------------------------------------------------------------------- */

/* Are the nodes that may still have a record too few for a majority? */
static bool forgotten(const struct redlock_store *store, const struct redlock_wait *wait)
{
    return redlock_count(wait->hold->sent & ~wait->forgot) <= store->n - store->need;
}

/* Otherwise a majority may have granted it, and nobody could use that: core releases it in the
 * background. */
static void end_cancelled(struct redlock_store *store, struct redlock_wait *wait)
{
    hf_error err;

    if (forgotten(store, wait)) {
        redlock_wait_end(store, wait, wait->stop, NULL);
        return;
    }
    hfi_error_set(&err, HF_UNKNOWN, 0, "too few nodes have confirmed that they forgot it");
    redlock_wait_end(store, wait, HF_UNKNOWN, &err);
}

static void cancelled(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    struct redlock_hold *hold = redlock_hold_find(store, round->owner);
    struct redlock_wait *wait = hold && hold->attempt == round->attempt ? hold->wait : NULL;

    (void)reply;
    (void)err;
    if (outcome != HFI_ANSWERED)
        redlock_owe_release(round, node);
    if (!wait || wait->state != HFI_WAITER_CANCELLING)
        return;
    if (outcome == HFI_ANSWERED)
        wait->forgot |= 1u << node;
    if (!round->sending && (!round->open || forgotten(store, wait)))
        end_cancelled(store, wait);
}

/*
 * A cancelled acquire holds nothing, whatever the nodes say: a majority counts only when it is seen
 * here, and from now on it is ignored. But only when a majority has forgotten it is it certain that
 * it does not block the next client; if that is not confirmed in time, the outcome is unknown.
 */
void redlock_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct redlock_store *store = self;
    struct redlock_wait *wait = op->kind == HFI_OP_ACQUIRE ? redlock_op(op)->wait : NULL;
    struct redlock_round *round;
    uint32_t sent;

    if (!wait || wait->stop != HF_OK)
        return;
    wait->stop = status;
    if (wait->state == HFI_WAITER_CONFIRMING)
        return; /* it was granted first */
    sent = wait->hold->sent;
    round = sent && wait->state != HFI_WAITER_RESTING
                ? redlock_release_round(store, &wait->claim->name, wait->claim->owner,
                                        wait->hold->attempt, wait->claim->ttl_ms,
                                        (wait->hold->unsure & sent) != 0, cancelled)
                : NULL;
    wait->state = HFI_WAITER_CANCELLING;
    if (!round) {
        end_cancelled(store, wait);
        return;
    }
    set_due(store, wait, hfi_now_ms() + REDLOCK_CANCEL_MS);
    redlock_round_send(round, sent);
    if (!(sent & redlock_nodes_up(store)))
        end_cancelled(store, wait);
}

/* ---- time ------------------------------------------------------------------------------------------------ */

/* Nodes that have not answered in time have no vote in this attempt. A write-back after that has a
 * time limit too. */
static void too_late(struct redlock_store *store, struct redlock_wait *wait, int64_t now_ms)
{
    for (unsigned i = 0; i < store->n; i++)
        if (wait->ballot.node[i].vote == HFI_VOTE_ASKED || wait->ballot.node[i].asked)
            hfi_ballot_voted(&wait->ballot, i, HFI_VOTE_SILENT);
    set_due(store, wait, now_ms + AGAIN_MS);
    redlock_step(store, wait);
}

static void tick_one(struct redlock_store *store, struct redlock_wait *wait, int64_t now_ms)
{
    struct hfi_ballot_outcome out;

    switch (wait->state) {
    case HFI_WAITER_ASKING:
        too_late(store, wait, now_ms);
        return;
    case HFI_WAITER_RESTING:
        redlock_begin(store, wait);
        return;
    case HFI_WAITER_CANCELLING:
        end_cancelled(store, wait);
        return;
    case HFI_WAITER_QUEUED:
        if (wait->yield_ms > now_ms)
            return;
        set_times(store, wait, wait->heartbeat_ms, HFI_NEVER);
        out = hfi_ballot_decide(&wait->ballot, true);
        if (out.verdict == HFI_BALLOT_SPLIT) {
            wait->splits++;
            yield(store, wait, out.nodes,
                  wait->splits > SPLITS_PATIENT && hfi_random_u64() % 2 == 0);
        }
        return;
    case HFI_WAITER_CONFIRMING:
        redlock_unconfirmed(store, wait);
        return;
    }
}

void redlock_waits_tick(struct redlock_store *store, int64_t now_ms)
{
    bool beats = false;

    hfi_list_each (struct redlock_wait, wait, &store->waits, listed) {
        if (wait->due_ms > now_ms)
            continue;
        beats = beats || wait->state == HFI_WAITER_QUEUED;
        tick_one(store, wait, now_ms);
    }
    if (beats)
        beat_all(store, now_ms);
    hfi_source_at(&store->waits_timer, HFI_NEVER);
    hfi_list_each (struct redlock_wait, wait, &store->waits, listed)
        redlock_hasten(store, wait->due_ms);
}
