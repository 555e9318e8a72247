/* SPDX-License-Identifier: MIT */
/*
 * A claim after it was won: release and renewal. Each goes to all nodes and is
 * decided by a majority of them; a release that could not be sent to a node is deferred until it is
 * back. With the lock.
 */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <string.h>

static void describe_release(struct redlock_round *round, const struct hfi_name *name,
                             const unsigned char *owner, uint64_t attempt, int64_t ttl_ms);
static void released(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                     const struct hfi_reply *reply, const hf_error *err);

/* ---- release ------------------------------------------------------------------------------ */

struct redlock_round *redlock_release_round(struct redlock_store *store,
                                            const struct hfi_name *name, const unsigned char *owner,
                                            uint64_t attempt, int64_t ttl_ms, bool tombstone,
                                            redlock_answer_fn *answer)
{
    struct redlock_round *round = redlock_round_new(
        store, store->wire->release, store->wire->keys + store->wire->name_keys, answer);

    if (!round)
        return NULL;
    describe_release(round, name, owner, attempt, ttl_ms);
    store->wire->add_release(round, tombstone ? ttl_ms : 0);
    return round;
}

static void describe_release(struct redlock_round *round, const struct hfi_name *name,
                             const unsigned char *owner, uint64_t attempt, int64_t ttl_ms)
{
    memcpy(round->owner, owner, HFI_OWNER_LEN);
    round->attempt = attempt;
    round->ttl_ms = ttl_ms;
    memcpy(round->name, name->bytes, name->len);
    round->name_len = name->len;
}

void redlock_add_release(struct redlock_round *round, int64_t tombstone_ms)
{
    const struct hfi_name name = { .bytes = round->name, .len = round->name_len };

    redlock_add_cluster(round);
    redlock_add_name_keys(round, &name);
    hfi_command_add(&round->command, name.bytes, name.len);
    redis_add_owner(&round->command, round->owner);
    hfi_command_add_number(&round->command, (int64_t)round->attempt);
    hfi_command_add_number(&round->command, tombstone_ms);
    hfi_command_add_number(&round->command, (int64_t)redlock_proposal(round->store));
}

void redlock_owe_release(struct redlock_round *round, unsigned node)
{
    const struct hfi_name name = { .bytes = round->name, .len = round->name_len };

    if (!round->command.failed)
        redlock_defer_release(&round->store->nodes[node], &name, round->owner, round->attempt,
                              round->ttl_ms);
}

/*
 * A lease that is alone at every node is released without a script: HDEL of the field that is named by it (scripts/state.lua).
 * That costs a node a third of a script. 0 means that the lease is not alone there any more, because a waiter has come,
 * or that it has ended: then the node is sent the script.
 */
static struct redlock_round *plain_release_round(struct redlock_store *store,
                                                 const struct hfi_claim *claim, uint64_t attempt)
{
    struct redlock_round *round = redlock_round_new(store, NULL, 0, released);
    unsigned char lease[REDLOCK_LEASE_LEN];

    if (!round)
        return NULL;
    describe_release(round, &claim->name, claim->owner, attempt, claim->ttl_ms);
    round->plain = true;
    redlock_put_lease(lease, claim->owner, attempt);
    memcpy(redlock_last_lease(store, &claim->name), lease, sizeof lease);
    hfi_command_add_text(&round->command, "HDEL");
    redlock_add_cluster(round);
    hfi_command_add(&round->command, lease, sizeof lease);
    return round;
}

/* The last lease that we released of a name: a guess for its next acquire. Names may share a place: a wrong guess only
 * costs a node a command. */
unsigned char *redlock_last_lease(struct redlock_store *store, const struct hfi_name *name)
{
    return store->last_leases[hfi_checksum(name->bytes, name->len) % REDLOCK_LAST_LEASES];
}

/* Its plain command found nothing at this node. The links have their own copies of that command. */
static void release_by_script(struct redlock_round *round, unsigned node)
{
    if (!round->scripted) {
        hfi_command_done(&round->command);
        hfi_command_init_script(&round->command, &redlock_script_release, 1 + REDLOCK_NAME_KEYS);
        redlock_add_release(round, 0);
    }
    round->scripted |= 1u << node;
    redlock_round_again(round, node);
}

