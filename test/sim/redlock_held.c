/* SPDX-License-Identifier: MIT */
/*
 * A client of the simulation that holds: how long it relies on the lease, renewal by majority, and
 * its work: it claims its token at the resource and adds one to the value there.
 *
 * A renewal counts only the nodes that witness the token: one that granted later, or other slots,
 * may have belonged to another client in between.
 */
#include "redlock.h"

/* Clocks may differ by 1 % each way, and milliseconds are rounded. */
static int64_t without_drift(int64_t held_ms)
{
    return held_ms - held_ms / 25 - 3;
}

bool rl_held_now(const struct rl_world *world, const struct rl_client *client)
{
    return client->phase == RL_HELD && rl_client_ms(world, client) < client->until_ms;
}

static bool exclusive(const struct rl_world *world, const struct rl_client *client)
{
    return world->mode == RL_MUTEX || (world->mode == RL_RW && client->permits > 1);
}

static void ask_resource(struct rl_world *world, struct rl_client *client, enum rl_verb verb,
                         uint64_t value)
{
    struct rl_message m = { .verb = verb,
                            .actor = client->number,
                            .owner = client->owner,
                            .token = client->token,
                            .value = value };

    rl_send(world, &m);
}

static void renew(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    client->renewal = client->requests + 1;
    client->renewal_ms = now_ms;
    client->renewal_us = world->now_us;
    client->yes = 0;
    client->no = (UINT32_C(1) << world->n) - 1;
    if (world->mutant == RL_RENEW_ANYWHERE)
        client->witnesses = client->no;
    client->no &= ~client->witnesses;
    for (unsigned i = 0; i < world->n; i++)
        if (client->witnesses >> i & 1) {
            struct rl_message m = rl_client_request(world, client, i, RL_RENEW);

            rl_send(world, &m);
        }
}

/* Leave the queue of a node, or return a grant that we cannot use: other slots, or a grant after
 * the win. */
static void give_back(struct rl_world *world, struct rl_client *client, unsigned node)
{
    struct rl_message m = rl_client_request(world, client, node, RL_RELEASE);

    if (world->mutant != RL_RENEW_ANYWHERE)
        rl_send(world, &m);
}

/* An acquire or a write-back is answered after the win. A grant that witnesses the token is one more node that holds; any
 * other may have come after somebody else had won and gone: a renewal there would prove nothing. */
static void late_vote(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    if (m->attempt != client->seat[m->node].attempt || client->witnesses >> m->node & 1)
        return;
    if (m->said == 'G' && m->counter == client->token &&
        (m->verb == RL_WRITE || m->slots == client->choice))
        client->witnesses |= UINT32_C(1) << m->node;
    else if (m->verb == RL_WRITE || client->ballot.node[m->node].vote == HFI_VOTE_GRANTED)
        return; /* it holds, which is as well */
    else if (m->said == 'G' || m->said == 'Q')
        give_back(world, client, m->node);
}

/* Enter HELD, unless its time is over already. */
void rl_held_begin(struct rl_world *world, struct rl_client *client,
                   const struct hfi_ballot_outcome *outcome)
{
    int64_t now_ms = rl_client_ms(world, client);

    client->until_ms = outcome->sent_ms + without_drift(outcome->held_ms);
    client->token = outcome->token;
    client->choice = outcome->choice;
    /* Tokens do not depend on clocks: a lease that is won too late by our clock must have a correct
     * token as well. */
    client->win = rl_judge_won(world, client);
    if (now_ms >= client->until_ms)
        return;
    client->phase = RL_HELD;
    client->done_ms = now_ms + (int64_t)rl_roll(world, (uint64_t)world->hold_ms);
    client->won_in_calm += world->calm;
    client->claimed = false;
    client->witnesses = outcome->nodes;
    for (unsigned i = 0; i < world->n; i++)
        if (outcome->wrong >> i & 1 || client->ballot.node[i].vote == HFI_VOTE_QUEUED)
            give_back(world, client, i);
    renew(world, client, now_ms);
    if (exclusive(world, client))
        ask_resource(world, client, RL_CLAIM, world->value);
}

void rl_held_step(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    if (now_ms >= client->until_ms || now_ms >= client->done_ms) {
        client->renewal = 0;
        rl_client_let_go(world, client);
    } else if (now_ms - client->renewal_ms >= world->ttl_ms / 4)
        renew(world, client, now_ms);
}

static void renewed(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    /* An attempt that is asked for twice may be granted again where it had ended: not the record we won by. */
    bool ours = m->said == 'R' && (!world->by_counter || m->counter == client->token);
    unsigned yes, no;

    if (!client->renewal || m->number < client->renewal)
        return;
    *(ours ? &client->yes : &client->no) |= UINT32_C(1) << m->node;
    client->no &= ~client->yes;
    yes = (unsigned)__builtin_popcount(client->yes);
    no = (unsigned)__builtin_popcount(client->no);
    switch (hfi_tally(world->n, yes, no, world->n - yes - no)) {
    case HFI_TALLY_YES:
        client->renewal = 0;
        rl_judge_renewed(world, client, client->renewal_us);
        client->until_ms = client->renewal_ms + without_drift(world->ttl_ms);
        break;
    case HFI_TALLY_NO:
        client->renewal = 0;
        rl_client_let_go(world, client);
        break;
    default:
        break;
    }
}

void rl_held_message(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    if (rl_client_ms(world, client) >= client->until_ms)
        rl_held_step(world, client,
                     rl_client_ms(world, client)); /* it was paused: read the clock first */
    else if (m->verb == RL_RENEW)
        renewed(world, client, m);
    else if (m->verb == RL_ACQUIRE || m->verb == RL_BEAT || m->verb == RL_PUSH ||
             m->verb == RL_WRITE)
        late_vote(world, client, m);
    else if (m->verb == RL_CLAIM && m->said == 'G' && !client->claimed) {
        client->claimed = true;
        ask_resource(world, client, RL_STORE, m->value + 1);
    }
}
