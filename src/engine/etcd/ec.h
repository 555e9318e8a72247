/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine, in parts:
 *
 *   engine.c   the table, opening and closing, what comes in from core
 *   drive.c    being driven: libcurl's sockets in one epoll
 *   call.c     one request and its answer: endpoints, fail-over, sending again
 *   http.c     what all requests have in common; one that blocks
 *   auth.c     the token of a user
 *   reply.c    answers as JSON, taken apart
 *   session.c  etcd's leases: granted, kept alive, retired, given back
 *   acquire.c  a claim's way through the queue
 *   queue.c    the part of it that waits: who is ahead, and their end
 *   place.c    who holds and who waits, decided (pure)
 *   watch.c    streams: on a predecessor, and on what this store is told
 *   lease.c    release, renew, adopt, break;  look.c inspect;  change.c;  doctor.c
 *   cells.c    read and swap;  cell_wait.c  waiting for a cell to change
 *   conf.c     the URL;  text.c, keys.c  bytes
 *
 * Everything below is guarded by conn->lock, and only touched with it, libcurl's handles included.
 * Answers run with the lock; what core is to be told is kept and told when the lock is dropped
 * (hfi_ec_leave).
 *
 * "Lease" means etcd's lease here; what core calls a lease is a claim.
 */
#ifndef HFI_ETCD_EC_H
#define HFI_ETCD_EC_H

#include "engine/engine.h"
#include "engine/etcd/conf.h"
#include "engine/etcd/text.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>

#define EC_TTL_MS       30000
#define EC_LINES        8   /* connections for calls, to one endpoint */
#define EC_WATCHES_MAX  256 /* streams of one store; who gets none looks every EC_POLL_MS */
#define EC_POLL_MS      500
#define EC_BATCH        100 /* claims in one transaction; etcd's own limit is 128 operations */
#define EC_FDS_MAX      (EC_WATCHES_MAX + 64)
#define EC_SLOTS        4096 /* places in queues that a store uses again and again */
#define EC_HOT          64   /* names of which we remember that somebody waited for them */
#define EC_REPLY_MAX    (64u << 20)
#define EC_URL_ROOM     512
#define EC_AGAIN_MIN_MS 20
#define EC_AGAIN_MAX_MS 1000
#define EC_USE_SIXTHS   3 /* a lease is used without asking if so much of it is left */

/* gRPC's, as the gateway passes it on: the token is no good */
#define EC_CODE_UNAUTHENTICATED 16

struct ec_call;
struct ec_lease;
struct ec_wait;

/* What became of a call. */
enum ec_outcome {
    EC_ANSWERED, /* `reply` is what it said */
    EC_REFUSED,  /* etcd said no, and did nothing: `err` and call->code say why */
    EC_UNSENT,   /* no copy of it can have been executed */
    EC_MAYBE     /* it may have been executed, and may still be */
};

/* With the lock. `reply`: only if it was answered, freed by the caller. The call is freed after it. */
typedef void ec_answer_fn(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                          const hf_error *err);

struct ec_call {
    struct ec_call *next; /* in the pool, or among the parked */
    struct ec_call *live; /* in conn->calls: those that were given to libcurl */
    struct hfi_conn *conn;
    CURL *easy;
    struct curl_slist *headers; /* of its own, with the token; NULL: the store's */
    const char *path;           /* static */
    struct ec_text body, reply;
    ec_answer_fn *answer;
    struct hfi_op *op;                  /* for the answer; NULL: none */
    void *data;                         /* the same */
    unsigned char owner[HFI_OWNER_LEN]; /* the same */
    bool again;      /* may be sent again although a copy may have been executed */
    bool maybe;      /* a copy may have been executed whose answer we do not have */
    bool secret;     /* its body is a password */
    bool waits_auth; /* parked until there is a new token */
    bool flying;     /* libcurl has it */
    bool starved;    /* there was no memory to send it */
    unsigned copies; /* left us, of this attempt; libcurl itself repeats on a dead connection */
    unsigned tries, auth_tries;
    unsigned token;       /* number of the token that it was sent with */
    const char *url_path; /* what its handle is set to; NULL: nothing */
    size_t url_host;
    size_t host;      /* last sent to */
    int code;         /* of etcd's error (gRPC's) */
    int64_t sent_ms;  /* before the last copy left */
    int64_t until_ms; /* give up then */
    int64_t retry_ms; /* parked: not before */
};