static void given_back(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, const hf_error *err)
{
    (void)reply;
    (void)err;
    if (outcome != HFI_ANSWERED)
        redlock_owe_release(round, node);
}

void redlock_give_back(struct redlock_store *store, const struct hfi_claim *claim,
                       struct redlock_hold *hold, uint32_t nodes)
{
    struct redlock_round *round;

    if (!nodes)
        return;
    round = redlock_release_round(store, &claim->name, claim->owner, hold->attempt, claim->ttl_ms,
                                  (hold->unsure & nodes) != 0, given_back);
    hold->sent &= ~nodes;
    hold->unsure &= ~nodes;
    if (round)
        redlock_round_send(round, nodes);
}

void redlock_send_deferred(struct redlock_node *node)
{
    struct redlock_deferred_release *release = node->deferred, *next;
    int64_t now_ms = hfi_now_ms();

    node->deferred = NULL;
    node->deferred_end = &node->deferred;
    node->deferred_count = 0;
    for (; release; release = next) {
        struct hfi_name name = { .bytes = release->name, .len = release->name_len };
        int64_t left_ms = release->until_ms - now_ms;
        /* Half of it: a release is deferred for twice its ttl, and may be deferred again. */
        struct redlock_round *round =
            left_ms > 0
                ? redlock_release_round(node->store, &name, release->owner, release->attempt,
                                        (left_ms + 1) / 2, true, given_back)
                : NULL;

        next = release->next;
        if (round)
            redlock_round_send(round, 1u << node->index);
        hfi_free(release);
    }
}

/* One more node has, or has not, released. */
static void tally_release(struct redlock_round *round)
{
    struct redlock_store *store = round->store;
    struct hfi_op *op = round->op;
    struct redlock_hold *hold;

    if (!op)
        return;
    hold = redlock_hold_of(op->claim);
    switch (hfi_tally(store->n, round->yes, round->no, redlock_count(round->open))) {
    case HFI_TALLY_OPEN:
        return;
    case HFI_TALLY_YES:
    case HFI_TALLY_NO:
        if (hold)
            redlock_hold_free(store, hold);
        hfi_reactor_finish(&store->reactor, op, round->yes >= store->need ? HF_OK : HF_LOST, NULL);
        break;
    case HFI_TALLY_UNKNOWN:
        hfi_reactor_finish(&store->reactor, op, HF_UNKNOWN, NULL);
        break;
    }
    round->op = NULL; /* decided; the remaining answers only clean up */
}

static void released(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                     const struct hfi_reply *reply, const hf_error *err)
{
    bool answered = outcome == HFI_ANSWERED && reply->type == HFI_REPLY_INTEGER;
    struct redlock_hold *hold = round->op ? redlock_hold_of(round->op->claim) : NULL;

    (void)err;
    if (answered && reply->integer != 1 && round->plain && !(round->scripted & 1u << node)) {
        release_by_script(round, node);
        return;
    }
    if (answered && reply->integer == 1 && (!hold || hold->counts & 1u << node)) {
        round->yes++;
        if (hold)
            hold->released |= 1u << node;
    } else if (answered) {
        round->no++;
    } else {
        redlock_owe_release(round, node);
    }
    if (!round->sending)
        tally_release(round);
}

