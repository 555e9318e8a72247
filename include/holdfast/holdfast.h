/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: distributed locks. primitives.h has what is built on them, redis.h what only Redis has,
 * observe.h numbers and events. Each call has a manual page: `man hf_acquire`.
 *
 * GUARANTEES
 *  - The store never grants conflicting leases of one name at the same time. What each engine
 *    promises when machines crash, pause or lose data is in holdfast-engines(7) and in
 *    hf_store_get().
 *  - Every exclusive lease carries a fencing token: a positive integer below 2^53, larger than the
 *    token of every earlier conflicting lease of that name (where hf_store_get() says so).
 *  - A lease with a ttl is reported LOST at the latest when its validity ends by the clock of the
 *    holder's machine, which counts suspend. That is before the store grants the name to another
 *    holder. After LOST no call says "held" again.
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
 *  - A signal handler may call nothing here. A thread that is in a call must not be cancelled
 *    (pthread_cancel(3)): the call would keep its locks. A canceller ends a wait instead.
 *
 * CONVENTIONS
 *  - The first line of each comment says whether the call blocks ("a round trip": until the store
 *    answers; if it does not, about five seconds. "up to wait_ms": with wait_ms 0 also a round
 *    trip), which callbacks of the caller it runs ("process": they run in hf_store_process() only;
 *    "here": on the calling thread, before the call returns), and what it does in a child after
 *    fork() with a handle of the parent ("works": it uses no handle).
 *  - Structs that the caller allocates begin with `size` = sizeof the struct (HF_*_INIT sets it).
 *    A zero field means its default. Structs that the library allocates are handed out by pointer
 *    only and may grow at their end: never copy one or take its size.
 *  - Output parameters come last, are named ret_* and are set only on HF_OK, unless the call says
 *    otherwise. `err` may be NULL. NULL for anything else that a call needs is HF_INVALID.
 *  - Inputs are copied, or used during the call only.
 *  - A length is a number of bytes. HF_CSTRING as a length: the text ends with a NUL.
 *  - What the library returns is freed by hf_free(). Handles have open and close, or acquire and
 *    release.
 *  - All calls may be made by any thread at any time unless stated otherwise.
 *  - Handles (hf_store, hf_lease, hf_op, hf_cancel) are not pointers to memory. A call with a
 *    handle that has ended, or never was one, returns HF_INVALID. It does not crash, and the handle
 *    never comes to mean another object.
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

/* The body of each HF_*_INIT: everything is zero but `size`. */
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
 * The version of the library that is loaded: as text ("0.2.0"), and as a number that can be
 * compared with HF_VERSION_NUMBER. */
HF_API const char *hf_version(void);
HF_API int hf_version_number(void);

#define HF_CSTRING SIZE_MAX /* as a length: the text ends with a NUL */

/* ---- statuses ---------------------------------------------------------- */

/* name, number, text. Append only: numbers are never reused or changed. */
#define HF_STATUS_MAP(X)                                             \
    X(OK, 0, "ok")                                                   \
    X(BUSY, 1, "busy: another holder has it")                        \
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
    X(YIELDED, 27, "the lease was yielded and acquired again")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, number, text) HF_##name = number,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/* Blocks: no. Callbacks: none. After fork: works.
 * A status as a word ("BUSY") and as a text for people. Never NULL, also for an unknown number. */
HF_API const char *hf_status_name(hf_status status);
HF_API const char *hf_status_text(hf_status status);

#define HF_ERROR_TEXT_MAX 512

/* What went wrong. The caller allocates it; every call that takes one overwrites it, also on
 * HF_OK. It has no `size` and never changes. `native` is the engine's own code (errno for the
 * embedded store), 0 if there is none. `text` goes from the outside in: "file:/srv/locks: acquire
 * 'job': ...". It never contains a password. */
typedef struct hf_error {
    hf_status status;
    int native;
    char text[HF_ERROR_TEXT_MAX];
} hf_error;

/* ---- memory ------------------------------------------------------------ */

/* Blocks: no. Callbacks: none. After fork: works.
 * Free what a call of this library has returned: a view, a report, the bytes of a cell, ... NULL
 * is allowed. */
HF_API void hf_free(void *memory);

/* Where the library's own memory comes from. Any thread may call these functions at any time.
 * resize() and release() behave as realloc(3) and free(3); the memory is aligned as that of
 * malloc(3). */
typedef struct hf_allocator {
    size_t size;
    void *(*allocate)(size_t bytes, void *arg);
    void *(*resize)(void *memory, size_t bytes, void *arg);
    void (*release)(void *memory, void *arg);
    void *arg;
} hf_allocator;
#define HF_ALLOCATOR_INIT HF_INIT(hf_allocator)

/* Blocks: no. Callbacks: none. After fork: works.
 * Use another allocator than malloc(3), for the rest of the process. The struct is copied.
 * Libraries below this one (LMDB, libpq, ...) keep their own allocator. HF_IN_USE: too late: the
 * process has already opened a store, made a canceller or listed the engines. HF_INVALID: one of
 * the three functions is NULL. */
HF_API HF_USE hf_status hf_allocator_set(const hf_allocator *allocator);

/* ---- stores ------------------------------------------------------------ */

typedef struct hf_store hf_store;

