/* SPDX-License-Identifier: MIT */
/*
 * A client of the simulation, until it holds: find the epoch, ask all nodes, collect votes, wait,
 * yield, start over. hfi_ballot_decide() decides what follows from the votes; this file knows which
 * answer belongs to which request, and from when a grant counts.
 *
 *   IDLE --> ASKING --> HELD (redlock_held.c) --> IDLE
 *
 * Answers may come in any order, so the vote of a node is the answer to the last request to it, or a message.
 * What makes a message safe to believe: it names the attempt, which is another one for each acquire that a node
 * is sent; and after a yield its counter must be higher than that of the grant given up. Or (by_counter, as
 * the engine does) the attempt stays, and the counter must be higher than the one that came with the last "queued".
 * Its time counts from the last request that found us in the queue.
 */
#include "redlock.h"

#include <string.h>

static void decide(struct rl_world *world, struct rl_client *client, int64_t now_ms);

/* ---- requests ---------------------------------------------------------------------------- */

static uint64_t wall_us(const struct rl_world *world, const struct rl_client *client)
{
    int64_t us = world->now_us + client->wall_us;

    return us > 0 ? (uint64_t)us : 0;
}

struct rl_message rl_client_request(struct rl_world *world, struct rl_client *client, unsigned node,
                                    enum rl_verb verb)
{
    return (struct rl_message){ .verb = verb,
                                .node = node,
                                .actor = client->number,
                                .number = ++client->requests,
                                .sent_ms = rl_client_ms(world, client),
                                .owner = client->owner,
                                .attempt = client->seat[node].attempt,
                                .epoch = client->epoch,
                                .permits = client->permits,
                                .tokens = client->tokens,
                                .waits = client->waits,
                                .ttl_ms = world->ttl_ms,
                                .window_ms = world->window_ms,
                                .stamp = client->stamp,
                                .start = client->start,
                                .proposal = world->proposals ? wall_us(world, client) : 0 };
}

/* Each time with a new attempt number: so one attempt is queued at a node once and granted once
 * (unless it yields), and its messages are about that. */
static void ask(struct rl_world *world, struct rl_client *client, unsigned node)
{
    struct rl_seat *seat = &client->seat[node];
    struct rl_message m;

    bool again = seat->asked_ms != 0 && !seat->spoilt &&
                 (world->by_counter || world->mutant == RL_STALE_MESSAGE);

    if (!again)
        seat->attempt++;
    m = rl_client_request(world, client, node, RL_ACQUIRE);
    hfi_ballot_asked(&client->ballot, node);
    seat->number = m.number;
    seat->asked_ms = m.sent_ms;
    if (!again || !world->by_counter)
        seat->base_ms = m.sent_ms;
    seat->yielding = seat->spoilt = false;
    rl_send(world, &m);
}

static void beat(struct rl_world *world, struct rl_client *client, unsigned node, bool yields)
{
    struct rl_message m = rl_client_request(world, client, node, RL_BEAT);
    struct rl_seat *seat = &client->seat[node];
    const struct hfi_ballot_node *at = &client->ballot.node[node];

    m.yields = yields;
    seat->number = m.number;
    if (yields) {
        seat->given_up = at->granted > at->written ? at->granted : at->written;
        seat->asked_ms = seat->base_ms = m.sent_ms;
        seat->yielding = true;
        hfi_ballot_voted(&client->ballot, node, HFI_VOTE_ASKED);
    }
    rl_send(world, &m);
}

/* All votes are invalid now: begin a new attempt, for which no old answer can count. */
static void start_over(struct rl_world *world, struct rl_client *client)
{
    client->began_us = world->now_us;
    client->answer_ms = world->window_ms / 2;
    if (world->patient && rl_chance(world, 50))
        client->answer_ms += (int64_t)rl_roll(world, world->patient) * world->window_ms;
    client->stamp = client->stamp ? client->stamp : wall_us(world, client);
    client->start = (unsigned)rl_roll(world, world->capacity);
    hfi_ballot_init(&client->ballot, world->n);
    if (world->mutant == RL_MINORITY)
        client->ballot.need--;
    for (unsigned i = 0; i < world->n; i++) {
        client->seat[i] = (struct rl_seat){ .attempt = client->seat[i].attempt };
        ask(world, client, i);
    }
    client->beat_ms = rl_client_ms(world, client) + world->beat_ms;
    client->yield_ms =
        rl_client_ms(world, client) + (int64_t)rl_roll(world, 1 + (uint64_t)world->beat_ms);
}