void redlock_release(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    const struct hfi_claim *claim = op->claim;
    struct redlock_hold *hold = redlock_hold_of(claim);
    uint32_t sent = hold ? hold->sent : redlock_all(store);
    uint32_t before = hold ? hold->released & sent : 0, left = sent & ~before;
    int64_t ttl_ms = claim->ttl_ms > 0 ? claim->ttl_ms : store->max_ttl_ms;
    bool alone = hold && !((hold->full | hold->unsure) & sent);
    struct redlock_round *round =
        alone ? plain_release_round(store, claim, hold->attempt)
              : redlock_release_round(store, &claim->name, claim->owner,
                                      hold ? hold->attempt : REDLOCK_ATTEMPT_ANY, ttl_ms,
                                      !hold || (hold->unsure & sent) != 0, released);

    if (!round || round->command.failed) {
        if (round)
            redlock_round_free(round);
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    round->op = op;
    round->yes = redlock_count(before);
    round->no = store->n - redlock_count(sent);
    redlock_round_decide(round, left, tally_release);
}

/* ---- renewal --------------------------------------------------------------------------------- */

/* Up to REDLOCK_BATCH renewals of one op, in one round. */
struct renewal {
    struct hfi_renewal *items; /* the op's: not touched once round->op is NULL */
    size_t count, left;        /* `left` are undecided */
    bool denied;               /* a node refused all of it: rights to one of the keys are missing */
    struct {
        unsigned char owner[HFI_OWNER_LEN];
        int64_t ttl_ms;
        /* the token that nodes must witness: of a further block, or of the present one */
        uint64_t last;
        uint32_t nodes; /* that do */
        uint8_t yes, no;
        bool decided;
        hf_status why; /* the last error of a node */
    } tally[];
};

static void renewal_over(struct redlock_round *round)
{
    hfi_free(round->data);
}

void redlock_renewal_late(struct redlock_hold *hold, int64_t ttl_ms)
{
    if (hold && (hold->late_ms == 0 || ttl_ms < hold->late_ms))
        hold->late_ms = ttl_ms;
}

/*
 * A further block of tokens for a lease that stays with its process (LINGERS): a write-back of its last token, at a majority
 * that still witnesses the present one. So it is complete as an acquisition is (quorum.h), and nobody else was in between. If the
 * outcome is not known, or nodes refuse it (in another epoch), some may have the new number: the next renewals ask for the same one,
 * and count both, since a node raises only what witnessed the present one.
 *
 * Not far ahead of the clock, which is ours, as in all tokens here: at least one.
 */
static uint64_t next_block(struct redlock_hold *hold, uint32_t wanted)
{
    uint64_t limit = redlock_clock_us() + HFI_TOKEN_AHEAD_US, last = hold->top + wanted;

    if (hold->refill == 0 && wanted > 0) {
        if (last > limit)
            last = limit > hold->top ? limit : hold->top + 1;
        hold->refill = last < HFI_TOKEN_LIMIT ? last : 0;
    }
    return hold->refill ? hold->refill : hold->top;
}

static void refilled(struct redlock_store *store, struct redlock_hold *hold,
                     struct hfi_renewal *item, uint64_t last, uint32_t nodes)
{
    uint64_t count = last - hold->top;

    if (item->tokens_wanted > 0) {
        item->tokens = count < item->tokens_wanted ? (uint32_t)count : item->tokens_wanted;
        item->token = hold->top + 1;
    }
    hold->before = hold->top;
    hold->top = last;
    hold->refill = 0;
    hold->counts = nodes;
    if (last > store->last_token)
        store->last_token = last;
}

static void decide_renewal(struct redlock_round *round, struct renewal *renewal, size_t index)
{
    struct redlock_store *store = round->store;
    struct hfi_renewal *item = &renewal->items[index];
    struct redlock_hold *hold = redlock_hold_of(item->claim);

    switch (hfi_tally(store->n, renewal->tally[index].yes, renewal->tally[index].no,
                      redlock_count(round->open))) {
    case HFI_TALLY_OPEN:
        return;
    case HFI_TALLY_YES:
        item->status = HF_OK;
        item->claim->granted_ttl_ms = item->ttl_ms;
        if (hold && hold->late_ms && hold->late_ms < item->ttl_ms)
            item->claim->granted_ttl_ms = hold->late_ms;
        item->claim->sent_ms = round->sent_ms;
        if (hold && renewal->tally[index].last > hold->top &&
            redlock_count(renewal->tally[index].nodes) >= store->need)
            refilled(store, hold, item, renewal->tally[index].last, renewal->tally[index].nodes);
        break;
    case HFI_TALLY_NO:
        item->status = HF_LOST;
        break;
    case HFI_TALLY_UNKNOWN:
        item->status = renewal->tally[index].why != HF_OK       ? renewal->tally[index].why
                       : round->asked & redlock_nodes_up(store) ? HF_UNKNOWN
                                                                : HF_UNAVAILABLE;
        break;
    }
    renewal->tally[index].decided = true;
    renewal->left--;
}

static void renew_some(struct redlock_store *store, struct hfi_op *op, struct hfi_renewal *items,
                       size_t count);

/* Each lease has its own outcome. The scripts guarantee that, but rights to keys are checked before
 * a script begins: if too few nodes have renewed because of missing rights, one name must not
 * affect the others, so halves are sent. */
static void renew_halves(struct redlock_store *store, struct hfi_op *op,
                         const struct renewal *renewal)
{
    size_t half = renewal->count / 2;
    bool fine = true;

    for (size_t i = 0; i < renewal->count; i++)
        fine = fine && (renewal->items[i].status == HF_OK || renewal->items[i].status == HF_LOST ||
                        renewal->items[i].status == HF_INVALID);
    if (fine)
        return;
    redlock_op(op)->rounds += 2;
    renew_some(store, op, renewal->items, half);
    renew_some(store, op, renewal->items + half, renewal->count - half);
}

static void decide_renewals(struct redlock_round *round)
{
    struct renewal *renewal = round->data;
    struct hfi_op *op = round->op;

    if (!op)
        return;
    for (size_t i = 0; i < renewal->count; i++)
        if (!renewal->tally[i].decided)
            decide_renewal(round, renewal, i);
    if (renewal->left)
        return;
    round->op = NULL;
    if (renewal->denied && renewal->count > 1)
        renew_halves(round->store, op, renewal);
    if (--redlock_op(op)->rounds == 0)
        hfi_reactor_finish(&round->store->reactor, op, HF_OK, NULL);
}

static void renewed(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct renewal *renewal = round->data;

    renewal->denied |= outcome == HFI_REFUSED && err->status == HF_DENIED;
    for (size_t i = 0; outcome == HFI_MAYBE && i < renewal->count; i++)
        redlock_renewal_late(redlock_hold_find(round->store, renewal->tally[i].owner),
                             renewal->tally[i].ttl_ms);
    if (!round->op)
        return;
    for (size_t i = 0; outcome == HFI_REFUSED && i < renewal->count; i++)
        renewal->tally[i].why = err->status;
    if (outcome == HFI_REFUSED)
        round->op->error = *err;
    for (size_t i = 0; outcome == HFI_ANSWERED && i < renewal->count; i++) {
        const struct hfi_reply *list = hfi_reply_at(reply, i, HFI_REPLY_LIST);
        const struct hfi_reply *answer = list ? hfi_reply_at(list, 0, HFI_REPLY_INTEGER)
                                              : hfi_reply_at(reply, i, HFI_REPLY_INTEGER);
        const struct hfi_reply *problem = hfi_reply_at(reply, i, HFI_REPLY_ERROR);
        struct redlock_hold *hold = redlock_hold_of(renewal->items[i].claim);

        /* A node that holds for us with another counter may have granted it after another client
         * had won and released: its renewal proves nothing. */
        if (answer && hold &&
            ((uint64_t)answer->integer == hold->top ||
             (uint64_t)answer->integer == renewal->tally[i].last)) {
            renewal->tally[i].yes++;
            if ((uint64_t)answer->integer == renewal->tally[i].last)
                renewal->tally[i].nodes |= 1u << node;
            hold->counts |= 1u << node;
            if (!renewal->tally[i].decided)
                renewal->items[i].others_wait =
                    redlock_others_wait(round->store, hold, node, list != NULL);
        } else if (answer) {
            renewal->tally[i].no++;
        } else if (problem) {
            renewal->tally[i].why = hfi_reply_status(problem, &round->op->error);
        }
    }
    if (!round->sending)
        decide_renewals(round);
}

static void fail_renewals(struct hfi_renewal *items, size_t count, hf_status status)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = status;
}

