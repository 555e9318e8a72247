/* SPDX-License-Identifier: MIT */
/*
 * The redis engine, inside.
 *
 *   engine.c    the table; open, close, submit, cancel
 *   servers.c   the servers of a store: open, close, the link to each; the inbox
 *   sentinel.c  redis+sentinel: which server that is
 *   cluster.c   redis+cluster: which of many, and redirections
 *   call.c      one command under way: which server gets it, parking, what its answer means
 *   keys.c      the keys of a name, and other arguments
 *   identity.c  the id and the label of this client
 *   acquire.c   acquire: asking, granted, cancel
 *   message.c   grants that come as a message; confirming
 *   heartbeat.c heartbeats of waiters
 *   release.c   release: HDEL, or the script
 *   lease.c     renew, adopt, break, notes of local passes
 *   inspect.c   list
 *   look.c      look: holders, waiters, and their labels
 *   cells.c     cells, and the server's clock
 *   cell_wait.c waiting for a cell to change
 *   change.c    waiting for any change of a lease
 *   counter.c   counters
 *   script.c    scripts of the user's: running one; script_cache.c: what the servers have of them
 *   kill.c      ending a script that does not end
 *   limit.c     rate limits
 *   foreign.c   acquire in the foreign wire modes: try, wait, try again
 *   doctor.c    what this server means for the promises
 *
 * Everything is under the lock of the reactor (kit/reactor.h), which drives it.
 */
#ifndef HFI_REDIS_INTERNAL_H
#define HFI_REDIS_INTERNAL_H

#include "engine/engine.h"
#include "engine/kit/claims.h"
#include "engine/kit/handover.h"
#include "engine/kit/request.h"
#include "engine/native.h"
#include "engine/redis/link.h"
#include "engine/redis/names.h"
#include "engine/redis/protocol.h"
#include "engine/redis/scripts.h"
#include "util/list.h"

#include <pthread.h>

#define REDIS_TTL_MS           30000
#define REDIS_HEARTBEAT_MIN_MS 1000  /* no waiter beats more often */
#define REDIS_BATCH            256   /* names in one renewal or heartbeat */
#define REDIS_CROWDED          256   /* entries, by the hash of a name */
#define REDIS_NOTE_MS          20    /* delay of the note of a local pass */
#define REDIS_NOTE_AGAIN_MS    1000  /* ... and of the next attempt, if that failed */
#define REDIS_TOMBSTONE_MS     60000 /* how long a late acquire of a broken connection is refused */
#define REDIS_HOPS_MAX         8     /* redirections of one command */
#define REDIS_TRIES_SLOWER     5     /* after temporary refusals the pause grows this many times */
#define REDIS_NAP_MAX_MS       1000  /* the driver's longest sleep while something is under way */

struct redis_call;

/* A user's script may fail half way: then HFI_REFUSED comes with `reply`, the server's error. */
typedef void redis_answer_fn(struct redis_call *call, enum hfi_outcome outcome,
                             const struct hfi_reply *reply, const hf_error *err);

/* One command under way. From redis_call_new(); freed after `answer` has been called. */
struct redis_call {
    struct hfi_request request; /* first: they are one address */
    struct redis_sent sent;
    struct redis_store *store;
    redis_answer_fn *answer;
    struct hfi_op *op; /* NULL: none, or it has finished already */
    void *data;        /* the caller's */
    int64_t first_ms;  /* when the first copy of it was sent; 0: none was */
    bool fail_fast;    /* fails at once if it cannot be sent: parked only for a first connection */
    bool idempotent;   /* may be sent again although the first copy may have been executed */
    bool was_sent;     /* an earlier copy may have been executed */
    bool resent;       /* ... and this call is the repetition */
    bool asking;       /* the next send follows an ASK */
    bool synced;       /* on the connection where a WAIT follows */
    bool user_script;  /* a user's script: errors are passed on to the user */
    unsigned hops, tries;
    uint32_t node;              /* ASK, SCAN: where; else REDIS_NODE_ANY */
    struct redis_node *sent_to; /* last */
    struct hfi_command command;
};
#define REDIS_NODE_ANY UINT32_MAX
#define REDIS_IDLE     (-1) /* in place of a thread id: the lease lingers, and no thread has it */

