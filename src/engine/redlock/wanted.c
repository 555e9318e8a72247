/* SPDX-License-Identifier: MIT */
/*
 * A holder learns that others wait for what it holds. Each node tells it by a message on its inbox, when the first waiter comes
 * and when the last one has left; grants and renewals say it too. One node that says so is enough: a waiter is in the queue
 * of a majority, and we hear a majority. Advice: it may be late, lost or repeated.
 *
 * And ASK, which changes nothing. With the lock.
 */
#include "engine/redlock/internal.h"

#include "util/error.h"

#include <string.h>

/* ---- what nodes say ------------------------------------------------------------------------- */

/* What a node has said counts while it is up: one that is down would never say that nobody waits any more. */
static void note(const struct redlock_store *store, struct redlock_hold *hold, unsigned node,
                 bool wait)
{
    uint32_t bit = 1u << node;

    hold->wanted = (hold->wanted & redlock_nodes_up(store) & ~bit) | (wait ? bit : 0);
}

static void others(struct redlock_store *store, struct redlock_hold *hold, unsigned node, bool wait)
{
    uint32_t before = hold->wanted, bit = 1u << node;

    note(store, hold, node, wait);
    if (hold->wait)
        return; /* the grant will say it */
    /* A node that says it again repeats it for core too. */
    if (wait && (!before || before & bit))
        hfi_reactor_wanted(&store->reactor, hold->entry.claim, HFI_WANTED_YES, "", 0);
    else if (!hold->wanted && before)
        hfi_reactor_wanted(&store->reactor, hold->entry.claim, HFI_WANTED_NO, "", 0);
}

void redlock_wanted_message(struct redlock_node *node, const struct redis_message *message)
{
    struct redlock_store *store = node->store;
    struct redlock_hold *hold = redlock_hold_find(store, message->owner);

    if (store->closing || !hold || message->count < 1 || hold->attempt != message->numbers[0] ||
        !(hold->entry.claim->flags & HFI_CLAIM_WATCHED))
        return;
    if (message->letter == 'W' && message->count == 2)
        others(store, hold, node->index, message->numbers[1] != 0);
    else if (message->letter == 'A' && message->rest_len > 0 &&
             message->rest[0] == ':') /* so that words may begin with a number */
        hfi_reactor_wanted(&store->reactor, hold->entry.claim, HFI_WANTED_ASKED, message->rest + 1,
                           message->rest_len - 1);
}

bool redlock_others_wait(const struct redlock_store *store, struct redlock_hold *hold,
                         unsigned node, bool wait)
{
    note(store, hold, node, wait);
    return hold->wanted != 0;
}

void redlock_hears(struct redlock_store *store)
{
    unsigned up = 0;

    for (unsigned i = 0; i < store->n; i++)
        up += store->nodes[i].inbox_up;
    hfi_reactor_hears(&store->reactor, up >= store->need);
}

/* ---- ASK ------------------------------------------------------------------------------------- */

static void asked_one(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    (void)node;
    if (outcome == HFI_ANSWERED && reply->type == HFI_REPLY_INTEGER) {
        round->told |= reply->integer > 0;
        round->yes += reply->integer >= 0; /* it is held there */
        round->no += reply->integer < 0;
    } else if (err && round->op) {
        round->op->error = *err;
    }
}

static void asked_all(struct redlock_round *round)
{
    struct redlock_store *store = round->store;
    struct hfi_op *op = round->op;
    hf_error err = op->error;

    if (round->told)
        hfi_reactor_finish(&store->reactor, op, HF_OK, NULL);
    else if (round->yes + round->no < store->need)
        hfi_reactor_finish(&store->reactor, op, err.status != HF_OK ? err.status : HF_UNAVAILABLE,
                           &err);
    else
        hfi_reactor_finish(&store->reactor, op, round->yes ? HF_BUSY : HF_NOT_FOUND, NULL);
}

void redlock_ask_holder(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    const struct hfi_name *name = &op->u.ask.name;
    struct redlock_round *round = redlock_round_new(store, &redlock_script_ask, 2, asked_one);

    if (!round) {
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    op->error.status = HF_OK;
    round->op = op;
    round->over = asked_all;
    redlock_add_cluster(round);
    redlock_add_name(round, name);
    hfi_command_add(&round->command, name->bytes, name->len);
    hfi_command_add_text(&round->command, op->u.ask.text);
    redlock_round_send(round, redlock_nodes_askable(store));
}
