/* SPDX-License-Identifier: MIT */
/*
 * The redlock engine, inside: N independent Redis servers, each asked at once, decided by
 * majority. No node knows of another.
 *
 *   engine.c    the table; open, close, submit, cancel; claims by owner
 *   node.c      one server: its links, and the releases that it has not heard of
 *   round.c     one command to several nodes, and their answers
 *   quorum.c    what the answers mean (pure)
 *   heal_plan.c what a cluster that is not whole needs next (pure)
 *   acquire.c   an acquisition: asking, votes, giving back
 *   plain.c     wire=plain: what is said to a node in the way of other Redlocks
 *   majority.c  a majority holds: write-back, winning, confirming
 *   wait.c      its waiting: heartbeats, yielding, messages, trying again
 *   lease.c     release, renew, notes of local passes
 *   adopt.c     taking over a detached lease
 *   heal.c      epochs: looking at the nodes, healing one; heal_start.c: a new cluster
 *   wanted.c    others wait for what we hold, or ask for it
 *   inspect.c   inspect and break; inspect_merge.c: what the nodes say, put together
 *   probe.c     asking all nodes one by one, for callers that may block: doctor.c, status.c, join.c
 *   doctor.c    what these servers mean for the promises
 *   status.c, join.c   hf_redlock_get_status() and hf_redlock_join(), without opening the store
 *
 * Everything is under the lock of the reactor (kit/reactor.h). scripts/README.md says what a node does.
 */
#ifndef HFI_REDLOCK_INTERNAL_H
#define HFI_REDLOCK_INTERNAL_H

#include "engine/engine.h"
#include "engine/kit/claims.h"
#include "engine/kit/handover.h"
#include "engine/kit/request.h"
#include "engine/redis/link.h"
#include "engine/redis/names.h"
#include "engine/redis/plain.h"
#include "engine/redis/protocol.h"
#include "engine/redlock/extension.h"
#include "engine/redlock/quorum.h"
#include "engine/redlock/scripts.h"
#include "util/list.h"

#define REDLOCK_TTL_MS        30000
#define REDLOCK_MAX_TTL_MS    120000 /* max_ttl of a new cluster unless the URL says otherwise */
#define REDLOCK_MAX_TTL_LEAST 3000
#define REDLOCK_BATCH         256 /* names in one renewal or heartbeat */
#define REDLOCK_AHEAD_US \
    10000000                  /* if tokens are this far ahead of our clock, only one is asked
                                 * for */
#define REDLOCK_NOTE_MS   20  /* delay of the note of a local pass */
#define REDLOCK_SILENT_MS 200 /* a node without an answer for this time gets no new acquires */
#define REDLOCK_FLIGHT_MAX \
    4096                          /* unanswered commands of a silent node; beyond that it gets
                                   * nothing */
#define REDLOCK_DEFERRED_MAX 4096 /* releases kept for a node that cannot be reached */
#define REDLOCK_CANCEL_MS    1000 /* how long a cancel waits until nodes confirm */
#define REDLOCK_TRY_MS       4    /* pause before an attempt that failed half way is repeated */
#define REDLOCK_ATTEMPT_ANY  ((uint64_t)HFI_TOKEN_LIMIT - 1)
#define REDLOCK_SLOTS_MAX    4096 /* permits of one lease of a semaphore */
#define REDLOCK_EPOCH_LEN    24   /* as the scripts have it: number (double, little-endian), id */
#define REDLOCK_LAST_LEASES  64
#define REDLOCK_VERSION      3 /* of what is stored; the first byte of a request */
#define REDLOCK_LEASE_LEN \
    (5 + 2 * HFI_OWNER_LEN) /* the name of a lease: 'l', attempt, owner in hex */

struct redlock_node;
struct redlock_round;
struct redlock_wait;

typedef void redlock_answer_fn(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                               const struct hfi_reply *reply, const hf_error *err);
typedef void redlock_over_fn(struct redlock_round *round);
typedef bool redlock_wanted_fn(const struct redlock_round *round);

/* One command to one node. */
struct redlock_leg {
    struct redis_sent sent;
    struct redlock_round *round;
    unsigned node;
};

/*
 * One command to several nodes. From redlock_round_new(); `answer` comes exactly once for every node that it
 * was sent to, possibly from within redlock_round_send(); when none is left `over` is called, if there is one, and it
 * is freed. So it never outlives its last answer. Its answer functions must look up the op or
 * claim, which may have ended long before.
 */
