/* SPDX-License-Identifier: MIT */
/* See place.h. */
#include "engine/zookeeper/place.h"

#include <stdlib.h>
#include <string.h>

#define FAR (INT64_C(1) << 30)

static int32_t apart(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static int by_sequence(const void *left, const void *right)
{
    int32_t order = apart(((const struct zk_member *)left)->sequence,
                          ((const struct zk_member *)right)->sequence);

    return order < 0 ? -1 : order > 0;
}

/* Is everybody near enough to everybody else for the difference to be an order? Near to one of them
 * is not enough, but within half the distance is. */
static bool is_ordered(const struct zk_member *members, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t far = apart(members[i].sequence, members[0].sequence);

        if (far >= FAR || far <= -FAR)
            return false;
    }
    return true;
}

static bool same_kind(const struct zk_member *a, const struct zk_member *b)
{
    return a->mode == b->mode && a->capacity == b->capacity;
}

bool zk_sort(struct zk_member *members, size_t count, size_t *ret_holders)
{
    uint64_t taken = 0;
    size_t holders = 0;

    if (!is_ordered(members, count))
        return false;
    if (count > 1)
        qsort(members, count, sizeof *members, by_sequence);
    while (holders < count && same_kind(&members[holders], &members[0]) &&
           taken + members[holders].permits <= members[0].capacity)
        taken += members[holders++].permits;
    *ret_holders = holders;
    return true;
}

/* Does `one`, who stands before `us`, have to go before we hold, whoever else goes? A reader only
 * waits for writers; who takes all waits for everybody. */
static bool in_the_way(const struct zk_member *one, const struct zk_member *us)
{
    return !same_kind(one, us) || us->permits == us->capacity || one->permits == one->capacity;
}

/* We do not hold. Whom to watch? */
static void find_watch(const struct zk_member *members, size_t at, size_t holders,
                       struct zk_place *place)
{
    const struct zk_member *us = &members[at];

    /* Some of several semaphore permits: any holder that goes may make room, and only the first who
     * waits looks at all of them. The others watch who waits before them. */
    if (us->mode == HFI_MODE_SEMAPHORE && us->permits < us->capacity) {
        place->ahead = (uint32_t)at;
        if (at != holders)
            place->watch = members[at - 1].node;
        return;
    }
    for (size_t i = 0; i < at; i++)
        if (in_the_way(&members[i], us)) {
            place->ahead++;
            place->watch = members[i].node;
        }
    place->exact = true;
}

struct zk_place zk_place(struct zk_member *members, size_t count,
                         const unsigned char owner[HFI_OWNER_LEN])
{
    struct zk_place place = { .answer = ZK_ABSENT };
    size_t at = 0, holders = 0;
    bool ordered = zk_sort(members, count, &holders);

    while (at < count && memcmp(members[at].owner, owner, HFI_OWNER_LEN) != 0)
        at++;
    if (at == count)
        return place;
    if (!ordered) {
        place.answer = ZK_UNORDERED;
        return place;
    }

    place.behind = (uint32_t)(count - at - 1);
    if (at < holders) {
        place.answer = ZK_HOLDS;
        place.tells = place.behind > 0 && members[at].mode == HFI_MODE_SEMAPHORE &&
                      members[at].permits < members[at].capacity;
        return place;
    }
    place.answer = same_kind(&members[at], &members[0]) ? ZK_WAITS : ZK_MISMATCH;
    find_watch(members, at, holders, &place);
    return place;
}
