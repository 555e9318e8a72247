/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: distributed locks. primitives.h has what is built on them, redis.h has scripts.
 *
 * GUARANTEES
 *  - Of one name, leases that conflict are never granted at the same time by
 *    the store. What each engine promises when machines crash, pause or lose
 *    data is in holdfast-engines(7) and in hf_store_get().
 *  - Every exclusive lease carries a fencing token: a positive integer below
 *    2^53, larger than the token of every earlier conflicting lease of that
 *    name (where hf_store_get() says so).
 *  - A lease with a ttl is reported LOST at the latest when its validity ends
 *    by our own clock, which counts suspend; that is before the store lets
 *    anybody else in. After LOST no call says "held" again.
 *  - Only the owner's handle, or hf_lease_break() with the exact token, frees a lease.
 *  - An outcome is never assumed: HF_UNKNOWN says that the store may or may not
 *    have done it, and that the library is settling it in the background.
 *  - The library never prints, never exits, never installs a signal handler.
 *    Its own threads block all signals.
 *
 * CAVEATS
 *  - A paused process can always wake up past its lease. Only a resource that
 *    checks tokens (accept >= highest seen, claim before reading) is safe then:
 *    hf_guard_claim() and hf_guard_set() make one.
 *  - The token of a shared or semaphore lease is an id and not a fence: holders
 *    overlap.
 *  - After fork() the child may not use the parent's handles: every call says
 *    HF_FORKED and frees nothing. The child may hf_open() its own store. Its
 *    copies of the connections to servers are closed before fork() returns
 *    (a handler of pthread_atfork(3)), so that a connection ends with the parent
 *    even if the child lives on. vfork(2), _Fork(3) and clone(2) run no handlers.
 *  - Between fork() and exec() of a program with threads nothing here is
 *    async-signal-safe; posix_spawn(3) and vfork(2) + exec are fine at any time.
 *
 * CONVENTIONS
 *  - Option structs begin with `size` = sizeof the struct (HF_*_INIT sets it);
 *    a zero field means its default. Output parameters come last, are named
 *    ret_* and are set only on HF_OK. `err` may be NULL.
 *  - All calls may be made by any thread at any time unless stated otherwise.
 *  - Handles (hf_store, hf_lease, hf_op, hf_cancel) are not pointers to memory
 *    you may look into. A handle that has ended, or was never one, is answered
 *    with HF_INVALID and never with a crash.
 */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

/* "0.1.0", of the library that is loaded. */
HF_API const char *hf_version(void);

/* ---- statuses ---------------------------------------------------------- */

/* name, number, text. Append only: numbers are never reused or changed. */
#define HF_STATUS_MAP(X)                                             \
    X(OK, 0, "ok")                                                   \
    X(BUSY, 1, "busy: somebody else holds it")                       \
    X(TIMEOUT, 2, "the deadline passed before it was granted")       \
    X(CANCELLED, 3, "cancelled")                                     \
    X(MISMATCH, 4, "the name is in use as another kind or capacity") \
    X(LOST, 5, "the lease is lost")                                  \
    X(NOT_FOUND, 6, "no such lease")                                 \
    X(INVALID, 7, "invalid argument")                                \
    X(CONFIG, 8, "invalid store URL or configuration")               \
    X(UNSUPPORTED, 9, "this engine cannot do that")                  \
    X(UNAVAILABLE, 10, "the store cannot be reached")                \
    X(DENIED, 11, "the store refused us")                            \
    X(UNKNOWN, 12, "the outcome is unknown")                         \
    X(CORRUPT, 13, "the store's data is damaged")                    \
    X(NO_MEMORY, 14, "out of memory")                                \
    X(FORKED, 15, "the handle belongs to the parent process")        \
    X(IN_USE, 16, "still in use")                                    \
    X(TOO_SHORT, 17, "granted, but with too little validity left")   \
    X(FULL, 18, "the store is full")                                 \
    X(VERSION, 19, "the store was made by another version")          \
    X(INTERNAL, 20, "internal error")                                \
    X(FENCED, 21, "a later token has been there")                    \
    X(DEADLOCK, 22, "waiting for it would never end")                \
    X(CHANGED, 23, "it has changed meanwhile")                       \
    X(OVERFLOW, 24, "the number would leave its range")              \
    X(BROKEN, 25, "somebody who takes part is gone")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, number, text) HF_##name = number,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/* "BUSY" and "busy: somebody else holds it". Never NULL, also for other numbers. */