struct redlock_round {
    struct hfi_request request; /* first: they are one address */
    struct redlock_store *store;
    redlock_answer_fn *answer;
    redlock_over_fn *over;
    redlock_wanted_fn *wanted; /* must it be sent again, if the script was missing? NULL: always */
    struct hfi_op *op;         /* of a release, renew, ...; NULL: none, or it has been finished */
    void *data;                /* the caller's */
    unsigned char owner[HFI_OWNER_LEN]; /* the owner, by which its claim is found again */
    uint64_t attempt;
    uint32_t asked;    /* the nodes it was sent to ... */
    uint32_t open;     /* ... and of them those that have not answered */
    unsigned yes, no;  /* the caller's counts */
    uint32_t scripted; /* nodes that were sent a script, after a plain HDEL or SET */
    bool plain;        /* release: it began as a plain HDEL */
    uint32_t name_len; /* release: of `name` */
    int64_t sent_ms;   /* read before the first byte could be sent */
    int64_t ttl_ms;    /* release: how long a late acquire of it is refused */
    bool told;         /* ASK: a holder was told */
    bool sending;      /* within redlock_round_send(): the sender decides afterwards */
    unsigned depth;    /* not over before we are out of it */
    struct hfi_command command;
    struct redlock_leg legs[HFI_NODES_MAX];
    unsigned char name[HF_NAME_MAX]; /* release: the claim may end before the last answer */
};

/* A release that a node has not received. Sent with a tombstone when the node can be reached
 * again. */
struct redlock_deferred_release {
    struct redlock_deferred_release *next;
    unsigned char owner[HFI_OWNER_LEN];
    uint64_t attempt;
    int64_t until_ms; /* obsolete after this: the lease has expired there */
    uint32_t name_len;
    unsigned char name[];
};

struct redlock_node {
    struct redlock_store *store;
    unsigned index;
    struct hfi_link *link, *inbox; /* commands; messages */
    bool inbox_up;
    struct redis_sent inbox_sent;
    char run_id[48];
    hf_error why; /* why it is not up */
    struct hfi_script_set scripts;
    int64_t heard_ms;          /* when it last answered, or was first asked after it owed nothing */
    struct hfi_node_view view; /* heal.c: its last reported state */
    struct redlock_deferred_release *deferred, **deferred_end;
    unsigned deferred_count;
};

/* What we remember of a claim from submit of its acquire (or adopt) until it has ended. */
struct redlock_hold {
    struct hfi_claim_entry entry; /* first; its claim may be gone once the store is being closed */
    struct redlock_wait *wait;    /* while it is being acquired */
    struct hfi_list noted;        /* in store->noted */
    uint64_t attempt;             /* the last one */
    uint64_t choice;              /* which slots it was granted */
    uint64_t token_now;           /* of the last local pass; 0: none */
    int64_t tid;
    uint32_t sent;   /* nodes that may have a record of it */
    uint32_t unsure; /* of these: an acquire may arrive there late, after a release */
    uint32_t full; /* of these: it is not alone there, so that a plain HDEL would not release it */
    uint32_t counts;   /* nodes that witness its token, as far as we know */
    uint64_t top;      /* the last token of its block */
    uint64_t before;   /* LINGERS: of the block before that; 0: none */
    uint64_t refill;   /* LINGERS: of a further block that some nodes may have; 0: none */
    uint32_t released; /* nodes that have released it */
    uint32_t broken;   /* nodes that reported that it was broken */
    uint32_t wanted;   /* WATCHED: nodes that reported that others wait there */
    /* the shortest ttl of a renewal that may arrive late, behind others; 0: none */
    int64_t late_ms;
};

/*
 *            ask all nodes             a majority, one token
 *   ASKING ------------------> open --------------------------> won --> (CONFIRMING) --> granted
 *     ^                         |  ^                             ^
 *     | after a pause           |  | heartbeats, messages        |
 *   RESTING <-- given back -----+  +--- QUEUED ------------------+
 *                               |         | cancel
 *                               +---------+---> CANCELLING --> given back
 */
