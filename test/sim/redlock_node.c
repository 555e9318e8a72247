/* SPDX-License-Identifier: MIT */
/* A node of the simulation: does what the scripts do, each call in one step. See
 * scripts/README.md. */
#include "redlock.h"

#include <string.h>

#define STAMP_BACK_US 100000 /* a stamp is at most this many microseconds old */
#define AHEAD_US      INT64_C(60000000)

static bool same_epoch(const struct rl_world *world, const struct hfi_epoch *a,
                       const struct hfi_epoch *b)
{
    if (world->mutant == RL_NUMBER_ONLY)
        return a->number == b->number;
    return hfi_epoch_compare(a, b) == 0;
}

/* ---- records ------------------------------------------------------------------------------ */

static struct redlock_record *find(struct rl_list *list, uint64_t owner)
{
    for (unsigned i = 0; i < list->count; i++)
        if (list->at[i].owner == owner)
            return &list->at[i];
    return NULL;
}

static void drop(struct rl_list *list, const struct redlock_record *record)
{
    list->at[record - list->at] = list->at[--list->count];
}

static void add(struct rl_world *world, struct rl_list *list, const struct redlock_record *record)
{
    if (list->count == RL_RECORDS)
        rl_wrong(world, "the simulation has too little room at a node");
    else
        list->at[list->count++] = *record;
}

static void let_end(struct rl_list *list, int64_t now_ms)
{
    for (unsigned i = list->count; i-- > 0;)
        if (list->at[i].until_ms < now_ms)
            drop(list, &list->at[i]);
}

/* ---- what fits, and counters ------------------------------------------------------------------ */

static uint64_t free_slots(const struct rl_world *world, const struct redlock_node *node,
                           const struct redlock_record *ask)
{
    uint64_t taken = 0, slots = 0;
    uint32_t left = ask->permits;

    for (unsigned i = 0; i < node->holders.count; i++)
        taken |= node->holders.at[i].slots;
    for (unsigned i = 0; i < world->capacity && left; i++) {
        uint64_t slot = UINT64_C(1) << (ask->start + i) % world->capacity;

        if (!(taken & slot)) {
            slots |= slot;
            left--;
        }
    }
    return left ? 0 : slots;
}

static bool fits(const struct rl_world *world, const struct redlock_node *node,
                 struct redlock_record *ask)
{
    uint32_t held = 0, most = 0;

    for (unsigned i = 0; i < node->holders.count; i++) {
        held += node->holders.at[i].permits;
        if (node->holders.at[i].permits > most)
            most = node->holders.at[i].permits;
    }
    ask->slots = 0;
    if (world->mode == RL_SEMAPHORE && world->mutant == RL_COUNT_PERMITS)
        return held + ask->permits <= world->capacity;
    if (world->mode == RL_SEMAPHORE)
        return (ask->slots = free_slots(world, node, ask)) != 0;
    if (world->mode == RL_RW && ask->permits == 1)
        return most <= 1;
    return held == 0;
}

static uint64_t counter_of(const struct redlock_node *node)
{
    return node->counter ? node->counter : node->floor;
}

static void set_counter(struct redlock_node *node, uint64_t counter)
{
    node->voted = node->epoch;
    node->counter = counter;
    if (counter > node->top)
        node->top = counter;
}

static void grant(struct rl_world *world, unsigned number, const struct redlock_record *ask,
                  uint64_t proposal, int64_t for_ms)
{
    struct redlock_node *node = &world->node[number];
    int64_t now_ms = rl_node_ms(world, number);
    uint64_t counter = counter_of(node) + ask->tokens;
    struct redlock_record holder = *ask;

    if ((int64_t)proposal <= now_ms * 1000 + AHEAD_US && proposal + ask->tokens - 1 > counter)
        counter = proposal + ask->tokens - 1;
    set_counter(node, counter);
    holder.token = counter;
    holder.until_ms = now_ms + for_ms;
    add(world, &node->holders, &holder);
}

/* ---- the queue ---------------------------------------------------------------------------------- */

static bool earlier(const struct redlock_record *a, const struct redlock_record *b)
{
    return a->stamp != b->stamp ? a->stamp < b->stamp : a->owner < b->owner;
}