HF_API const char *hf_status_name(hf_status status);
HF_API const char *hf_status_text(hf_status status);

#define HF_ERROR_TEXT_MAX 512

/*
 * The caller's struct; every call that takes one overwrites it, HF_OK included.
 * `native` is the engine's own code (errno for the embedded store), 0 if none.
 * `text` is wrapped outer to inner: "file:/srv/locks: acquire 'job': ...".
 * It never holds a password.
 */
typedef struct hf_error {
    hf_status status;
    int native;
    char text[HF_ERROR_TEXT_MAX];
} hf_error;

/* ---- stores ------------------------------------------------------------ */

typedef struct hf_store hf_store;

typedef struct hf_open_options {
    size_t size;
    int64_t open_wait_ms; /* give up opening after this; 0: 5000 */
    const char *label;    /* for people: who we are; copied; NULL: host, pid, user, program */
    uint64_t flags;       /* HF_OPEN_* */
    uint64_t reserved[5];
} hf_open_options;
/* clang-format off */
#define HF_OPEN_OPTIONS_INIT { .size = sizeof(hf_open_options) }
/* clang-format on */

/* Only look at what is there: nothing is made, no file, no table. HF_NOT_FOUND: there is no store yet; HF_VERSION: the
 * routines in a database are of an older version. hf_open() says so, or, on a database server, the first call that looks:
 * hf_store_check() still reports on that server. */
#define HF_OPEN_FLAG_EXISTING 1u
/* Each address of the server is tried once. Without this flag a server that refuses connections, as one that is just
 * being started does, is tried again until open_wait_ms is over. A server that accepts a connection and is silent has
 * open_wait_ms in both cases. */
#define HF_OPEN_FLAG_ONCE 2u

/*
 * Open the store at `url`: "file:/path", "redis://host", ... (holdfast-engines(7)). NULL or
 * "" is the default embedded store, which belongs to one user and does not depend
 * on the environment: what /etc/holdfast/store says, else ~/.local/state/holdfast by
 * the passwd entry of the effective user. An embedded store that somebody else may
 * write to is HF_DENIED, unless the URL says shared=group. The same embedded store
 * opened twice by one process is one store inside with two handles.
 *
 * HF_CONFIG: the URL is bad (the text names the part and its byte). HF_DENIED,
 * HF_UNAVAILABLE, HF_FULL, HF_VERSION, HF_CORRUPT: the store cannot be used.
 */
HF_API hf_status hf_open(const char *url, const hf_open_options *options, hf_store **ret_store,
                         hf_error *err);

#define HF_CLOSE_FLAG_RELEASE 1u /* end what is still held or waited for */

/*
 * Close a store. While leases are held, calls wait in it or operations are
 * pending: HF_IN_USE, and the store stays open, unless HF_CLOSE_FLAG_RELEASE is
 * given: then waiting calls end with HF_CANCELLED, held leases become LOST and
 * are released, callbacks that are due are run from within this call, and the
 * store is closed. Their handles stay valid for
 * hf_release(), which says HF_LOST. A detached lease whose handle was given away
 * (hf_lease_export()) keeps no store open and is left alone: it lives on. In a forked child: HF_FORKED, nothing freed.
 * Not from within a callback of this store.
 */
HF_API hf_status hf_close(hf_store *store, unsigned flags);