/* A waiting (or asking) acquire. */
struct redis_wait {
    struct hfi_list listed; /* in store->waits */
    struct hfi_op *op;      /* its op; NULL: about to be finished */
    struct hfi_claim *claim;
    struct redis_call *call;       /* its acquire command, while that is under way */
    struct redis_call *cancelling; /* likewise its cancel */
    enum hfi_waiter_state state;   /* foreign wires: only ASKING and RESTING */
    bool listens;                  /* redisson: its channel is subscribed */
    bool tried;                    /* plain: SET NX has been sent */
    bool unsure;      /* an acquire of it may still be executed late: cancel leaves a tombstone */
    uint32_t slot;    /* of its name, in a cluster */
    uint64_t attempt; /* of the acquire last sent */
    int64_t heard_ms; /* local send of the last enqueue or heartbeat answered "still waiting" */
    uint64_t past; /* the last token of the name at that time: our grant must have a larger one */
    /* the next heartbeat or attempt, or CANCELLING: when it gives up; HFI_NEVER: an answer is
     * awaited */
    int64_t heartbeat_ms;
    hf_status confirmed; /* CONFIRMING: what the renewal said */
    hf_status stop;      /* HF_OK, or what the op is to end with */
};

/* One server to which we connect. */
struct redis_node {
    struct redis_store *store;
    struct hfi_link *link;
    struct hfi_address *address; /* our own copy */
    uint32_t index;              /* in store->nodes */
    bool serves, in_map, gone; /* cluster: it has slots; the map being read has it; no map has it */
    int64_t keep_ms;           /* cluster: one that is gone is dropped then */
    char run_id[48], replid[48];
    hf_error why;  /* why the link went down */
    hf_error said; /* its last temporary refusal */
    bool was_up;
    struct hfi_script_set scripts;
};

/* A CHANGE_WAIT. */
struct redis_change_wait {
    struct hfi_list listed; /* in changes->waits */
    struct hfi_op *op;      /* NULL: it is to be finished */
    bool late;              /* its time is up */
    bool asked;             /* ... and the answer to the question under way ends it */
};

/* What change.c keeps about a store. */
struct redis_changes {
    enum { REDIS_CHANGES_OFF, REDIS_CHANGES_ASKED, REDIS_CHANGES_ON } state;
    uint64_t number;        /* the change number; never 0 */
    uint64_t turn;          /* how often it was turned off */
    struct redis_sent sent; /* the SUBSCRIBE, while `subscribing` */
    bool subscribing;
    bool again; /* a wait is late that the question under way does not cover */
    struct hfi_list waits;
    struct hfi_source timer; /* to try again, and to turn it off */
};

struct redis_store {
    struct hfi_reactor reactor; /* first: they are one address */
    struct hfi_redis_conf *conf;
    const struct redis_wire *wire;
    bool closing;

    const struct redis_topology *topology;
    struct hfi_source first_look;     /* HF_OPEN_FLAG_NO_WAIT, until it has been ready */
    struct hfi_source topology_timer; /* unless it has no tick */
    struct redis_node **nodes; /* single and sentinel: one. Never NULL, but their links may be */
    uint32_t node_count, node_room;
    uint16_t *slots; /* cluster: node of each slot; NULL otherwise */
    struct redis_cluster *cluster;
    struct redis_sentinel *sentinel;
    /* sync=N: for writes that must reach replicas, followed by a WAIT; link NULL: none */
    struct redis_node sync;
    struct redis_node inbox; /* the subscriber */
    bool inbox_up;
    struct redis_sent inbox_sent;
    bool inbox_asked; /* SUBSCRIBE is under way */
    struct redis_inbox_name inbox_name;
    unsigned char client[REDIS_CLIENT_LEN]; /* our id: scripts make the inbox's name of it */
    bool identified;                        /* our label has been sent, and is kept there */
    struct hfi_source identity;             /* when it is sent again */