struct redlock_wait {
    struct hfi_list listed; /* in store->waits */
    struct hfi_op *op;
    struct hfi_claim *claim;
    struct redlock_hold *hold;
    enum hfi_waiter_state state;
    struct hfi_ballot ballot;
    struct hfi_epoch epoch;         /* of this attempt */
    uint64_t stamp;                 /* microseconds: its place among waiters */
    uint32_t start;                 /* semaphore: the slot from which it searches for free ones */
    unsigned tries;                 /* failed attempts, for the pauses between them */
    unsigned splits;                /* times that it yielded, likewise */
    int64_t due_ms;                 /* the next time limit; HFI_NEVER */
    int64_t heartbeat_ms, yield_ms; /* QUEUED: when to do what; due_ms is the earlier */
    bool moved;                     /* a node said that it is in another epoch */
    bool lingers;                   /* a node said that a holder lingers there */
    int64_t left_ms; /* wire=plain: the last of the holders' keys ends after this; 0: not known */
    /* A grant by message counts from here: the send of the first enqueue of this attempt, or of the
     * last enqueue or heartbeat answered "still waiting". */
    int64_t heard_ms[HFI_NODES_MAX];
    /* A message counts only with a counter above this: the counter when the node last reported that
     * we wait, or that of the grant that we are about to return. UINT64_MAX: none counts. */
    uint64_t known[HFI_NODES_MAX];
    uint32_t forgot;                /* CANCELLING: nodes that have no record of it any more */
    hf_status stop;                 /* HF_OK, or the status to end with */
    hf_error err;                   /* why a node did not vote: the last or most important reason */
    uint32_t slots[][HF_SLOTS_MAX]; /* NUMBERED: what each node granted; else there is none */
};

struct redlock_conf { /* what the URL says */
    struct hfi_redis_conf redis;
    int even; /* even=yes|no: 0: an even number of nodes is what is wanted */
    int64_t max_ttl_ms;
};

/*
 * What is said to a node. wire=native: records, queues and epochs of our own (scripts/README.md). wire=plain: what every other
 * Redlock writes, a string with an expiry at exactly the name; rounds, votes, giving back, renewal and confirmation are the same.
 */
struct redlock_wire {
    const struct hfi_op_calls *ops;
    /* no queues, no tokens, no epochs: waiting is trying again, and every node that is up votes */
    bool bare;
    const struct hfi_script *acquire, *release, *renew; /* acquire NULL: a plain command */
    uint32_t keys;      /* of these scripts, beside those of names */
    uint32_t name_keys; /* of each name */
    void (*add_key)(struct redlock_round *round,
                    const struct hfi_name *name); /* name_keys of them */
    void (*add_ask)(struct redlock_round *round, const struct redlock_wait *wait, uint32_t nodes);
    /* A node's answer to that (false: no vote, the node is asked again); one that came when the acquire had been decided. */
    bool (*voted)(struct redlock_store *store, struct redlock_wait *wait,
                  struct redlock_round *round, unsigned node, const struct hfi_reply *reply);
    void (*voted_late)(struct redlock_round *round, unsigned node, const struct hfi_reply *reply);
    void (*add_release)(struct redlock_round *round, int64_t tombstone_ms); /* of round->owner */
    /* The arguments of one lease in a renewal, behind all keys. `last`: of a further block of tokens; 0: none. */
    void (*add_renewal)(struct redlock_round *round, const struct hfi_claim *claim, int64_t ttl_ms,
                        uint64_t last);
    void (*up)(struct redlock_node *node), (*down)(struct redlock_node *node);
};
extern const struct redlock_wire redlock_native, redlock_plain;

struct redlock_store {
    struct hfi_reactor reactor; /* first: they are one address */
    struct hfi_redis_conf *conf;
    const struct redlock_wire *wire;
    unsigned n, need;
    struct redlock_node nodes[HFI_NODES_MAX];
    struct hfi_source heal_timer;
    char prefix[REDIS_STORE_PREFIX_MAX + 1]; /* of all keys: conf's and "rl:" */
    size_t prefix_len;
    struct redis_inbox_name inbox_name;
    bool closing;

    /* heal.c */
    bool has_epoch; /* a majority is in `epoch` */
    struct hfi_epoch epoch;
    int64_t max_ttl_ms; /* of the cluster; before there is one, of the one to be made */
    bool may_start;     /* a fresh cluster may be made */
    struct redlock_healing *healing;
    hf_error stuck; /* why there is no epoch; HF_OK: not known */

