/* SPDX-License-Identifier: MIT */
/*
 * The votes of N nodes, and what follows from them. Pure: no clock, no I/O, no heap; shared by the
 * engine and the simulator (test/sim), and described by model/token.pml.
 *
 * A ballot is one attempt of one acquisition: one vote of every node. The acquisition is won
 * with token t when a majority of *nodes* (not of replies) hold it for us now and at each of
 * them there was one atomic event at which we held the key and its counter was t just
 * after: the grant itself, or a write-back. Two acquisitions that are won share a node, and
 * between their events there lies a grant to the later one, which raised a counter that was
 * at least the token of the earlier: so tokens are unique and ordered without any clock.
 * (That it was so once is enough for this. But it is won only where the records still say so, and are not
 * about to say something else: renewals are counted by what they say.)
 */
#ifndef HFI_REDLOCK_QUORUM_H
#define HFI_REDLOCK_QUORUM_H

#include "holdfast/holdfast.h"

#include <stdbool.h>
#include <stdint.h>

#define HFI_NODES_MIN 3
#define HFI_NODES_MAX 15 /* a set of nodes is a bit each in a uint32_t */

/* An epoch: compared whole; ordered by number, then by id. */
#define HFI_EPOCH_ID 16
struct hfi_epoch {
    uint64_t number; /* 0: none */
    unsigned char id[HFI_EPOCH_ID];
};
int hfi_epoch_compare(const struct hfi_epoch *a, const struct hfi_epoch *b);

/* A majority of n: for even n more than half. */
unsigned hfi_majority(unsigned n);

/* ---- one acquisition ----------------------------------------------------------------- */

enum hfi_vote {
    HFI_VOTE_NONE,    /* not asked, or it cannot be asked now */
    HFI_VOTE_ASKED,   /* an answer is awaited: the node may have granted, and may be about to revoke
                     * it */
    HFI_VOTE_GRANTED, /* it holds the name for us */
    HFI_VOTE_QUEUED,  /* it has us in its queue */
    HFI_VOTE_BUSY,    /* it refused: another client holds */
    HFI_VOTE_KIND,    /* ... as another kind or capacity */
    HFI_VOTE_FULL,    /* ... because it has no tokens or no memory */
    HFI_VOTE_OTHER,   /* ... for another reason: epoch, uninitialised, tombstone, an error */
    HFI_VOTE_SILENT   /* it did not answer in time, or its connection broke: not known */
};

struct hfi_ballot_node {
    enum hfi_vote vote;
    uint64_t granted; /* GRANTED: the counter just after the grant */
    uint64_t written; /* GRANTED: the counter just after the last write-back known; 0: none */
    uint64_t choice;  /* GRANTED: which slots (a number for the set of them); 0: none */
    int64_t sent_ms;  /* GRANTED: when the request was sent that ... */
    int64_t held_ms;  /* ... granted it for this time */
    uint64_t asked;   /* the t of the write-back that is under way; 0: none */
};

struct hfi_ballot {
    unsigned n, need;
    struct hfi_ballot_node node[HFI_NODES_MAX];
};

/*
 * What the simulation (test/sim/redlock.h) showed that the owner of a ballot must do:
 *  - A message of a grant that has ended must not be taken for the next one's. In the simulation each acquire at a
 *    node has a higher attempt (ballots do not mind that nodes differ in it); in the engine a node that says
 *    "queued" says its counter too, and a message counts only beyond it.
 *  - After a yield a grant there counts only if its counter is higher than that of the grant given up; a yield
 *    that is not answered makes the attempt useless there (it may still be carried out): OTHER, and a higher one.
 *  - A grant by message counts from the send of the last request that found us in the queue.
 *  - "Queued" after GRANTED is old news, unless we yielded: only we take a grant back.
 *  - Yielding alone may not end a SPLIT, for nodes bound stamps by their own clocks and so may differ in who is
 *    first, and one may hold different slots that nobody wants back: after a few, release all, and start
 *    over after a time left to chance.
 *  - Won: out of the queues of the others, and back with what is `wrong`; else they grant it later.
 */
void hfi_ballot_init(struct hfi_ballot *ballot, unsigned n);
void hfi_ballot_asked(struct hfi_ballot *ballot, unsigned node);
/* A grant: by a reply, by a message, or found by a heartbeat. A second one of this attempt from the
 * same node (a duplicate, a heartbeat that found itself granted) replaces the times and keeps what it witnesses. */
void hfi_ballot_granted(struct hfi_ballot *ballot, unsigned node, uint64_t counter, uint64_t choice,
                        int64_t sent_ms, int64_t held_ms);
/* Any other answer of a node: its grant, if there was one, is gone. */
void hfi_ballot_voted(struct hfi_ballot *ballot, unsigned node, enum hfi_vote vote);
/* A write-back: sent (0: not awaited any more, its answer is overdue); answered with the counter just after
 * it; answered "you do not hold" (0: OTHER then). */
void hfi_ballot_writing(struct hfi_ballot *ballot, unsigned node, uint64_t token);
void hfi_ballot_wrote(struct hfi_ballot *ballot, unsigned node, uint64_t counter);

enum hfi_verdict {
    HFI_BALLOT_OPEN, /* answers that are under way may decide it */
    HFI_BALLOT_WON, /* `token`, which `nodes` witness; until the time that follows from sent_ms and held_ms */
    HFI_BALLOT_WRITE,   /* hold a majority, but not with one token: write back `token` at `nodes` */
    HFI_BALLOT_WAITING, /* nothing under way can win it; as many as needed have us in the queue */
    HFI_BALLOT_SPLIT, /* ... or hold for us, but too few do, or with different slots: yield at `nodes` */
    HFI_BALLOT_BUSY, /* no majority is possible: another client holds (`nodes`: where we were
                      * granted) */
    HFI_BALLOT_KIND, /* ... and too many nodes have the name as another kind */
    HFI_BALLOT_FULL, /* ... and too many nodes are full */
    HFI_BALLOT_FEW   /* too few nodes answer, or vote at all */
};