static struct redlock_record *first_waiter(struct rl_world *world, unsigned number)
{
    struct redlock_node *node = &world->node[number];
    struct redlock_record *first = NULL;

    for (unsigned i = node->waiters.count; i-- > 0;)
        if (node->waiters.at[i].until_ms < rl_node_ms(world, number) ||
            !same_epoch(world, &node->waiters.at[i].epoch, &node->epoch))
            drop(&node->waiters, &node->waiters.at[i]);
    for (unsigned i = 0; i < node->waiters.count; i++)
        if (!first || earlier(&node->waiters.at[i], first))
            first = &node->waiters.at[i];
    return first;
}

static void tell(struct rl_world *world, unsigned number, const struct redlock_record *winner)
{
    const struct redlock_record *holder = find(&world->node[number].holders, winner->owner);
    struct rl_message message = { .verb = RL_PUSH,
                                  .reply = true,
                                  .node = number,
                                  .actor = winner->client,
                                  .owner = winner->owner,
                                  .attempt = winner->attempt,
                                  .said = 'G',
                                  .counter = holder ? holder->token : 0,
                                  .slots = winner->slots,
                                  .ms = winner->window_ms };

    rl_send(world, &message);
}

/* Remove what has expired, then hand over strictly in order. */
static void serve(struct rl_world *world, unsigned number, uint64_t proposal)
{
    struct redlock_node *node = &world->node[number];
    struct redlock_record *first;

    let_end(&node->holders, rl_node_ms(world, number));
    let_end(&node->tombs, rl_node_ms(world, number));
    while ((first = first_waiter(world, number)) && fits(world, node, first)) {
        struct redlock_record winner = *first;

        drop(&node->waiters, first);
        grant(world, number, &winner, proposal, winner.window_ms);
        tell(world, number, &winner);
    }
}

/* ---- calls of clients ------------------------------------------------------------------------------ */

static void say_held(struct rl_world *world, const struct redlock_record *holder,
                     struct rl_message *m)
{
    m->said = 'G';
    m->counter = holder->token;
    m->slots = holder->slots;
    m->ms = holder->until_ms - rl_node_ms(world, m->node);
}

static bool refused(struct redlock_node *node, const struct rl_message *m)
{
    const struct redlock_record *tomb = find(&node->tombs, m->owner);
    const struct redlock_record *holder = find(&node->holders, m->owner);
    const struct redlock_record *waiter = find(&node->waiters, m->owner);

    return (tomb && tomb->attempt >= m->attempt) || (holder && holder->attempt > m->attempt) ||
           (waiter && waiter->attempt > m->attempt);
}

static uint64_t bounded(uint64_t stamp, int64_t now_ms)
{
    uint64_t now_us = (uint64_t)now_ms * 1000;

    if (stamp > now_us)
        return now_us;
    return stamp < now_us - STAMP_BACK_US ? now_us - STAMP_BACK_US : stamp;
}

static void acquire(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];
    int64_t now_ms = rl_node_ms(world, m->node);
    struct redlock_record *mine;
    struct redlock_record ask = { .owner = m->owner,
                                  .attempt = m->attempt,
                                  .client = m->actor,
                                  .permits = m->permits,
                                  .tokens = m->tokens,
                                  .stamp = bounded(m->stamp, now_ms),
                                  .start = m->start,
                                  .window_ms = m->window_ms,
                                  .until_ms = now_ms + m->window_ms,
                                  .epoch = node->epoch };

    let_end(&node->holders, now_ms);
    let_end(&node->tombs, now_ms);
    if (refused(node, m)) {
        m->said = 'X';
        return;
    }
    if ((mine = find(&node->waiters, m->owner))) {
        ask.stamp = mine->stamp; /* it keeps its place */
        *mine = ask;
    }
    if ((mine = find(&node->holders, m->owner)) && mine->attempt < m->attempt)
        drop(&node->holders, mine);
    serve(world, m->node, m->proposal);
    if ((mine = find(&node->holders, m->owner))) {
        say_held(world, mine, m);
        return;
    }
    if (!first_waiter(world, m->node) && fits(world, node, &ask)) {
        grant(world, m->node, &ask, m->proposal, m->ttl_ms);
        say_held(world, find(&node->holders, m->owner), m);
        return;
    }
    m->said = m->waits ? 'Q' : 'B';
    m->counter = counter_of(node);
    if (m->waits && !find(&node->waiters, m->owner))
        add(world, &node->waiters, &ask);
}