    struct hfi_requests rounds;
    struct hfi_list waits;         /* struct redlock_wait */
    struct hfi_source waits_timer; /* no wait has anything to do before */
    struct hfi_claims holds;
    struct hfi_list noted; /* holds whose local pass the nodes do not know */
    struct hfi_source notes_timer;
    uint64_t last_proposal;
    uint64_t last_token; /* the highest that we were ever granted */
    unsigned char last_leases[REDLOCK_LAST_LEASES][REDLOCK_LEASE_LEN]; /* redlock_last_lease() */
};

/* op->room */
struct redlock_op {
    struct hfi_reactor_op reactor; /* first */
    union {
        struct redlock_wait *wait; /* ACQUIRE; NULL: it is to be finished */
        size_t rounds;             /* RENEW: those that are not decided */
    };
};

static inline struct redlock_op *redlock_op(struct hfi_op *op)
{
    return (struct redlock_op *)op->room;
}

/* claim->room. A hold is larger, and may outlive the claim because of deferred releases. */
struct redlock_claim {
    struct redlock_hold *hold;
};

/* May its lease be alone at a node (scripts/state.lua)? */
static inline bool redlock_may_be_alone(const struct hfi_claim *claim)
{
    return claim->mode == HFI_MODE_MUTEX && claim->lock_delay_ms == 0;
}

static inline struct redlock_hold *redlock_hold_of(const struct hfi_claim *claim)
{
    return ((const struct redlock_claim *)claim->room)->hold;
}

/* Sets of nodes: a bit each. */
static inline uint32_t redlock_all(const struct redlock_store *store)
{
    return (UINT32_C(1) << store->n) - 1;
}

static inline unsigned redlock_count(uint32_t nodes)
{
    return (unsigned)__builtin_popcount(nodes);
}

/* ---- engine.c -------------------------------------------------------------------------- */

/* Read the rest of what the URL says; redis_conf_done(&conf->redis) is due, also after a failure. */
hf_status redlock_conf_finish(struct redlock_conf *conf, const char *label, hf_error *err);
/* Likewise for the calls of the extension. */
hf_status redlock_conf_manage(struct redlock_conf *conf, hf_error *err);
struct redlock_hold *redlock_hold_new(struct redlock_store *store,
                                      struct hfi_claim *claim); /* NULL: memory */
void redlock_hold_free(struct redlock_store *store, struct redlock_hold *hold);
struct redlock_hold *redlock_hold_find(struct redlock_store *store, const unsigned char *owner);
void redlock_hasten(struct redlock_store *store,
                    int64_t due_ms); /* a wait has something to do then */
uint64_t redlock_clock_us(void);     /* of this machine */
/* The same, rising: what a client proposes. */
uint64_t redlock_proposal(struct redlock_store *store);

/* ---- node.c ------------------------------------------------------------------------------ */

hf_status redlock_nodes_open(struct redlock_store *store,
                             hf_error *err); /* begins; does not wait */
void redlock_nodes_close(struct redlock_store *store);
bool redlock_node_up(const struct redlock_node *node);
bool redlock_node_silent(const struct redlock_node *node, int64_t now_ms);
uint32_t redlock_nodes_up(const struct redlock_store *store);
/* The nodes for an acquire: up, in our epoch, and not silent (unless these are too few). */
uint32_t redlock_nodes_voting(const struct redlock_store *store, int64_t now_ms);
void redlock_defer_release(struct redlock_node *node, const struct hfi_name *name,
                           const unsigned char *owner, uint64_t attempt, int64_t ttl_ms);

/* ---- round.c ------------------------------------------------------------------------------ */

/* A call of a script on `key_count` keys; append keys and arguments to round->command, then send. NULL:
 * out of memory. script NULL: a plain command. */
struct redlock_round *redlock_round_new(struct redlock_store *store,
                                        const struct hfi_script *script, uint32_t key_count,
                                        redlock_answer_fn *answer);
/* To those of `nodes` that are up; the others are answered HFI_UNSENT. It may be gone on return. */
void redlock_round_send(struct redlock_round *round, uint32_t nodes);
/* Send, then decide() even if all were answered at once; `answer` decides afterwards (round->sending). */
void redlock_round_decide(struct redlock_round *round, uint32_t nodes, redlock_over_fn *decide);
void redlock_round_free(struct redlock_round *round); /* one that was not sent */
/* In its answer function: send round->command to this node once more; another answer will come. */
void redlock_round_again(struct redlock_round *round, unsigned node);
/* Append keys. cluster: "P cluster"; name: "P{T}". */
void redlock_add_cluster(struct redlock_round *round);
void redlock_add_name(struct redlock_round *round, const struct hfi_name *name);
#define REDLOCK_NAME_KEYS \
    3 /* the name, its waiters, their order: for scripts that know the queue */