static void add_block(struct redlock_round *round, const struct redlock_hold *hold, uint64_t last)
{
    unsigned char block[24];

    if (!hold || !(last > hold->top || hold->before)) {
        hfi_command_add(&round->command, block, 0);
        return;
    }
    redlock_put_number(block, hold->before);
    redlock_put_number(block + 8, hold->top);
    redlock_put_number(block + 16, last > hold->top ? last : hold->top);
    hfi_command_add(&round->command, block, sizeof block);
}

/* The token that holds now goes with it: a note of a local pass may have been lost. */
void redlock_add_renewal(struct redlock_round *round, const struct hfi_claim *claim, int64_t ttl_ms,
                         uint64_t last)
{
    struct redlock_hold *hold = redlock_hold_of(claim);

    if (hold && hold->token_now) /* it will have a record with that note */
        hold->full = redlock_all(round->store);
    hfi_command_add(&round->command, claim->name.bytes, claim->name.len);
    redis_add_owner(&round->command, claim->owner);
    hfi_command_add_number(&round->command, hold ? (int64_t)hold->attempt : 0);
    hfi_command_add_number(&round->command, ttl_ms);
    hfi_command_add_number(&round->command, hold ? (int64_t)hold->token_now : 0);
    hfi_command_add_number(&round->command, hold ? hold->tid : 0);
    add_block(round, hold, last);
}