static void begin(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    bool same = world->mutant == RL_OWNER_TWICE && client->owner && rl_chance(world, 30);

    if (!same)
        client->owner = rl_roll(world, UINT64_MAX) + 1;
    client->permits = world->mode == RL_RW && rl_chance(world, 50) ? world->capacity : 1;
    if (world->mode == RL_SEMAPHORE)
        client->permits = 1 + (uint32_t)rl_roll(world, 2);
    client->tokens = 1 + (uint32_t)rl_roll(world, 2);
    client->waits = world->calm || rl_chance(world, world->waiting);
    client->give_up_ms =
        now_ms +
        (world->calm || rl_chance(world, 80) ? INT64_C(1000000000) : (int64_t)rl_roll(world, 2000));
    client->stamp = 0;
    client->yields = 0;
    client->phase = RL_ASKING;
    for (unsigned i = 0; i < world->n; i++)
        client->seat[i].attempt = same ? client->seat[i].attempt - 1 : 0;
    start_over(world, client);
}

void rl_client_rest(struct rl_world *world, struct rl_client *client)
{
    client->phase = RL_IDLE;
    client->next_ms =
        rl_client_ms(world, client) + (int64_t)rl_roll(world, (uint64_t)world->ttl_ms / 2);
}

/* Release at all nodes, held or not, also at those that have not answered. */
void rl_client_let_go(struct rl_world *world, struct rl_client *client)
{
    for (unsigned i = 0; i < world->n; i++) {
        struct rl_message m = rl_client_request(world, client, i, RL_RELEASE);

        if (client->ballot.node[i].vote != HFI_VOTE_GRANTED || rl_chance(world, 50))
            m.tombstone_ms = world->ttl_ms;
        rl_send(world, &m);
    }
    rl_client_rest(world, client);
}

/* It forgets everything except its number: what it held ends by itself. */
void rl_client_die(struct rl_world *world, struct rl_client *client)
{
    client->in_epoch = client->viewing = false;
    client->renewal = 0;
    rl_client_rest(world, client);
}

/* ---- the epoch ---------------------------------------------------------------------------------- */

static void look_for_epoch(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    client->viewing = true;
    client->view_ms = now_ms;
    client->view_number = client->requests + 1;
    memset(client->view, 0, sizeof client->view);
    for (unsigned i = 0; i < world->n; i++) {
        struct rl_message m = rl_client_request(world, client, i, RL_STATUS);

        rl_send(world, &m);
    }
}

static void end_of_look(struct rl_world *world, struct rl_client *client)
{
    struct hfi_epoch epoch;
    bool known = hfi_epoch_current(client->view, world->n, &epoch);
    bool same = known && client->in_epoch && hfi_epoch_compare(&epoch, &client->epoch) == 0;

    client->viewing = false;
    if (!known || same)
        return;
    client->in_epoch = true;
    client->epoch = epoch;
    if (client->phase == RL_ASKING && world->mutant != RL_KEEP_REPLIES)
        start_over(world, client);
}

static void view_came(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    unsigned heard = 0;

    if (!client->viewing || m->number < client->view_number)
        return;
    client->view[m->node] = m->view;
    for (unsigned i = 0; i < world->n; i++)
        heard += client->view[i].state != HFI_NODE_UNKNOWN;
    if (heard == world->n)
        end_of_look(world, client);
}

/* ---- votes ----------------------------------------------------------------------------------------- */

/* A mutant that counts replies: a repeated reply counts as the vote of a node that has not
 * voted. */
static unsigned seat_of(const struct rl_world *world, const struct rl_client *client, unsigned node)
{
    if (world->mutant != RL_REPLIES || client->ballot.node[node].vote != HFI_VOTE_GRANTED)
        return node;
    for (unsigned i = 0; i < world->n; i++)
        if (client->ballot.node[i].vote != HFI_VOTE_GRANTED)
            return i;
    return node;
}

static void granted(struct rl_world *world, struct rl_client *client, const struct rl_message *m,
                    int64_t from_ms)
{
    hfi_ballot_granted(&client->ballot, seat_of(world, client, m->node), m->counter, m->slots,
                       from_ms, m->ms);
}