    struct hfi_requests requests;

    struct hfi_list waits;          /* struct redis_wait, the oldest first */
    struct hfi_source heartbeat;    /* no wait has anything to do before */
    struct redis_channel *channels; /* channels of cells that are waited for */
    struct hfi_source cell_read;    /* the time of the next read of these */
    struct redis_changes changes;
    uint64_t last_attempt;
    struct hfi_claims claims;
    /* release.c: by name, releases that are sent as scripts */
    unsigned char crowded[REDIS_CROWDED];
    struct hfi_list noted;   /* claims with a local pass that the store does not know yet */
    struct hfi_source notes; /* when they are sent */
};

/* op->room */
struct redis_op {
    struct hfi_reactor_op reactor; /* first */
    union {
        struct redis_wait wait;               /* ACQUIRE */
        struct redis_cell_wait *cell_wait;    /* CELL_WAIT; NULL: it is to be finished */
        struct redis_change_wait change_wait; /* CHANGE_WAIT */
        struct redis_looking *looking;        /* LOOK, while labels are asked for */
        unsigned shares;                      /* RENEW: its commands under way */
        struct {
            void *kept;    /* a copy of what the caller gave: script.c, script_cache.c */
            uint32_t node; /* the next server, if all are asked */
        } script;
    };
};

static inline struct redis_op *redis_op(struct hfi_op *op)
{
    return (struct redis_op *)op->room;
}

/* claim->room */
struct redis_claim {
    struct hfi_claim_entry entry; /* first; in store->claims */
    struct hfi_list noted;        /* in store->noted */
    struct redis_wait *wait;      /* while it is being acquired */
    uint64_t token; /* the current token after a local pass, and its thread; 0: never passed */
    int64_t tid;
    bool unsure; /* an acquire of it may be executed late: release leaves a tombstone */
    bool thin;   /* it was granted in the thin form; a waiter may have made the name full since */
    int64_t granted_ns; /* thin: when */
};

static inline struct redis_claim *redis_claim(struct hfi_claim *claim)
{
    return (struct redis_claim *)claim->room;
}

static inline void redis_claim_add(struct redis_store *store, struct hfi_claim *claim)
{
    struct redis_claim *own = redis_claim(claim);

    if (own->entry.claim)
        return;
    hfi_list_init(&own->noted);
    hfi_claims_add(&store->claims, &own->entry, claim);
}

static inline void redis_claim_remove(struct redis_store *store, struct hfi_claim *claim)
{
    struct redis_claim *own = redis_claim(claim);

    if (!own->entry.claim)
        return;
    hfi_list_remove(&own->noted);
    hfi_claims_remove(&store->claims, &own->entry);
}

/* NULL: none. */
static inline struct redis_claim *redis_claim_find(const struct redis_store *store,
                                                   const unsigned char *owner)
{
    return (struct redis_claim *)hfi_claims_find(&store->claims, owner);
}

/* What one wire mode does differently. */
struct redis_wire {
    const struct hfi_op_calls *ops;
    void (*acquire)(struct redis_store *store, struct redis_wait *wait);
    void (*heard)(struct redis_store *store, const char *channel,
                  size_t len); /* a message, not our inbox' */
    void (*cancel)(struct redis_store *store, struct redis_wait *wait);
    /* The key and the arguments of one lease in a renewal. */
    void (*add_key)(struct redis_call *call, const struct hfi_name *name); /* of a renewal */
    void (*add_renewal)(struct redis_call *call, const struct hfi_claim *claim, int64_t ttl_ms,
                        uint32_t tokens);
    /* A name's slot in a cluster; NULL: names do not share a command. */
    uint32_t (*slot)(const struct redis_store *store, const struct hfi_name *name);
};
extern const struct redis_wire redis_native, redis_plain, redis_redisson;

