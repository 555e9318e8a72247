/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine, in parts:
 *
 *   engine.c   the table, opening and closing, what comes in from core
 *   drive.c    what is due
 *   call.c     one request and its answer: members, fail-over, sending again
 *   link.c, exchange.c  gRPC over HTTP/2 to one member (link.h)
 *   api.c      requests and replies (api.h);  proto.c  protocol buffers (proto.h);  keys.c  keys and values (text.h)
 *   ask.c      the meaning of etcd's errors; a request that blocks
 *   auth.c     the token of a user
 *   session.c  etcd's leases: granted, kept alive, retired, given back
 *   acquire.c  acquire: a claim's steps through the queue
 *   queue.c    waiting in the queue: the claims ahead, and their end
 *   watch.c    watches: on a predecessor, on cells, on any change, and on what this store is told
 *   lease.c    release, renew, break;  adopt.c;  inspect.c;  change.c;  doctor.c
 *   wanted.c   a holder learns that others wait
 *   cells.c    read and swap;  cell_wait.c  waiting for a cell to change
 *   conf.c     the URL
 *
 * Everything below is guarded by the reactor's lock (kit/reactor.h), and only touched with it, nghttp2's sessions
 * included. Answers run with the lock.
 *
 * "Lease" means etcd's lease here; what core calls a lease is a claim.
 */
#ifndef HFI_ETCD_INTERNAL_H
#define HFI_ETCD_INTERNAL_H

#include "engine/etcd/conf.h"
#include "engine/etcd/link.h"
#include "engine/kit/request.h"
#include "engine/native.h"
#include "util/list.h"

#define ETCD_TTL_MS       30000
#define ETCD_POLL_MS      500  /* a wait without a watch reads the queue so often */
#define ETCD_BATCH        100  /* claims in one transaction; etcd's own limit is 128 operations */
#define ETCD_SLOTS        4096 /* keys that a store reuses for its claims */
#define ETCD_HOT          64   /* names that were busy lately */
#define ETCD_CANCEL_MS    2000 /* how long an acquire that was cancelled waits for an answer */
#define ETCD_AGAIN_MIN_MS 20
#define ETCD_AGAIN_MAX_MS 1000
#define ETCD_USE_SIXTHS   3 /* a lease is used without a keepalive if this part of it is left */

/* gRPC's code: the token is not valid */
#define ETCD_CODE_UNAUTHENTICATED 16

struct etcd_call;
struct etcd_change;
struct etcd_lease;
struct etcd_wait;
struct etcd_want;

/* With the lock. `reply`: absent unless it was answered. The call, and with it the reply, is freed after it. */
typedef void etcd_answer_fn(struct etcd_call *call, enum hfi_outcome outcome,
                            struct etcd_message reply, const hf_error *err);

struct etcd_call {
    struct hfi_request request; /* first: they are one address */
    struct hfi_list listed;     /* in store->calls: those that a link has */
    struct etcd_store *store;
    struct etcd_exchange exchange;
    struct etcd_text body; /* the request, one message */
    size_t begun;          /* where that begins in `body` */
    etcd_answer_fn *answer;
    struct hfi_op *op;                  /* for the answer; NULL: none */
    void *data;                         /* the same */
    unsigned char owner[HFI_OWNER_LEN]; /* the same */
    bool again;      /* may be sent again even if a copy may have been executed */
    bool maybe;      /* a copy may have been executed whose answer we do not have */
    bool secret;     /* its body is a password */
    bool waits_auth; /* parked until there is a new token */
    bool starved;    /* there was no memory to send it */
    unsigned tries, auth_tries;
    unsigned token;  /* number of the token that it was sent with */
    size_t host;     /* last sent to */
    int code;        /* of etcd's error (gRPC's) */
    int64_t sent_ms; /* before the last copy was sent */
};

/* ---- leases ------------------------------------------------------------------------------ */

typedef void etcd_ready_fn(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                           const hf_error *err, void *data);
/* A request to be called when a lease is valid; embedded in its owner, so that it needs no
 * memory. */
struct etcd_ask {
    struct etcd_ask *next;
    etcd_ready_fn *ready;
    void *data;
};

enum etcd_lease_state { ETCD_LEASE_NEW, ETCD_LEASE_LIVE, ETCD_LEASE_GONE };