typedef struct hf_open_options {
    size_t size;
    int64_t open_wait_ms; /* give up opening after this; 0: 5000 */
    const char *label; /* for people: names this process; copied; NULL: host, pid, user, program */
    uint64_t flags;    /* HF_OPEN_FLAG_* */
    uint64_t reserved[5];
} hf_open_options;
#define HF_OPEN_OPTIONS_INIT HF_INIT(hf_open_options)

/* Use only what exists: no file and no table is created. HF_NOT_FOUND: there is no store yet.
 * HF_VERSION: the routines in a database are of an older version. hf_open() returns these, or, on
 * a database server, the first call that reads; hf_store_check() still reports on such a server. */
#define HF_OPEN_FLAG_EXISTING (UINT64_C(1) << 0)
/* Try each address of the server once. Without this flag the library keeps trying a server that
 * refuses connections (it may just be starting) until open_wait_ms is over. A server that accepts
 * a connection and stays silent gets open_wait_ms in both cases. */
#define HF_OPEN_FLAG_ONCE (UINT64_C(1) << 1)
/* Do not wait for the server: hf_open() returns at once, and open_wait_ms is not used. Calls wait
 * for the connection as they wait for one that was lost: until it is up, or until their own time
 * is over (HF_TIMEOUT, HF_UNAVAILABLE). They also return what hf_open() would have returned about
 * the server (HF_DENIED, HF_VERSION). A mistake in the URL is refused at once. ZooKeeper: server
 * names (not addresses) are resolved first, within open_wait_ms. An embedded store has no server,
 * and the flag has no effect. HF_UNSUPPORTED: Redlock, PostgreSQL, MariaDB, where opening checks
 * facts that the promises depend on (the nodes are different servers; a connection keeps its
 * session). HF_INVALID: together with HF_OPEN_FLAG_ONCE. */
#define HF_OPEN_FLAG_NO_WAIT (UINT64_C(1) << 2)

/*
 * Blocks: up to open_wait_ms. Callbacks: none. After fork: works.
 * Open the store at `url`: "file:/path", "redis://host", ... (holdfast-engines(7)). A text without a
 * colon is the name of a profile of the configuration file (holdfast(1)). NULL is the store that the
 * command `holdfast` uses without -S: that of the environment variable HOLDFAST_STORE, else of the
 * `default` of the configuration file, else the default embedded store. That one belongs to one user:
 * it is the URL in /etc/holdfast/store, else ~/.local/state/holdfast by the passwd entry of the
 * effective user. A set-user-ID program does not read the environment. hf_store_get() says what chose
 * the store. If a process opens the same embedded store twice, it has two handles of one store.
 *
 * `holdfast run` leaves no password in HOLDFAST_STORE. In its command, this call asks it for the
 * complete URL, if `url` is NULL or has the text of that variable (holdfast-run(1)).
 *
 * HF_CONFIG: the URL is wrong; the text names the part and its byte. Or it is empty, there is no such
 * profile, or the configuration file is wrong; the text names file and line. HF_DENIED: the server refused
 * the user, or other users may write to an embedded store whose URL does not say shared=group.
 * HF_UNAVAILABLE: the server did not answer within open_wait_ms. HF_FULL, HF_VERSION, HF_CORRUPT:
 * the store cannot be used. HF_UNSUPPORTED: the module of the engine is not installed or cannot be
 * loaded, or the engine cannot do what a flag or the URL asks for.
 */
HF_API HF_USE hf_status hf_open(const char *url, const hf_open_options *options,
                                hf_store **ret_store, hf_error *err);

#define HF_CLOSE_FLAG_RELEASE (UINT64_C(1) << 0) /* release what is held, cancel what waits */

/*
 * Blocks: a round trip. Callbacks: here. After fork: HF_FORKED.
 * Close a store.
 *
 * HF_IN_USE: leases are held, calls wait in the store or operations are pending, or the call comes
 * from within a callback of this store; the store stays open.
 *
 * HF_CLOSE_FLAG_RELEASE closes a store that is in use, but not from within a callback of it:
 * waiting calls end with HF_CANCELLED, held leases become LOST and are released, and callbacks that
 * are due run within this call. The handles of those leases stay valid for hf_release(), which
 * returns HF_LOST.
 *
 * A detached lease that was exported (hf_lease_export()) does not keep the store open. It is left
 * alone and lives on.
 *
 * If the server does not answer, the call takes about ten seconds, however many leases are held:
 * what is under way ends first.
 */
HF_API hf_status hf_close(hf_store *store, uint64_t flags);

/* What an engine can do. A call that needs a missing one returns HF_UNSUPPORTED. */
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
#define HF_CAP_WANTED     (UINT64_C(1) << 20) /* a holder is told that others wait */
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

/* What an engine cannot do, and why. In a list of these each missing HF_CAP_* is in one item. The
 * list ends with an item whose `why` is NULL. The text has no full stop, and lives as long as the
 * process. */
typedef struct hf_engine_lack {
    uint64_t caps;
    const char *why;
} hf_engine_lack;