void redlock_add_name_keys(struct redlock_round *round, const struct hfi_name *name);
/* A number as the scripts have it: a little-endian double. */
void redlock_put_number(unsigned char ret_bytes[8], uint64_t value);
void redlock_put_epoch(unsigned char ret_bytes[REDLOCK_EPOCH_LEN], const struct hfi_epoch *epoch);
void redlock_add_epoch(struct redlock_round *round, const struct hfi_epoch *epoch);
void redlock_put_lease(unsigned char ret_bytes[REDLOCK_LEASE_LEN], const unsigned char *owner,
                       uint64_t attempt);
bool redlock_read_epoch(const struct hfi_reply *reply, struct hfi_epoch *ret_epoch);

/* ---- acquire.c ------------------------------------------------------------------------------ */

void redlock_acquire(void *self, struct hfi_op *op);
void redlock_cancel(void *self, struct hfi_op *op, hf_status status);
void redlock_ask(struct redlock_store *store, struct redlock_wait *wait,
                 uint32_t nodes);                                           /* the same attempt */
void redlock_begin(struct redlock_store *store, struct redlock_wait *wait); /* a new attempt */
/* Release everywhere, and end with `status` (and why). */
void redlock_end_refused(struct redlock_store *store, struct redlock_wait *wait, hf_status status);
/* Release everywhere, and begin again after about `pause_ms`. */
void redlock_rest(struct redlock_store *store, struct redlock_wait *wait, int64_t pause_ms);
/* CONFIRMING: the grant has expired, or may have. Release it, and ask again, or end. */
void redlock_unconfirmed(struct redlock_store *store, struct redlock_wait *wait);
void redlock_wait_end(struct redlock_store *store, struct redlock_wait *wait, hf_status status,
                      const hf_error *err);
/* The wait that (owner, attempt) of a round or message is about, if it is still undecided; else NULL. */
struct redlock_wait *redlock_wait_find(struct redlock_store *store, const unsigned char *owner,
                                       uint64_t attempt);
/* A grant that comes after the win: one more node that counts, or other slots, which are
 * released. */
void redlock_late_grant(struct redlock_store *store, const unsigned char *owner, uint64_t attempt,
                        unsigned node, uint64_t counter, uint64_t choice);
/* A node answered E or U: it has no vote, and the cluster must be probed. */
void redlock_no_vote(struct redlock_node *node);
void redlock_step(struct redlock_store *store,
                  struct redlock_wait *wait); /* decide; `wait` may be gone */
/* `G c tokens ms slots` of a reply, from its second item on, into the ballot. false: it is not that. */
bool redlock_take_grant(struct redlock_wait *wait, unsigned node, const struct hfi_reply *reply,
                        int64_t sent_ms);
int64_t redlock_window_ms(const struct redlock_store *store, const struct hfi_claim *claim);
uint64_t redlock_choice(const char *slots, size_t len); /* 0: none */
/* NUMBERED: keep the slots of this node's grant. false: they are not as they must be. */
bool redlock_note_slots(struct redlock_wait *wait, unsigned node, const char *text, size_t len);

/* ---- majority.c ----------------------------------------------------------------------------------- */

void redlock_win(struct redlock_store *store, struct redlock_wait *wait,
                 const struct hfi_ballot_outcome *out);
void redlock_write_back(struct redlock_store *store, struct redlock_wait *wait,
                        const struct hfi_ballot_outcome *out);

/* ---- wait.c ---------------------------------------------------------------------------------- */

void redlock_waits_tick(struct redlock_store *store, int64_t now_ms);
void redlock_queued(struct redlock_store *store,
                    struct redlock_wait *wait); /* it waits from now on */
void redlock_split(struct redlock_store *store, struct redlock_wait *wait, uint32_t nodes);
void redlock_message(struct redlock_node *node, const char *payload, size_t len);
/* A node reported that we are in its queue, or still are: as of `sent_ms`. */
void redlock_still_waiting(struct redlock_store *store, struct redlock_wait *wait, unsigned node,
                           const struct hfi_reply *reply, int64_t sent_ms);
void redlock_waits_hurry(struct redlock_store *store);   /* messages may have been lost: beat now */
void redlock_waits_restart(struct redlock_store *store); /* the epoch is another one */

/* ---- lease.c ---------------------------------------------------------------------------------- */