struct etcd_lease {
    struct etcd_lease *next; /* in store->leases */
    int64_t id, ttl_s;       /* asked for */
    int64_t granted_ms;      /* as granted */
    int64_t base_ms;         /* valid from here for granted_ms: send of the grant or keepalive */
    int64_t sent_ms, term;   /* of a keepalive that was answered and must be confirmed */
    int64_t heard_ms;        /* ... and what it granted */
    int64_t keep_ms;         /* the next keepalive, if a wait uses it */
    enum etcd_lease_state state;
    bool own;       /* belongs to one detached claim, and is never shared */
    bool retiring;  /* a late copy of an acquire may use it: it must end, and its claims move to
                     * another lease */
    bool spare;     /* do not revoke it: it may carry a claim of another process */
    bool busy;      /* a grant or keepalive is under way */
    bool again;     /* the keepalive was answered by a leader of another term */
    unsigned refs;  /* claims, and others that are about to use it */
    unsigned waits; /* of those, claims in a queue: we keep it alive for them */
    struct etcd_ask *asks;
};

/* ---- acquiring ----------------------------------------------------------------------------- */

enum etcd_wait_state {
    ETCD_WAIT_LEASE,   /* for a valid lease */
    ETCD_WAIT_PUT,     /* its transaction is under way */
    ETCD_WAIT_LOOK,    /* reading the claims ahead */
    ETCD_WAIT_WATCH,   /* waiting for an event of a claim ahead (or for beat_ms) */
    ETCD_WAIT_CONFIRM, /* it is first; a keepalive is under way */
    ETCD_WAIT_LEAVE,   /* its key is being deleted */
};

struct etcd_ahead {
    unsigned char place[HFI_OWNER_LEN];
    uint32_t permits;
};

#define ETCD_ALL UINT64_MAX

struct etcd_watch;

struct etcd_wait {
    struct hfi_list listed; /* in store->waits */
    struct hfi_op *op;
    struct hfi_claim *claim;
    struct etcd_lease *lease; /* a reference, until the claim has it */
    struct etcd_ask ask;
    enum etcd_wait_state state;
    struct etcd_call *call; /* under way */
    struct etcd_watch *watch;
    uint64_t token; /* create revision of its key; 0: it has none, as far as we know */
    int64_t seen;   /* revision of the last read */
    int64_t known;  /* the newest revision of which a read or an event told us */
    int64_t limit;  /* a try: all claims in the queue are older than that revision; 0: there are
                     * none */
    uint64_t taken; /* permits of all claims ahead at the last read */
    struct etcd_ahead *ahead; /* the claims ahead, if all must be watched */
    size_t ahead_count;
    int64_t beat_ms;               /* when to read the queue in any case; HFI_NEVER: not needed */
    unsigned failures;             /* failed watches since the last one that was created */
    uint64_t watched;              /* create revision of the claim that we watch; ETCD_ALL: all of
                                    * them */
    unsigned doubts;               /* how often it was read again since the watch was opened */
    bool strict;                   /* the next read must not be answered by one member alone */
    bool dirty;                    /* an event came while a read was under way */
    bool hopes;                    /* its transaction succeeds only if the name has no claims */
    struct etcd_lease *next_lease; /* the lease to which it moves */
    struct etcd_ask move_ask;
    struct etcd_call *move_call;
    int64_t move_ms;   /* not before */
    hf_status stop;    /* HF_OK, or the status to end with */
    hf_status verdict; /* ETCD_WAIT_LEAVE: what it ends with */
    hf_error why;
};

/* A waiter for another version of a cell. */
struct etcd_cell_wait {
    struct hfi_op *op;
    struct etcd_call *call;   /* reads the cell */
    struct etcd_watch *watch; /* watches for changes after the known version */
};

/* Events of a key or a range of keys. */
struct etcd_watch {
    struct hfi_list listed; /* in store->watches, by its id */
    int64_t id;             /* never used twice by this store */
    size_t host;
    struct etcd_wait *wait;      /* its owner: a waiting claim, */
    struct etcd_cell_wait *cell; /* a waiter's for a cell, */
    struct etcd_change *change;  /* a waiter's for any change, */
    struct etcd_want *want;      /* a holder's on its name; all NULL: the store's own */
    bool created;
};

/* The one exchange that carries all watches on a member. */
struct etcd_feed {
    struct etcd_exchange exchange; /* under way while its link is set */
    struct etcd_store *store;
    struct etcd_text out;
    unsigned token; /* number of the token that it was begun with */
};

struct etcd_member {
    struct etcd_link link;
    struct etcd_feed feed;
};

#define ETCD_WATCH_LISTS 64

struct etcd_store {
    struct hfi_reactor reactor;
    struct hfi_source work; /* what is due, and what was begun (drive.c) */
    struct etcd_conf *conf;
    char id[ETCD_STORE_HEX + 1]; /* the id of this store */

