/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: distributed locks. primitives.h has what is built on them, redis.h what only Redis has.
 *
 * GUARANTEES
 *  - The store never grants conflicting leases of one name at the same time. What each engine
 *    promises when machines crash, pause or lose data is in holdfast-engines(7) and in
 *    hf_store_get().
 *  - Every exclusive lease carries a fencing token: a positive integer below 2^53, larger than the
 *    token of every earlier conflicting lease of that name (where hf_store_get() says so).
 *  - A lease with a ttl is reported LOST at the latest when its validity ends by our own clock,
 *    which counts suspend. That is before the store grants the name to anybody else. After LOST
 *    no call says "held" again.
 *  - Only the owner's handle, or hf_lease_break() with the exact token, frees a lease.
 *  - An outcome is never assumed: HF_UNKNOWN says that the store may or may not have done it, and
 *    that the library settles it in the background.
 *  - The library never prints, never exits, never installs a signal handler. Its own threads block
 *    all signals.
 *
 * CAVEATS
 *  - A paused process can always wake up after its lease has ended. Only a resource that checks
 *    tokens (accept a token >= the highest seen, claim before reading) is safe then:
 *    hf_guard_claim() and hf_guard_set() of primitives.h make one.
 *  - The token of a shared or semaphore lease is an id and not a fence: the holders overlap.
 *  - After fork() the child must not use the parent's handles: every call returns HF_FORKED and
 *    frees nothing. The child may hf_open() its own store. The child's copies of the connections
 *    to servers are closed before fork() returns (a handler of pthread_atfork(3)), so that a
 *    connection ends with the parent even if the child lives on. vfork(2), _Fork(3) and clone(2)
 *    run no handlers.
 *  - Between fork() and exec() of a program with threads nothing here is async-signal-safe;
 *    posix_spawn(3) and vfork(2) + exec are fine at any time.
 *
 * CONVENTIONS
 *  - The first line of each comment says whether the call blocks ("a round trip": until the store
 *    answers, a few seconds at most), which callbacks of the caller it runs ("process": they run
 *    in hf_store_process() only; "here": on the calling thread, before the call returns), and what
 *    it does after fork() with a handle of the parent ("works": it uses no handle).
 *  - Structs that the caller allocates begin with `size` = sizeof the struct (HF_*_INIT sets it).
 *    A zero field means its default. Structs that the library allocates are handed out by pointer
 *    only and may grow at their end: never copy one or take its size.
 *  - Output parameters come last, are named ret_* and are set only on HF_OK. `err` may be NULL.
 *  - Inputs are copied, or used during the call only.
 *  - A length is a number of bytes. HF_CSTRING as a length: the text ends with a NUL.
 *  - What the library returns is freed by hf_free(). Handles have open and close, or acquire and
 *    release.
 *  - All calls may be made by any thread at any time unless stated otherwise.
 *  - Handles (hf_store, hf_lease, hf_op, hf_cancel) are not pointers to memory. A handle that has
 *    ended, or was never one, is answered with HF_INVALID and never with a crash, and never comes
 *    to mean another object.
 */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#define HF_USE __attribute__((warn_unused_result)) /* to ignore the result is a bug */
#else
#define HF_API
#define HF_USE
#endif

/* What HF_*_INIT is made of: everything zero but `size`. */
#ifdef __cplusplus
extern "C++" {
template <typename Struct> inline Struct hf_init()
{
    Struct value = Struct();
    value.size = sizeof value;
    return value;
}
}
#define HF_INIT(type) hf_init<type>()
#else
#define HF_INIT(type)         \
    {                         \
        .size = sizeof(type), \
    }
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR  0
#define HF_VERSION_MINOR  2
#define HF_VERSION_PATCH  0
#define HF_VERSION_NUMBER (HF_VERSION_MAJOR * 10000 + HF_VERSION_MINOR * 100 + HF_VERSION_PATCH)

/* Blocks: no. Callbacks: none. After fork: works.
 * "0.2.0" and HF_VERSION_NUMBER, of the library that is loaded. */
HF_API const char *hf_version(void);
HF_API int hf_version_number(void);

#define HF_CSTRING SIZE_MAX /* as a length: the text ends with a NUL */

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
    X(DENIED, 11, "the store denied access")                         \
    X(UNKNOWN, 12, "the outcome is unknown")                         \
    X(CORRUPT, 13, "the store's data is damaged")                    \
    X(NO_MEMORY, 14, "out of memory")                                \
    X(FORKED, 15, "the handle belongs to the parent process")        \
    X(IN_USE, 16, "still in use")                                    \
    X(TOO_SHORT, 17, "granted, but with too little validity left")   \
    X(FULL, 18, "the store is full")                                 \
    X(VERSION, 19, "the store was made by another version")          \
    X(INTERNAL, 20, "internal error")                                \
    X(FENCED, 21, "a newer token has already been used")             \
    X(DEADLOCK, 22, "waiting for it would be a deadlock")            \
    X(CHANGED, 23, "it was changed in the meantime")                 \
    X(OVERFLOW, 24, "the result is out of range")                    \
    X(BROKEN, 25, "a participant died")                              \
    X(DONE, 26, "it has been done already")                          \
    X(YIELDED, 27, "it was given away, and is ours again")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, number, text) HF_##name = number,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/* Blocks: no. Callbacks: none. After fork: works.
 * "BUSY" and "busy: somebody else holds it". Never NULL, also for other numbers. */
HF_API const char *hf_status_name(hf_status status);
HF_API const char *hf_status_text(hf_status status);

#define HF_ERROR_TEXT_MAX 512

/*
 * The caller's struct; every call that takes one overwrites it, HF_OK included. It has no `size`
 * and never changes. `native` is the engine's own code (errno for the embedded store), 0 if none.
 * `text` is wrapped outer to inner: "file:/srv/locks: acquire 'job': ...". It never holds a
 * password.
 */
typedef struct hf_error {
    hf_status status;
    int native;
    char text[HF_ERROR_TEXT_MAX];
} hf_error;

/* ---- memory ------------------------------------------------------------ */

/* Blocks: no. Callbacks: none. After fork: works.
 * Free what a call of this library returned: a view, a report, the bytes of a cell, ... NULL is fine. */
HF_API void hf_free(void *memory);

/* Where the library's own memory comes from. Any thread may call these at any time. resize() and
 * release() are as realloc(3) and free(3); the memory is aligned as that of malloc(3). */