struct hfi_ballot_outcome {
    enum hfi_verdict verdict;
    uint64_t token;  /* WON: the last of the block. WRITE: what to write back */
    uint64_t choice; /* WON: the slots */
    uint32_t nodes;
    uint32_t wrong;  /* WON: nodes that granted other slots: to be given back there */
    int64_t sent_ms; /* WON: a majority holds at least until sent_ms + held_ms, by its own clocks */
    int64_t held_ms;
};

/* `waits`: a place in the queues is worth having (else QUEUED counts as BUSY). Never WON or WRITE
 * for nodes with different slots; WRITE goes only to nodes that hold and have no write-back under way. */
struct hfi_ballot_outcome hfi_ballot_decide(const struct hfi_ballot *ballot, bool waits);

/* ---- renewal and release ---------------------------------------------------------------- */

/* A renewal counts only nodes that witness the token (hfi_outcome.nodes, and those whose grant or write-back says so
 * later); all others count as "no". A node that granted later, or other slots, may have belonged to
 * another client in between, so its yes would prove nothing. */

/* Of n nodes `yes` said yes, `no` said no, `open` may still say something; the others never will. */
enum hfi_tally { HFI_TALLY_OPEN, HFI_TALLY_YES, HFI_TALLY_NO, HFI_TALLY_UNKNOWN };
/* YES: a majority said so. NO: those that did not say no are too few. UNKNOWN: neither, and nothing is open. */
enum hfi_tally hfi_tally(unsigned n, unsigned yes, unsigned no, unsigned open);

/* The slots that a node gave, "0,3", as numbers. false: they are not `permits` numbers in ascending order, each below the largest
 * capacity. */
bool hfi_slots_read(const char *text, size_t len, uint32_t permits,
                    uint32_t ret_slots[HF_SLOTS_MAX]);

/* ---- epochs, start and heal ---------------------------------------------------------------- */

enum hfi_node_state {
    HFI_NODE_UNKNOWN, /* not reachable, or not asked yet */
    HFI_NODE_EMPTY,   /* uninitialised */
    HFI_NODE_READY
};

/* The state that a node reported, or UNKNOWN. */
struct hfi_node_view {
    enum hfi_node_state state;
    bool marked;                         /* EMPTY: it carries a marker ... */
    unsigned char marker[HFI_EPOCH_ID];  /* ... this one */
    int64_t age_ms;                      /* EMPTY and marked: the age of the marker, by its clock */
    struct hfi_epoch epoch;              /* READY */
    unsigned char cluster[HFI_EPOCH_ID]; /* READY */
    unsigned n;                          /* READY: the number of nodes of its cluster */
    int64_t max_ttl_ms;
    uint64_t top; /* READY: the highest counter; read after it was in `epoch` */
};

enum hfi_heal_step {
    HFI_HEAL_NOTHING, /* all nodes that answer are in one epoch */
    /* All n are empty: draw a fresh start id, put hfi_start_marker() on each (overwriting old ones), confirm that
     * all n carry theirs, install hfi_start_epoch(). If the starter dies, INSTALL completes it. */
    HFI_HEAL_START,
    HFI_HEAL_MARK,    /* put a marker on `nodes`, or take note of the one there */
    HFI_HEAL_AGE,     /* an empty node must stay so until `wait_ms` from now */
    HFI_HEAL_SEAL,    /* `nodes`: from the epoch each is in to `epoch` */
    HFI_HEAL_INSTALL, /* `nodes` (one): `epoch`, `floor`, by its marker */
    HFI_HEAL_LIFT,    /* `nodes` lag behind: from the epoch each is in to `epoch` */
    HFI_HEAL_STUCK    /* `why`: only a person can decide */
};

enum hfi_stuck {
    HFI_STUCK_NO,
    HFI_STUCK_FEW,  /* too few nodes are reachable to know: wait */
    HFI_STUCK_LOST, /* all are reachable or it does not matter: fewer than a majority are intact */
    HFI_STUCK_CLUSTERS, /* nodes belong to different clusters */
    HFI_STUCK_COUNT     /* a node has another number of nodes in its cluster */
};

struct hfi_heal {
    enum hfi_heal_step step;
    uint32_t nodes;
    struct hfi_epoch epoch;
    uint64_t floor; /* INSTALL: the maximum + 1 */
    int64_t wait_ms;
    enum hfi_stuck why;
};

/*
 * The next step towards a complete cluster, computed from the states of all nodes only, so that any
 * healer can continue for another. Epochs of a node only rise. A node that refuses a step again and
 * again must be passed as UNKNOWN, or it blocks all later steps.
 */
struct hfi_heal hfi_heal_next(const struct hfi_node_view *nodes, unsigned n);

/* Of a start: the marker of a node (any numbering will do that tells the nodes apart), and the first epoch.
 * A marker is sent to one node, and once. */
void hfi_start_marker(const unsigned char *start_id, unsigned node, unsigned char *ret_marker);
void hfi_start_epoch(const unsigned char *start_id, struct hfi_epoch *ret_epoch);

/* The epoch to use: the one that a majority of all n is in. false: there is none. No other epoch
 * may be used in a request (heal_plan.c says why); the views must be of one round. */
bool hfi_epoch_current(const struct hfi_node_view *nodes, unsigned n, struct hfi_epoch *ret_epoch);

#endif