    struct etcd_member *members; /* as many as the URL has hosts */
    struct hfi_tls_context *tls; /* NULL: plain */
    bool aside; /* not core's store: it asks the one member that it is set to (ask.c) */
    bool closing;

    size_t at;         /* the endpoint in use */
    unsigned failures; /* consecutive failures, of any endpoint */
    char *token;       /* of the user; NULL: none, or it must be requested */
    unsigned tokens;   /* how many there were */
    bool authenticating;
    struct hfi_requests requests;
    struct hfi_list calls; /* that links have */

    struct etcd_lease *leases;
    unsigned char slots[ETCD_SLOTS / 8]; /* that are in use: one bit each */
    uint64_t more_slots;                 /* further ones, never used twice */
    struct hfi_list claims;              /* held: struct etcd_claim */
    int64_t expiry_ms;                   /* none of them expires before */
    struct hfi_list waits;
    uint64_t hot[ETCD_HOT]; /* hashes of names; 0: none */
    struct hfi_list watches[ETCD_WATCH_LISTS];
    unsigned watch_count;
    int64_t watch_id;            /* the last one */
    struct etcd_watch *handling; /* the watch whose message is being handled */
    struct etcd_watch *inbox;
    int64_t inbox_rev; /* the inbox continues after this revision; 0: never opened */
    int64_t inbox_ms;  /* when to open it again; HFI_NEVER: it is open or not wanted */
    int64_t ping_ms;   /* when to check the server again */
    bool pinging;
    unsigned cell_waits;     /* how many */
    struct hfi_list changes; /* waiters for any change: struct etcd_change */
    struct hfi_list wants;   /* watched claims that are held: struct etcd_want */
};

/* In op->room. */
struct etcd_op {
    struct hfi_reactor_op reactor;
    struct etcd_wait *wait;           /* an acquire, until it is to be finished */
    struct etcd_cell_wait *cell_wait; /* a wait for a cell, likewise */
    struct etcd_change *change;       /* a wait for a change, likewise */
    size_t shares;                    /* a renewal: parts of it that are under way */
};

static inline struct etcd_op *etcd_op(struct hfi_op *op)
{
    return (struct etcd_op *)(void *)op->room;
}

/* ---- engine.c ------------------------------------------------------------------------------- */

/* Finish `op` when the lock is dropped. `err` NULL: the status' own text. */
void etcd_finish(struct etcd_store *store, struct hfi_op *op, hf_status status,
                 const hf_error *err);
void etcd_claim_add(struct etcd_store *store, struct hfi_claim *claim);
void etcd_claim_remove(struct etcd_store *store, struct hfi_claim *claim);
struct hfi_claim *etcd_claim_find(struct etcd_store *store, const unsigned char *owner);
/* The claim of which this is struct etcd_claim's `listed`. */
struct hfi_claim *etcd_claim_listed(const struct hfi_list *listed);
/* A slot for its key that no other claim of this store has; and given back. */
void etcd_slot_take(struct etcd_store *store, struct hfi_claim *claim);
void etcd_slot_drop(struct etcd_store *store, struct hfi_claim *claim);
/* Use the key that was read as the claim's key. */
void etcd_claim_at(struct hfi_claim *claim, const struct etcd_record *record);

/* ---- drive.c -------------------------------------------------------------------------------- */

hf_status etcd_drive_open(struct etcd_store *store, hf_error *err);
void etcd_drive_close(struct etcd_store *store);

/* ---- call.c ---------------------------------------------------------------------------------- */

/* NULL: out of memory, and `op`, if there is one, is finished so. */
struct etcd_call *etcd_call_new(struct etcd_store *store, const struct etcd_method *method,
                                etcd_answer_fn *answer, struct hfi_op *op);
void etcd_call_send(struct etcd_call *call);
/* Do not send it again, and await the answer of a copy that was sent for ETCD_CANCEL_MS only. */
void etcd_call_hurry(struct etcd_call *call);
/* A call that asks whether the store is there, and what its revision is. It may be sent again. NULL: out of memory. */
struct etcd_call *etcd_call_probe(struct etcd_store *store, etcd_answer_fn *answer);
void etcd_call_free(struct etcd_call *call);
bool etcd_calls_open(struct etcd_store *store); /* false: out of memory */
void etcd_calls_close(struct etcd_store *store);
/* There is a token: send the calls that wait for it. */
void etcd_calls_authenticated(struct etcd_store *store);
/* This endpoint cannot be used now: switch to the next. */
void etcd_host_failed(struct etcd_store *store, size_t host);

/* ---- ask.c ---------------------------------------------------------------------------------- */