typedef struct hf_allocator {
    size_t size;
    void *(*allocate)(size_t bytes, void *arg);
    void *(*resize)(void *memory, size_t bytes, void *arg);
    void (*release)(void *memory, void *arg);
    void *arg;
} hf_allocator;
#define HF_ALLOCATOR_INIT HF_INIT(hf_allocator)

/* Blocks: no. Callbacks: none. After fork: works.
 * Use another allocator than malloc(3), for the rest of the process. The struct is copied. Libraries
 * below this one (LMDB, libpq, ...) keep their own. HF_IN_USE: too late, for a store was opened,
 * a canceller made or an engine asked for before. HF_INVALID: one of the three is NULL. */
HF_API HF_USE hf_status hf_allocator_set(const hf_allocator *allocator);

/* ---- stores ------------------------------------------------------------ */

typedef struct hf_store hf_store;

typedef struct hf_open_options {
    size_t size;
    int64_t open_wait_ms; /* give up opening after this; 0: 5000 */
    const char *label;    /* for people: who we are; copied; NULL: host, pid, user, program */
    uint64_t flags;       /* HF_OPEN_FLAG_* */
    uint64_t reserved[5];
} hf_open_options;
#define HF_OPEN_OPTIONS_INIT HF_INIT(hf_open_options)

/* Use only what exists: nothing is created, no file, no table. HF_NOT_FOUND: there is no store yet.
 * HF_VERSION: the routines in a database are of an older version. hf_open() says so, or, on a
 * database server, the first call that reads: hf_store_check() still reports on that server. */
#define HF_OPEN_FLAG_EXISTING (UINT64_C(1) << 0)
/* Each address of the server is tried once. Without this flag a server that refuses connections,
 * as one that is just starting does, is tried again until open_wait_ms is over. A server that
 * accepts a connection and stays silent has open_wait_ms in both cases. */
#define HF_OPEN_FLAG_ONCE (UINT64_C(1) << 1)
/* Do not wait for the server: hf_open() returns at once, and open_wait_ms is not used. Calls wait for the
 * connection as they do for one that was lost: until it is up, or their own time is over (HF_TIMEOUT,
 * HF_UNAVAILABLE). What hf_open() would have said of the server (HF_DENIED, HF_VERSION) they say. What is
 * wrong with the URL is refused at once. ZooKeeper: names of servers, not addresses, are looked up first,
 * within open_wait_ms. An embedded store has no server, and the flag has no effect.
 * HF_UNSUPPORTED: Redlock, PostgreSQL, MariaDB, where opening checks what the promises stand on (that the
 * nodes are different servers; that a connection keeps its session). HF_INVALID with HF_OPEN_FLAG_ONCE. */
#define HF_OPEN_FLAG_NO_WAIT (UINT64_C(1) << 2)

/*
 * Blocks: up to open_wait_ms. Callbacks: none. After fork: works.
 * Open the store at `url`: "file:/path", "redis://host", ... (holdfast-engines(7)). NULL or "" is
 * the default embedded store, which belongs to one user and does not depend on the environment:
 * what /etc/holdfast/store says, else ~/.local/state/holdfast by the passwd entry of the effective
 * user. An embedded store that somebody else may write to is HF_DENIED, unless the URL says
 * shared=group. The same embedded store opened twice by one process is one store inside with two
 * handles.
 *
 * HF_CONFIG: the URL is bad (the text names the part and its byte). HF_DENIED, HF_UNAVAILABLE,
 * HF_FULL, HF_VERSION, HF_CORRUPT: the store cannot be used.
 */
HF_API HF_USE hf_status hf_open(const char *url, const hf_open_options *options,
                                hf_store **ret_store, hf_error *err);

#define HF_CLOSE_FLAG_RELEASE (UINT64_C(1) << 0) /* release what is held, cancel what waits */

/*
 * Blocks: a round trip. Callbacks: here. After fork: HF_FORKED.
 * Close a store. While leases are held, calls wait in it or operations are pending: HF_IN_USE, and
 * the store stays open, unless HF_CLOSE_FLAG_RELEASE is given. With that flag waiting calls end
 * with HF_CANCELLED, held leases become LOST and are released, callbacks that are due are run from
 * within this call, and the store is closed. Their handles stay valid for hf_release(), which
 * returns HF_LOST. A detached lease that was exported (hf_lease_export()) keeps no store open and
 * is left alone: it lives on. Not from within a callback of this store.
 */
HF_API hf_status hf_close(hf_store *store, uint64_t flags);

/* What an engine can do. A call that needs something else returns HF_UNSUPPORTED. */
#define HF_CAP_SHARED     (UINT64_C(1) << 0)  /* shared / exclusive */
#define HF_CAP_SEMAPHORE  (UINT64_C(1) << 1)  /* capacity > 1 */
#define HF_CAP_WAIT       (UINT64_C(1) << 2)  /* waiters are woken by an event, not by a poll */
#define HF_CAP_FIFO       (UINT64_C(1) << 3)  /* first come, first served */
#define HF_CAP_TTL        (UINT64_C(1) << 4)  /* leases can have a ttl */
#define HF_CAP_PROCESS    (UINT64_C(1) << 5)  /* leases end with the process, without a ttl */
#define HF_CAP_DETACHED   (UINT64_C(1) << 6)  /* leases that outlive the process */
#define HF_CAP_TOKEN      (UINT64_C(1) << 7)  /* fencing tokens */
#define HF_CAP_PASS       (UINT64_C(1) << 8)  /* blocks of tokens, so local passing */
#define HF_CAP_BARGE      (UINT64_C(1) << 9)  /* HF_FLAG_BARGE */
#define HF_CAP_LOCK_DELAY (UINT64_C(1) << 10) /* lock_delay_ms */
#define HF_CAP_INSPECT    (UINT64_C(1) << 11) /* holders can be listed */
#define HF_CAP_WAITERS    (UINT64_C(1) << 12) /* waiters can be listed too */
#define HF_CAP_BREAK      (UINT64_C(1) << 13) /* hf_lease_break() */
#define HF_CAP_WATCH      (UINT64_C(1) << 14) /* hf_store_wait() */
#define HF_CAP_CELLS      (UINT64_C(1) << 15) /* cells, and what is built on them */
#define HF_CAP_CELL_TTL   (UINT64_C(1) << 16) /* cells can have a ttl */
#define HF_CAP_CELL_WATCH (UINT64_C(1) << 17) /* a change of a cell wakes waiters by an event */
#define HF_CAP_CLOCK      (UINT64_C(1) << 18) /* a clock that all clients share: rate limits */
#define HF_CAP_SCRIPTS    (UINT64_C(1) << 19) /* hf_script_run() */
#define HF_CAP_WANTED     (UINT64_C(1) << 20) /* a holder learns that others wait */
#define HF_CAP_LINGER     (UINT64_C(1) << 21) /* a released lease may stay with the process */
#define HF_CAP_COMMIT     (UINT64_C(1) << 22) /* several cells in one step: hf_cells_commit() */
#define HF_CAP_CONVERT    (UINT64_C(1) << 23) /* hf_convert(), HF_KIND_UPGRADEABLE */
#define HF_CAP_NUMBERED \
    (UINT64_C(1) << 24) /* HF_FLAG_NUMBERED: the slots of a semaphore have numbers */