static void vote_came(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    struct rl_seat *seat = &client->seat[m->node];
    bool holds = client->ballot.node[m->node].vote == HFI_VOTE_GRANTED;
    enum hfi_vote vote = HFI_VOTE_OTHER;

    if (m->number != seat->number || m->attempt != seat->attempt)
        return;
    if (world->mutant != RL_REPLIES)
        seat->number = 0;
    seat->yielding = false;
    switch (m->said) {
    case 'G':
        granted(world, client, m, m->sent_ms);
        return;
    case 'Q':
        if (holds)
            return; /* a message that came before this is newer: only we can take that grant back */
        vote = HFI_VOTE_QUEUED;
        seat->base_ms = m->sent_ms;
        if (world->by_counter && m->counter > seat->given_up)
            seat->given_up = m->counter; /* later grants have higher counters */
        break;
    case 'B':
        vote = HFI_VOTE_BUSY;
        break;
    case 'E':
        if (!client->viewing && hfi_epoch_compare(&m->next, &client->epoch) > 0)
            look_for_epoch(world, client, rl_client_ms(world, client));
        break;
    default:
        break;
    }
    hfi_ballot_voted(&client->ballot, m->node, vote);
}

static void message_came(struct rl_world *world, struct rl_client *client,
                         const struct rl_message *m)
{
    const struct rl_seat *seat = &client->seat[m->node];
    enum hfi_vote vote = client->ballot.node[m->node].vote;

    if (m->attempt != seat->attempt)
        return;
    if (vote != HFI_VOTE_QUEUED && vote != HFI_VOTE_ASKED)
        return;
    if (hfi_message_judge(vote == HFI_VOTE_QUEUED ? HFI_WAITER_QUEUED : HFI_WAITER_ASKING,
                          seat->base_ms, world->mutant == RL_STALE_MESSAGE ? 0 : seat->given_up,
                          m->counter, m->ms, rl_client_ms(world, client)) != HFI_MESSAGE_GRANT)
        return; /* too old: the next heartbeat, or the answer, finds out */
    granted(world, client, m, seat->base_ms);
}

static void written(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    if (m->attempt != client->seat[m->node].attempt)
        return;
    if (m->said == 'N')
        hfi_ballot_wrote(&client->ballot, m->node, 0);
    else if (m->said == 'G')
        hfi_ballot_wrote(&client->ballot, m->node,
                         world->mutant == RL_WRITE_IGNORES ? m->token : m->counter);
    else if (m->said == 'E' && !client->viewing)
        look_for_epoch(world, client, rl_client_ms(world, client));
}

void rl_client_message(struct rl_world *world, struct rl_client *client, const struct rl_message *m)
{
    if (m->verb == RL_STATUS)
        view_came(world, client, m);
    else if (m->owner != client->owner)
        return;
    else if (client->phase == RL_HELD)
        rl_held_message(world, client, m);
    else if (client->phase != RL_ASKING)
        return;
    else if (m->verb == RL_PUSH)
        message_came(world, client, m);
    else if (m->verb == RL_WRITE)
        written(world, client, m);
    else if (m->verb == RL_ACQUIRE || m->verb == RL_BEAT)
        vote_came(world, client, m);
    if (client->phase == RL_ASKING)
        decide(world, client, rl_client_ms(world, client));
}

/* ---- what follows ------------------------------------------------------------------------------------ */

static void yield(struct rl_world *world, struct rl_client *client, uint32_t nodes, int64_t now_ms)
{
    bool mixed = false, full = hfi_majority(world->n) <= (unsigned)__builtin_popcount(nodes);

    if (now_ms < client->yield_ms || world->mutant == RL_NO_YIELD)
        return;
    client->yield_ms =
        now_ms + world->window_ms / 8 + (int64_t)rl_roll(world, (uint64_t)world->window_ms / 4);
    for (unsigned i = 0; i < world->n; i++)
        for (unsigned j = 0; j < i; j++)
            mixed |= nodes >> i & nodes >> j & 1 &&
                     client->ballot.node[i].choice != client->ballot.node[j].choice;
    /* Nodes may see the same waiters in different orders, since they bound the stamps by their own
     * clocks and some learn of a waiter late: then every client that holds a part is the first at
     * those nodes. And if we hold different slots, nobody has to yield for us to get others. Only
     * chance resolves this. */
    if ((mixed && full) || client->yields++ > 2 + (unsigned)rl_roll(world, 3)) {
        if (world->mutant != RL_NO_RETREAT)
            rl_client_let_go(world, client);
        return;
    }
    for (unsigned i = 0; i < world->n; i++)
        if (nodes >> i & 1)
            beat(world, client, i, true);
}

