/* SPDX-License-Identifier: MIT */
/* The line of waiters, and when a waiter looks again. Pure; see pace.h. */
#include "engine/memcached/pace.h"

#define LEAST_US 1000 /* the shortest rest: times are in milliseconds */

/* How far `to` is behind `from` in line; 0: it is not, or the numbers are of two counters. */
static uint32_t places(uint32_t from, uint32_t to)
{
    uint32_t apart = to - from;

    return from && to && apart < MEMCACHED_LINE_MAX_AHEAD ? apart : 0;
}

uint32_t memcached_pace_ahead(const struct memcached_pace *pace)
{
    uint32_t apart = places(pace->serving, pace->ticket);

    return apart > 0 ? apart - 1 : 0;
}

/* Each turn takes one ticket, so the counter counts turns: so many tickets took so long. */
static void count_turns(struct memcached_pace *pace, uint32_t ticket, int64_t now_us)
{
    uint32_t turns = places(pace->first, ticket);

    if (turns > 0)
        pace->turn_us = (now_us - pace->first_us) / turns;
}

void memcached_pace_ticket(struct memcached_pace *pace, uint32_t ticket, int64_t now_us)
{
    pace->asked = true;
    pace->ticket = ticket;
    pace->ticket_us = now_us;
    count_turns(pace, ticket, now_us);
}

/* A waiter that had no ticket lately counts by the tickets of the holders. These come a few places too early or too late,
 * since whoever finds the name vacant takes it. */
void memcached_pace_saw(struct memcached_pace *pace, const struct memcached_seen *seen,
                        int64_t now_us)
{
    if (seen->holder != pace->holder) {
        pace->holder = seen->holder;
        pace->since_us = now_us;
    }
    if (seen->ticket)
        pace->serving = seen->ticket;
    if (seen->ticket && !pace->first) {
        pace->first = seen->ticket;
        pace->first_us = now_us;
        pace->guesses = true;
    }
    if (pace->guesses)
        count_turns(pace, seen->ticket, now_us);
}

/* A holder without a ticket does not know that we wait. One with a larger ticket than ours does not either: it asks for its
 * next one, and sees that nobody has come since. */
enum memcached_step memcached_pace_step(const struct memcached_pace *pace,
                                        const struct memcached_seen *seen)
{
    bool knows = seen->ticket && places(pace->ticket, seen->ticket) == 0;

    if (!pace->asked)
        return MEMCACHED_TAKE_TICKET;
    if (!seen->marked && !knows && pace->marked != seen->holder)
        return MEMCACHED_MARK;
    return MEMCACHED_REST;
}

/*
 * The next in line looks when a third of the turn that is left has passed: a turn that ends early costs a third of a turn. A
 * turn that takes longer than expected is looked at less and less often. The others rest until those ahead are done.
 */
int64_t memcached_pace_rest_us(const struct memcached_pace *pace, int64_t poll_us, int64_t now_us,
                               uint64_t chance)
{
    int64_t ahead = memcached_pace_ahead(pace), spent_us = now_us - pace->since_us, rest_us;
    int64_t slower_us = (ahead + 1) * (spent_us < poll_us ? spent_us : poll_us) / 4;

    if (ahead > 0)
        rest_us = ahead * pace->turn_us - spent_us;
    else
        rest_us = (pace->turn_us - spent_us) / 3;
    if (rest_us < slower_us)
        rest_us = slower_us;
    rest_us = rest_us / 2 + (int64_t)(chance % (uint64_t)(rest_us / 4 + 1));
    if (rest_us > poll_us)
        rest_us = poll_us - (int64_t)(chance % (uint64_t)(poll_us / 4 + 1));
    return rest_us < LEAST_US ? LEAST_US : rest_us;
}

/* ---- manners --------------------------------------------------------------------------------- */

static struct memcached_manner *slot(struct memcached_manners *manners, const uint64_t hash[2])
{
    return &manners->names[hash[0] % MEMCACHED_MANNERS];
}

void memcached_manners_note(struct memcached_manners *manners, const uint64_t hash[2],
                            const struct memcached_pace *pace, bool wanted, int64_t now_ms)
{
    *slot(manners, hash) = (struct memcached_manner){ .hash = { hash[0], hash[1] },
                                                      .serving = pace->ticket,
                                                      .wanted = wanted,
                                                      .ticket_us = pace->ticket_us,
                                                      .until_ms = now_ms + MEMCACHED_MANNERS_MS };
}

bool memcached_manners_recall(const struct memcached_manners *manners, const uint64_t hash[2],
                              int64_t now_ms, int64_t now_us, struct memcached_pace *ret_pace,
                              bool *ret_wanted)
{
    const struct memcached_manner *one = &manners->names[hash[0] % MEMCACHED_MANNERS];

    if (one->hash[0] != hash[0] || one->hash[1] != hash[1] || one->until_ms <= now_ms)
        return false;
    *ret_pace = (struct memcached_pace){ .serving = one->serving,
                                         .first = one->serving,
                                         .first_us = one->ticket_us,
                                         .since_us = now_us };
    *ret_wanted = one->wanted;
    return true;
}

bool memcached_manners_yield(struct memcached_manners *manners, const uint64_t hash[2],
                             struct memcached_pace *pace, bool wanted)
{
    if (wanted || !pace->ticket || !pace->serving || memcached_pace_ahead(pace) > 0)
        return pace->ticket != 0;
    slot(manners, hash)->until_ms = 0;
    pace->ticket = 0; /* we ask as a newcomer does, and our lease says so */
    return false;
}