#define HF_CAP_RESIZE (UINT64_C(1) << 25) /* hf_semaphore_resize() */

typedef enum hf_token_strength {
    HF_TOKEN_STRENGTH_NONE,
    HF_TOKEN_STRENGTH_WHILE_DURABLE, /* while the store keeps its data */
    HF_TOKEN_STRENGTH_STRICT
} hf_token_strength;

/* What an engine cannot do, and why. In a list of these each HF_CAP_* that the engine has not is in one item; the end of the list is
 * an item whose `why` is NULL. The text has no full stop, and lives as long as the process. */
typedef struct hf_engine_lack {
    uint64_t caps;
    const char *why;
} hf_engine_lack;

typedef struct hf_store_info {
    size_t size;
    const char *engine;   /* "lmdb"; lives as long as the store */
    const char *location; /* the URL or path in use, without secrets; likewise */
    uint64_t caps;        /* HF_CAP_* */
    hf_token_strength tokens;
    int64_t default_ttl_ms; /* 0: leases have no ttl unless asked for */
    int64_t min_ttl_ms;
    int64_t max_ttl_ms; /* no grant and no renewal lasts longer; 0: no limit */
    const hf_engine_lack *lacks;
    uint64_t reserved[4];
} hf_store_info;
#define HF_STORE_INFO_INIT HF_INIT(hf_store_info)

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * What this store is, and what it can do. */
HF_API HF_USE hf_status hf_store_get(hf_store *store, hf_store_info *ret_info);

/* ---- acquiring --------------------------------------------------------- */

typedef struct hf_lease hf_lease;
typedef struct hf_cancel hf_cancel;

#define HF_NAME_MAX        512         /* bytes; any bytes */
#define HF_LABEL_MAX       127         /* longer ones are cut; of a waiting holder, to 49 */
#define HF_CAPACITY_MAX    1000000000u /* largest semaphore */
#define HF_SLOTS_MAX       16          /* most permits of a lease with HF_FLAG_NUMBERED */
#define HF_FOREVER         INT64_C(-1)
#define HF_TTL_MIN_MS      1000
#define HF_DURATION_MAX_MS (INT64_C(1000) * 3600 * 24 * 3650) /* longest duration: ten years */

typedef enum hf_kind {
    HF_KIND_MUTEX = 0,     /* capacity 1 */
    HF_KIND_SHARED = 1,    /* read-write lock: reader */
    HF_KIND_EXCLUSIVE = 2, /* read-write lock: writer */
    HF_KIND_SEMAPHORE = 3, /* `capacity` permits, of which the request takes `permits` */
    HF_KIND_UPGRADEABLE =
        4 /* read-write lock: the one reader that may become the writer: hf_convert() */
} hf_kind;

#define HF_FLAG_BARGE     (UINT64_C(1) << 0) /* may overtake waiters: throughput over order */
#define HF_FLAG_REENTRANT (UINT64_C(1) << 1) /* the same thread (or scope) may take it again */
#define HF_FLAG_NO_RENEW  (UINT64_C(1) << 2) /* a ttl lease is not renewed by itself */
#define HF_FLAG_DETACHED \
    (UINT64_C(1) << 3)                    /* outlives this process: needs a ttl; hf_lease_adopt() */
#define HF_FLAG_STRICT (UINT64_C(1) << 4) /* no local passing: FIFO across all processes */
/* No part in deadlock detection: another thread releases the lease. */
#define HF_FLAG_NO_DEADLOCK_CHECK (UINT64_C(1) << 5)
/* The store tells the holder that others wait for what it holds: HF_EVENT_WANTED, HF_EVENT_UNWANTED, HF_EVENT_ASKED,
 * hf_lease_wanted(), hf_yield(). HF_UNSUPPORTED without HF_CAP_WANTED; not together with HF_FLAG_DETACHED. */
#define HF_FLAG_WATCH (UINT64_C(1) << 6)
/* Semaphores: the lease has a number for each of its permits, from 0 to capacity - 1: `slots` of hf_lease_info. No other lease
 * with this flag has these numbers while this one is held. At most HF_SLOTS_MAX permits. HF_UNSUPPORTED without
 * HF_CAP_NUMBERED. */
#define HF_FLAG_NUMBERED (UINT64_C(1) << 7)

typedef enum hf_state { HF_STATE_HELD = 1, HF_STATE_AT_RISK = 2, HF_STATE_LOST = 3 } hf_state;

typedef enum hf_event {
    HF_EVENT_AT_RISK = 1, /* a renewal was not confirmed; `text`: why */
    HF_EVENT_HELD,        /* the next one was: it is no longer at risk */
    HF_EVENT_LOST, /* it expired, was broken, or the store forgot it; `text`: why. The last event of a lease */
    HF_EVENT_WANTED,   /* HF_FLAG_WATCH: others wait for it, in other processes or in this one */
    HF_EVENT_UNWANTED, /* HF_FLAG_WATCH: no longer */
    HF_EVENT_ASKED     /* HF_FLAG_WATCH: hf_ask(); `text`: what the asker says */
} hf_event;

/*
 * Called when something has happened to a lease, from a thread of the library (or from hf_store_process(), if the lease was
 * acquired asynchronously); perhaps before the acquire has returned. It may call anything of this library but hf_close().
 *
 * The events of one lease come in order, one at a time. If the callback is slower than the events, those that cancel each other
 * out (WANTED and UNWANTED, AT_RISK and HELD), several ASKED, and those before LOST are left out. No event comes after hf_release()
 * has returned, which waits for a callback that runs (not so within the callback).
 *
 * WANTED is advice: it may be late or out of date, and says nothing about who will hold the lease next. ASKED comes at most once a
 * second; its text is that of a stranger: at most HF_LABEL_MAX bytes, with anything in them.
 */