/* ---- servers.c -------------------------------------------------------------------- */

/* A server, or its data, has been replaced: core is told when the lock is dropped. */
void redis_doubt(struct redis_store *store);

/*
 * How the servers of a store are found. With the lock; open, tick and close by the driver, or when
 * nobody drives. All but open, ready and why may be NULL.
 */
struct redis_topology {
    hf_status (*open)(struct redis_store *store,
                      hf_error *err); /* the first links; does not wait */
    void (*close)(
        struct redis_store *store); /* also after a failed open; links of nodes are gone */
    bool (*ready)(const struct redis_store *store);
    /* Why it is not ready; NULL: not known. `hopeless`: only reasons that waiting does not
     * remove. */
    const hf_error *(*why)(const struct redis_store *store, bool hopeless);
    void (*up)(struct redis_node *node);
    void (*down)(struct redis_node *node); /* any node, the inbox too */
    /* A server refused a call. true: it was sent elsewhere, parked, or ended. */
    bool (*refused)(struct redis_call *call, const struct hfi_reply *reply);
    void (*tick)(struct redis_store *store, int64_t now_ms);
    int64_t (*next_ms)(const struct redis_store *store);
};
extern const struct redis_topology redis_single, redis_sentinel, redis_cluster;

/* While opening: is this a reason to give up, because waiting does not help or is not wanted? */
static inline bool redis_is_final(const struct redis_store *store, const hf_error *why)
{
    return why->status != HF_OK &&
           (why->status != HF_UNAVAILABLE || store->reactor.host->open_once);
}

hf_status redis_servers_open(struct redis_store *store,
                             hf_error *err); /* blocks until host->open_deadline_ms */
void redis_servers_close(struct redis_store *store);

/* A new server; its number, or REDIS_NODE_ANY: out of memory. */
uint32_t redis_node_add(struct redis_store *store, const struct hfi_address *address);
/* Free its connection and address; its number may be reused. By the driver. */
void redis_node_drop(struct redis_node *node);
/* Point the inbox, or everything of the single server, to another address. By the driver. false:
 * out of memory. */
bool redis_inbox_aim(struct redis_store *store, const struct hfi_address *address);
bool redis_master_aim(struct redis_store *store, const struct hfi_address *address);

/* ---- cluster.c ------------------------------------------------------------------------ */

/* The node of a call; NULL: not known yet. */
struct redis_node *redis_cluster_route(struct redis_store *store, const struct redis_call *call);
/* The first master from number `from` on; REDIS_NODE_ANY: none. */
uint32_t redis_cluster_next(const struct redis_store *store, uint32_t from);

/* ---- call.c ------------------------------------------------------------------------- */

/* A call of a script on `key_count` keys; append keys and arguments to call->command, then send.
 * script NULL: a plain command. NULL: out of memory, and `op`, if there is one, is finished so. */
struct redis_call *redis_call_new(struct redis_store *store, const struct hfi_script *script,
                                  uint32_t key_count, redis_answer_fn *answer, struct hfi_op *op);
void redis_call_free(struct redis_call *call);
void redis_call_send(struct redis_call *call);
void redis_call_try(struct redis_store *store, struct redis_call *call);
/* It was refused, and not executed: send it again after a pause. false: its caller does not wait
 * that long, and still owns it. */