static struct redlock_record *held_by(struct rl_world *world, const struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];
    struct redlock_record *holder;

    let_end(&node->holders, rl_node_ms(world, m->node));
    holder = find(&node->holders, m->owner);
    return holder && holder->attempt == m->attempt ? holder : NULL;
}

static void write_back(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];
    struct redlock_record *holder = held_by(world, m);

    if (!holder && world->mutant != RL_WRITE_ALWAYS) {
        m->said = 'N';
        return;
    }
    set_counter(node, m->token > counter_of(node) ? m->token : counter_of(node));
    m->said = 'G';
    m->counter = counter_of(node);
    if (holder)
        holder->token = m->counter;
}

static void release(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];
    struct redlock_record *record;
    struct redlock_record tomb = { .owner = m->owner,
                                   .attempt = m->attempt,
                                   .until_ms = rl_node_ms(world, m->node) + m->tombstone_ms };

    m->said = 'N';
    let_end(&node->holders, rl_node_ms(world, m->node));
    if ((record = find(&node->holders, m->owner)) && record->attempt <= m->attempt) {
        drop(&node->holders, record);
        m->said = 'R';
    }
    if ((record = find(&node->waiters, m->owner)) && record->attempt <= m->attempt)
        drop(&node->waiters, record);
    if (m->tombstone_ms && (record = find(&node->tombs, m->owner))) {
        if (record->attempt > tomb.attempt)
            tomb.attempt = record->attempt;
        *record = tomb;
    } else if (m->tombstone_ms)
        add(world, &node->tombs, &tomb);
    serve(world, m->node, m->proposal);
}

static void yield(struct rl_world *world, struct rl_message *m, struct redlock_record *holder)
{
    struct redlock_node *node = &world->node[m->node];
    struct redlock_record *first = first_waiter(world, m->node);
    struct redlock_record back = *holder;

    if (!first || !earlier(first, holder))
        return;
    drop(&node->holders, holder);
    back.window_ms = m->window_ms;
    back.until_ms = rl_node_ms(world, m->node) + m->window_ms;
    back.epoch = node->epoch;
    add(world, &node->waiters, &back);
}

static void beat(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];
    int64_t end_ms = rl_node_ms(world, m->node) + m->window_ms;
    struct redlock_record *record;

    if ((record = find(&node->waiters, m->owner)) && record->attempt == m->attempt &&
        record->until_ms >= rl_node_ms(world, m->node))
        record->until_ms = end_ms;
    if (m->yields && (record = held_by(world, m)))
        yield(world, m, record);
    serve(world, m->node, m->proposal);
    m->said = 'N';
    if ((record = held_by(world, m))) {
        if (record->until_ms < end_ms)
            record->until_ms = end_ms;
        say_held(world, record, m);
    } else if ((record = find(&node->waiters, m->owner)) && record->attempt == m->attempt) {
        m->said = 'Q';
        m->counter = counter_of(node);
    }
}

static void renew(struct rl_world *world, struct rl_message *m)
{
    struct redlock_record *holder = held_by(world, m);
    struct redlock_record ask = { .owner = m->owner,
                                  .attempt = m->attempt,
                                  .permits = m->permits,
                                  .tokens = m->tokens,
                                  .start = m->start,
                                  .until_ms = rl_node_ms(world, m->node) + m->ttl_ms };

    m->said = holder ? 'R' : 'N';
    m->counter = holder ? holder->token : 0;
    if (holder)
        holder->until_ms = ask.until_ms;
    else if (world->mutant == RL_RENEW_RECREATES && world->node[m->node].ready &&
             fits(world, &world->node[m->node], &ask)) {
        add(world, &world->node[m->node].holders, &ask);
        m->said = 'R';
    }
}