/* The status of an error of etcd: gRPC's code and text. */
hf_status etcd_code_status(int code, const char *text);
void etcd_finish_odd(struct etcd_store *store, struct hfi_op *op);

/* A second set of connections, for a thread that asks one member after the other and waits: the doctor's. NULL: `err` says
 * why. */
struct etcd_store *etcd_aside_open(const struct etcd_store *store, hf_error *err);
void etcd_aside_close(struct etcd_store *aside);
/* One request, whose only field is `number` (0: none). *ret_reply is freed by etcd_text_done(); etcd_asked() is the message
 * in it. */
hf_status etcd_ask(struct etcd_store *aside, size_t host, const struct etcd_method *method,
                   int64_t number, struct etcd_text *ret_reply, hf_error *err);
struct etcd_message etcd_asked(const struct etcd_text *reply);

/* ---- auth.c ------------------------------------------------------------------------------------- */

void etcd_auth_begin(struct etcd_store *store);

/* ---- session.c ---------------------------------------------------------------------------------------- */

/* A lease for this ttl, with a reference for the caller. NULL: out of memory. */
struct etcd_lease *etcd_lease_get(struct etcd_store *store, int64_t ttl_ms, bool own);
/* One that exists already, of a detached claim. */
struct etcd_lease *etcd_lease_known(struct etcd_store *store, int64_t id, int64_t ttl_s);
void etcd_lease_drop(struct etcd_store *store, struct etcd_lease *lease);
/* Call ask->ready once the lease is valid for a part of its ttl, in sixths; it may be called at
 * once. HF_LOST: it is gone. */
void etcd_lease_ready(struct etcd_store *store, struct etcd_lease *lease, int sixths,
                      struct etcd_ask *ask);
void etcd_lease_unask(struct etcd_lease *lease, const struct etcd_ask *ask);
void etcd_lease_keep(struct etcd_store *store, struct etcd_lease *lease);
/* The validity left, by our clock. */
int64_t etcd_lease_left_ms(const struct etcd_lease *lease, int64_t now_ms);
void etcd_lease_gone(struct etcd_store *store, struct etcd_lease *lease, const char *why);
void etcd_leases_tick(struct etcd_store *store, int64_t now_ms);
int64_t etcd_leases_next_ms(const struct etcd_store *store);
void etcd_leases_close(struct etcd_store *store);
int64_t etcd_seconds(int64_t ms);

/* ---- acquire.c, queue.c, watch.c -------------------------------------------------------------------------- */

void etcd_acquire(void *self, struct hfi_op *op);
void etcd_cancel(void *self, struct hfi_op *op, hf_status status);
void etcd_waits_tick(struct etcd_store *store, int64_t now_ms);
int64_t etcd_waits_next_ms(const struct etcd_store *store);
/* Their lease is gone: they queue again. */
void etcd_waits_lease_gone(struct etcd_store *store, struct etcd_lease *lease);
/* From a wait's watch. */
void etcd_wait_created(struct etcd_store *store, struct etcd_wait *wait, int64_t revision);
void etcd_wait_deleted(struct etcd_store *store, struct etcd_wait *wait,
                       const unsigned char place[HFI_OWNER_LEN], int64_t revision);
void etcd_wait_unwatched(struct etcd_store *store, struct etcd_wait *wait, const hf_error *why);

/* Calls between acquire.c and queue.c. acquire.c: the key is gone, begin again; the claim is first;
 * leave the queue. */
void etcd_wait_again(struct etcd_store *store, struct etcd_wait *wait);
void etcd_wait_confirm(struct etcd_store *store, struct etcd_wait *wait);
void etcd_wait_leave(struct etcd_store *store, struct etcd_wait *wait, hf_status verdict,
                     const hf_error *err);
/* queue.c: read the claims ahead; `range` lists them at `revision`, newest first, as
 * etcd_wait_order() asks for. */
void etcd_wait_look(struct etcd_store *store, struct etcd_wait *wait);
void etcd_wait_judge(struct etcd_store *store, struct etcd_wait *wait, struct etcd_message range,
                     int64_t revision);
void etcd_wait_order(const struct hfi_claim *claim, struct etcd_range *range);
void etcd_wait_unwatch(struct etcd_store *store, struct etcd_wait *wait);
void etcd_wait_stop_moving(struct etcd_store *store, struct etcd_wait *wait);

/* false: out of memory, or no token. start 0: from now on. */
bool etcd_watch_open(struct etcd_store *store, struct etcd_wait *wait, const struct etcd_key *key,
                     const struct etcd_key *to, int64_t start, struct etcd_watch **ret_watch);