static void write_back(struct rl_world *world, struct rl_client *client,
                       const struct hfi_ballot_outcome *outcome, int64_t now_ms)
{
    for (unsigned i = 0; i < world->n; i++) {
        struct rl_message m;

        if (!(outcome->nodes >> i & 1))
            continue;
        m = rl_client_request(world, client, i, RL_WRITE);
        m.token = outcome->token;
        hfi_ballot_writing(&client->ballot, i, outcome->token);
        client->seat[i].wrote_ms = now_ms;
        rl_send(world, &m);
    }
}

static void decide(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    struct hfi_ballot_outcome outcome = hfi_ballot_decide(&client->ballot, client->waits);

    switch (outcome.verdict) {
    case HFI_BALLOT_WRITE:
        if (world->mutant == RL_NO_WRITE_BACK) {
            outcome.sent_ms = now_ms;
            outcome.held_ms = world->window_ms;
            rl_held_begin(world, client, &outcome);
        } else
            write_back(world, client, &outcome, now_ms);
        return;
    case HFI_BALLOT_WON:
        rl_held_begin(world, client, &outcome);
        if (client->phase == RL_ASKING)
            start_over(world, client); /* too late to be of use */
        return;
    case HFI_BALLOT_SPLIT:
        yield(world, client, outcome.nodes, now_ms);
        return;
    case HFI_BALLOT_OPEN:
    case HFI_BALLOT_WAITING:
        return;
    default:
        if (!client->waits)
            rl_client_let_go(world, client);
    }
}

/* ---- time ---------------------------------------------------------------------------------------------- */

/* Handle requests whose answers are overdue. */
static void overdue(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    int64_t limit_ms = world->calm ? world->window_ms / 2 : client->answer_ms;

    for (unsigned i = 0; i < world->n; i++) {
        struct rl_seat *seat = &client->seat[i];
        struct hfi_ballot_node *at = &client->ballot.node[i];

        if (at->asked && now_ms - seat->wrote_ms > limit_ms)
            hfi_ballot_writing(&client->ballot, i, 0);
        if (at->vote != HFI_VOTE_ASKED || now_ms - seat->asked_ms <= limit_ms)
            continue;
        /* The yield may still be executed, and take back a later grant: this attempt cannot be used
         * any more. */
        hfi_ballot_voted(&client->ballot, i,
                         seat->yielding && world->mutant != RL_LATE_YIELD ? HFI_VOTE_OTHER
                                                                          : HFI_VOTE_SILENT);
        seat->spoilt = seat->yielding;
        seat->yielding = false;
    }
}

static void heartbeat(struct rl_world *world, struct rl_client *client, int64_t now_ms)
{
    client->beat_ms = now_ms + world->beat_ms;
    for (unsigned i = 0; i < world->n; i++)
        switch (client->ballot.node[i].vote) {
        case HFI_VOTE_GRANTED:
        case HFI_VOTE_QUEUED:
        case HFI_VOTE_SILENT: /* we may be in its queue, or hold there: find that out first */
            beat(world, client, i, false);
            break;
        case HFI_VOTE_ASKED:
            break;
        default:
            if (client->waits)
                ask(world, client, i);
        }
}

void rl_client_step(struct rl_world *world, struct rl_client *client)
{
    int64_t now_ms = rl_client_ms(world, client);

    if (client->viewing && now_ms - client->view_ms > world->window_ms / 2)
        end_of_look(world, client);
    if (!client->in_epoch && !client->viewing)
        look_for_epoch(world, client, now_ms);
    if (client->phase == RL_IDLE && client->in_epoch && now_ms >= client->next_ms &&
        !(world->calm && client->won_in_calm))
        begin(world, client, now_ms);
    if (client->phase == RL_HELD)
        rl_held_step(world, client, now_ms);
    if (client->phase == RL_ASKING) {
        overdue(world, client, now_ms);
        if (now_ms >= client->beat_ms)
            heartbeat(world, client, now_ms);
        decide(world, client, now_ms);
    }
    if (client->phase == RL_ASKING && now_ms >= client->give_up_ms)
        rl_client_let_go(world, client);
    rl_set_timer(world, client->number,
                 world->window_ms * 1000 / 4 +
                     (int64_t)rl_roll(world, 1 + (uint64_t)world->window_ms * 30));
}