/* What an engine can do. Anything not declared answers HF_UNSUPPORTED. */
#define HF_CAP_SHARED    (1u << 0) /* shared / exclusive */
#define HF_CAP_SEMAPHORE (1u << 1) /* capacity > 1 */
#define HF_CAP_WAIT      (1u << 2) /* waiting wakes by an event and not by a poll */
#define HF_CAP_FIFO      (1u << 3) /* first come, first served */
#define HF_CAP_TTL       (1u << 4) /* leases can have a ttl */
#define HF_CAP_PROCESS \
    (1u << 5) /* leases end with the process and its connections, without a ttl */
#define HF_CAP_DETACHED   (1u << 6) /* leases that outlive the process */
#define HF_CAP_TOKEN      (1u << 7) /* fencing tokens */
#define HF_CAP_PASS       (1u << 8) /* blocks of tokens, so local passing */
#define HF_CAP_BARGE      (1u << 9)
#define HF_CAP_LOCK_DELAY (1u << 10)
#define HF_CAP_INSPECT    (1u << 11) /* holders can be listed */
#define HF_CAP_WAITERS    (1u << 12) /* waiters can be listed too */
#define HF_CAP_BREAK      (1u << 13)
#define HF_CAP_WATCH      (1u << 14) /* hf_store_wait() */
#define HF_CAP_CELLS      (1u << 15) /* cells, and what stands on them: counters, latches, ... */
#define HF_CAP_CELL_TTL   (1u << 16) /* cells can have a ttl */
#define HF_CAP_CELL_WATCH (1u << 17) /* waiting for a cell to change wakes by an event */
#define HF_CAP_CLOCK      (1u << 18) /* the store has a clock that all clients share: rate limits */
#define HF_CAP_SCRIPTS    (1u << 19) /* hf_script_run() */

typedef enum hf_token_strength {
    HF_TOKEN_STRENGTH_NONE,
    HF_TOKEN_STRENGTH_WHILE_DURABLE,
    HF_TOKEN_STRENGTH_STRICT
} hf_token_strength;

typedef struct hf_store_info {
    size_t size;          /* set by the caller */
    const char *engine;   /* "lmdb"; lives as long as the store */
    const char *location; /* the URL or path in use, without secrets; likewise */
    unsigned caps;        /* HF_CAP_* */
    hf_token_strength tokens;
    int64_t default_ttl_ms; /* 0: leases have no ttl unless asked for */
    int64_t min_ttl_ms;
    int64_t
        max_ttl_ms; /* no grant and no renewal lasts longer, whatever is asked for; 0: no limit */
    uint64_t reserved[5];
} hf_store_info;

HF_API hf_status hf_store_get(hf_store *store, hf_store_info *ret_info);

/* ---- acquiring --------------------------------------------------------- */

typedef struct hf_lease hf_lease;
typedef struct hf_cancel hf_cancel;

#define HF_NAME_MAX     512         /* bytes; any bytes */
#define HF_LABEL_MAX    127         /* longer ones are cut; of who holds and waits, to 49 */
#define HF_CAPACITY_MAX 1000000000u /* largest semaphore */
#define HF_FOREVER      ((int64_t)-1)
#define HF_TTL_MIN_MS   1000
#define HF_DURATION_MAX_MS \
    (INT64_C(1000) * 3600 * 24 * 3650) /* longest duration taken: ten years */

typedef enum hf_kind {
    HF_KIND_MUTEX = 0,     /* capacity 1 */
    HF_KIND_SHARED = 1,    /* read-write lock: reader */
    HF_KIND_EXCLUSIVE = 2, /* read-write lock: writer */
    HF_KIND_SEMAPHORE = 3  /* `capacity` permits, of which we take `permits` */
} hf_kind;

#define HF_FLAG_BARGE     (1u << 0) /* may overtake waiters: throughput over order */
#define HF_FLAG_REENTRANT (1u << 1) /* the same thread (or scope) may take it again */
#define HF_FLAG_NO_RENEW  (1u << 2) /* a ttl lease is not renewed by itself */
#define HF_FLAG_DETACHED \
    (1u << 3) /* outlives this process: needs a ttl, can be handed to hf_lease_adopt() */