/* One of libcurl's multi handles, and when it wants to be called. */
struct ec_multi {
    CURLM *handle;
    int64_t timer_ms;
    struct hfi_conn *conn;
};
enum { EC_CALLS, EC_STREAMS, EC_MULTIS };

/* ---- leases ------------------------------------------------------------------------------ */

typedef void ec_ready_fn(struct hfi_conn *conn, struct ec_lease *lease, hf_status status,
                         const hf_error *err, void *data);
/* Somebody waits until a lease is good; part of what he is, so that it needs no memory. */
struct ec_ask {
    struct ec_ask *next;
    ec_ready_fn *ready;
    void *data;
};

enum ec_lease_state { EC_LEASE_NEW, EC_LEASE_LIVE, EC_LEASE_GONE };

struct ec_lease {
    struct ec_lease *next; /* in conn->leases */
    int64_t id, ttl_s;     /* asked for */
    int64_t granted_ms;    /* as granted */
    int64_t base_ms;       /* good from here for granted_ms: send of the grant or keepalive */
    int64_t sent_ms, term; /* of a keepalive that was answered and is to be confirmed */
    int64_t heard_ms;      /* ... and what it granted */
    int64_t keep_ms;       /* to be kept alive then, if somebody waits with it */
    enum ec_lease_state state;
    bool own;       /* of one detached claim, and never shared */
    bool retiring;  /* a late copy of an acquire may come with it: it must end; claims move away */
    bool spare;     /* not ours to end: it may carry a claim of somebody else */
    bool busy;      /* a grant or keepalive is under way */
    bool again;     /* the keepalive was answered by a leader of another term */
    unsigned refs;  /* claims, and who is about to use it */
    unsigned waits; /* of those, claims in a queue: we keep it alive for them */
    struct ec_ask *asks;
};

/* ---- acquiring ----------------------------------------------------------------------------- */

enum ec_wait_state {
    EC_WAIT_LEASE,   /* for a lease that is good */
    EC_WAIT_PUT,     /* its transaction is under way */
    EC_WAIT_LOOK,    /* who is ahead? */
    EC_WAIT_WATCH,   /* somebody is; we wait for an event (or for beat_ms) */
    EC_WAIT_CONFIRM, /* it is first; a keepalive is under way */
    EC_WAIT_LEAVE,   /* its key is being deleted */
};

struct ec_ahead {
    unsigned char place[HFI_OWNER_LEN];
    uint32_t permits;
};

#define EC_ALL UINT64_MAX

struct ec_watch;

struct ec_wait {
    struct ec_wait *next, *prev; /* in conn->waits */
    struct hfi_op *op;
    struct hfi_claim *claim;
    struct ec_lease *lease; /* a reference, until the claim has it */
    struct ec_ask ask;
    enum ec_wait_state state;
    struct ec_call *call; /* under way */
    struct ec_watch *watch;
    uint64_t token; /* create revision of its key; 0: it has none, as far as we know */
    int64_t seen;   /* revision of the last look */
    int64_t limit;  /* a try: everybody in the queue was there before that revision; 0: nobody */
    uint64_t taken; /* permits of all ahead at the last look */
    struct ec_ahead *ahead; /* who they are, if one must watch them all */
    size_t ahead_count;
    int64_t beat_ms;             /* look then, whatever comes; HFI_NEVER: no need */
    unsigned failures;           /* of watches, since the last that was created */
    uint64_t watched;            /* create revision of whom we watch; EC_ALL: all of them */
    bool dirty;                  /* an event came while a look was under way */
    bool hopes;                  /* its transaction is only for a name that nobody has */
    struct ec_lease *next_lease; /* to which it moves */
    struct ec_ask move_ask;
    struct ec_call *move_call;
    int64_t move_ms;   /* not before */
    hf_status stop;    /* HF_OK, or what the op is to end with */
    hf_status verdict; /* EC_WAIT_LEAVE: what it ends with */
    hf_error why;
};