typedef struct hf_store_info {
    size_t size;
    const char *engine; /* "lmdb"; lives as long as the store */
    /* The URL or path in use, without secrets, and with parameters that choose other locks (prefix=, wire=, mode=, schema=); lives
     * as long as the store. Two handles with the same text share their locks. */
    const char *location;
    uint64_t caps; /* HF_CAP_* */
    hf_token_strength tokens;
    int64_t default_ttl_ms; /* 0: leases have no ttl unless asked for */
    int64_t min_ttl_ms;
    int64_t max_ttl_ms; /* no grant and no renewal lasts longer; 0: no limit */
    const hf_engine_lack *lacks;
    /* What chose this store, for people: "the caller", "HOLDFAST_STORE", "profile NAME in FILE" or "the
     * built-in default"; lives as long as the store. */
    const char *source;
    uint64_t reserved[3];
} hf_store_info;
#define HF_STORE_INFO_INIT HF_INIT(hf_store_info)

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * The engine of this store, its location, its limits and what it can do. */
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
    HF_KIND_MUTEX = 0,      /* capacity 1 */
    HF_KIND_SHARED = 1,     /* read-write lock: reader */
    HF_KIND_EXCLUSIVE = 2,  /* read-write lock: writer */
    HF_KIND_SEMAPHORE = 3,  /* `capacity` permits, of which the request takes `permits` */
    HF_KIND_UPGRADEABLE = 4 /* read-write lock: the one reader that may become the writer */
} hf_kind;

#define HF_FLAG_BARGE     (UINT64_C(1) << 0) /* may overtake waiters: throughput over order */
#define HF_FLAG_REENTRANT (UINT64_C(1) << 1) /* the same thread (or scope) may take it again */
#define HF_FLAG_NO_RENEW  (UINT64_C(1) << 2) /* a ttl lease is not renewed by itself */
#define HF_FLAG_DETACHED \
    (UINT64_C(1) << 3)                    /* outlives this process: needs a ttl; hf_lease_adopt() */
#define HF_FLAG_STRICT (UINT64_C(1) << 4) /* no local passing: FIFO across all processes */
/* The lease takes no part in deadlock detection, because another thread releases it. */
#define HF_FLAG_NO_DEADLOCK_CHECK (UINT64_C(1) << 5)
/* The store tells the holder when other requests wait for its lease: HF_EVENT_WANTED,
 * HF_EVENT_UNWANTED, HF_EVENT_ASKED, hf_lease_wanted(), hf_yield(). HF_UNSUPPORTED without
 * HF_CAP_WANTED; not together with HF_FLAG_DETACHED. */
#define HF_FLAG_WATCH (UINT64_C(1) << 6)
/* Semaphores: the lease has a number for each of its permits, from 0 to capacity - 1: `slots` of
 * hf_lease_info. No other lease with this flag has these numbers while this one is held. At most
 * HF_SLOTS_MAX permits. HF_UNSUPPORTED without HF_CAP_NUMBERED. */
#define HF_FLAG_NUMBERED (UINT64_C(1) << 7)

typedef enum hf_state {
    HF_STATE_HELD = 1,
    /* A renewal failed, or was not confirmed for a sixth of the ttl (at most 5 s), also if the server
     * is silent and has more time to answer. Time is left, and the next renewal may be confirmed. */
    HF_STATE_AT_RISK = 2,
    HF_STATE_LOST = 3 /* final */
} hf_state;

typedef enum hf_event {
    HF_EVENT_AT_RISK = 1, /* a renewal was not confirmed; `text`: why */
    HF_EVENT_HELD,        /* the next renewal was confirmed: it is no longer at risk */
    HF_EVENT_LOST, /* it expired, was broken, or the store forgot it; `text`: why. The last event of a lease */
    HF_EVENT_WANTED,   /* HF_FLAG_WATCH: others wait for it, in other processes or in this one */
    HF_EVENT_UNWANTED, /* HF_FLAG_WATCH: nobody waits any more */
    HF_EVENT_ASKED     /* HF_FLAG_WATCH: hf_ask(); `text`: what the asker says */
} hf_event;

/*
 * Called when something has happened to a lease, on a thread of the library (in
 * hf_store_process(), if the lease was acquired asynchronously). It may be called before the
 * acquire has returned. It may call anything of this library but hf_close(). One thread of the
 * library calls it for all leases of a store: a slow callback delays those of other leases.
 *
 * The events of one lease come in order, one at a time. If the callback is slower than the events,
 * some are left out: those that cancel each other out (WANTED and UNWANTED, AT_RISK and HELD),
 * several ASKED, and those before LOST. No event comes after hf_release() has returned: it waits
 * for a callback that runs, unless it is called within that callback.
 *
 * WANTED is a hint. It may be late or out of date, and it does not say which request will be
 * granted next. ASKED comes at most once a second. Its text was written by another client: it has
 * at most HF_LABEL_MAX bytes, which may be any bytes.
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
    int64_t wait_ms;       /* 0: try once; HF_FOREVER; else HF_TIMEOUT after this, never before */
    int64_t ttl_ms;        /* 0: the engine's default; else at least min_ttl_ms of hf_store_info */
    int64_t max_hold_ms;   /* end the lease after this, whatever happens; 0: no */
    int64_t min_valid_ms;  /* a grant with less validity left is given back: HF_TOO_SHORT */
    int64_t lock_delay_ms; /* after an unclean loss the name stays closed this long */
    uint64_t scope;        /* identity for HF_FLAG_REENTRANT and deadlocks; 0: the calling thread */
    const char *label;     /* for people; NULL: the store's label */
    hf_cancel *cancel;     /* hf_cancel_fire() ends the waiting; NULL: none */
    hf_event_fn *on_event; /* called when something happens to the lease; NULL: none */
    void *on_event_arg;
    /* hf_session_get() of the process that this one works for; other text is ignored */
    const char *session;
    /* How long the released lease may stay with this process. 0: as the URL says; HF_LINGER_NEVER */
    int64_t linger_ms;
    /* The name stays held for this long, even if it is released before. 0: no */
    int64_t min_hold_ms;
    uint64_t reserved[3];
} hf_acquire_request;
#define HF_ACQUIRE_REQUEST_INIT HF_INIT(hf_acquire_request)

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire what `request` asks for. Any other status than HF_OK leaves *ret_lease untouched.
 *
 * HF_OK: the caller owns *ret_lease and ends it with hf_release(), whatever that call returns.
 * HF_BUSY: it is held, and wait_ms was 0. HF_TIMEOUT, HF_CANCELLED: the request has left the
 * queue. HF_MISMATCH: the name is in use as another kind or capacity. HF_TOO_SHORT: less than
 * min_valid_ms was left, and the grant was given back. HF_UNKNOWN: the store may have granted it;
 * that grant is of no use to anyone, and the library gives it back in the background. HF_DEADLOCK:
 * waiting would be a deadlock; the text describes the cycle. HF_INVALID: the text names the field.
 * HF_UNSUPPORTED: the engine cannot do what the request asks for; the text says why.
 *
 * min_hold_ms is for jobs that several machines start at about the same time and that are shorter
 * than the difference of their clocks: a machine that comes late still finds the name held.
 * hf_release() of such a lease returns at once. The store keeps the name until min_hold_ms has
 * passed, even if this process has died, so the ttl is at least min_hold_ms. HF_UNSUPPORTED
 * without HF_CAP_DETACHED, where leases end with their process or session. HF_INVALID if it is
 * more than max_hold_ms or than the longest ttl of the store, or together with HF_FLAG_DETACHED or
 * HF_FLAG_WATCH.
 *
 * With HF_FLAG_REENTRANT, a thread (scope) that already holds the name through this store handle
 * by a reentrant request gets the same handle again, with a hold count that is one higher. Each
 * hold needs its own hf_release().
 */