#define HF_FLAG_STRICT (1u << 4) /* no local passing: FIFO across all processes and threads */
#define HF_FLAG_NO_DEADLOCK_CHECK \
    (1u << 5) /* no part in deadlock detection: the lease is for another thread to release */

typedef enum hf_state { HF_STATE_HELD = 1, HF_STATE_AT_RISK = 2, HF_STATE_LOST = 3 } hf_state;

/*
 * Called once when a lease is lost, from a thread of the library (or from
 * hf_store_process()). It may call anything of this library but hf_close(). `reason`
 * is HF_LOST (expired, broken, or the store forgot it) with text in `why`.
 */
typedef void hf_lost_fn(hf_lease *lease, hf_status reason, const char *why, void *arg);

typedef struct hf_acquire_request {
    size_t size;
    const void *name; /* 1 to HF_NAME_MAX bytes */
    size_t name_len;  /* 0: `name` is a C string */
    hf_kind kind;
    uint32_t capacity; /* semaphore only: 1 to HF_CAPACITY_MAX */
    uint32_t permits;  /* semaphore only: 0 means 1 */
    unsigned flags;
    int64_t wait_ms;       /* 0: try once; HF_FOREVER; else at most this long */
    int64_t ttl_ms;        /* 0: the engine's default */
    int64_t max_hold_ms;   /* end the lease after this, whatever happens; 0: no */
    int64_t min_valid_ms;  /* a grant with less validity left is given back: HF_TOO_SHORT */
    int64_t lock_delay_ms; /* after an unclean loss the name stays closed this long */
    uint64_t scope; /* who "we" are, for HF_FLAG_REENTRANT and deadlocks; 0: the calling thread */
    const char *label; /* for people; NULL: the store's label */
    hf_cancel *cancel; /* hf_cancel_fire() ends the waiting; NULL: none */
    hf_lost_fn *on_lost;
    void *on_lost_arg;
    const char *session; /* hf_session_get() of who we work for; other text is ignored */
    uint64_t reserved[5];
} hf_acquire_request;
/* clang-format off */
#define HF_ACQUIRE_REQUEST_INIT { .size = sizeof(hf_acquire_request) }
/* clang-format on */

/*
 * Acquire what `request` asks for, waiting at most wait_ms.
 *
 * HF_OK: the caller owns *ret_lease; hf_release() ends it, whatever that call
 * returns. Any other status leaves *ret_lease untouched. HF_BUSY: wait_ms was
 * 0. HF_TIMEOUT, HF_CANCELLED: we have left the queue. HF_MISMATCH: the name
 * is in use as another kind or capacity. HF_UNKNOWN: the store may have granted
 * it; nobody can use that grant, and it is given back in the background.
 * HF_DEADLOCK: see below under deadlocks. HF_INVALID: the text names the field.
 *
 * With HF_FLAG_REENTRANT, a thread (scope) that already holds the name through this
 * store handle by a reentrant request gets the same handle again, its hold
 * count one higher; each needs its own hf_release().
 */
HF_API hf_status hf_acquire(hf_store *store, const hf_acquire_request *request,
                            hf_lease **ret_lease, hf_error *err);

/*
 * End a lease (one hold of it). HF_OK: given back. HF_LOST: it was lost before;
 * nobody else's lease was touched. HF_UNKNOWN, HF_UNAVAILABLE: the store could
 * not be told; the library goes on trying in the background. HF_UNKNOWN also: the
 * connection broke, and the lease is gone; it was given back, or lost before. In
 * every case but HF_FORKED the handle has ended (when the hold count reached 0).
 * HF_INVALID: it had ended before. Of a lost lease it returns only after its
 * on_lost callback has: what the callback uses may be freed then. (Not within
 * that callback.)
 */
HF_API hf_status hf_release(hf_lease *lease, hf_error *err);

/*
 * Renew now, for ttl_ms (0: as before) from now. HF_OK: valid until then.
 * HF_LOST: too late. HF_UNAVAILABLE, HF_UNKNOWN: not confirmed; the lease is
 * AT_RISK and still valid for hf_lease_remaining_ms(). HF_UNSUPPORTED: it has no ttl.
 */