/* ---- calls of healers ---------------------------------------------------------------------------------- */

static void status(const struct rl_world *world, struct rl_message *m)
{
    const struct redlock_node *node = &world->node[m->node];

    m->said = node->ready ? 'S' : 'U';
    m->view = (struct hfi_node_view){ .state = node->ready ? HFI_NODE_READY : HFI_NODE_EMPTY,
                                      .marked = node->marked,
                                      .age_ms = rl_node_ms(world, m->node) - node->marked_ms,
                                      .epoch = node->epoch,
                                      .n = world->n,
                                      .max_ttl_ms = world->max_ttl_ms,
                                      .top = node->top };
    memcpy(m->view.marker, node->marker, HFI_EPOCH_ID);
    memcpy(m->view.cluster, node->cluster, HFI_EPOCH_ID);
}

static void mark(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];
    int64_t now_ms = rl_node_ms(world, m->node);

    if (!node->ready &&
        (!node->marked || (m->overwrite_ms && now_ms - node->marked_ms > m->overwrite_ms))) {
        node->marked = true;
        node->marked_ms = now_ms;
        memcpy(node->marker, m->marker, HFI_EPOCH_ID);
    }
    status(world, m);
    m->said = node->ready ? 'I' : 'K';
}

void rl_node_install(struct rl_world *world, unsigned number, const struct hfi_epoch *epoch,
                     uint64_t floor)
{
    struct redlock_node *node = &world->node[number];

    node->ready = true;
    node->marked = false;
    node->epoch = *epoch;
    node->floor = node->top = floor;
    node->counter = 0;
}

static void install(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];

    m->said = 'N';
    if (node->ready)
        m->said = 'I';
    else if (world->mutant == RL_NO_MARKER ||
             (node->marked && memcmp(node->marker, m->marker, HFI_EPOCH_ID) == 0)) {
        rl_judge_back(world, m->node, &m->epoch);
        rl_node_install(world, m->node, &m->epoch, m->floor);
        memcpy(node->cluster, m->view.cluster, HFI_EPOCH_ID);
        m->said = 'D';
    }
}

static void seal(struct rl_world *world, struct rl_message *m)
{
    struct redlock_node *node = &world->node[m->node];

    m->said = 'S';
    if (same_epoch(world, &node->epoch, &m->next)) {
        node->epoch = m->next; /* as it is, or (if only numbers count) as good as it is */
        return;
    }
    if (!same_epoch(world, &node->epoch, &m->epoch)) {
        m->said = 'E';
        return;
    }
    if (hfi_epoch_compare(&m->next, &node->epoch) < 0 && world->mutant != RL_NUMBER_ONLY)
        rl_wrong(world, "an epoch of node %u is lowered", m->node);
    node->epoch = m->next;
}

void rl_node_lose(struct rl_world *world, unsigned number)
{
    struct redlock_node *node = &world->node[number];

    node->holders.count = node->waiters.count = node->tombs.count = 0;
    node->top = node->floor = node->counter = 0;
    node->marked = false;
    if (world->mutant != RL_LOSS_VOTES)
        node->ready = false;
}

/* ---- the door --------------------------------------------------------------------------------------- */

void rl_node_call(struct rl_world *world, struct rl_message *m)
{
    static void (*const calls[])(struct rl_world *, struct rl_message *) = {
        [RL_ACQUIRE] = acquire, [RL_WRITE] = write_back, [RL_BEAT] = beat, [RL_SEAL] = seal
    };
    const struct redlock_node *node = &world->node[m->node];

    m->reply = true;
    switch (m->verb) {
    case RL_RELEASE:
        release(world, m);
        return;
    case RL_RENEW:
        renew(world, m);
        return;
    case RL_MARK:
        mark(world, m);
        return;
    case RL_INSTALL:
        install(world, m);
        return;
    case RL_STATUS:
        status(world, m);
        return;
    default:
        break;
    }
    if (!node->ready)
        m->said = 'U';
    else if (m->verb != RL_SEAL && !same_epoch(world, &m->epoch, &node->epoch)) {
        m->said = 'E';
        m->next = node->epoch;
    } else
        calls[m->verb](world, m);
}