HF_API HF_USE hf_status hf_acquire(hf_store *store, const hf_acquire_request *request,
                                   hf_lease **ret_lease, hf_error *err);

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * End a lease (one hold of it). The handle has ended afterwards, whatever the status (but
 * HF_FORKED), once the hold count is 0.
 *
 * HF_OK: given back; with min_hold_ms: left to the store until that time is over. HF_LOST: it had
 * been lost before; no lease of another holder was touched. If it was lost because its ttl ended,
 * or because the store said so, there is nothing to wait for: the call returns at once, and what
 * may be left in the store is cleared away in the background, so the name may be free only a
 * moment later. hf_close() waits for that as for every release; a forked child has no part in it.
 * HF_UNKNOWN, HF_UNAVAILABLE: the store
 * did not confirm it; the library goes on trying in the background. With HF_UNKNOWN the
 * connection may also have broken, and the lease is gone: it was given back, or lost before.
 * HF_INVALID: the handle had ended before.
 *
 * An on_event callback that runs has returned before hf_release() returns, and for a lost lease
 * the one with HF_EVENT_LOST: the memory that the callback uses may be freed then. (Not so if
 * hf_release() is called within that callback.)
 */
HF_API hf_status hf_release(hf_lease *lease, hf_error *err);

/* Blocks: for a round trip to the store for each of them. Callbacks: none. After fork: HF_FORKED.
 * Give back all idle leases of the store (linger_ms), for example before exec(3) or exit(3);
 * hf_close() does so too. An idle lease that is not given back ends with its ttl. HF_UNAVAILABLE,
 * HF_UNKNOWN: the store did not answer for one of them; the library goes on in the background. */