typedef void hf_event_fn(hf_lease *lease, hf_event event, const char *text, void *arg);

#define HF_LINGER_NEVER (-1) /* linger_ms: do not linger, whatever the URL says */

typedef struct hf_acquire_request {
    size_t size;
    const void *name; /* 1 to HF_NAME_MAX bytes */
    size_t name_len;  /* HF_CSTRING: it ends with a NUL */
    hf_kind kind;
    uint32_t capacity;     /* semaphore only: 1 to HF_CAPACITY_MAX */
    uint32_t permits;      /* semaphore only: 0 means 1 */
    uint64_t flags;        /* HF_FLAG_* */
    int64_t wait_ms;       /* 0: try once; HF_FOREVER; else at most this long */
    int64_t ttl_ms;        /* 0: the engine's default */
    int64_t max_hold_ms;   /* end the lease after this, whatever happens; 0: no */
    int64_t min_valid_ms;  /* a grant with less validity left is given back: HF_TOO_SHORT */
    int64_t lock_delay_ms; /* after an unclean loss the name stays closed this long */
    uint64_t scope;        /* identity for HF_FLAG_REENTRANT and deadlocks; 0: the calling thread */
    const char *label;     /* for people; NULL: the store's label */
    hf_cancel *cancel;     /* hf_cancel_fire() ends the waiting; NULL: none */
    hf_event_fn *on_event; /* what happens to the lease; NULL: none is told */
    void *on_event_arg;
    const char
        *session; /* hf_session_get() of the process that we work for; other text is ignored */
    int64_t
        linger_ms; /* how long the released lease may stay with this process; 0: as the URL says; HF_LINGER_NEVER */
    int64_t
        min_hold_ms; /* the name stays held for this long, even if it is released before; 0: no */
    uint64_t reserved[3];
} hf_acquire_request;
#define HF_ACQUIRE_REQUEST_INIT HF_INIT(hf_acquire_request)

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire what `request` asks for.
 *
 * HF_OK: the caller owns *ret_lease; hf_release() ends it, whatever that call returns. Any other
 * status leaves *ret_lease untouched. HF_BUSY: wait_ms was 0. HF_TIMEOUT, HF_CANCELLED: the request
 * has left the queue. HF_MISMATCH: the name is in use as another kind or capacity. HF_UNKNOWN: the
 * store may have granted it; nobody can use that grant, and the library gives it back in the
 * background. HF_DEADLOCK: see below under deadlocks. HF_INVALID: the text names the field.
 *
 * min_hold_ms is for jobs that several machines start at about the same time, and that are shorter than their clocks differ: a
 * machine that comes late finds the name held, whenever the job has ended. hf_release() of such a lease returns at once; from then
 * on the store keeps the name until the rest has passed, also if this process ends, or has died before. So the ttl is at least
 * min_hold_ms. HF_UNSUPPORTED without HF_CAP_DETACHED, where leases end with their process or session. HF_INVALID: it is more than
 * max_hold_ms, or more than the longest ttl of the store, or together with HF_FLAG_DETACHED or HF_FLAG_WATCH.
 *
 * With HF_FLAG_REENTRANT, a thread (scope) that already holds the name through this store handle
 * by a reentrant request gets the same handle again, its hold count one higher; each needs its own
 * hf_release().
 */
HF_API HF_USE hf_status hf_acquire(hf_store *store, const hf_acquire_request *request,
                                   hf_lease **ret_lease, hf_error *err);

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * End a lease (one hold of it). HF_OK: given back (min_hold_ms: or left to the store, until its time is over). HF_LOST: it was lost before; nobody else's lease
 * was touched. HF_UNKNOWN, HF_UNAVAILABLE: the store could not be told; the library goes on trying
 * in the background. HF_UNKNOWN also: the connection broke, and the lease is gone; it was given
 * back, or lost before. In every case but HF_FORKED the handle has ended (when the hold count
 * reached 0). HF_INVALID: it had ended before. It returns only after an on_event callback that runs
 * has returned, and for a lost lease after the one with HF_EVENT_LOST, so that what the callback uses
 * may be freed then (not so within that callback).
 */
HF_API hf_status hf_release(hf_lease *lease, hf_error *err);

/* Blocks: for a round trip to the store for each of them. Callbacks: none. After fork: HF_FORKED.
 * Give back all idle leases of the store (linger_ms), before exec(3) or exit(3), say; hf_close() does so too. A lease that was not
 * given back ends with its ttl. HF_UNAVAILABLE, HF_UNKNOWN: the store did not answer for one of them; the library goes on in
 * the background. */