HF_API hf_status hf_renew(hf_lease *lease, int64_t ttl_ms, hf_error *err);

/* A canceller. It may serve many requests; fired once, it stays fired. */
HF_API hf_status hf_cancel_open(hf_cancel **ret_cancel);
/* End the waiting of every request that names it. Any thread; not a signal handler. */
HF_API hf_status hf_cancel_fire(hf_cancel *cancel);
/* HF_IN_USE while a request that names it is still waiting. */
HF_API hf_status hf_cancel_close(hf_cancel *cancel);

/* ---- several names at once ------------------------------------------------ */

#define HF_ACQUIRE_ALL_MAX 64

/*
 * Acquire all that the `count` requests ask for, or nothing. HF_OK: ret_leases[i] is the lease of
 * requests[i], with its own token; each is an ordinary lease. Any other status: *ret_leases is untouched,
 * and whatever had been granted was given back before this returned (HF_UNKNOWN: or is being, in the
 * background); the text names the one that failed. HF_LOST: one was lost while we waited for another.
 *
 * Names are taken in the order of their bytes, whatever order they are given in: so those who acquire
 * several names by this call never wait for each other in a circle. Where the line to the store carries
 * many requests at once (Redis) all are asked for together first: if all are free that is one round trip.
 *
 * All requests have the same wait_ms, which is the limit for all of them together, and the same cancel,
 * scope and session; no two have the same name. Else: HF_INVALID.
 */
HF_API hf_status hf_acquire_all(hf_store *store, const hf_acquire_request *requests, size_t count,
                                hf_lease **ret_leases, hf_error *err);

/*
 * Release them all, whatever happens. HF_OK: all were given back. Else the first status that was not
 * HF_OK, as of hf_release(); each of the handles has ended (in every case but HF_FORKED).
 */
HF_API hf_status hf_release_all(hf_lease *const *leases, size_t count, hf_error *err);

/* ---- leases ------------------------------------------------------------ */

typedef struct hf_lease_info {
    size_t size;    /* set by the caller */
    uint64_t token; /* 0 where the engine has none */
    hf_state state;
    uint32_t holds;       /* hold count of a reentrant lease, else 1 */
    int64_t remaining_ms; /* validity left; INT64_MAX: no limit; 0 when lost */
    int64_t age_ms;       /* since it was granted to us */
    int64_t ttl_ms;       /* what each renewal gives; 0: none */
    unsigned char name[HF_NAME_MAX];
    size_t name_len;
    uint64_t reserved[6];
} hf_lease_info;

HF_API hf_status hf_lease_get(hf_lease *lease, hf_lease_info *ret_info);

/* Shortcuts: token 0, state HF_STATE_LOST and 0 ms for a handle that has ended. */
HF_API uint64_t hf_lease_token(hf_lease *lease);
HF_API hf_state hf_lease_state(hf_lease *lease);
HF_API int64_t hf_lease_remaining_ms(hf_lease *lease);

/*
 * A descriptor that polls readable from the moment the lease is lost. It belongs
 * to the lease and is closed by the last hf_release(). -1: no such lease, or no
 * descriptor to be had.
 */
HF_API int hf_lease_fd(hf_lease *lease);

#define HF_LEASE_TEXT_MAX 64 /* with its NUL */

/*
 * A detached lease as text that another process can hand to hf_lease_adopt(). Whoever
 * has it can release the lease: it is a secret among those who share the store.
 * HF_UNSUPPORTED: it is not detached. HF_LOST: too late.
 */
HF_API hf_status hf_lease_export(hf_lease *lease, char ret_text[HF_LEASE_TEXT_MAX]);

/*
 * Take over a detached lease by its handle. HF_OK: *ret_lease is owned as if
 * acquired here, renewed for ttl_ms (0: as before) from now; it is not renewed
 * by itself unless `renew` is 1. HF_NOT_FOUND: no such lease any more (ended,
 * expired, broken). HF_INVALID: not a handle.
 */