HF_API hf_status hf_idle_release(hf_store *store, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Give a lease to the requests that wait for it, and queue for it again behind them. The lease was
 * requested with HF_FLAG_WATCH. hf_yield() is a release and an acquire, sent together where the
 * store takes both at once.
 *
 * HF_OK: as far as this process knows, no request waits. The lease stays, with its token; this
 * costs no more than hf_lease_wanted(). HF_YIELDED: it was given away and has come back: *lease is
 * the new handle, with a new token. What it protects may have changed (the same if the waiter left
 * in the meantime). HF_INVALID, HF_LOST, HF_FORKED: nothing was done. HF_IN_USE: its hold count is
 * above 1, so an outer frame relies on it; nothing was done. HF_TIMEOUT, HF_BUSY, HF_CANCELLED,
 * HF_UNAVAILABLE, HF_UNKNOWN, HF_DEADLOCK: as of hf_acquire(); *lease is NULL, and nothing is held.
 *
 * *lease is NULL with every other status than HF_OK, HF_YIELDED, HF_INVALID, HF_LOST, HF_FORKED and
 * HF_IN_USE.
 *
 * The new request is that of the old lease, without HF_FLAG_BARGE, `session` and `cancel`: its wait
 * is ended early only by hf_close(), and in the asynchronous form by hf_op_cancel().
 */
HF_API HF_USE hf_status hf_yield(hf_lease **lease, int64_t wait_ms, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Change the kind of a lease of a read-write lock, without a gap in which another holder could
 * write:
 *
 *   a writer (EXCLUSIVE)     becomes an UPGRADEABLE or a SHARED reader at once; waiting readers come in
 *   an UPGRADEABLE reader    becomes a SHARED reader at once, or the writer: it waits before all others
 *                            until the other readers have left, and no new ones come in
 *
 * A name has at most one UPGRADEABLE reader, beside any number of SHARED ones. A SHARED reader
 * cannot become the writer (HF_INVALID): two that tried would wait for each other.
 *
 * HF_OK: *lease is a new handle, with a new token; the old one has ended, without an event. No
 * other holder has written what the lease protects. If the lease has the kind already, nothing is
 * done. HF_BUSY (wait_ms 0), HF_TIMEOUT, HF_CANCELLED, HF_DEADLOCK, HF_UNAVAILABLE: *lease is as
 * it was, with its kind. HF_LOST: it is lost, or was lost during the wait. HF_UNKNOWN: the store
 * may have converted it; the lease is lost, because its kind is not known. HF_IN_USE: its hold
 * count is above 1, or it is being converted. HF_UNSUPPORTED: the engine lacks HF_CAP_CONVERT.
 *
 * *lease is as it was after HF_BUSY, HF_TIMEOUT, HF_CANCELLED, HF_DEADLOCK, HF_UNAVAILABLE,
 * HF_INVALID, HF_IN_USE, HF_UNSUPPORTED, HF_DENIED, HF_FULL and HF_NO_MEMORY. After any other error
 * the lease is lost. In all cases the caller still releases it.
 *
 * The canceller of the old request does not end the wait: only hf_close() does, and hf_op_cancel()
 * in the asynchronous form.
 */
HF_API HF_USE hf_status hf_convert(hf_lease **lease, hf_kind kind, int64_t wait_ms, hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Renew now, for ttl_ms (0: as before) from now. The library renews a lease by itself; this is for
 * a lease with HF_FLAG_NO_RENEW, or to change the ttl. HF_OK: valid until then. HF_LOST: too late.
 * HF_UNAVAILABLE, HF_UNKNOWN: not confirmed; the lease is AT_RISK and still valid for
 * hf_lease_remaining_ms(). HF_UNSUPPORTED: it has no ttl, or max_hold_ms leaves no time for a
 * renewal. HF_INVALID: ttl_ms is below min_ttl_ms of hf_store_info. */
HF_API HF_USE hf_status hf_renew(hf_lease *lease, int64_t ttl_ms, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * Make a canceller. It may serve many requests. Once fired, it stays fired. */
HF_API HF_USE hf_status hf_cancel_open(hf_cancel **ret_cancel);
/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * End the waiting of every request that names this canceller, now and later. Any thread may call
 * it; a signal handler may not. */
HF_API hf_status hf_cancel_fire(hf_cancel *cancel);
/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * Free a canceller. HF_IN_USE: a request that names it still waits. */
HF_API hf_status hf_cancel_close(hf_cancel *cancel);

/* ---- several names at once ------------------------------------------------ */

#define HF_ACQUIRE_ALL_MAX 64

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire everything that the `count` requests ask for (1 to HF_ACQUIRE_ALL_MAX), or nothing.
 *
 * HF_OK: ret_leases[i] is the lease of requests[i], with its own token; each is an ordinary lease.
 * HF_LOST: one lease was lost while the call waited for another. HF_UNKNOWN: a part may have been
 * granted and is being given back in the background. HF_INVALID: the text names the request and
 * its field.
 *
 * With any status but HF_OK, *ret_leases is untouched, and what had been granted was given back
 * before the call returned. The text names the request that failed.
 *
 * Names are taken in the order of their bytes, not in the order given: so two calls of
 * hf_acquire_all() never wait for each other in a cycle. Where one connection carries many
 * requests at once (Redis), all are sent together first: if all names are free, the call costs one
 * round trip.
 *
 * All requests have the same wait_ms, which limits all of them together, and the same cancel,
 * scope, session (the same pointer) and `size`. No two have the same name.
 */
HF_API HF_USE hf_status hf_acquire_all(hf_store *store, const hf_acquire_request *requests,
                                       size_t count, hf_lease **ret_leases, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire one of the names that the `count` requests ask for (1 to HF_ACQUIRE_ALL_MAX), whichever
 * becomes free first.
 *
 * The names are tried in the order given; a free one costs what hf_acquire() costs. If none is
 * free, the call waits in the queues of all names, in its turn in each. When one is granted, the
 * call leaves the other queues; if another was granted at the same moment, it is given back before
 * the call returns. If a name fails otherwise, the call ends with that status unless another name
 * is granted. With any status but HF_OK nothing is held.
 *
 * HF_OK: *ret_lease is an ordinary lease, of requests[*ret_index]. HF_BUSY, HF_TIMEOUT: none
 * became free. HF_DEADLOCK: none of them can become free. HF_MISMATCH, HF_UNAVAILABLE: one name
 * failed, and none was granted. HF_LOST: the lease was lost before the call had left the other
 * queues. HF_UNKNOWN: one may have been granted, and is being given back in the background.
 *
 * All requests have the same wait_ms, cancel, scope and session, and different names, as for
 * hf_acquire_all(). A waiting request of a session that holds other leases has its label cut, as
 * that of every waiting holder.
 */
HF_API HF_USE hf_status hf_acquire_any(hf_store *store, const hf_acquire_request *requests,
                                       size_t count, size_t *ret_index, hf_lease **ret_lease,
                                       hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Release them all, whatever happens, and return the first status that was not HF_OK, with the
 * meaning that it has for hf_release(). Each handle has ended, except with HF_FORKED. HF_OK: all
 * were given back. */
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
 * Read all fields in one step. It also clears hf_lease_fd(), unless the lease is lost. */
HF_API HF_USE hf_status hf_lease_get(hf_lease *lease, hf_lease_info *ret_info);

/* Blocks: no. Callbacks: none. After fork: as of a handle that has ended.
 * Shortcuts. For a handle that has ended: token 0, state HF_STATE_LOST, 0 ms. */
HF_API HF_USE uint64_t hf_lease_token(hf_lease *lease);
HF_API HF_USE hf_state hf_lease_state(hf_lease *lease);
HF_API HF_USE int64_t hf_lease_remaining_ms(hf_lease *lease);
/* Blocks: no. Callbacks: none. After fork: false.
 * HF_FLAG_WATCH: do other requests wait for it? It costs one load and takes no lock. false for a
 * handle that has ended, and for a lost lease. */
HF_API HF_USE bool hf_lease_wanted(hf_lease *lease);

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * The token of a lease as a fence for hf_guard_claim() and hf_guard_set() of primitives.h.
 * HF_UNSUPPORTED: the token is no fence: leases like this one may overlap (a reader, some permits
 * of a semaphore; with HF_CAP_RESIZE any permits of one), or the engine gives no tokens. HF_LOST:
 * the lease is lost; do not begin. */
HF_API HF_USE hf_status hf_lease_fence(hf_lease *lease, uint64_t *ret_token, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: -1.
 * A descriptor that polls readable when an event has happened since the last hf_lease_get(), and
 * always once the lease is lost. It belongs to the lease, and the last hf_release() closes it. -1:
 * no such lease, or no descriptor is left. */
HF_API HF_USE int hf_lease_fd(hf_lease *lease);

#define HF_LEASE_TEXT_MAX 64 /* with its NUL */

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * A detached lease as text that another process can give to hf_lease_adopt(). A process that has
 * the text can release the lease: treat it as a secret of those who share the store.
 * HF_UNSUPPORTED: the lease is not detached. HF_LOST: too late. */
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
 * Take over a detached lease by its text. HF_OK: the caller owns *ret_lease as if it had acquired
 * it. HF_NOT_FOUND: the lease has ended, expired or was broken. HF_INVALID: not the text of a
 * lease.
 *
 * The text stays good: it can be adopted again. The store cannot tell the owners of one text apart,
 * so each of their handles says HELD, and each renews the same lease. When one of them releases it,
 * the others learn that with their next renewal, up to a third of the ttl later. Until then another
 * client may hold the name beside them. So hand a lease over and do not use it in two places: the
 * former owner ends its use before the text is adopted, and does not release its handle. */
HF_API HF_USE hf_status hf_lease_adopt(hf_store *store, const hf_adopt_request *request,
                                       hf_lease **ret_lease, hf_error *err);

/* ---- asynchronous use --------------------------------------------------- */

/*
 * Every call that may block has a form that does not block, with the same inputs:
 *
 *   hf_X_async(<inputs of hf_X>, done, arg, ret_op, err)
 *
 * It begins the call and returns. If the status is not HF_OK, nothing began. Otherwise `done` is
 * called exactly once, after the call has returned, on the thread that is in hf_store_process(). If
 * no thread calls that, `done` does not come, but the call goes on: an acquire may be granted, and
 * then holds the name. Inputs are copied. *ret_op (ret_op may be NULL) is for hf_op_cancel() and is
 * valid until `done` is called.
 *
 * These have none: hf_open() and hf_close(), because no store could call `done` before and after
 * them; hf_guard_claim_sql() and hf_sql_lock(), which block only in a function of the caller;
 * hf_idle_release(), which is for the end of a process; hf_observer_set(), which waits only for a
 * callback of the caller.
 */

typedef struct hf_op hf_op;

/* What a call has found. On HF_OK (and HF_YIELDED, or another status where a call says so) the
 * members are set that the blocking form returns; all others are zero. A member that is marked * belongs to the callback, which keeps or
 * frees it. Everything else, and the result itself, lives until the callback returns. */
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
    const struct hf_limit_result *limit; /* limit_take, limit_get, limit_set */
    const struct hf_once_mark *mark;     /* once_get, once_begin, once_claim */
    struct hf_redlock_status *redlock;   /* * redlock_get_status, also with another status */
    const uint64_t *versions;            /* cells_commit: `count` of them */
    struct hf_members *members;          /* * members_wait */
    const void *reserved[1];
} hf_result;

/* Called in hf_store_process(), once, when the call has ended. It may call anything of this library
 * but hf_close() of this store. */
typedef void hf_done_fn(const hf_result *result, void *arg);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED. */
HF_API HF_USE hf_status hf_acquire_async(hf_store *store, const hf_acquire_request *request,
                                         hf_done_fn *done, void *arg, hf_op **ret_op,
                                         hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * The lease handle has ended when this returns HF_OK. `done` comes after an on_event callback that
 * runs has ended; for a lost lease it comes with HF_LOST, after the callback with HF_EVENT_LOST.
 * Where hf_release() of a lost lease does not wait for the store, `done` does not either. A release
 * cannot be cancelled. HF_INVALID also after the store was closed: use hf_release(). */
HF_API HF_USE hf_status hf_release_async(hf_lease *lease, hf_done_fn *done, void *arg,
                                         hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * If one of them cannot be acquired, the others are released before `done` comes. */
HF_API HF_USE hf_status hf_acquire_all_async(hf_store *store, const hf_acquire_request *requests,
                                             size_t count, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * On HF_OK result->lease is the lease, and result->number the index of its request. */
HF_API HF_USE hf_status hf_acquire_any_async(hf_store *store, const hf_acquire_request *requests,
                                             size_t count, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * 1 to HF_ACQUIRE_ALL_MAX leases of one store; `done` comes from that store. hf_op_cancel() has no
 * effect on it. */
HF_API HF_USE hf_status hf_release_all_async(hf_lease *const *leases, size_t count,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_renew_async(hf_lease *lease, int64_t ttl_ms, hf_done_fn *done, void *arg,
                                       hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * On HF_OK and HF_YIELDED result->lease is the lease; with any other status of the result nothing
 * is held. The old handle has ended when this returns HF_OK, unless the lease stays. */
HF_API HF_USE hf_status hf_yield_async(hf_lease *lease, int64_t wait_ms, hf_done_fn *done,
                                       void *arg, hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * On HF_OK result->lease is the lease, and the old handle has ended when `done` is called. */
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
 * Ask a waiting call to end early. HF_OK: `done` still comes, with HF_CANCELLED, or with another
 * status if it was too late. HF_INVALID: `done` has been called, or there is no such call. */
HF_API hf_status hf_op_cancel(hf_op *op);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED, or -1.
 * Drive a store from an event loop: wait until hf_store_fd() is readable or hf_store_timeout_ms()
 * has passed (-1: no limit), then call hf_store_process(), which never blocks and runs the
 * callbacks that are due on this thread. It returns HF_OK, whatever the calls return that end in
 * it. For a closed store it returns HF_INVALID, and the other two return -1. The descriptor
 * belongs to the store. Several threads may be in hf_store_process() at once: `done` of different
 * calls may then run at the same time. */
HF_API HF_USE int hf_store_fd(hf_store *store);
HF_API HF_USE int hf_store_timeout_ms(hf_store *store);
HF_API hf_status hf_store_process(hf_store *store);

/* ---- inspecting and breaking ----------------------------------------------- */

typedef struct hf_holder {
    uint64_t token; /* of the present holder */
    uint64_t first; /* first token of its block; local passes count up from it */
    uint32_t permits;
    bool detached; /* it does not end with a process */
    int64_t age_ms;
    int64_t ttl_ms; /* left; -1: none */
    int64_t pid;    /* 0: unknown or in another PID namespace */
    int64_t tid;    /* the thread that holds after a local pass; 0: not known */
    const char *label;
    uint64_t session;    /* for deadlock detection; 0: not known */
    bool lingers;        /* its process may keep it while it is not in use (linger_ms) ... */
    bool idle;           /* ... and did so when the store last heard from it */
    bool watched;        /* it is told that others wait, and hf_ask() reaches it */
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
    int64_t closed_ms; /* lock_delay_ms that is left; 0: none */
    size_t holder_count;
    size_t waiter_count;
    bool resized; /* `capacity` was set by hf_semaphore_resize() */
} hf_entry;

typedef struct hf_view hf_view;

#define HF_INSPECT_FLAG_PATTERN (UINT64_C(1) << 0) /* `name` is a pattern with * ? [a-z] and \ */

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * List holders and waiters. Without HF_INSPECT_FLAG_PATTERN `name` is one exact name; with it,
 * `name` is a pattern, and NULL with length 0 means all names. A name without holders and waiters
 * has no entry; but a semaphore whose size was set has one if its exact name is asked for. Each
 * entry is consistent in itself; a large view is read in pieces. *ret_view is freed by hf_free().
 *
 * Only waiters that are queued in the store are listed. Threads that ask one hf_store for a name,
 * exclusively and with equal options, queue inside the process: at most the first of them is
 * queued in the store, and none if another of them holds the name.
 */
HF_API HF_USE hf_status hf_store_inspect(hf_store *store, const void *name, size_t name_len,
                                         uint64_t flags, hf_view **ret_view, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * What is in a view: its entries, sorted by name, bytewise; the holders of an entry; its waiters,
 * in order. All of it lives as long as the view. NULL: no such index. */
HF_API HF_USE size_t hf_view_count(const hf_view *view);
HF_API HF_USE const hf_entry *hf_view_entry(const hf_view *view, size_t index);
HF_API HF_USE const hf_holder *hf_entry_holder(const hf_entry *entry, size_t index);
HF_API HF_USE const hf_waiter *hf_entry_waiter(const hf_entry *entry, size_t index);
/* Blocks: no. Callbacks: none. After fork: works.
 * false: this engine cannot list waiters. */
HF_API HF_USE bool hf_view_waiters_tracked(const hf_view *view);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * End exactly the lease that holds `name` with `token`, whichever process owns it. Its holder is
 * told (HF_EVENT_LOST). A lease of this store handle is lost when the call returns
 * (hf_lease_break_async(): when `done` is called). HF_NOT_FOUND: no lease has that token now. */
HF_API HF_USE hf_status hf_lease_break(hf_store *store, const void *name, size_t name_len,
                                       uint64_t token, hf_error *err);

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Set the size of a semaphore, also while it is in use. From then on it has `capacity` slots,
 * whatever the requests say, until the size is set again. With 0 the requests decide again, from
 * the moment when no request holds it or waits for it. No lease is lost: if more is held than the
 * new size, new grants wait until enough has been given back. Waiters keep their places, and those
 * that fit now are granted in the same step.
 *
 * While a size is set, the name is a semaphore also when it is free: a request of another kind, or
 * for more permits than the size, is HF_MISMATCH. A waiter that asks for more than a size that was
 * set later stays in the queue, and the waiters behind it wait too.
 *
 * HF_MISMATCH: the name is in use as another kind. HF_UNSUPPORTED: the engine lacks HF_CAP_RESIZE.
 * HF_UNKNOWN: it may have been set; set it again.
 */
HF_API HF_USE hf_status hf_semaphore_resize(hf_store *store, const void *name, size_t name_len,
                                            uint32_t capacity, hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Ask the holders of `name` to give it away: each that listens gets HF_EVENT_ASKED with `text`
 * (NULL: the label of the store; a longer text is cut to HF_LABEL_MAX bytes). The call queues
 * nowhere and changes nothing. HF_OK: at least one holder has HF_FLAG_WATCH, and each of these was
 * told. HF_BUSY: it is held, and no holder listens. HF_NOT_FOUND: it is free. HF_UNSUPPORTED: the
 * engine lacks HF_CAP_WANTED. */
HF_API HF_USE hf_status hf_ask(hf_store *store, const void *name, size_t name_len, const char *text,
                               hf_error *err);

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Wait until something in the store has changed since *seq (0: since now). *seq is set then, and
 * with HF_TIMEOUT too: to read the number before the first look, call it with wait_ms 0. The
 * process sleeps meanwhile and costs nothing. HF_TIMEOUT: nothing changed. HF_CANCELLED: `cancel`
 * or hf_close() ended it. HF_UNSUPPORTED: the engine lacks HF_CAP_WATCH. */
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
    /* a fact to know, which is no fault: "no replicas". The level is HF_CHECK_LEVEL_OK */
    bool note;
} hf_finding;

typedef struct hf_report hf_report;

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Check whether this store is safe for what it promises. *ret_report is freed by hf_free(). */
HF_API HF_USE hf_status hf_store_check(hf_store *store, hf_report **ret_report, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * The findings of a report live as long as the report. NULL: no such index. */
HF_API HF_USE size_t hf_report_count(const hf_report *report);
HF_API HF_USE const hf_finding *hf_report_item(const hf_report *report, size_t index);

/* ---- deadlocks ------------------------------------------------------------ */

/*
 * In a store that lists waiters and has tokens (HF_CAP_WAITERS, HF_CAP_TOKEN) the library finds
 * requests that wait for each other in a cycle, across names, threads, processes and machines. One
 * of them gets HF_DEADLOCK with the cycle in its text: of the requests with a limit to their wait
 * the one that came last, else the one that came last of all. The others proceed once it releases
 * what it holds.
 *
 * A cycle is found after about a second of waiting (deadlock_check= in the URL; 0s: never). It is
 * found at once for a reader that waits to become the writer of the same name, and for a request
 * that waits for its own thread without a limit and without a canceller. (With one of them it waits
 * as asked.) mode=row and mode=session of PostgreSQL and MariaDB cannot list waiters: there the
 * server finds cycles, except those through the `session` of another process, and
 * hf_deadlock_list() is HF_UNSUPPORTED.
 *
 * Waits and leases belong to a *session*: the calling thread; or a scope, for requests that name
 * one; or, by `session` of the request, the session of another process. Asynchronous requests
 * without a scope or `session` have none. If a session holds more than eight leases in the store,
 * the latest eight count. Leases that end by themselves (HF_FLAG_NO_RENEW, HF_FLAG_DETACHED,
 * max_hold_ms) do not count. A lease that another thread will release must be requested with
 * HF_FLAG_NO_DEADLOCK_CHECK: otherwise the library assumes that the requesting thread releases it.
 *
 * There are no false positives among leases that are held: the library assumes that a holder
 * releases unless it is known to wait; for a semaphore every way to enough permits must be
 * blocked; two successive views must agree. A lease that was broken by another process or store
 * (hf_lease_break()) counts as held until its own store has heard of it.
 */

#define HF_SESSION_TEXT_MAX 160 /* with its NUL */

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * The session that holds `lease`, as text for a process that works for this one (pass it in an
 * environment variable, for example): what that process waits for, this one waits for. `around` is
 * the same text, if this process works for another one itself; NULL: it does not. HF_LOST: the
 * lease is lost. */
HF_API HF_USE hf_status hf_session_get(hf_lease *lease, const char *around,
                                       char ret_text[HF_SESSION_TEXT_MAX], hf_error *err);

/* A waiter of a cycle: it waits for `name`, which the next waiter holds. The last one waits for
 * what the first holds. */
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
 * The engine number `index`, from 0; NULL after the last. The call may load the module of the
 * engine. The result stays valid for the life of the process. */
HF_API HF_USE const hf_engine_info *hf_engine_get(size_t index);

/* Blocks: no. Callbacks: none. After fork: works.
 * A URL may choose among several sets of promises (wire=, mode=, tokens=): this is set number
 * `mode` of the engine. Set 0 is hf_engine_get(index); NULL after the last. */
HF_API HF_USE const hf_engine_info *hf_engine_get_mode(size_t index, size_t mode);

/* Blocks: no. Callbacks: none. After fork: works.
 * The SQL that makes the tables and routines of the database at `url`. Nothing is connected to.
 * Each statement ends with ";\n". *ret_sql is freed by hf_free(). HF_UNSUPPORTED: not the URL of a
 * database. */
HF_API HF_USE hf_status hf_sql_get_schema(const char *url, char **ret_sql, hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
