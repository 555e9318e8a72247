/* SPDX-License-Identifier: MIT */
/*
 * The members of a queue in their order, and what one of them must watch. Pure. kit/position.h
 * decides which members hold, and has the proof.
 *
 * Members are in the order in which the server made their nodes: that of the sequence, which counts
 * the nodes made below one parent and wraps at 2^31. A parent with children cannot be deleted, so
 * all children that exist at one time were made below the same parent, and the difference of two
 * sequences gives their order. If live members are too far apart for that (one was held while 2^30
 * others came and went), nothing is decided: ZK_UNORDERED.
 */
#ifndef ZK_QUEUE_H
#define ZK_QUEUE_H

#include "engine/zookeeper/path.h"

enum zk_answer {
    ZK_HOLDS,
    ZK_WAITS,
    ZK_MISMATCH, /* the first member holds and is of another kind: the name is in use as that
                  * kind */
    ZK_ABSENT,   /* our node is not in the list */
    ZK_UNORDERED
};

/* What a claim watches. */
enum zk_watch {
    ZK_WATCH_NONE,
    ZK_WATCH_LIST, /* the list of children: it is the first waiter, and any of several holders may make room */
    ZK_WATCH_WAITER,  /* the waiter before it, whose grant makes it the first one */
    ZK_WATCH_BLOCKER, /* a node that must go before it holds ... */
    ZK_WATCH_LAST,    /* ... and it holds as soon as that has gone, without reading the queue
                       * again */
    ZK_WATCH_OWN      /* its own node: it holds (lease.c) */
};

struct zk_position {
    enum zk_answer answer;
    enum zk_watch watch; /* WAITS, MISMATCH */
    const char *node;    /* the one to watch; NULL: the list */
    /* HOLDS: a waiter behind it watches it, and must be told that it is the first one now */
    bool tells;
    bool wanted;             /* HOLDS: others wait */
    struct hfi_demand first; /* MISMATCH: what the name is in use as */
};

struct zk_waiter {
    const char *node;
    int32_t sequence;
    bool stays; /* it waits for as long as the holder holds, whatever else happens */
};

/* Sort `members`, and find the one of `owner`. */
struct zk_position zk_queue_find(struct zk_member *members, size_t count,
                                 const unsigned char owner[HFI_OWNER_LEN]);

/* Move the members that have the owner of `own`, a node's name or no more than its prefix, and another name, behind all others. Returns how
 * many others there are. */
size_t zk_queue_twins(struct zk_member *members, size_t count, const char *own);

/* For the holder `owner`: sort, and find the first waiter, of those later than `after` (a sequence; NULL: of all). false:
 * there is none, or the order is not known. */
bool zk_queue_waiter(struct zk_member *members, size_t count,
                     const unsigned char owner[HFI_OWNER_LEN], const int32_t *after,
                     struct zk_waiter *ret_waiter);

/* For inspection: sort, and count the holders, which are the first ones. false: the order is not
 * known. */
bool zk_queue_sort(struct zk_member *members, size_t count, size_t *ret_holders);

#endif