/* One who waits for a cell to have another version. */
struct ec_cell_wait {
    struct hfi_op *op;      /* NULL: it has gone, and only the call is left */
    struct ec_call *call;   /* reads the cell */
    struct ec_watch *watch; /* that it has the version that is known: on what comes next */
};

/* A stream on a key or a range of keys. */
struct ec_watch {
    struct ec_watch *next, *prev;
    struct hfi_conn *conn;
    CURL *easy;
    struct curl_slist *headers;
    struct ec_text body, input; /* request; what came and is not yet a whole line */
    struct ec_wait *wait;       /* whose it is: a waiting claim's, */
    struct ec_cell_wait *cell;  /* one's who waits for a cell; both NULL: the store's own */
    size_t host;
    bool touched; /* something came, or it ended */
    bool ended;
    bool created;
    hf_error why;
};

/* A claim that is no longer ours, until core has been told. */
struct ec_loss {
    struct ec_loss *next;
    struct hfi_claim *claim;
    unsigned char owner[HFI_OWNER_LEN];
    const char *why; /* static */
};

struct ec_change; /* change.c: one who waits for any change */

struct hfi_conn {
    pthread_mutex_t lock;
    struct hfi_host *host;
    struct ec_conf *conf;
    char store[EC_STORE_HEX + 1]; /* our name among stores */

    int epoll_fd, kick_fd;
    int fds[EC_FDS_MAX]; /* libcurl's sockets: a forked child closes them */
    struct ec_multi multis[EC_MULTIS];
    CURLSH *share; /* TLS sessions; NULL: none */
    struct curl_slist *headers;
    bool napping;
    int64_t nap_until_ms, told_ms;
    bool started; /* libcurl has something new to begin */
    bool closing;

    size_t at;         /* the endpoint in use */
    unsigned failures; /* in a row, of any */
    char *token;       /* of a user; NULL: none, or it is to be asked for */
    unsigned tokens;   /* how many there were */
    bool authenticating;
    struct ec_call *calls, *parked, *pool;
    unsigned pool_count;

    struct ec_lease *leases;
    unsigned char slots[EC_SLOTS / 8]; /* that are in use: one bit each */
    uint64_t more_slots;               /* beyond those, never used twice */
    struct hfi_claim *claims;          /* held, through claim->engine[] */
    int64_t expiry_ms;                 /* none of them has lapsed before */
    struct ec_wait *waits;
    uint64_t hot[EC_HOT]; /* hashes of names; 0: none */
    struct ec_watch *watches;
    unsigned watch_count;
    struct ec_watch *handling; /* what came on it is being worked on */
    struct ec_watch *inbox;
    int64_t inbox_rev; /* the inbox goes on after it; 0: it was never needed */
    int64_t inbox_ms;  /* when to open it again; HFI_NEVER: it is open or not wanted */
    int64_t ping_ms;   /* when to ask whether the server is there */
    bool pinging;
    struct ec_change *changes;
    unsigned cell_waits; /* how many */

    struct hfi_op *done, **done_end; /* to be finished, through op->engine[EC_OP_NEXT] */
    struct ec_loss *losses;
    bool doubt;
};

/* op->engine[] */
enum { EC_OP_NEXT, EC_OP_STATUS, EC_OP_WAIT, EC_OP_DATA };
#define EC_FLAG_LISTED 1u
#define EC_FLAG_LAPSED 2u /* over by our clock: its key is being deleted */

/* ---- engine.c ------------------------------------------------------------------------------- */