static void add_renewals(struct redlock_round *round, const struct renewal *renewal,
                         const struct hfi_renewal *items, size_t count)
{
    const struct redlock_wire *wire = round->store->wire;

    for (size_t i = 0; i < count; i++)
        wire->add_key(round, &items[i].claim->name);
    for (size_t i = 0; i < count; i++)
        wire->add_renewal(round, items[i].claim, items[i].ttl_ms, renewal->tally[i].last);
}

struct redlock_round *redlock_renewal_round(struct redlock_store *store, size_t count,
                                            redlock_answer_fn *answer)
{
    const struct redlock_wire *wire = store->wire;
    struct redlock_round *round = redlock_round_new(
        store, wire->renew, wire->keys + wire->name_keys * (uint32_t)count, answer);

    if (round && wire->keys)
        redlock_add_cluster(round);
    return round;
}

/* A longer lease could outlive the wait of a healed node, so nodes refuse such a renewal; but that
 * does not mean that the lease is lost. */
static bool too_long(const struct redlock_store *store, const struct hfi_renewal *item,
                     hf_error *ret_err)
{
    if (item->ttl_ms + item->claim->lock_delay_ms <= store->max_ttl_ms)
        return false;
    hfi_error_set(ret_err, HF_INVALID, 0,
                  "ttl_ms: with lock_delay_ms at most %lld here (max_ttl of this cluster)",
                  (long long)store->max_ttl_ms);
    return true;
}

static void renew_some(struct redlock_store *store, struct hfi_op *op, struct hfi_renewal *items,
                       size_t count)
{
    struct redlock_round *round = redlock_renewal_round(store, count, renewed);
    struct renewal *renewal = hfi_calloc(1, sizeof *renewal + count * sizeof *renewal->tally);

    for (size_t i = 0; renewal && i < count; i++) {
        struct redlock_hold *hold = redlock_hold_of(items[i].claim);

        renewal->tally[i].last = hold ? next_block(hold, items[i].tokens_wanted) : 0;
    }
    if (round && renewal)
        add_renewals(round, renewal, items, count);
    if (!round || !renewal || round->command.failed) {
        if (round)
            redlock_round_free(round);
        hfi_free(renewal);
        fail_renewals(items, count, HF_NO_MEMORY);
        redlock_op(op)->rounds--;
        return;
    }
    renewal->items = items;
    renewal->count = renewal->left = count;
    for (size_t i = 0; i < count; i++) {
        memcpy(renewal->tally[i].owner, items[i].claim->owner, HFI_OWNER_LEN);
        renewal->tally[i].ttl_ms = items[i].ttl_ms;
        if (too_long(store, &items[i], &op->error)) {
            items[i].status = HF_INVALID;
            renewal->tally[i].decided = true;
            renewal->left--;
        }
    }
    round->op = op;
    round->data = renewal;
    round->over = renewal_over;
    redlock_round_decide(round, redlock_all(store), decide_renewals);
}

void redlock_renew(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    size_t count = op->u.renew.count, rounds = (count + REDLOCK_BATCH - 1) / REDLOCK_BATCH;

    /* One more than there are: it is not finished before all have been sent. */
    redlock_op(op)->rounds = rounds + 1;
    for (size_t i = 0; i < count; i += REDLOCK_BATCH)
        renew_some(store, op, op->u.renew.items + i,
                   count - i < REDLOCK_BATCH ? count - i : REDLOCK_BATCH);
    if (--redlock_op(op)->rounds == 0)
        hfi_reactor_finish(&store->reactor, op, HF_OK, NULL);
}