/* Likewise for a waiter for a cell: everything that happens to it after `revision`. */
bool etcd_watch_cell(struct etcd_store *store, struct etcd_cell_wait *cell,
                     const struct etcd_key *key, int64_t revision);
/* Likewise for a waiter for any change of these keys. */
bool etcd_watch_changes(struct etcd_store *store, struct etcd_change *change,
                        const struct etcd_key *key, const struct etcd_key *to, int64_t revision,
                        struct etcd_watch **ret_watch);
/* Likewise for a holder, from now on. */
bool etcd_watch_want(struct etcd_store *store, struct etcd_want *want, const struct etcd_key *key,
                     const struct etcd_key *to, struct etcd_watch **ret_watch);
void etcd_watch_close(struct etcd_store *store, struct etcd_watch *watch);
void etcd_watches_close(struct etcd_store *store); /* without a word to their owners */
void etcd_watches_host_failed(struct etcd_store *store, size_t host);
void etcd_watches_tick(struct etcd_store *store, int64_t now_ms);
int64_t etcd_watches_next_ms(const struct etcd_store *store);
/* A claim is held since this revision: open the inbox, so that we learn if it is broken. */
void etcd_inbox_want(struct etcd_store *store, int64_t revision);

/* ---- wanted.c ---------------------------------------------------------------------------------- */

/* A note that is not empty, at P/told/STORE/OWNER: somebody asks, and this byte is before the text. Empty: it was broken. */
#define ETCD_NOTE_ASKED 'a'

/* It is first: find out whether others wait behind it, then confirm it. false: it is not watched, or no memory. */
bool etcd_want_look_behind(struct etcd_store *store, struct etcd_wait *wait);
/* It is held from now on, and until now. Does nothing if it is not watched. */
void etcd_want_begin(struct etcd_store *store, struct hfi_claim *claim);
void etcd_want_end(struct etcd_store *store, struct hfi_claim *claim);
void etcd_wants_close(struct etcd_store *store);
bool etcd_want_yes(const struct hfi_claim *claim); /* others wait, as far as we know */
/* From its watch. */
void etcd_want_created(struct etcd_store *store, struct etcd_want *want);
void etcd_want_event(struct etcd_store *store, struct etcd_want *want, bool deleted);
void etcd_want_unwatched(struct etcd_want *want);
int64_t etcd_wants_next_ms(const struct etcd_store *store);
void etcd_wants_tick(struct etcd_store *store, int64_t now_ms);
void etcd_ask_holders(void *self, struct hfi_op *op);

/* ---- lease.c, inspect.c, cells.c, change.c, doctor.c ----------------------------------------------------------- */

void etcd_release(void *self, struct hfi_op *op);
void etcd_renew(void *self, struct hfi_op *op);
void etcd_adopt(void *self, struct hfi_op *op);
void etcd_break(void *self, struct hfi_op *op);
void etcd_lapse_tick(struct etcd_store *store, int64_t now_ms);
void etcd_list(void *self, struct hfi_op *op);
void etcd_look(void *self, struct hfi_op *op);
void etcd_cell_read(void *self, struct hfi_op *op);
void etcd_cell_swap(void *self, struct hfi_op *op);
/* End the etcd lease of a cell that was not written. */
void etcd_cell_give_back(struct etcd_store *store, int64_t lease);
void etcd_cells_commit(void *self, struct hfi_op *op); /* commit.c */
void etcd_cell_wait(void *self, struct hfi_op *op);
void etcd_cell_cancel(void *self, struct hfi_op *op, hf_status status);
/* From its watch: the cell has this version now (0: it is gone); the watch has ended. */
void etcd_cell_changed(struct etcd_store *store, struct etcd_cell_wait *cell, uint64_t version);
void etcd_cell_unwatched(struct etcd_store *store, struct etcd_cell_wait *cell,
                         const hf_error *why);
void etcd_change_wait(void *self, struct hfi_op *op);
void etcd_change_cancel(void *self, struct hfi_op *op, hf_status status);
/* From its watch: it was created at this revision; something has changed, and this is the revision now; it has ended. */
void etcd_change_created(struct etcd_change *change, int64_t revision);
void etcd_change_told(struct etcd_store *store, struct etcd_change *change, int64_t revision);
void etcd_change_unwatched(struct etcd_store *store, struct etcd_change *change,
                           const hf_error *why);
void etcd_changes_tick(struct etcd_store *store, int64_t now_ms);
int64_t etcd_changes_next_ms(const struct etcd_store *store);
hf_status etcd_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);

#endif