/* Finish `op` when the lock is dropped. `err` NULL: the status' own text. */
void hfi_ec_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status, const hf_error *err);
void hfi_ec_lost(struct hfi_conn *conn, struct hfi_claim *claim, const char *why);
/* Begin what was started, drop the lock, tell core. */
void hfi_ec_leave(struct hfi_conn *conn);
void hfi_ec_claim_add(struct hfi_conn *conn, struct hfi_claim *claim);
void hfi_ec_claim_remove(struct hfi_conn *conn, struct hfi_claim *claim);
struct hfi_claim *hfi_ec_claim_find(struct hfi_conn *conn, const unsigned char *owner);
/* A place for its key that no other claim of this store has; and given back. */
void hfi_ec_place_get(struct hfi_conn *conn, struct hfi_claim *claim);
void hfi_ec_place_drop(struct hfi_conn *conn, struct hfi_claim *claim);
/* The claim's key is the one that was read. */
void hfi_ec_claim_at(struct hfi_claim *claim, const struct ec_record *record);
struct ec_lease *hfi_ec_claim_lease(const struct hfi_claim *claim);
void hfi_ec_claim_set_lease(struct hfi_claim *claim, struct ec_lease *lease);

/* ---- drive.c -------------------------------------------------------------------------------- */

/* multi.c: curl_multi_init(), and what it opens is closed on exec. */
CURLM *hfi_ec_multi_new(void);
hf_status hfi_ec_drive_open(struct hfi_conn *conn, hf_error *err);
void hfi_ec_drive_close(struct hfi_conn *conn);
void hfi_ec_drive_abandon(struct hfi_conn *conn);
int hfi_ec_fd(struct hfi_conn *conn);
int hfi_ec_timeout_ms(struct hfi_conn *conn, int64_t now_ms);
void hfi_ec_process(struct hfi_conn *conn, int64_t now_ms);
void hfi_ec_turn(struct hfi_conn *conn, int64_t until_ms);
void hfi_ec_kick(struct hfi_conn *conn);
/* Let libcurl begin what was started, and take what has ended. With the lock. */
void hfi_ec_pump(struct hfi_conn *conn);
/* Drive with the lock, for opening and closing, when nobody else does. */
void hfi_ec_drive_alone(struct hfi_conn *conn, int64_t until_ms);
/* Something may have become due earlier. true: core must be told too. With the lock. */
bool hfi_ec_hurry(struct hfi_conn *conn);
/* A descriptor for libcurl, noted for a fork; for any easy handle of this store. */
void hfi_ec_track(struct hfi_conn *conn, CURL *easy);

/* ---- call.c ---------------------------------------------------------------------------------- */

/* NULL: out of memory, and `op`, if there is one, is finished so. */
struct ec_call *hfi_ec_call_new(struct hfi_conn *conn, const char *path, ec_answer_fn *answer,
                                struct hfi_op *op);
void hfi_ec_call_send(struct ec_call *call);
void hfi_ec_call_free(struct ec_call *call);
/* libcurl is done with it. */
void hfi_ec_call_ended(struct ec_call *call, CURLcode result);
void hfi_ec_calls_tick(struct hfi_conn *conn, int64_t now_ms);
int64_t hfi_ec_calls_next_ms(const struct hfi_conn *conn);
void hfi_ec_calls_close(struct hfi_conn *conn);
/* This endpoint is of no use now: the next. */
void hfi_ec_host_failed(struct hfi_conn *conn, size_t host);

/* ---- http.c ---------------------------------------------------------------------------------- */

/* What every easy handle of a store needs: TLS, limits, no proxy, its descriptors noted. */
void hfi_ec_easy_setup(struct hfi_conn *conn, CURL *easy);
/* Headers with the token; NULL: none is needed, or no memory. */
struct curl_slist *hfi_ec_headers(struct hfi_conn *conn);
/* What etcd's error (gRPC's code and its words) means, and libcurl's. */
hf_status hfi_ec_code_status(int code, const char *text);
hf_status hfi_ec_curl_status(CURLcode result);
/* The status for an op whose call was not answered. */
hf_status hfi_ec_status(enum ec_outcome outcome, const hf_error *err);
/* One blocking request, on a connection of its own: open and doctor. Any thread, without the lock. */
hf_status hfi_ec_ask(struct hfi_conn *conn, size_t host, const char *path, const char *body,
                     int64_t limit_ms, json_t **ret_reply, hf_error *err);

/* ---- auth.c ------------------------------------------------------------------------------------- */

