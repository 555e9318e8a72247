/* SPDX-License-Identifier: MIT */
/*
 * wire=plain: the locks of redsync, node-redlock and every other Redlock. A lock is a string with an expiry at exactly the name, on
 * a majority of the nodes, with one value that nobody else has. With the lock.
 *
 * Rounds, votes, giving back, releases that are owed to a node, renewal and confirmation are those of the native wire; here is only
 * what is said to a node. A node that grants says no number: all grants count as number 1, so a majority of them is
 * a win.
 *
 * The value is the owner and the attempt, "0123456789abcdef0123456789abcdef.1". A release, or a SET, may be executed late, when
 * the same owner tries again already: with one value for all attempts, a late release would take away a grant that counts.
 */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTER   1 /* of every grant */
#define OWNER_LEN (2 * (size_t)HFI_OWNER_LEN)
#define VALUE_MAX (OWNER_LEN + 24)

static size_t put_value(char ret_value[VALUE_MAX], const unsigned char *owner, uint64_t attempt)
{
    hfi_hex(owner, HFI_OWNER_LEN, ret_value);
    return OWNER_LEN +
           (size_t)snprintf(ret_value + OWNER_LEN, VALUE_MAX - OWNER_LEN, ".%" PRIu64, attempt);
}

static void add_value(struct redlock_round *round, const unsigned char *owner, uint64_t attempt)
{
    char value[VALUE_MAX];

    hfi_command_add(&round->command, value, put_value(value, owner, attempt));
}

static void add_key(struct redlock_round *round, const struct hfi_name *name)
{
    hfi_command_add(&round->command, name->bytes, name->len);
}

/* ---- acquiring ------------------------------------------------------------------------------ */

/* plain_acquire tells how long a key that is taken stays, and whether it is a lock at all. The links have their own copies of what
 * was sent before. */
static void ask_by_script(struct redlock_round *round, const struct redlock_wait *wait)
{
    hfi_command_done(&round->command);
    hfi_command_init_script(&round->command, &hfi_script_plain_acquire, 1);
    add_key(round, &wait->claim->name);
    add_value(round, wait->claim->owner, round->attempt);
    hfi_command_add_number(&round->command, wait->claim->ttl_ms);
    hfi_command_add_number(&round->command, round->store->conf->repair_expiry_ms);
}

static void add_ask(struct redlock_round *round, const struct redlock_wait *wait, uint32_t nodes)
{
    char value[VALUE_MAX];

    if (wait->tries > 0) { /* it was taken a moment ago */
        ask_by_script(round, wait);
        round->scripted = nodes;
        return;
    }
    hfi_plain_add_set(&round->command, &wait->claim->name, value,
                      put_value(value, wait->claim->owner, round->attempt), wait->claim->ttl_ms);
}

static bool voted(struct redlock_store *store, struct redlock_wait *wait,
                  struct redlock_round *round, unsigned node, const struct hfi_reply *reply)
{
    int64_t ms;

    switch (hfi_plain_read(reply, wait->claim->ttl_ms, &ms)) {
    case HFI_PLAIN_GRANTED:
        hfi_ballot_granted(&wait->ballot, node, COUNTER, 0, round->sent_ms, ms);
        return true;
    case HFI_PLAIN_TAKEN:
        if (round->scripted & 1u << node)
            break;
        if (!round->scripted)
            ask_by_script(round, wait);
        round->scripted |= 1u << node;
        redlock_round_again(round, node); /* its vote is still to come */
        return false;
    case HFI_PLAIN_BUSY:
        if (ms > wait->left_ms)
            wait->left_ms = ms;
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_BUSY);
        return true;
    case HFI_PLAIN_KIND:
        hfi_error_set(&wait->err, HF_MISMATCH, 0, "a key of another type has this name");
        hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_KIND);
        return true;
    case HFI_PLAIN_ODD:
        break;
    }
    hfi_error_set(&wait->err, HF_CORRUPT, 0, "%s: an unexpected answer to a command",
                  hfi_link_address(store->nodes[node].link)->shown);
    wait->hold->unsure |= 1u << node;
    hfi_ballot_voted(&wait->ballot, node, HFI_VOTE_OTHER);
    return true;
}

static void voted_late(struct redlock_round *round, unsigned node, const struct hfi_reply *reply)
{
    int64_t ms;

    if (hfi_plain_read(reply, 1, &ms) == HFI_PLAIN_GRANTED)
        redlock_late_grant(round->store, round->owner, round->attempt, node, COUNTER, 0);
}

/* ---- holding -------------------------------------------------------------------------------- */

/* No tombstone: an acquire that comes later still holds the name at that node for one ttl. */
static void add_release(struct redlock_round *round, int64_t tombstone_ms)
{
    const struct hfi_name name = { .bytes = round->name, .len = round->name_len };

    (void)tombstone_ms;
    add_key(round, &name);
    add_value(round, round->owner, round->attempt);
}