HF_API hf_status hf_idle_release(hf_store *store, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Give a lease that others wait for to them, and queue for it again behind them; for a lease that was requested with HF_FLAG_WATCH.
 * It is a release and an acquire, sent together where the store takes both at once. On Redlock the first node tells of a waiter
 * that the others may not know yet: then the lease may come back before that waiter has had it, and is wanted again.
 *
 * HF_OK: nobody waits, as far as we have been told. The lease stays, with its token; this costs no more than hf_lease_wanted().
 * HF_YIELDED: it was given away and is ours again, by the new handle in *lease, with a new token: what it protects may have changed.
 * A waiter that has left meanwhile makes no difference to that.
 *
 * HF_INVALID, HF_LOST, HF_FORKED; HF_IN_USE (its hold count is above 1: an outer frame relies on it): nothing was done. Any other status:
 * *lease is NULL, and nothing is held: HF_TIMEOUT, HF_BUSY (wait_ms 0), HF_CANCELLED (the store is being closed), HF_UNAVAILABLE,
 * HF_UNKNOWN, HF_DEADLOCK, as of hf_acquire().
 *
 * Threads of this process that wait for it get it first; but a caller that holds other leases queues in the store by itself after
 * deadlock_check=, and may overtake a thread that has not asked there by then. The new request is that of the old lease, without
 * HF_FLAG_BARGE and `session`.
 */
HF_API HF_USE hf_status hf_yield(hf_lease **lease, int64_t wait_ms, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Make a lease of a read-write lock one of another kind, without a gap in which somebody else could write:
 *
 *   a writer (EXCLUSIVE)         becomes an UPGRADEABLE or a SHARED reader, at once; readers that wait come in
 *   an UPGRADEABLE reader        becomes a SHARED reader, at once, or the writer: it waits before all others until the
 *                                other readers have left, and no new ones come in meanwhile
 *
 * There is at most one UPGRADEABLE reader of a name beside any number of SHARED ones. A SHARED reader cannot become the writer, for two
 * that tried would wait for each other: HF_INVALID.
 *
 * HF_OK: *lease is a new handle, with a new token; the old one has ended, without an event. What the lease protects has not been written
 * by others meanwhile. The lease has the kind that was asked for before: HF_OK, and nothing is done. Any other status leaves *lease as it
 * is, with its kind: HF_BUSY (wait_ms 0), HF_TIMEOUT, HF_CANCELLED, HF_DEADLOCK, HF_UNAVAILABLE. HF_LOST: it is lost, or was lost while it
 * waited. HF_UNKNOWN: the store may have converted it; nobody can use that, so the lease is lost too.
 * HF_UNSUPPORTED: no HF_CAP_CONVERT. HF_IN_USE: its hold count is above 1.
 */
HF_API HF_USE hf_status hf_convert(hf_lease **lease, hf_kind kind, int64_t wait_ms, hf_error *err);

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Renew now, for ttl_ms (0: as before) from now. HF_OK: valid until then. HF_LOST: too late.
 * HF_UNAVAILABLE, HF_UNKNOWN: not confirmed; the lease is AT_RISK and still valid for
 * hf_lease_remaining_ms(). HF_UNSUPPORTED: it has no ttl.
 */
HF_API HF_USE hf_status hf_renew(hf_lease *lease, int64_t ttl_ms, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * A canceller. It may serve many requests; fired once, it stays fired. */
HF_API HF_USE hf_status hf_cancel_open(hf_cancel **ret_cancel);
/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * End the waiting of every request that names it. Any thread; not a signal handler. */
HF_API hf_status hf_cancel_fire(hf_cancel *cancel);
/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * HF_IN_USE while a request that names it is still waiting. */
HF_API hf_status hf_cancel_close(hf_cancel *cancel);

/* ---- several names at once ------------------------------------------------ */

#define HF_ACQUIRE_ALL_MAX 64

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire all that the `count` requests ask for, or nothing. HF_OK: ret_leases[i] is the lease of
 * requests[i], with its own token; each is an ordinary lease. Any other status: *ret_leases is
 * untouched, and whatever had been granted was given back before this returned (HF_UNKNOWN: or is
 * being given back, in the background); the text names the request that failed. HF_LOST: one lease
 * was lost while the call waited for another.
 *
 * Names are taken in the order of their bytes, whatever order they are given in: so two calls of
 * hf_acquire_all() never wait for each other in a cycle. Where one connection carries many requests
 * at once (Redis) all are asked for together first: if all are free that is one round trip.
 *
 * All requests have the same wait_ms, which is the limit for all of them together, and the same
 * cancel, scope and session; no two have the same name. Else: HF_INVALID. All have the `size` of
 * the first.
 */
HF_API HF_USE hf_status hf_acquire_all(hf_store *store, const hf_acquire_request *requests,
                                       size_t count, hf_lease **ret_leases, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire one of the things that the `count` requests ask for, whichever comes free first. HF_OK: *ret_lease is an ordinary
 * lease, of requests[*ret_index]. The names are tried in the order given; a free one costs what hf_acquire() costs. If none is
 * free, the call waits in the queues of all names, in its turn in each. When one is granted the call leaves the other queues;
 * what was granted there in the same moment is given back before this returns.
 *
 * Any other status: nothing is held. HF_BUSY, HF_TIMEOUT: none came free. A name that fails in another way (HF_MISMATCH,
 * HF_UNAVAILABLE, ...) ends the call with that status, unless another one is granted. HF_DEADLOCK: none of them can come free.
 *
 * All requests have the same wait_ms, cancel, scope and session, and different names, as for hf_acquire_all(). While a session
 * that holds other leases waits in this way, labels are cut as for every waiting holder.
 */
HF_API HF_USE hf_status hf_acquire_any(hf_store *store, const hf_acquire_request *requests,
                                       size_t count, size_t *ret_index, hf_lease **ret_lease,
                                       hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Release them all, whatever happens. HF_OK: all were given back. Else the first status that was
 * not HF_OK, as of hf_release(); each handle has ended (in every case but HF_FORKED). */
HF_API hf_status hf_release_all(hf_lease *const *leases, size_t count, hf_error *err);

/* ---- leases ------------------------------------------------------------ */

typedef struct hf_lease_info {
    size_t size;
    uint64_t token; /* 0 where the engine has none */
    hf_state state;
    uint32_t holds;       /* hold count of a reentrant lease, else 1 */
    int64_t remaining_ms; /* validity left; INT64_MAX: no limit; 0 when lost */
    int64_t age_ms;       /* since it was granted to us */
    int64_t ttl_ms;       /* what each renewal gives; 0: none */
    unsigned char name[HF_NAME_MAX];
    size_t name_len;
    bool wanted;   /* HF_FLAG_WATCH: others wait for it */
    uint32_t asks; /* HF_FLAG_WATCH: how often HF_EVENT_ASKED has come */
    hf_kind kind;
    uint32_t slot_count;          /* HF_FLAG_NUMBERED: `permits` of the request; else 0 */
    uint32_t slots[HF_SLOTS_MAX]; /* the numbers of its permits, in ascending order */
    uint64_t reserved[4];
} hf_lease_info;
#define HF_LEASE_INFO_INIT HF_INIT(hf_lease_info)

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * All of it in one step. */
HF_API HF_USE hf_status hf_lease_get(hf_lease *lease, hf_lease_info *ret_info);

/* Blocks: no. Callbacks: none. After fork: as of a handle that has ended.
 * Shortcuts: token 0, state HF_STATE_LOST and 0 ms for a handle that has ended. */
HF_API HF_USE uint64_t hf_lease_token(hf_lease *lease);
HF_API HF_USE hf_state hf_lease_state(hf_lease *lease);
HF_API HF_USE int64_t hf_lease_remaining_ms(hf_lease *lease);
/* Blocks: no. Callbacks: none. After fork: false.
 * HF_FLAG_WATCH: do others wait for it? One load, without a lock. false for a handle that has ended, and for a lost lease. */
HF_API HF_USE bool hf_lease_wanted(hf_lease *lease);

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * The token of a lease as a fence for hf_guard_claim() and hf_guard_set() of primitives.h.
 * HF_UNSUPPORTED: it is no fence: the lease is one of several that may overlap (a reader, some
 * permits of a semaphore; with HF_CAP_RESIZE any permits of one), or its engine gives no tokens. HF_LOST: too late to begin. */
HF_API HF_USE hf_status hf_lease_fence(hf_lease *lease, uint64_t *ret_token, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: -1.
 * A descriptor that polls readable when an event has happened since the last hf_lease_get(), and
 * from the moment on that the lease is lost always. It belongs to the lease and is closed by the
 * last hf_release(). -1: no such lease, or no descriptor is left. */
HF_API HF_USE int hf_lease_fd(hf_lease *lease);

#define HF_LEASE_TEXT_MAX 64 /* with its NUL */

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * A detached lease as text that another process can give to hf_lease_adopt(). Whoever has it can
 * release the lease: it is a secret among those who share the store. HF_UNSUPPORTED: it is not
 * detached. HF_LOST: too late. */
HF_API HF_USE hf_status hf_lease_export(hf_lease *lease, char ret_text[HF_LEASE_TEXT_MAX]);

typedef struct hf_adopt_request {
    size_t size;
    const void *name;      /* of the lease: 1 to HF_NAME_MAX bytes */
    size_t name_len;       /* HF_CSTRING: it ends with a NUL */
    const char *text;      /* what hf_lease_export() returned */
    int64_t ttl_ms;        /* renewed for this long from now; 0: as before */
    bool renew;            /* go on renewing it */
    hf_event_fn *on_event; /* as in hf_acquire_request; NULL: none */
    void *on_event_arg;
    uint64_t reserved[2];
} hf_adopt_request;
#define HF_ADOPT_REQUEST_INIT HF_INIT(hf_adopt_request)

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Take over a detached lease by its text. HF_OK: the caller owns *ret_lease as if it was acquired
 * here. HF_NOT_FOUND: no such lease any more (ended, expired, broken). HF_INVALID: not the text of
 * a lease. */
HF_API HF_USE hf_status hf_lease_adopt(hf_store *store, const hf_adopt_request *request,
                                       hf_lease **ret_lease, hf_error *err);

/* ---- asynchronous use --------------------------------------------------- */

/*
 * Every call that may block has a form that does not, with the same inputs:
 *
 *   hf_X_async(<inputs of hf_X>, done, arg, ret_op, err)
 *
 * It begins the call and returns. Not HF_OK: nothing began. HF_OK: `done` is called exactly once, later than the call
 * returns, on the thread that is in hf_store_process(). If no thread calls that, `done` does not come, but the call goes on: an
 * acquire may have been granted, and then holds the name. Inputs are copied. *ret_op (ret_op may be NULL) is for hf_op_cancel()
 * and is good until `done` is called.
 *
 * These have none: hf_open() and hf_close(), for there is no store before and after them that could call `done`;
 * hf_guard_claim_sql() and hf_sql_lock(), which block only in a function of the caller; hf_idle_release(), which is for the end of a process; hf_observer_set(), which waits only for a callback of the caller.
 */
typedef struct hf_op hf_op;

/*
 * What a call has found. With HF_OK (and HF_YIELDED) the members that its blocking form returns are set, all others are zero. What is marked *
 * belongs to the callback, which keeps it or frees it; all else, and the result itself, lives until the callback returns.
 */
typedef struct hf_result {
    size_t size; /* set by the library */
    hf_status status;
    const hf_error *error;          /* what the blocking form would have put into *err */
    hf_lease *lease;                /* * acquire, adopt, campaign, begin ...: hf_release() */
    hf_lease *const *leases;        /* acquire_all: the leases (*), in the order of the requests */
    size_t count;                   /* how many `leases`, `versions` */
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
    struct hf_redlock_status *redlock;   /* * redlock_get_status, also with another status */
    const uint64_t *versions;            /* cells_commit: `count` of them */
    struct hf_members *members;          /* * members_wait */
    const void *reserved[1];
} hf_result;

typedef void hf_done_fn(const hf_result *result, void *arg);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED. */
HF_API HF_USE hf_status hf_acquire_async(hf_store *store, const hf_acquire_request *request,
                                         hf_done_fn *done, void *arg, hf_op **ret_op,
                                         hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * The lease handle has ended when this returns HF_OK. `done` comes after an on_event callback that runs has ended, and of a
 * lost lease, with HF_LOST, after the one with HF_EVENT_LOST. A release cannot be cancelled. */
HF_API HF_USE hf_status hf_release_async(hf_lease *lease, hf_done_fn *done, void *arg,
                                         hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * If one of them cannot be acquired, the others are released before `done` comes. */
HF_API HF_USE hf_status hf_acquire_all_async(hf_store *store, const hf_acquire_request *requests,
                                             size_t count, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * With HF_OK result->lease is the lease, and result->number the index of its request. */
HF_API HF_USE hf_status hf_acquire_any_async(hf_store *store, const hf_acquire_request *requests,
                                             size_t count, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * 1 to HF_ACQUIRE_ALL_MAX leases of one store; `done` comes from that store. hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_release_all_async(hf_lease *const *leases, size_t count,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_renew_async(hf_lease *lease, int64_t ttl_ms, hf_done_fn *done, void *arg,
                                       hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * With HF_OK and HF_YIELDED result->lease is the lease; else, if the call has begun, nothing is held. The old handle has ended when
 * this returns HF_OK, unless the lease stays. */
HF_API HF_USE hf_status hf_yield_async(hf_lease *lease, int64_t wait_ms, hf_done_fn *done,
                                       void *arg, hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * With HF_OK result->lease is the lease, and the old handle has ended when `done` is called. */
HF_API HF_USE hf_status hf_convert_async(hf_lease *lease, hf_kind kind, int64_t wait_ms,
                                         hf_done_fn *done, void *arg, hf_op **ret_op,
                                         hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_semaphore_resize_async(hf_store *store, const void *name,
                                                  size_t name_len, uint32_t capacity,
                                                  hf_done_fn *done, void *arg, hf_op **ret_op,
                                                  hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_ask_async(hf_store *store, const void *name, size_t name_len,
                                     const char *text, hf_done_fn *done, void *arg, hf_op **ret_op,
                                     hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_lease_adopt_async(hf_store *store, const hf_adopt_request *request,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_lease_break_async(hf_store *store, const void *name, size_t name_len,
                                             uint64_t token, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_store_inspect_async(hf_store *store, const void *name, size_t name_len,
                                               uint64_t flags, hf_done_fn *done, void *arg,
                                               hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * The change number is in result->version. */
HF_API HF_USE hf_status hf_store_wait_async(hf_store *store, uint64_t seq, int64_t wait_ms,
                                            hf_cancel *cancel, hf_done_fn *done, void *arg,
                                            hf_op **ret_op, hf_error *err);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_store_check_async(hf_store *store, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_deadlock_list_async(hf_store *store, hf_done_fn *done, void *arg,
                                               hf_op **ret_op, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * Ask a call that waits for an early end. `done` still comes: with HF_CANCELLED, or with another answer if it was too late. */
HF_API hf_status hf_op_cancel(hf_op *op);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED, or -1.
 * Drive a store from your own event loop: wait until hf_store_fd() is readable or
 * hf_store_timeout_ms() has passed (-1: no limit), then call hf_store_process(), which never
 * blocks and runs the callbacks that are due, on this thread. The descriptor
 * belongs to the store. */
HF_API HF_USE int hf_store_fd(hf_store *store);
HF_API HF_USE int hf_store_timeout_ms(hf_store *store);
HF_API hf_status hf_store_process(hf_store *store);

/* ---- inspecting and breaking ----------------------------------------------- */

typedef struct hf_holder {
    uint64_t token; /* of the present holder */
    uint64_t first; /* first token of its block; local passes count up from it */
    uint32_t permits;
    bool detached; /* no process is responsible for it */
    int64_t age_ms;
    int64_t ttl_ms; /* left; -1: none */
    int64_t pid;    /* 0: unknown or in another PID namespace */
    int64_t tid;    /* the thread that holds after a local pass; 0: not known */
    const char *label;
    uint64_t session; /* for deadlock detection; 0: not known */
    bool lingers;     /* its process may keep it while nobody uses it (linger_ms) ... */
    bool idle;        /* ... and did so when it told the store last */
    bool
        watched; /* it learns that others wait (HF_FLAG_WATCH, linger_ms), and hf_ask() reaches it */
    uint32_t slot_count; /* HF_FLAG_NUMBERED: how many `slots` */
    uint32_t slots[HF_SLOTS_MAX];
} hf_holder;

typedef struct hf_waiter {
    uint32_t position; /* 1 is next */
    uint32_t permits;
    hf_kind kind;
    int64_t age_ms;
    int64_t pid;
    const char *label;
    uint64_t session; /* for deadlock detection; 0: not known */
} hf_waiter;

typedef struct hf_entry {
    const unsigned char *name;
    size_t name_len;
    hf_kind kind; /* HF_KIND_MUTEX, HF_KIND_SHARED (a read-write lock) or HF_KIND_SEMAPHORE */
    uint32_t capacity;
    uint32_t taken;    /* permits; a writer takes `capacity` */
    int64_t closed_ms; /* lock_delay left; 0: open */
    size_t holder_count;
    size_t waiter_count;
    bool resized; /* `capacity` was set by hf_semaphore_resize() */
} hf_entry;

typedef struct hf_view hf_view;

#define HF_INSPECT_FLAG_PATTERN (UINT64_C(1) << 0) /* `name` is a pattern with * ? [a-z] and \ */

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * List holders and waiters. Without HF_INSPECT_FLAG_PATTERN `name` is one exact name; with it, NULL
 * and length 0 mean all names. A name that nobody holds or waits for has no entry. Each entry is
 * consistent in itself; a large view is read in pieces. A semaphore whose size was set has an entry also while it is free, if
 * one exact name is asked for. Only waiters that stand in the store are listed. Threads that ask one hf_store for a name, exclusively
 * and with equal options, queue up in the process: at most the first of them stands in the store, and none if another of them
 * holds the name. *ret_view is freed by hf_free(). */
HF_API HF_USE hf_status hf_store_inspect(hf_store *store, const void *name, size_t name_len,
                                         uint64_t flags, hf_view **ret_view, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * What is in a view: entries, sorted by name, bytewise; the holders of an entry; its waiters, in
 * order. All of it lives as long as the view. NULL: no such index. */
HF_API HF_USE size_t hf_view_count(const hf_view *view);
HF_API HF_USE const hf_entry *hf_view_entry(const hf_view *view, size_t index);
HF_API HF_USE const hf_holder *hf_entry_holder(const hf_entry *entry, size_t index);
HF_API HF_USE const hf_waiter *hf_entry_waiter(const hf_entry *entry, size_t index);
/* Blocks: no. Callbacks: none. After fork: works.
 * false: this engine cannot list waiters. */
HF_API HF_USE bool hf_view_waiters_tracked(const hf_view *view);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * End exactly the lease that holds `name` with `token`, whoever owns it; its holder is told (LOST). A lease of this store is
 * lost when the call returns (hf_lease_break_async(): when `done` is called).
 * HF_NOT_FOUND: no lease has that token now. */
HF_API HF_USE hf_status hf_lease_break(hf_store *store, const void *name, size_t name_len,
                                       uint64_t token, hf_error *err);

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Set the size of a semaphore, also while it is in use. From then on it has `capacity` slots, whatever requests say, until the size is
 * set again; 0: as requests say, from the moment on that nobody holds it or waits for it. Nobody loses anything: if more is held
 * than the new size, new grants wait until enough has been given back; waiters keep their places, and those that fit now are
 * granted in the same step.
 *
 * While a size is set, the name is a semaphore also when it is free: requests of another kind are HF_MISMATCH, and so is a request for
 * more permits than the size. A waiter that asks for more than a size that was set later stays, and those behind it wait too.
 *
 * HF_MISMATCH: the name is in use as another kind. HF_UNSUPPORTED without HF_CAP_RESIZE. HF_UNKNOWN: it may have been set; set it again.
 */
HF_API HF_USE hf_status hf_semaphore_resize(hf_store *store, const void *name, size_t name_len,
                                            uint32_t capacity, hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Ask whoever holds `name` to give it away: HF_EVENT_ASKED with `text` (NULL: the store's label; longer ones are cut to HF_LABEL_MAX
 * bytes). It queues nowhere and changes nothing. HF_OK: every holder with HF_FLAG_WATCH was told, at least one. HF_BUSY: it is held,
 * and no holder listens. HF_NOT_FOUND: nobody holds it. HF_UNSUPPORTED without HF_CAP_WANTED. */
HF_API HF_USE hf_status hf_ask(hf_store *store, const void *name, size_t name_len, const char *text,
                               hf_error *err);

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Wait until something in the store has changed since *seq (0: since now); then set *seq.
 * HF_TIMEOUT: nothing changed. A waiting process costs nothing. HF_UNSUPPORTED without
 * HF_CAP_WATCH. */
HF_API hf_status hf_store_wait(hf_store *store, uint64_t *seq, int64_t wait_ms, hf_cancel *cancel,
                               hf_error *err);

typedef enum hf_check_level {
    HF_CHECK_LEVEL_OK,
    HF_CHECK_LEVEL_WARNING,
    HF_CHECK_LEVEL_BAD
} hf_check_level;

/* One finding of hf_store_check(). */
typedef struct hf_finding {
    hf_check_level level;
    const char *topic;
    const char *text;
} hf_finding;

typedef struct hf_report hf_report;

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Is this store safe for what it promises? *ret_report is freed by hf_free(). */
HF_API HF_USE hf_status hf_store_check(hf_store *store, hf_report **ret_report, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * The findings of a report live as long as the report. NULL: no such index. */
HF_API HF_USE size_t hf_report_count(const hf_report *report);
HF_API HF_USE const hf_finding *hf_report_item(const hf_report *report, size_t index);

/* ---- deadlocks ------------------------------------------------------------ */

/*
 * In a store that lists waiters and has tokens (HF_CAP_WAITERS, HF_CAP_TOKEN) the library finds
 * requests that wait for each other in a cycle, across names, threads, processes and machines. One
 * of them gets HF_DEADLOCK with the cycle in its text: the last to come of those with a limit to
 * their wait, else the last of all. The others proceed once it releases what it holds. That happens
 * after about a second of waiting (deadlock_check= in the URL; 0s: never). It happens at once for a
 * reader that waits to become the writer of the same name, and for a request that waits for its own
 * thread without a limit and without a canceller (with one of them it waits as asked). mode=row and
 * mode=session of PostgreSQL and MariaDB cannot list waiters: there the server finds cycles, except
 * those through the `session` of another process, and hf_deadlock_list() is HF_UNSUPPORTED.
 *
 * Waits and leases belong to a *session*: a thread; or a scope, for requests that name one; or, by
 * `session` of the request, the session of another process. Asynchronous requests without one of
 * the last two have none. Of a session that holds more than eight leases in the store the latest
 * eight count. Leases that end by themselves (HF_FLAG_NO_RENEW, HF_FLAG_DETACHED, max_hold_ms)
 * block nobody for ever and do not count. A lease that another thread will release must be
 * requested with HF_FLAG_NO_DEADLOCK_CHECK: otherwise the library assumes that the requesting
 * thread releases it.
 *
 * There are no false positives among leases that are held: a holder that is not known to wait is assumed
 * to release; for a semaphore every way to enough permits must be blocked; two successive views must
 * agree. A lease that was broken by another process or store (hf_lease_break()) counts as held until its own store has heard of that.
 */

#define HF_SESSION_TEXT_MAX 160 /* with its NUL */

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * The session that holds `lease`, as text for a process that works for us (an environment
 * variable): what that process waits for, we wait for. `around` is the same text of a process for
 * which we work, NULL: none. */
HF_API HF_USE hf_status hf_session_get(hf_lease *lease, const char *around,
                                       char ret_text[HF_SESSION_TEXT_MAX], hf_error *err);

/* A waiter of a cycle: it waits for `name`, which the next waiter has. The last one waits for what
 * the first has. */
typedef struct hf_deadlock_waiter {
    const unsigned char *name; /* what it waits for */
    size_t name_len;
    uint64_t token; /* of its lease of what the waiter before waits for; 0: ahead in the queue */
    uint64_t session;
    int64_t age_ms; /* waiting since */
    int64_t pid;    /* 0: unknown */
    const char *label;
} hf_deadlock_waiter;

/* One cycle; its waiter 0 is the one that will get HF_DEADLOCK. */
typedef struct hf_deadlock {
    size_t waiter_count;
} hf_deadlock;

typedef struct hf_deadlocks hf_deadlocks;

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * List the cycles that are in the store now. *ret_deadlocks is freed by hf_free(). HF_UNSUPPORTED:
 * the engine cannot list waiters, or has no tokens. */
HF_API HF_USE hf_status hf_deadlock_list(hf_store *store, hf_deadlocks **ret_deadlocks,
                                         hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * All of it lives as long as the list. NULL: no such index. */
HF_API HF_USE size_t hf_deadlock_count(const hf_deadlocks *deadlocks);
HF_API HF_USE const hf_deadlock *hf_deadlock_item(const hf_deadlocks *deadlocks, size_t index);
HF_API HF_USE const hf_deadlock_waiter *hf_deadlock_get_waiter(const hf_deadlock *deadlock,
                                                               size_t index);

/* ---- engines ------------------------------------------------------------ */

typedef struct hf_engine_info {
    const char *name;    /* "lmdb" */
    const char *schemes; /* "file" or "redis rediss", separated by spaces */
    bool available;      /* its module is there and loads */
    uint64_t caps;       /* HF_CAP_*; this and the rest but why_not: only if available */
    hf_token_strength tokens;
    /* The promise table, a few words each. */
    const char *on_crash, *on_pause, *on_clock_jump, *on_server_loss, *on_partition;
    const char *fairness, *wakeup;
    const char *why_not; /* if not available */
    const hf_engine_lack *lacks;
    const char *choice; /* "wire=plain": what a URL says to have these promises; "": nothing */
} hf_engine_info;

/* Blocks: no. Callbacks: none. After fork: works.
 * Engine number `index` from 0; NULL past the last. It may load the engine's module. What it points
 * to stays for the life of the process. */
HF_API HF_USE const hf_engine_info *hf_engine_get(size_t index);

/* Blocks: no. Callbacks: none. After fork: works.
 * A URL may choose among several sets of promises (wire=, mode=, tokens=): number `mode` of them. 0 is
 * hf_engine_get(index); NULL past the last. */
HF_API HF_USE const hf_engine_info *hf_engine_get_mode(size_t index, size_t mode);

/* Blocks: no. Callbacks: none. After fork: works.
 * The SQL that makes the tables and routines of the database at `url`, which is not connected to:
 * each statement ends with ";\n". *ret_sql is freed by hf_free(). HF_UNSUPPORTED: not a database. */
HF_API HF_USE hf_status hf_sql_get_schema(const char *url, char **ret_sql, hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