HF_API hf_status hf_lease_adopt(hf_store *store, const void *name, size_t name_len,
                                const char *handle, int64_t ttl_ms, int renew, hf_lease **ret_lease,
                                hf_error *err);

/*
 * The token of a lease as a fence for the two calls below. HF_UNSUPPORTED: it is
 * none: the lease is one of several that may overlap (a reader, some permits of
 * a semaphore), or its engine gives no tokens. HF_LOST: too late to begin.
 */
HF_API hf_status hf_lease_fence(hf_lease *lease, uint64_t *ret_token, hf_error *err);

/* ---- asynchronous use --------------------------------------------------- */

/*
 * Every call that may block has a form that does not, with the same inputs:
 *
 *   hf_X_async(<inputs of hf_X>, done, arg, ret_op, err)
 *
 * It begins the call and returns. Not HF_OK: nothing began. HF_OK: `done` is called exactly once, later than the call
 * returns, on the thread that is in hf_store_process(). Inputs are copied. *ret_op (ret_op may be NULL) is for hf_op_cancel()
 * and is good until `done` is called.
 */
typedef struct hf_op hf_op;

/*
 * What a call has found. With HF_OK the members that its blocking form returns are set, all others are zero. What is marked *
 * belongs to the callback, which keeps it or frees it; all else, and the result itself, lives until the callback returns.
 */
typedef struct hf_result {
    size_t size; /* set by the library */
    hf_status status;
    const hf_error *error;          /* what the blocking form would have put into *err */
    hf_lease *lease;                /* * acquire, adopt, campaign, begin ...: hf_release() */
    hf_lease *const *leases;        /* acquire_all: the leases (*), in the order of the requests */
    size_t count;                   /* how many `leases` */
    void *bytes;                    /* * cells, guards: hf_free() */
    size_t len;                     /* of `bytes` */
    uint64_t version;               /* cells; store_wait: the change number */
    int64_t number;                 /* counters, and others that find a number */
    struct hf_view *view;           /* * store_inspect */
    struct hf_report *report;       /* * store_check */
    struct hf_deadlocks *deadlocks; /* * deadlock_list */
    struct hf_leader *leader;       /* * election_wait */
    struct hf_value *value;         /* * scripts */
    const struct hf_limit_result *limit; /* limit_take, limit_get */
    const struct hf_once_mark *mark;     /* once_get, once_begin */
    const void *reserved[4];
} hf_result;

typedef void hf_done_fn(const hf_result *result, void *arg);