void hfi_ec_auth_begin(struct hfi_conn *conn);
void hfi_ec_add_login(struct ec_text *body, const struct ec_conf *conf);

/* ---- reply.c -------------------------------------------------------------------------------------- */

/* Numbers of etcd's JSON are strings, and absent when 0. */
int64_t hfi_ec_number(const json_t *object, const char *key);
/* Seconds (a ttl) as milliseconds, within 0 and HF_MS_MAX whatever the server says. */
int64_t hfi_ec_seconds_ms(const json_t *object, const char *key);
int64_t hfi_ec_revision(const json_t *reply); /* of its header */
int64_t hfi_ec_term(const json_t *reply);
/* Response number `index` of a transaction, by its kind ("response_range"); NULL: it is none. */
json_t *hfi_ec_response(const json_t *reply, size_t index, const char *kind);
/* One of the keys of a range. false: not one of ours. */
bool hfi_ec_kv(const struct hfi_conn *conn, const json_t *kv, struct ec_record *ret_record);
void hfi_ec_finish_odd(struct hfi_conn *conn, struct hfi_op *op);

/* ---- parts of requests (reply.c) ------------------------------------------------------------------ */

void hfi_ec_add_key(struct ec_text *text, const char *field, const struct ec_key *key);
/* {"key":..,"target":TARGET,"result":RESULT,"TARGET_revision":"N"}; `to` NULL: one key */
void hfi_ec_add_compare(struct ec_text *text, const struct ec_key *key, const struct ec_key *to,
                        const char *result, const char *target, int64_t revision);
/* {"request_range":{...}}, `more` as it is, from its comma on */
void hfi_ec_add_range(struct ec_text *text, const struct ec_key *key, const struct ec_key *to,
                      const char *more);
/* {"request_delete_range":{"key":..}} */
void hfi_ec_add_delete(struct ec_text *text, const struct ec_key *key);

/* ---- session.c ---------------------------------------------------------------------------------------- */

/* A lease for this ttl, with a reference for the caller. NULL: out of memory. */
struct ec_lease *hfi_ec_lease_get(struct hfi_conn *conn, int64_t ttl_ms, bool own);
/* One that exists already, of a detached claim. */
struct ec_lease *hfi_ec_lease_known(struct hfi_conn *conn, int64_t id, int64_t ttl_s);
void hfi_ec_lease_drop(struct hfi_conn *conn, struct ec_lease *lease);
/* Call ask->ready once the lease is good for a share of its ttl, in sixths; it may be called at
 * once. HF_LOST: it is gone. */
void hfi_ec_lease_ready(struct hfi_conn *conn, struct ec_lease *lease, int sixths,
                        struct ec_ask *ask);
void hfi_ec_lease_unask(struct ec_lease *lease, const struct ec_ask *ask);
void hfi_ec_lease_keep(struct hfi_conn *conn, struct ec_lease *lease);
/* How much of it is left, by our clock. */
int64_t hfi_ec_lease_left_ms(const struct ec_lease *lease, int64_t now_ms);
void hfi_ec_lease_gone(struct hfi_conn *conn, struct ec_lease *lease, const char *why);
void hfi_ec_leases_tick(struct hfi_conn *conn, int64_t now_ms);
int64_t hfi_ec_leases_next_ms(const struct hfi_conn *conn);
void hfi_ec_leases_close(struct hfi_conn *conn);
int64_t hfi_ec_seconds(int64_t ms);

/* ---- place.c -------------------------------------------------------------------------------------------- */

enum ec_verdict { EC_HOLDS, EC_WATCH_ONE, EC_WATCH_ALL };
/*
 * Does a claim of `permits` of `capacity` hold, with these ahead of it, the nearest first? If not,
 * whose end must be waited for: *ret_index, or of any of them. Pure.
 */
enum ec_verdict hfi_ec_place(uint32_t capacity, uint32_t permits, const uint32_t *ahead,
                             size_t count, size_t *ret_index, uint64_t *ret_taken);

/* ---- acquire.c, queue.c, watch.c -------------------------------------------------------------------------- */

