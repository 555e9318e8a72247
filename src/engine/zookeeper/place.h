/* SPDX-License-Identifier: MIT */
/*
 * Who holds, by position, and what a waiter must watch. Pure.
 *
 * Members stand in the order in which the server made their nodes: the sequence, which counts the
 * nodes made below one parent and wraps at 2^31. A parent with children cannot be deleted, so all
 * children that are there at one time were made below the same parent, and their sequences compare
 * by difference. Where live members are further apart than half of what can be told by a difference
 * (one was held while 2^30 others came and went), nothing is decided: ZK_UNORDERED.
 *
 * A member holds if all before it are of its kind and capacity, and their permits and its own fit.
 * That can only become true, never false again, for nobody is ever put in before it. So of two who
 * hold, the later one has seen the earlier one, of the same kind, and has fitted beside it.
 */
#ifndef ZK_PLACE_H
#define ZK_PLACE_H

#include "engine/zookeeper/path.h"

enum zk_answer {
    ZK_HOLDS,
    ZK_WAITS,
    ZK_MISMATCH, /* the first is of another kind: it holds, so the name is in use as that */
    ZK_ABSENT,   /* we are not among them */
    ZK_UNORDERED
};

struct zk_place {
    enum zk_answer answer;
    uint32_t ahead;  /* members before us that must go before we hold; at least 1 if we wait */
    uint32_t behind; /* members after us */
    /* WAITS: the last of those that stand in our way. When it goes, look again; if it was the only
     * one (`ahead` is 1) and `exact`, we hold. NULL: watch the list of children: we are the first who
     * waits, and any of several holders may go. */
    const char *watch;
    bool exact;
    bool tells; /* HOLDS: who waits behind us watches us, and must be told that it is first now */
};

/* Sort `members`, and find the one of `owner`. */
struct zk_place zk_place(struct zk_member *members, size_t count,
                         const unsigned char owner[HFI_OWNER_LEN]);

/* For those who look: sort, and say how many from the first on hold. false: cannot be told. */
bool zk_sort(struct zk_member *members, size_t count, size_t *ret_holders);

#endif