/* Blocks: no. Callbacks: done. After fork: HF_FORKED. */
HF_API hf_status hf_acquire_async(hf_store *store, const hf_acquire_request *request,
                                  hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: done. After fork: HF_FORKED.
 * The lease handle has ended when this returns HF_OK. Of a lost lease `done` comes, with HF_LOST, after its on_lost callback
 * has ended. A release cannot be cancelled. */
HF_API hf_status hf_release_async(hf_lease *lease, hf_done_fn *done, void *arg, hf_op **ret_op,
                                  hf_error *err);
/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * Ask a call that waits for an early end. `done` still comes: with HF_CANCELLED, or with another answer if it was too late. */
HF_API hf_status hf_op_cancel(hf_op *op);

/*
 * Drive a store from your own event loop: wait until hf_store_fd() is readable or
 * hf_store_timeout_ms() has passed (-1: no limit), then call hf_store_process(), which never
 * blocks and runs the callbacks that are due, on this thread. The descriptor
 * belongs to the store.
 */
HF_API int hf_store_fd(hf_store *store);
HF_API int hf_store_timeout_ms(hf_store *store);
HF_API hf_status hf_store_process(hf_store *store);

/* ---- looking and breaking ----------------------------------------------- */

typedef struct hf_holder {
    uint64_t token; /* of who holds now */
    uint64_t first; /* first token of its block; local passes count up from it */
    uint32_t permits;
    uint32_t detached; /* 1: no process stands behind it */
    int64_t age_ms;
    int64_t ttl_ms; /* left; -1: none */
    int64_t pid;    /* 0: unknown or in another PID namespace */
    int64_t tid;    /* the thread that holds after a local pass; 0: not told */
    const char *label;
    uint64_t session; /* whose it is, for deadlock detection; 0: not known */
    uint64_t reserved[3];
} hf_holder;

typedef struct hf_waiter {
    uint32_t position; /* 1 is next */
    uint32_t permits;
    hf_kind kind;
    int64_t age_ms;
    int64_t pid;
    const char *label;
    uint64_t session; /* whose it is, for deadlock detection; 0: not known */
    uint64_t reserved[3];
} hf_waiter;

typedef struct hf_entry {
    const unsigned char *name;
    size_t name_len;
    hf_kind kind; /* HF_KIND_MUTEX, HF_KIND_SHARED (a read-write lock) or HF_KIND_SEMAPHORE */
    uint32_t capacity;
    uint32_t taken;    /* permits; a writer takes `capacity` */
    int64_t closed_ms; /* lock_delay left; 0: open */
    size_t holder_count;
    const hf_holder *holders;
    size_t waiter_count;
    const hf_waiter *waiters; /* in order; NULL with waiter_count 0 */
    uint64_t reserved[4];
} hf_entry;

typedef struct hf_view {
    size_t count;
    const hf_entry *entries; /* sorted by name, bytewise */
    int waiters_tracked;     /* 0: this engine cannot list waiters */
    uint64_t reserved[4];
} hf_view;

#define HF_INSPECT_FLAG_PATTERN \
    1u /* `name` is a pattern with * ? [a-z] and \ ; name_len 0 with NULL: all */

/*
 * Who holds and who waits. Without HF_INSPECT_FLAG_PATTERN `name` is one exact name. A
 * name that nobody holds or waits for has no entry. The entries are each
 * consistent in themselves; a large view is read in pieces. *ret_view is freed
 * by hf_view_free().
 */
HF_API hf_status hf_store_inspect(hf_store *store, const void *name, size_t name_len,
                                  unsigned flags, hf_view **ret_view, hf_error *err);
HF_API void hf_view_free(hf_view *view);

/*
 * End exactly the lease that holds `name` with `token`, whoever owns it; its
 * holder is told (LOST). HF_NOT_FOUND: no lease has that token now.
 */
HF_API hf_status hf_lease_break(hf_store *store, const void *name, size_t name_len, uint64_t token,
                                hf_error *err);

/*
 * Wait until something in the store changed since *seq (0: since now), at most
 * wait_ms; then set *seq. HF_TIMEOUT: nothing changed. Costs a waiting process
 * nothing. HF_UNSUPPORTED without HF_CAP_WATCH.
 */
HF_API hf_status hf_store_wait(hf_store *store, uint64_t *seq, int64_t wait_ms, hf_cancel *cancel,
                               hf_error *err);

typedef enum hf_check_level {
    HF_CHECK_LEVEL_OK,
    HF_CHECK_LEVEL_WARNING,
    HF_CHECK_LEVEL_BAD
} hf_check_level;

/* One finding of hf_store_check(). The strings are good during the call only. */
typedef void hf_finding_fn(hf_check_level level, const char *topic, const char *text, void *arg);

/* Is this store safe for what it promises? Reports findings one by one. */
HF_API hf_status hf_store_check(hf_store *store, hf_finding_fn *finding, void *arg, hf_error *err);

/*
 * Administer the store at `url` without opening it (it may be in no state to be opened): what an
 * engine has to look after beyond locks. `words` is a command and its arguments, ended by NULL:
 *
 *   redlock   "status"                           what every node is
 *             "join" ["--force"] [NODE]          heal what can be healed; wait for what must pass first
 *   redis     "script-kill" [MS]                 hf_script_kill() at the server of the URL (of a cluster:
 *                                                at those that it names), within MS milliseconds
 *
 * holdfast-redlock(1) says what they do. Of "status" the text of a finding is words of the form
 * key=value, and its topic the node. May block, for join as long as max_ttl. Any thread.
 * HF_UNSUPPORTED: that engine has nothing of the kind. HF_INVALID: no such command, or not so.
 */
HF_API hf_status hf_manage(const char *url, const char *const *words, hf_finding_fn *finding,
                           void *arg, hf_error *err);

/* ---- deadlocks ------------------------------------------------------------ */

/*
 * In a store that lists waiters and has tokens (HF_CAP_WAITERS, HF_CAP_TOKEN), requests that wait for
 * each other in a circle are found, across names, threads, processes and machines: one of them, of
 * those with a limit to their wait the last, else the last of all, gets HF_DEADLOCK with the circle in
 * words, and the others go on once it releases what it holds. That comes after about a second of
 * waiting (deadlock_check= in the URL; 0s: never). At once: a reader that waits to become the writer of
 * the same name, and who waits for itself without a limit and without a canceller (with one of them it
 * waits as it asked for). mode=row and mode=session of PostgreSQL and MariaDB cannot list waiters: there circles are
 * found too, but for those with the `session` of another process, and hf_deadlock_list() is HF_UNSUPPORTED.
 *
 * Who waits and who holds is a *session*: a thread; or a scope, for requests that name one; or, by
 * `session` of the request, that of another process. Asynchronous requests without one of the two last
 * have none. Of a session that holds more than eight leases in the store the latest eight count.
 * Leases that end by themselves (HF_FLAG_NO_RENEW, HF_FLAG_DETACHED, max_hold_ms) are in nobody's way for ever
 * and do not count. A lease that another thread will release must be asked for with HF_FLAG_NO_DEADLOCK_CHECK:
 * else whoever asked for it is taken to be the one who must go on.
 *
 * It is never said of a request that could go on: who is not known to wait is taken to be about to
 * release, of a semaphore every way to enough permits must be closed, and all of it is looked at twice.
 */

#define HF_SESSION_TEXT_MAX 160 /* with its NUL */

/*
 * The session that holds `lease`, as text for a process that works for us (an environment variable):
 * what it waits for, we wait for. `around` is the same text of a process for which we work, NULL: none.
 */
HF_API hf_status hf_session_get(hf_lease *lease, const char *around,
                                char ret_text[HF_SESSION_TEXT_MAX], hf_error *err);

/* One who waits in a circle: for `name`, which the next one has. The last waits for what the first has. */
typedef struct hf_deadlock_waiter {
    const unsigned char *name; /* what it waits for */
    size_t name_len;
    uint64_t token; /* of its lease of what the one before waits for; 0: it is ahead in the queue */
    uint64_t session;
    int64_t age_ms; /* waiting since */
    int64_t pid;    /* 0: unknown */
    const char *label;
    uint64_t reserved[2];
} hf_deadlock_waiter;

/* Everything is good during the call only. links[0] is the one that will get HF_DEADLOCK. */
typedef void hf_deadlock_fn(const hf_deadlock_waiter *links, size_t count, void *arg);

/*
 * Report the circles that are in the store now, one call each. HF_UNSUPPORTED: the engine cannot list
 * waiters, or has no tokens.
 */
HF_API hf_status hf_deadlock_list(hf_store *store, hf_deadlock_fn *found, void *arg, hf_error *err);

/* ---- engines ------------------------------------------------------------ */

typedef struct hf_engine_info {
    const char *name;    /* "lmdb" */
    const char *schemes; /* "file" or "redis rediss", separated by spaces */
    int available;       /* 1: its module is there and loads */
    unsigned caps;       /* below: only if available */
    hf_token_strength tokens;
    /* The promise table, a few words each. */
    const char *on_crash, *on_pause, *on_clock_jump, *on_server_loss, *on_partition;
    const char *fairness, *wakeup;
    const char *why_not; /* if not available */
    uint64_t reserved[4];
} hf_engine_info;

/* Engine number `index` from 0; HF_NOT_FOUND past the last. Strings are static. */
HF_API hf_status hf_engine_get(size_t index, hf_engine_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