void hfi_ec_acquire(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status);
void hfi_ec_waits_tick(struct hfi_conn *conn, int64_t now_ms);
int64_t hfi_ec_waits_next_ms(const struct hfi_conn *conn);
/* Their lease is gone: they queue again. */
void hfi_ec_waits_lease_gone(struct hfi_conn *conn, struct ec_lease *lease);
/* From a wait's watch. */
void hfi_ec_wait_created(struct hfi_conn *conn, struct ec_wait *wait, int64_t revision);
void hfi_ec_wait_deleted(struct hfi_conn *conn, struct ec_wait *wait,
                         const unsigned char place[HFI_OWNER_LEN]);
void hfi_ec_wait_unwatched(struct hfi_conn *conn, struct ec_wait *wait, const hf_error *why);

/* Between the two of them. acquire.c: its key is gone, from the beginning; it is first; out of the queue. */
void hfi_ec_wait_again(struct hfi_conn *conn, struct ec_wait *wait);
void hfi_ec_wait_confirm(struct hfi_conn *conn, struct ec_wait *wait);
void hfi_ec_wait_leave(struct hfi_conn *conn, struct ec_wait *wait, hf_status verdict,
                       const hf_error *err);
/* queue.c: ask who is ahead; `range` says who, newest first (in the order that _order() asks for), at `revision`. */
void hfi_ec_wait_look(struct hfi_conn *conn, struct ec_wait *wait);
void hfi_ec_wait_judge(struct hfi_conn *conn, struct ec_wait *wait, const json_t *range,
                       int64_t revision);
const char *hfi_ec_wait_order(const struct hfi_claim *claim);
void hfi_ec_wait_unwatch(struct hfi_conn *conn, struct ec_wait *wait);
void hfi_ec_wait_stop_moving(struct hfi_conn *conn, struct ec_wait *wait);

/* false: out of memory, or too many. start 0: from now on. */
bool hfi_ec_watch_open(struct hfi_conn *conn, struct ec_wait *wait, const struct ec_key *key,
                       const struct ec_key *to, int64_t start, struct ec_watch **ret_watch);
/* Likewise for one who waits for a cell: everything that happens to it after `revision`. */
bool hfi_ec_watch_cell(struct hfi_conn *conn, struct ec_cell_wait *cell, const struct ec_key *key,
                       int64_t revision);
void hfi_ec_watch_close(struct hfi_conn *conn, struct ec_watch *watch);
void hfi_ec_watch_ended(struct ec_watch *watch, CURLcode result);
void hfi_ec_watches_work(struct hfi_conn *conn); /* what came */
void hfi_ec_watches_host_failed(struct hfi_conn *conn, size_t host);
void hfi_ec_watches_tick(struct hfi_conn *conn, int64_t now_ms);
int64_t hfi_ec_watches_next_ms(const struct hfi_conn *conn);
/* A claim is held since this revision: breaks of it must be heard. */
void hfi_ec_inbox_want(struct hfi_conn *conn, int64_t revision);

/* ---- lease.c, look.c, cells.c, change.c, doctor.c ----------------------------------------------------------- */

void hfi_ec_release(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_renew(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_adopt(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_break(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_lapse_tick(struct hfi_conn *conn, int64_t now_ms);
void hfi_ec_inspect(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_cell_read(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_cell_swap(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_cell_wait(struct hfi_conn *conn, struct hfi_op *op);
void hfi_ec_cell_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status);
/* From its watch: it has this version now (0: it is gone); the watch is over. */
void hfi_ec_cell_changed(struct hfi_conn *conn, struct ec_cell_wait *cell, uint64_t version);
void hfi_ec_cell_unwatched(struct hfi_conn *conn, struct ec_cell_wait *cell, const hf_error *why);
hf_status hfi_ec_wait_change(struct hfi_conn *conn, uint64_t *seq, int64_t until_ms,
                             const _Atomic int *stop, hf_error *err);
void hfi_ec_stop_wait(struct hfi_conn *conn);
hf_status hfi_ec_doctor(struct hfi_conn *conn, hf_finding_fn *finding, void *arg, hf_error *err);

#endif