void redlock_release(void *self, struct hfi_op *op);
void redlock_renew(void *self, struct hfi_op *op);
/* A renewal for ttl_ms may still arrive at a node, and shorten what later ones granted: from now on
 * these count for no more than that. `hold` may be NULL. */
void redlock_renewal_late(struct redlock_hold *hold, int64_t ttl_ms);
void redlock_adopt(void *self, struct hfi_op *op);
/* A round of renewal for the leases of `count` items, whose keys and arguments are to be added. NULL: memory. */
struct redlock_round *redlock_renewal_round(struct redlock_store *store, size_t count,
                                            redlock_answer_fn *answer);
/* Native: as struct redlock_wire has them. */
void redlock_add_release(struct redlock_round *round, int64_t tombstone_ms);
void redlock_add_renewal(struct redlock_round *round, const struct hfi_claim *claim, int64_t ttl_ms,
                         uint64_t last);
/* true: a note is due sooner than anything was. */
bool redlock_passed(struct redlock_store *store, struct hfi_claim *claim, uint64_t token,
                    int64_t tid);
void redlock_notes_send(struct redlock_store *store);
unsigned char *redlock_last_lease(struct redlock_store *store, const struct hfi_name *name);
/* Release at every node of `nodes` by owner and attempt, without waiting; a release that cannot be
 * sent is deferred. */
void redlock_give_back(struct redlock_store *store, const struct hfi_claim *claim,
                       struct redlock_hold *hold, uint32_t nodes);
/* A round of release: a `tombstone` for those where an acquire may come late. NULL: memory. */
struct redlock_round *redlock_release_round(struct redlock_store *store,
                                            const struct hfi_name *name, const unsigned char *owner,
                                            uint64_t attempt, int64_t ttl_ms, bool tombstone,
                                            redlock_answer_fn *answer);
/* Defer the release for a node that may not have received it: with a tombstone, since the acquire
 * may arrive after it. */
void redlock_owe_release(struct redlock_round *round, unsigned node);
void redlock_send_deferred(struct redlock_node *node);

/* ---- heal.c: with the lock --------------------------------------------------------------------- */

hf_status redlock_heal_open(struct redlock_store *store, hf_error *err);
void redlock_heal_close(struct redlock_store *store); /* no node is there any more */
void redlock_heal_node_up(struct redlock_node *node); /* ask it what it is */
void redlock_heal_node_down(struct redlock_node *node);
void redlock_heal_doubt(
    struct redlock_store *store); /* a node answered E or U: probe all nodes again, soon */
bool redlock_heal_busy(const struct redlock_store *store); /* nodes are being probed or healed */
/* All nodes are empty, and we may make a cluster of them: this client or another one does so. */
bool redlock_heal_starts(const struct redlock_store *store);
void redlock_heal_tick(struct redlock_store *store, int64_t now_ms);

/* ---- inspect.c, doctor.c, status.c, join.c ------------------------------------------------------------------------------ */

/* Nodes that are up; silent ones are left out if the others are enough. */
uint32_t redlock_nodes_askable(const struct redlock_store *store);
void redlock_list(void *self, struct hfi_op *op);
void redlock_look(void *self, struct hfi_op *op);
void redlock_break(void *self, struct hfi_op *op); /* finds the owner, then break */

/* ---- wanted.c ------------------------------------------------------------------------------------------------------------ */

void redlock_ask_holder(void *self, struct hfi_op *op);
/* "W owner attempt 1" (or 0), "A owner attempt words" */
void redlock_wanted_message(struct redlock_node *node, const struct redis_message *message);
/* A node has renewed: do others wait there? Returns whether they do anywhere. */
bool redlock_others_wait(const struct redlock_store *store, struct redlock_hold *hold,
                         unsigned node, bool others);
/* The inbox of a node is up, or down. */
void redlock_hears(struct redlock_store *store);
hf_status redlock_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);
hf_status redlock_get_status(struct hfi_conf *conf, struct hfi_redlock_status **ret_status,
                             hf_error *err);
hf_status redlock_join_begin(struct hfi_conf *conf, const char *node, bool force,
                             hfi_finding_fn *finding, void *arg, struct hfi_redlock_join **ret_join,
                             hf_error *err);
hf_status redlock_join_step(struct hfi_redlock_join *m, int64_t *ret_rest_ms, hf_error *err);
void redlock_join_end(struct hfi_redlock_join *m);

#endif
