/* SPDX-License-Identifier: MIT */
/*
 * The judge of the Redlock simulation sees everything at once.
 *
 * Whatever happens, clock jumps and pauses included:
 *  - tokens of acquisitions that exclude each other are unique (blocks of them do not overlap);
 *  - who began after another had won gets a larger token;
 *  - a renewal says yes only if nobody won in between who excludes it;
 *  - the resource that checks tokens never goes back and loses no update;
 *  - the epoch of a node that keeps its data only rises (redlock_node.c), and one that lost it comes back in a
 *    higher epoch than any that it voted in.
 * As long as no clock has jumped (and no acquire was sent twice):
 *  - clients that say "held" by their own clock, and are awake, do not exclude each other; a
 *    semaphore's are not more than its capacity, and have slots of their own.
 * When the faults end, everybody gets it once more, unless a majority has lost its data.
 */
#include "redlock.h"

#include <stdarg.h>
#include <stdio.h>

void rl_wrong(struct rl_world *world, const char *format, ...)
{
    va_list args;

    if (world->verdict[0])
        return;
    va_start(args, format);
    vsnprintf(world->verdict, sizeof world->verdict, format, args);
    va_end(args);
}

static bool exclude(const struct rl_world *world, const struct rl_win *a, const struct rl_win *b)
{
    if (world->mode == RL_SEMAPHORE)
        return (a->slots & b->slots) != 0;
    return world->mode == RL_MUTEX || a->permits > 1 || b->permits > 1;
}

static void compare(struct rl_world *world, const struct rl_win *old, const struct rl_win *new)
{
    if (old->won_us < new->began_us &&new->token - new->tokens < old->token)
        rl_wrong(world, "client %u began after client %u had won %llu, and won %llu", new->client,
                 old->client, (unsigned long long)old->token, (unsigned long long)new->token);
    if (exclude(world, old, new) && new->token > old->token - old->tokens &&
        old->token > new->token - new->tokens)
        rl_wrong(world, "clients %u and %u have won %llu and %llu (%u, %u)", old->client,
                 new->client, (unsigned long long)old->token, (unsigned long long)new->token,
                 old->tokens, new->tokens);
}

unsigned rl_judge_won(struct rl_world *world, const struct rl_client *client)
{
    unsigned number = world->wins;
    struct rl_win win = { .client = client->number,
                          .token = client->token,
                          .tokens = client->tokens,
                          .slots = client->choice,
                          .permits = client->permits,
                          .began_us = client->began_us,
                          .won_us = world->now_us };

    if (number == RL_WINS) {
        rl_wrong(world, "the simulation has too little room for wins");
        return 0;
    }
    for (unsigned i = 0; i < number; i++)
        compare(world, &world->win[i], &win);
    world->win[world->wins++] = win;
    return number;
}

void rl_judge_renewed(struct rl_world *world, const struct rl_client *client, int64_t sent_us)
{
    const struct rl_win *mine = &world->win[client->win];

    for (unsigned i = 0; i < world->wins; i++)
        if (world->win[i].token > mine->token && world->win[i].won_us < sent_us &&
            exclude(world, mine, &world->win[i]))
            rl_wrong(world, "client %u renewed %llu after client %u had won %llu", client->number,
                     (unsigned long long)mine->token, world->win[i].client,
                     (unsigned long long)world->win[i].token);
}

/* The property on which the proof of healing depends. Mutants of healing must be seen to break
 * tokens, except two for which that would take too long. */
void rl_judge_back(struct rl_world *world, unsigned node, const struct hfi_epoch *epoch)
{
    const struct hfi_epoch *voted = &world->node[node].voted;

    if (world->mutant == RL_NUMBER_ONLY ? epoch->number > voted->number
                                        : hfi_epoch_compare(epoch, voted) > 0)
        return;
    if (world->mutant == RL_SOUND || world->mutant == RL_NUMBER_ONLY ||
        world->mutant == RL_ONE_MARKER)
        rl_wrong(world, "node %u forgot its votes of epoch %llu, and votes in epoch %llu", node,
                 (unsigned long long)voted->number, (unsigned long long)epoch->number);
}

void rl_judge(struct rl_world *world)
{
    const struct rl_win *held[RL_CLIENTS];
    unsigned count = 0;
    uint32_t permits = 0;

    if (world->loose)
        return;
    for (unsigned i = 0; i < world->client_count; i++) {
        const struct rl_client *client = &world->client[i];

        if (client->paused_until_us > world->now_us || !rl_held_now(world, client))
            continue;
        permits += client->permits;
        held[count++] = &world->win[client->win];
        for (unsigned j = 0; j + 1 < count; j++)
            if (exclude(world, held[j], held[count - 1]))
                rl_wrong(world, "clients %u and %u both hold", held[j]->client, client->number);
    }
    if (world->mode == RL_SEMAPHORE && permits > world->capacity)
        rl_wrong(world, "%u permits of %u are held", permits, world->capacity);
}

void rl_judge_rest(struct rl_world *world)
{
    for (unsigned i = 0; i < world->client_count && !world->excused; i++)
        if (!world->client[i].won_in_calm)
            rl_wrong(world, "client %u waits for ever (phase %d)", i, world->client[i].phase);
    if (world->stored != world->value)
        rl_wrong(world, "%llu updates of the resource left %llu", (unsigned long long)world->stored,
                 (unsigned long long)world->value);
}

/* A client claims before it reads, and only the highest claim may store. */
void rl_resource_call(struct rl_world *world, struct rl_message *m)
{
    m->reply = true;
    m->said = 'N';
    if (m->verb == RL_CLAIM && m->token >= world->claimed) {
        world->claimed = m->token;
        if (world->mutant != RL_READ_FIRST)
            m->value = world->value;
        m->said = 'G';
    } else if (m->verb == RL_STORE && m->token == world->claimed) {
        if (m->value != world->value + 1)
            rl_wrong(world, "an update of the resource was lost (token %llu)",
                     (unsigned long long)m->token);
        world->value = m->value;
        world->stored++;
        m->said = 'G';
    }
}