bool redis_call_later(struct redis_call *call, const struct hfi_reply *reply);
/* For store->requests: send a parked call; end one whose time is up. */
void redis_call_resend(struct hfi_request *request);
void redis_call_give_up(struct hfi_request *request);
/* End what is parked: the store is being closed. */
void redis_calls_end_parked(struct redis_store *store);
/* Answer it without a reply, and free it. */
void redis_call_end(struct redis_call *call, enum hfi_outcome outcome, const hf_error *err);
/* sync=N: a WAIT for the replicas behind what was just sent there; `answer` gets their number. */
struct redis_call *redis_wait_call(struct redis_store *store, redis_answer_fn *answer);
/* Did enough replicas confirm? */
bool redis_wait_enough(const struct redis_store *store, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, hf_error *ret_err);
/* How many keys of a name are sent to a script that uses all of them: 1 or 3. */
#define REDIS_NAME_KEYS 3
/* Append the keys of a name. `all`: REDIS_NAME_KEYS, else the first only. */
void redis_add_keys(struct redis_call *call, const struct hfi_name *name, bool all);
/* The keys of a name for renew.lua, and how many: its waiters too, which that script may count. Not in a cluster: while a slot
 * moves, Redis refuses a script on several keys of which one is missing, and renewals must go on. */
uint32_t redis_renewal_keys(const struct redis_store *store);
void redis_add_renewal_keys(struct redis_call *call, const struct hfi_name *name);
/* The slot of its keys in a cluster. */
uint32_t redis_name_slot(const struct redis_store *store, const struct hfi_name *name);
/* The key of a cell, and the channel of its changes; its length. */
size_t redis_cell_key(const struct redis_store *store, const struct hfi_name *name,
                      char ret_key[REDIS_KEY_MAX]);
void redis_add_cell_key(struct redis_call *call, const struct hfi_name *name);
/* The answer to a release: there is no such lease. */
void redis_finish_gone(struct redis_call *call);
/* HF_CORRUPT: an answer that no script of ours gives. */
void redis_finish_odd(struct redis_store *store, struct hfi_op *op, const struct hfi_reply *reply);

/* ---- identity.c ----------------------------------------------------------------------- */

/* Native: choose our id. false: out of memory. */
bool redis_identity_init(struct redis_store *store);
/* The server that we use is a new one, or was connected to again. */
void redis_identity_up(struct redis_node *node);
/* Before an acquire: send our label, unless the server has it. */
void redis_identify(struct redis_store *store);
/* The label that is sent with a request; "": the one that was sent before. */
const char *redis_request_label(const struct redis_store *store, const struct hfi_claim *claim);
/* The key of a client's label; its length. */
#define REDIS_CLIENT_KEY_MAX (REDIS_STORE_PREFIX_MAX + sizeof "client:" + 2 * REDIS_CLIENT_LEN)
size_t redis_client_key(const struct redis_store *store,
                        const unsigned char client[REDIS_CLIENT_LEN],
                        char ret_key[REDIS_CLIENT_KEY_MAX]);

/* ---- acquire.c ------------------------------------------------------------------------ */

void redis_acquire(void *self, struct hfi_op *op);
void redis_cancel(void *self, struct hfi_op *op, hf_status status);
redis_answer_fn redis_cancelled; /* to a native cancel */
/* No answer to that has come in time. */
void redis_cancel_late(struct redis_store *store, struct redis_wait *wait);
void redis_wait_end(struct redis_store *store, struct redis_wait *wait, hf_status status,
                    const hf_error *err);
int64_t redis_window_ms(int64_t ttl_ms);
/* Native: send the acquire, from the beginning. */
void redis_ask(struct redis_store *store, struct redis_wait *wait);
/* Native: the server refused. If an earlier copy of the acquire may still be executed, it must find
 * a tombstone, and not a free name. */
void redis_denied(struct redis_store *store, struct redis_wait *wait, hf_status status,
                  const hf_error *err);

/* A reply `G token tokens ttl` to what was sent at `from_ms`; false: it is not that. */
bool redis_take_grant(struct redis_store *store, struct redis_wait *wait,
                      const struct hfi_reply *reply, int64_t from_ms);