static void add_renewal(struct redlock_round *round, const struct hfi_claim *claim, int64_t ttl_ms,
                        uint64_t last)
{
    const struct redlock_hold *hold = redlock_hold_of(claim);

    (void)last;
    add_value(round, claim->owner, hold ? hold->attempt : REDLOCK_ATTEMPT_ANY);
    hfi_command_add_number(&round->command, ttl_ms);
}

/* ---- adopting ------------------------------------------------------------------------------- */

/* Which attempt each node has; 0: none. */
struct adoption {
    uint64_t attempt[HFI_NODES_MAX];
};

static void adoption_over(struct redlock_round *round)
{
    hfi_free(round->data);
}

/* The nodes that have the attempt which most of them have. */
static uint32_t agree(const struct adoption *adoption, uint64_t *ret_attempt)
{
    uint32_t most = 0;

    for (unsigned i = 0; i < HFI_NODES_MAX; i++) {
        uint32_t same = 0;

        for (unsigned k = 0; adoption->attempt[i] && k < HFI_NODES_MAX; k++)
            if (adoption->attempt[k] == adoption->attempt[i])
                same |= 1u << k;
        if (redlock_count(same) > redlock_count(most)) {
            most = same;
            *ret_attempt = adoption->attempt[i];
        }
    }
    return most;
}

static hf_status adopt_it(struct redlock_round *round, uint64_t attempt, uint32_t nodes)
{
    struct redlock_store *store = round->store;
    struct hfi_claim *claim = round->op->claim;
    struct redlock_hold *hold = redlock_hold_new(store, claim);

    if (!hold)
        return HF_NO_MEMORY;
    hold->attempt = attempt;
    hold->sent = hold->full = redlock_all(store);
    hold->top = COUNTER;
    hold->counts = nodes;
    claim->mode = HFI_MODE_MUTEX;
    claim->capacity = claim->permits = 1;
    claim->token = 0;
    claim->tokens = 1;
    claim->granted_ttl_ms = claim->ttl_ms;
    claim->sent_ms = round->sent_ms;
    return HF_OK;
}

static void decide_adoption(struct redlock_round *round)
{
    struct redlock_store *store = round->store;
    struct hfi_op *op = round->op;
    uint64_t attempt = 0;
    uint32_t nodes;
    hf_status status;

    if (!op)
        return;
    nodes = agree(round->data, &attempt);
    switch (hfi_tally(store->n, redlock_count(nodes), round->no, redlock_count(round->open))) {
    case HFI_TALLY_OPEN:
        return;
    case HFI_TALLY_YES:
        status = adopt_it(round, attempt, nodes);
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

/* The attempt in a value that begins with the owner; 0: it is not one of ours. */
static uint64_t attempt_of(const struct hfi_reply *value)
{
    uint64_t attempt = 0;

    if (!value || value->len <= OWNER_LEN + 1 || value->len >= VALUE_MAX ||
        hfi_parse_u64(value->text + OWNER_LEN + 1, 1, REDLOCK_ATTEMPT_ANY - 1, &attempt))
        return 0;
    return attempt;
}

static void adopted(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct adoption *adoption = round->data;
    char letter = outcome == HFI_ANSWERED ? hfi_reply_letter(reply) : 0;

    (void)err;
    if (letter == 'N')
        round->no++;
    else if (letter == 'A')
        adoption->attempt[node] = attempt_of(hfi_reply_at(reply, 1, HFI_REPLY_TEXT));
    if (!round->sending)
        decide_adoption(round);
}

/* The value does not contain its original ttl: if the caller gives none, the default is used. */
static void adopt(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    struct redlock_round *round = redlock_round_new(store, &redlock_script_plain_adopt, 1, adopted);
    struct adoption *adoption = hfi_calloc(1, sizeof *adoption);

    if (op->claim->ttl_ms == 0)
        op->claim->ttl_ms = REDLOCK_TTL_MS;
    if (round) {
        add_key(round, &op->claim->name);
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

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Other clients know no epochs: a node votes while it is up, whatever it has lost. */
static void up(struct redlock_node *node)
{
    node->view.state = HFI_NODE_READY;
}

static void down(struct redlock_node *node)
{
    node->view.state = HFI_NODE_UNKNOWN;
}

static const struct hfi_op_calls ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { redlock_acquire, redlock_cancel },
    [HFI_OP_RELEASE] = { redlock_release, NULL },
    [HFI_OP_RENEW] = { redlock_renew, NULL },
    [HFI_OP_ADOPT] = { adopt, NULL },
};

const struct redlock_wire redlock_plain = {
    .ops = ops,
    .bare = true,
    .release = &hfi_script_plain_release,
    .renew = &hfi_script_plain_renew,
    .name_keys = 1,
    .add_key = add_key,
    .add_ask = add_ask,
    .voted = voted,
    .voted_late = voted_late,
    .add_release = add_release,
    .add_renewal = add_renewal,
    .up = up,
    .down = down,
};
