/* SPDX-License-Identifier: MIT */
/* See queue.h. */
#include "engine/zookeeper/queue.h"

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

/* Are all members so near to each other that the differences of their sequences define an order? It
 * is enough that all are within half of the allowed distance of one of them. */
static bool is_ordered(const struct zk_member *members, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t far = apart(members[i].sequence, members[0].sequence);

        if (far >= FAR || far <= -FAR)
            return false;
    }
    return true;
}

bool zk_queue_sort(struct zk_member *members, size_t count, size_t *ret_holders)
{
    struct hfi_line line = { .count = 0 };

    if (!is_ordered(members, count))
        return false;
    if (count > 1)
        qsort(members, count, sizeof *members, by_sequence);
    for (size_t i = 0; i < count; i++)
        (void)hfi_line_add(&line, &members[i].demand);
    *ret_holders = line.holders;
    return true;
}

/* Some, not all, of a semaphore's permits. */
static bool is_part(const struct hfi_demand *demand)
{
    return demand->mode == HFI_MODE_SEMAPHORE && demand->permits < demand->capacity;
}

/*
 * It does not hold. With one blocker, it watches that one. With several, it watches the one before the nearest, which must
 * go as well. When that has gone it reads the queue again, usually while the nearest one holds: then the nearest is the only
 * one, and its end is the grant. If it watched the nearest one instead, it would have to read the queue after the end of
 * that one, to learn whether it held or only left the queue: a round trip in every hand-over.
 *
 * Without a blocker (some of several permits), any holder that goes may make room: the first waiter watches the list of
 * children, and each of the others the waiter before it.
 *
 * A claim of some permits reads the queue again even after its last blocker has gone: only that
 * shows whether others wait behind it, which it must tell.
 */
static void find_watch(const struct zk_member *members, size_t at, const struct hfi_position *ahead,
                       struct zk_position *ret_position)
{
    bool last = hfi_position_blocked_once(ahead) && !is_part(&members[at].demand);

    if (ahead->blocker != HFI_NO_BLOCKER) {
        size_t watched = last || ahead->before == HFI_NO_BLOCKER ? ahead->blocker : ahead->before;

        ret_position->watch = last ? ZK_WATCH_LAST : ZK_WATCH_BLOCKER;
        ret_position->node = members[watched].node;
    } else if (hfi_position_is_next(ahead)) {
        ret_position->watch = ZK_WATCH_LIST;
    } else {
        ret_position->watch = ZK_WATCH_WAITER;
        ret_position->node = members[at - 1].node;
    }
}

struct zk_position zk_queue_find(struct zk_member *members, size_t count,
                                 const unsigned char owner[HFI_OWNER_LEN])
{
    static const enum zk_answer answers[] = { [HFI_VERDICT_HOLDS] = ZK_HOLDS,
                                              [HFI_VERDICT_WAITS] = ZK_WAITS,
                                              [HFI_VERDICT_MISMATCH] = ZK_MISMATCH };
    struct zk_position position = { .answer = ZK_ABSENT };
    struct hfi_position ahead;
    size_t at = 0, holders = 0;
    bool ordered = zk_queue_sort(members, count, &holders);

    while (at < count && memcmp(members[at].owner, owner, HFI_OWNER_LEN) != 0)
        at++;
    if (at == count)
        return position;
    if (!ordered) {
        position.answer = ZK_UNORDERED;
        return position;
    }

    hfi_position_begin(&ahead, &members[at].demand);
    for (size_t i = 0; i < at; i++)
        hfi_position_ahead(&ahead, &members[i].demand);
    position.answer = answers[hfi_position_verdict(&ahead)];
    position.first = ahead.ahead.first;
    position.wanted = position.answer == ZK_HOLDS && holders < count;
    if (position.answer == ZK_HOLDS)
        position.tells = at + 1 < count && is_part(&members[at].demand);
    else
        find_watch(members, at, &ahead, &position);
    return position;
}

size_t zk_queue_twins(struct zk_member *members, size_t count, const char *own)
{
    size_t others = 0;

    for (size_t i = 0; i < count; i++) {
        struct zk_member one = members[i];

        if (strncmp(one.node, own, ZK_PREFIX_LEN) == 0 && strcmp(one.node, own) != 0)
            continue;
        members[i] = members[others];
        members[others++] = one;
    }
    return others;
}

/* Can the two never hold together? */
static bool excludes(const struct hfi_demand *holder, const struct hfi_demand *waiter)
{
    struct hfi_position position;

    hfi_position_begin(&position, waiter);
    hfi_position_ahead(&position, holder);
    return position.blockers > 0;
}

bool zk_queue_waiter(struct zk_member *members, size_t count,
                     const unsigned char owner[HFI_OWNER_LEN], const int32_t *after,
                     struct zk_waiter *ret_waiter)
{
    size_t holders = 0, own = 0, at;

    if (!zk_queue_sort(members, count, &holders))
        return false;
    while (own < holders && memcmp(members[own].owner, owner, HFI_OWNER_LEN) != 0)
        own++;
    at = holders;
    while (after && at < count && apart(members[at].sequence, *after) <= 0)
        at++;
    if (own == holders || at == count)
        return false;
    *ret_waiter = (struct zk_waiter){ members[at].node, members[at].sequence,
                                      excludes(&members[own].demand, &members[at].demand) };
    return true;
}