/* End it: an answer that no script of ours gives. */
void redis_odd(struct redis_store *store, struct redis_wait *wait);
void redis_granted(struct redis_store *store, struct redis_wait *wait, uint64_t token,
                   uint32_t tokens, int64_t ttl_ms, int64_t from_ms);

/* ---- message.c ------------------------------------------------------------------------ */

void redis_message(struct redis_store *store, const char *payload, size_t len);
/* A grant is too short, or must reach replicas: renew it before the acquire ends. */
void redis_confirm(struct redis_store *store, struct redis_wait *wait);

/* ---- heartbeat.c ---------------------------------------------------------------------- */

/* The server has queued it, or still has it queued: set the next heartbeat. */
void redis_queued(struct redis_store *store, struct redis_wait *wait, const struct hfi_reply *reply,
                  int64_t sent_ms);
void redis_heartbeat_due(struct hfi_source *heartbeat, int64_t now_ms);
void redis_waits_hurry(struct redis_store *store); /* messages may have been lost: beat now */

/* ---- release.c, lease.c, inspect.c, cells.c, cell_wait.c, doctor.c -------------------------------- */

void redis_release(void *self, struct hfi_op *op);
/* Fill in a call of release.lua, and send it. */
void redis_send_release(struct redis_call *call, const struct hfi_claim *claim, bool unsure);
redis_answer_fn redis_released; /* to a release, on any wire */
void redis_renew(void *self, struct hfi_op *op);
void redis_renew_by(struct redis_store *store, struct hfi_op *op, const struct hfi_script *script);
void redis_adopt(void *self, struct hfi_op *op);
void redis_break(void *self, struct hfi_op *op);
void redis_resize(void *self, struct hfi_op *op);
void redis_ask_holders(void *self, struct hfi_op *op);
void redis_list(void *self, struct hfi_op *op);
void redis_look(void *self, struct hfi_op *op);
/* The status of an outcome without an answer: inspection changes nothing. */
hf_status redis_unanswered(enum hfi_outcome outcome, const hf_error *err);
void redis_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid);
void redis_notes_send(struct redis_store *store);
void redis_notes_due(struct hfi_source *notes, int64_t now_ms);
/* Owner, ttl, further tokens, and which token holds now: the arguments of the native renewal. */
void redis_add_renewal(struct redis_call *call, const struct hfi_claim *claim, int64_t ttl_ms,
                       uint32_t tokens);

void redis_cell_read(void *self, struct hfi_op *op);
void redis_cell_swap(void *self, struct hfi_op *op);
void redis_cells_commit(void *self, struct hfi_op *op); /* commit.c */
void redis_time(void *self, struct hfi_op *op);
void redis_script(void *self, struct hfi_op *op);
hf_status redis_kill_script(struct hfi_conf *conf, int64_t wait_ms, hf_error *err);
void redis_counter(void *self, struct hfi_op *op);
void redis_cell_wait(void *self, struct hfi_op *op);
void redis_cell_cancel(void *self, struct hfi_op *op, hf_status status);
void redis_change_wait(void *self, struct hfi_op *op);
void redis_change_cancel(void *self, struct hfi_op *op, hf_status status);
void redis_changes_due(struct hfi_source *timer, int64_t now_ms);
/* Both connections may be up now; one of them went down. */
void redis_changes_up(struct redis_store *store);
void redis_changes_down(struct redis_store *store);
/* false: this channel is not about changes. */
bool redis_change_message(struct redis_store *store, const char *channel, size_t len);
void redis_cell_read_due(struct hfi_source *cell_read, int64_t now_ms);
/* The inbox's connection is up or down; a message came on it that is not for the inbox. */
void redis_channels_up(struct redis_store *store);
void redis_channels_down(struct redis_store *store);
void redis_channel_message(struct redis_store *store, const char *name, size_t name_len,
                           const char *payload, size_t len);
void redis_limit(void *self, struct hfi_op *op);

hf_status redis_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);

#endif
