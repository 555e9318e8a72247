/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: distributed locks and synchronizers. The only public header.
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

/* ---- guarding a resource -------------------------------------------------- */

#define HF_GUARD_MAX 65536 /* bytes of one guarded thing */

/*
 * The token of a lease as a fence for the two calls below. HF_UNSUPPORTED: it is
 * none: the lease is one of several that may overlap (a reader, some permits of
 * a semaphore), or its engine gives no tokens. HF_LOST: too late to begin.
 */
HF_API hf_status hf_lease_fence(hf_lease *lease, uint64_t *ret_token, hf_error *err);

/*
 * A guarded thing is a few bytes under a name in a store with HF_CAP_CELLS, which
 * remembers the highest token that it has seen and refuses every lower one
 * (HF_FENCED). So a holder that was paused past its lease, or a second holder that
 * the store of the lock let in by mistake, changes nothing. The tokens of one thing
 * must all be of one lock name in one store, which may be another store than `at`.
 *
 * hf_guard_claim() presents the token and reads, in one step: from then on no
 * lower token is accepted. Claim before reading: who reads first and claims then
 * may work on what an older holder still changed in between. HF_OK: *ret_bytes,
 * to be freed by hf_guard_free(), are the thing as the last write left it, with a
 * NUL behind them that *ret_len does not count; never written: *ret_bytes is NULL
 * and *ret_len 0. Both may be NULL: claim only.
 *
 * hf_guard_set() replaces the bytes if no higher token has been seen until
 * then, checking and writing in one step, and presents the token as a claim does.
 *
 * HF_FENCED: a higher token was there; nothing is changed; stop, for the lease is
 * no longer ours. HF_UNKNOWN: it may have been done, or not; the same call with the
 * same token may be made again. HF_BUSY: others changed the thing all the time.
 * HF_MISMATCH: the name's cell is something else. HF_UNSUPPORTED: without
 * HF_CAP_CELLS. A thing stays for ever: with it the highest token would go.
 */
HF_API hf_status hf_guard_claim(hf_store *at, const void *name, size_t name_len, uint64_t token,
                                void **ret_bytes, size_t *ret_len, hf_error *err);
HF_API hf_status hf_guard_set(hf_store *at, const void *name, size_t name_len, uint64_t token,
                              const void *bytes, size_t len, hf_error *err);
HF_API void hf_guard_free(void *bytes); /* NULL is fine */

/* Whose SQL. MySQL's is MariaDB's too. */
typedef enum hf_sql_dialect {
    HF_SQL_DIALECT_POSTGRESQL = 1,
    HF_SQL_DIALECT_MYSQL = 2
} hf_sql_dialect;

/*
 * Run one statement on the caller's connection, inside the caller's transaction. If it gives a row,
 * *ret_number is the number in its first column. 0: it was done; anything else: it failed.
 */
typedef int hf_sql_fn(const char *sql, int64_t *ret_number, void *arg);

/*
 * Claim a token for what rows of a database are protected by a lock: in the transaction that is
 * going to read and write them, before it reads. `name` is what is guarded; the tokens of one name must all be of one lock name
 * in one store. `table` has a row for each (hf_guard_sql_schema() makes it); NULL: "holdfast_guard". Needs no store.
 *
 * HF_OK: until the transaction ends nobody else claims this name, and after it has committed no
 * lower token ever does. HF_FENCED: a higher token has been there: roll back, the lease is no longer ours.
 * HF_UNAVAILABLE: `run` failed: roll back. What is written in another transaction than the one that claimed
 * is not protected.
 */
HF_API hf_status hf_guard_claim_sql(hf_sql_dialect dialect, const char *table, const void *name,
                                    size_t name_len, uint64_t token, hf_sql_fn *run, void *arg,
                                    hf_error *err);
/* The statement that makes "holdfast_guard". NULL: no such dialect. */
HF_API const char *hf_guard_sql_schema(hf_sql_dialect dialect);

/* ---- cells: bytes with a version -------------------------------------------- */

#define HF_CELL_MAX 65536 /* bytes of one cell */

/*
 * A cell is a few bytes under a name, in a store with HF_CAP_CELLS, and a version:
 * a positive number that every write changes and that never comes back, not even
 * after the cell was deleted and made again. That is the optimistic lock: read,
 * think, and write only if nobody else has written since. Names of cells are apart
 * from names of locks, but shared with the other things made of cells (guarded
 * things, counters, ...): a name's cell is one or the other (HF_MISMATCH).
 *
 * All calls: HF_UNSUPPORTED without HF_CAP_CELLS. HF_UNKNOWN, of those that write:
 * it may have been done, or may yet be, when a late request arrives; read the cell,
 * and write again under the version that it has.
 */
typedef struct hf_cell {
    size_t size;      /* set by the caller: HF_CELL_INIT */
    void *bytes;      /* with a NUL behind them that `len` does not count; hf_cell_free() */
    size_t len;       /* 0 to HF_CELL_MAX */
    uint64_t version; /* never 0 */
    int64_t ttl_ms;   /* left; -1: it has none */
    uint64_t reserved[3];
} hf_cell;
/* clang-format off */
#define HF_CELL_INIT { .size = sizeof(hf_cell) }
/* clang-format on */

/* Read it. HF_OK: *ret_cell is the caller's, to be freed by hf_cell_free(). HF_NOT_FOUND: there is none. */
HF_API hf_status hf_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                             hf_error *err);
HF_API void hf_cell_free(hf_cell *cell); /* its bytes, not the struct; NULL is fine */

/*
 * Write it, whatever is there. ttl_ms: it is deleted by itself after that long, or a
 * few seconds later where the engine counts in seconds, unless it is written again;
 * 0: never; else HF_TTL_MIN_MS to HF_DURATION_MAX_MS, and only with HF_CAP_CELL_TTL
 * (HF_UNSUPPORTED). *ret_version (ret_version may be NULL) is the new one. HF_BUSY:
 * others wrote all the time, for seconds.
 */
HF_API hf_status hf_cell_set(hf_store *store, const void *name, size_t name_len, const void *bytes,
                             size_t len, int64_t ttl_ms, uint64_t *ret_version, hf_error *err);

/*
 * Write it if its version is still `version`, which a call here has told; 0: if there
 * is none. One step for everybody else. HF_CHANGED: it has another version, or none;
 * nothing was done. The rest as with hf_cell_set().
 */
HF_API hf_status hf_cell_swap(hf_store *store, const void *name, size_t name_len, uint64_t version,
                              const void *bytes, size_t len, int64_t ttl_ms, uint64_t *ret_version,
                              hf_error *err);

/* Delete it if its version is still `version`. HF_CHANGED: it has another one, or is gone already. */
HF_API hf_status hf_cell_delete(hf_store *store, const void *name, size_t name_len,
                                uint64_t version, hf_error *err);

typedef enum hf_cell_action {
    HF_CELL_ACTION_LEAVE,
    HF_CELL_ACTION_WRITE,
    HF_CELL_ACTION_DELETE
} hf_cell_action;

/* What a callback of hf_cell_update() wants. */
typedef struct hf_cell_change {
    size_t size;           /* set by the library */
    hf_cell_action action; /* HF_CELL_ACTION_LEAVE unless the callback says otherwise */
    const void *bytes;     /* WRITE: taken before the callback is called again */
    size_t len;
    int64_t ttl_ms; /* WRITE: as with hf_cell_set() */
    uint64_t reserved[3];
} hf_cell_change;

/*
 * Say in `change` what shall become of the cell, which is `old` (version 0, bytes NULL: there is none).
 * It may be called several times, each with what is there then, and only the last counts: so it must
 * do nothing but think. Not HF_OK: hf_cell_update() ends with that status, and nothing is done. It may
 * call anything of this library but hf_close().
 */
typedef hf_status hf_cell_fn(const hf_cell *old, hf_cell_change *change, void *arg);

/*
 * Read, let `fn` decide, and write if nobody else did meanwhile; else begin again, after a pause of
 * random length, for at most wait_ms (0: once; HF_FOREVER). *ret_version (may be NULL) is the version
 * that the cell has then, 0: none. HF_BUSY (wait_ms 0), HF_TIMEOUT: others were always quicker.
 * HF_CANCELLED: `cancel` (may be NULL) or hf_close() ended it between two tries. HF_UNKNOWN: the last
 * write may have been done; it is not tried again, for then it could be done twice.
 */
HF_API hf_status hf_cell_update(hf_store *store, const void *name, size_t name_len, hf_cell_fn *fn,
                                void *arg, int64_t wait_ms, hf_cancel *cancel,
                                uint64_t *ret_version, hf_error *err);

/*
 * Wait, at most wait_ms, until the version of a cell is another than `version` (0: there is none);
 * at once if it is already. *ret_version: which, 0: it was deleted or its ttl ended. Changes in
 * between are not told one by one. An event ends the wait with HF_CAP_CELL_WATCH; elsewhere the cell
 * is read again and again, every second in the end. If the store goes away meanwhile it is waited for.
 * HF_TIMEOUT. HF_CANCELLED, as with hf_acquire(). HF_UNAVAILABLE: time is up and the store is away.
 */
HF_API hf_status hf_cell_wait(hf_store *store, const void *name, size_t name_len, uint64_t version,
                              int64_t wait_ms, hf_cancel *cancel, uint64_t *ret_version,
                              hf_error *err);

/* ---- counters ---------------------------------------------------------------- */

/*
 * A counter is a 64-bit number under a name, in a store with HF_CAP_CELLS; one that
 * is not there is 0. name_len 0: the name ends with a NUL. All of a call is one step
 * for everybody else. On Redis it is one command (INCRBY on the key "hf:{NAME}:c",
 * which redis-cli reads too); elsewhere a cell that is read and swapped, again if
 * somebody was there in between.
 *
 * hf_counter_add() adds any number, also a negative one. hf_counter_swap() sets it if
 * it is `expected`; HF_CHANGED: it is not, and nothing was done. *ret_current
 * is what it is then, for both. hf_counter_delete(): it is not there any more, HF_OK
 * also if it never was. ret_value of hf_counter_add() and ret_current may be NULL.
 *
 * HF_OVERFLOW: the sum would leave the range, and nothing was done. HF_MISMATCH:
 * the name is a cell of another kind, or in Redis a key that is no number. HF_BUSY: others
 * changed it all the time for some seconds, and nothing was done. HF_UNKNOWN: the answer
 * was lost; it may have been done, once, or may still be. It is never sent twice, for
 * that could count twice, and nothing is settled in the background: only the caller can
 * know what to do. HF_UNAVAILABLE: nothing was done. HF_UNSUPPORTED: without HF_CAP_CELLS.
 */
HF_API hf_status hf_counter_add(hf_store *store, const void *name, size_t name_len, int64_t delta,
                                int64_t *ret_value, hf_error *err);
HF_API hf_status hf_counter_get(hf_store *store, const void *name, size_t name_len,
                                int64_t *ret_value, hf_error *err);
HF_API hf_status hf_counter_set(hf_store *store, const void *name, size_t name_len, int64_t value,
                                hf_error *err);
HF_API hf_status hf_counter_swap(hf_store *store, const void *name, size_t name_len,
                                 int64_t expected, int64_t value, int64_t *ret_current,
                                 hf_error *err);
HF_API hf_status hf_counter_delete(hf_store *store, const void *name, size_t name_len,
                                   hf_error *err);

/* ---- scripts ----------------------------------------------------------------- */

#define HF_SCRIPT_MAX          (16 << 20) /* bytes of a script with its keys and arguments */
#define HF_SCRIPT_KILL_WAIT_MS 10000

typedef struct hf_script_request {
    size_t size;
    const char *text; /* Lua. text_len 0: it ends with a NUL */
    size_t text_len;
    const char *const *keys; /* KEYS[1], ... key_lens NULL: each ends with a NUL */
    const size_t *key_lens;
    size_t key_count;
    const char *const *args; /* ARGV[1], ... likewise */
    const size_t *arg_lens;
    size_t arg_count;
    uint64_t reserved[4];
} hf_script_request;
/* clang-format off */
#define HF_SCRIPT_REQUEST_INIT { .size = sizeof(hf_script_request) }
/* clang-format on */

typedef struct hf_value hf_value;
typedef enum hf_value_kind {
    HF_VALUE_KIND_NIL,
    HF_VALUE_KIND_INTEGER,
    HF_VALUE_KIND_BYTES, /* any bytes, with a NUL behind them */
    HF_VALUE_KIND_STATE, /* a status reply: "OK" */
    HF_VALUE_KIND_ERROR, /* an error inside a list: what redis.pcall() returned */
    HF_VALUE_KIND_LIST
} hf_value_kind;

/*
 * Run a Lua script on the server, in one step for everybody else (HF_CAP_SCRIPTS:
 * Redis). It is sent by its SHA-1, and whole if the server does not know it. *ret_value
 * (may be NULL) is what it returned, to be freed by hf_value_free(). Keys are taken as they are,
 * without the store's prefix; in a cluster they must be of one slot, which decides who
 * runs it. Lists may be seven deep.
 *
 * HF_INVALID: the script is at fault, and the text is the server's: it does not compile
 * (nothing was done), or it raised an error, or returned one: what it had written by then
 * stays written. Also for keys of several slots (nothing was done). HF_CANCELLED: somebody
 * killed it; it had written nothing. HF_UNAVAILABLE: it did not run; "BUSY" in the text: because another
 * script runs for longer than the server's busy-reply-threshold. Redis does not end that one:
 * it waits for it and answers BUSY meanwhile; hf_script_kill() can. HF_DENIED, HF_FULL: refused, it did
 * not run. HF_UNKNOWN: the answer was lost or did not come in time (op_timeout); it
 * may have run, may run now, and is never sent twice.
 */
HF_API hf_status hf_script_run(hf_store *store, const hf_script_request *script,
                               hf_value **ret_value, hf_error *err);

/* Does the server (in a cluster: every master) know this script? `text` is the script, or its SHA-1
 * in 40 hex digits; len 0: it ends with a NUL. */
HF_API hf_status hf_script_exists(hf_store *store, const char *text, size_t len, int *ret_exists,
                                  hf_error *err);
/* Let the servers forget all scripts, of everybody. What needs one sends it again. */
HF_API hf_status hf_script_flush(hf_store *store, hf_error *err);

/*
 * End the script that runs now, whoever runs it, over a new connection: those that exist may be stuck
 * behind it. A server answers nobody before its busy-reply-threshold (5 s) is over; wait at
 * most wait_ms for that, 0: HF_SCRIPT_KILL_WAIT_MS. A store cannot be opened meanwhile: hf_manage() with
 * "script-kill" needs none.
 *
 * HF_NOT_FOUND: none runs. HF_IN_USE: it has written already, and Redis does not kill it
 * then, for half of its work would stay: wait for it, or shut the server down without saving.
 */
HF_API hf_status hf_script_kill(hf_store *store, int64_t wait_ms, hf_error *err);

/* Look at a value; NULL is HF_VALUE_KIND_NIL, and what a value has not is 0 or NULL. Bytes and items live as
 * long as the value that hf_script_run() returned. */
HF_API hf_value_kind hf_value_get_kind(const hf_value *value);
HF_API int64_t hf_value_get_integer(const hf_value *value);
HF_API const char *hf_value_get_bytes(const hf_value *value,
                                      size_t *ret_len);  /* ret_len may be NULL */
HF_API size_t hf_value_get_count(const hf_value *value); /* of a list */
HF_API const hf_value *hf_value_get_item(const hf_value *list, size_t index);
HF_API void hf_value_free(hf_value *value); /* what hf_script_run() returned; NULL is fine */

/* ---- rate limits -------------------------------------------------------------- */

typedef enum hf_limit_algorithm {
    HF_LIMIT_ALGORITHM_FIXED =
        0, /* a window begins with its first call, and the next one after its end */
    HF_LIMIT_ALGORITHM_SLIDING = 1, /* never more than `rate` in any interval of per_ms */
    HF_LIMIT_ALGORITHM_BUCKET = 2   /* `burst` at once, refilled at `rate` in per_ms */
} hf_limit_algorithm;

#define HF_LIMIT_SLIDING_MAX \
    4096 /* largest rate of a sliding window, which remembers every grant */

typedef struct hf_limit_request {
    size_t size;
    const void *name; /* 1 to HF_NAME_MAX bytes */
    size_t name_len;  /* 0: `name` is a C string */
    hf_limit_algorithm algorithm;
    uint32_t rate;     /* so many permits ... */
    int64_t per_ms;    /* ... in so long */
    uint32_t burst;    /* bucket only: the most at once; 0: `rate` */
    uint32_t permits;  /* to be taken, all or none; 0 means 1 */
    int64_t wait_ms;   /* 0: try once; HF_FOREVER; else at most this long */
    hf_cancel *cancel; /* hf_cancel_fire() ends the waiting; NULL: none */
    uint64_t reserved[6];
} hf_limit_request;
/* clang-format off */
#define HF_LIMIT_REQUEST_INIT { .size = sizeof(hf_limit_request) }
/* clang-format on */

typedef struct hf_limit_result {
    size_t size;
    uint64_t left;     /* permits that could be taken at once, after this call */
    int64_t refill_ms; /* until all are there again, if nobody takes any */
    int64_t waited_ms; /* what this call waited for its moment */
    int64_t retry_ms;  /* refused: the wait_ms that it would have taken; else 0 */
    int64_t at_us;     /* granted: its moment, by the store's clock, in microseconds since 1970 */
    uint64_t reserved[4];
} hf_limit_result;
/* clang-format off */
#define HF_LIMIT_RESULT_INIT { .size = sizeof(hf_limit_result) }
/* clang-format on */

/*
 * Take permits of a rate limit, which exists by being used: name, algorithm, rate, per_ms and burst
 * are the same for all who share it. Only the store's clock counts.
 *
 * Who waits has reserved: it is told its moment at once and sleeps until then, without asking again.
 * Moments are given in the order in which calls reach the store, so nobody is overtaken, and a call
 * that may not wait is refused while others do. A waiter that dies, or is cancelled too late for
 * its permits to be given back, has used them. What is limited are the moments: a call
 * may return late (a slow network, a busy machine), but never before its moment.
 *
 * HF_OK: taken. HF_BUSY: wait_ms is 0 and it would have to wait. HF_TIMEOUT: it would have to wait
 * longer than wait_ms; said at once. HF_CANCELLED: by `cancel` or hf_close(). HF_MISMATCH: the limit
 * is in use with another algorithm, rate, per_ms or burst (until it has refilled), or the name's cell is
 * something else. HF_INVALID: the text names the field; more permits than the limit ever has.
 * HF_UNKNOWN: the permits may have been taken. HF_UNSUPPORTED: without HF_CAP_CELLS and
 * HF_CAP_CLOCK. *ret_result, which may be NULL, is filled in for HF_OK, HF_BUSY and HF_TIMEOUT.
 */
HF_API hf_status hf_limit_take(hf_store *store, const hf_limit_request *limit,
                               hf_limit_result *ret_result, hf_error *err);
/* What is left of it, and when it refills. Takes nothing; permits, wait_ms and cancel do not count. */
HF_API hf_status hf_limit_get(hf_store *store, const hf_limit_request *limit,
                              hf_limit_result *ret_result, hf_error *err);

/* ---- latches and barriers ------------------------------------------------------ */

#define HF_PARTICIPANTS_MAX 256 /* that take part in one latch or barrier */
#define HF_PARTICIPANT_MAX  64  /* bytes of the name of one of them */

/*
 * A latch (HF_CAP_CELLS) is made for a count. Each who counts down is counted once,
 * however often it says so: a call that ended with HF_UNKNOWN is simply made again.
 * When so many have, the latch is open, for ever, and whoever waits or comes later
 * passes. `who` is a text of 1 to HF_PARTICIPANT_MAX bytes.
 *
 * Who joins before it begins to work holds a lease (released with hf_release() after
 * it has counted down) by which it is missed if it dies: then the latch is broken,
 * and all who wait, or come later, are told HF_BROKEN and by whom. Waiters look at
 * these leases once a second, at eight each; the rest of what they wait for wakes
 * them, with HF_CAP_CELL_WATCH by an event.
 *
 * HF_NOT_FOUND: there is no such latch. HF_MISMATCH: the name's cell is something
 * else, or hf_latch_create(): it is one of another count.
 */
HF_API hf_status hf_latch_create(hf_store *store, const void *name, size_t name_len, uint32_t count,
                                 hf_error *err);
/* *ret_left (may be NULL): how many have yet to; 0: it is open. */
HF_API hf_status hf_latch_count_down(hf_store *store, const void *name, size_t name_len,
                                     const char *who, uint32_t *ret_left, hf_error *err);
/* Waits at most wait_ms for the end of another life of `who` whose lease has not ended yet. */
HF_API hf_status hf_latch_join(hf_store *store, const void *name, size_t name_len, const char *who,
                               int64_t wait_ms, hf_cancel *cancel, hf_lease **ret_lease,
                               hf_error *err);
/* HF_OK: open. HF_TIMEOUT, HF_CANCELLED, HF_BROKEN. */
HF_API hf_status hf_latch_wait(hf_store *store, const void *name, size_t name_len, int64_t wait_ms,
                               hf_cancel *cancel, hf_error *err);
/* Its count, and how many have yet to count down; both may be NULL. HF_BROKEN: it is. */
HF_API hf_status hf_latch_get(hf_store *store, const void *name, size_t name_len,
                              uint32_t *ret_count, uint32_t *ret_left, hf_error *err);
/* Remove it; who waits for it is told HF_NOT_FOUND. */
HF_API hf_status hf_latch_delete(hf_store *store, const void *name, size_t name_len, hf_error *err);

/*
 * A barrier for `parties` (HF_CAP_CELLS): all wait until so many are there, and go
 * on together; then it is the next generation's. All must name the same number:
 * HF_MISMATCH. `who` (NULL: a name by chance) takes part once at a time; another life
 * of it whose lease has not ended yet is waited for.
 *
 * Somebody who dies while others wait breaks its generation: all of it are told
 * HF_BROKEN, with who it was, within a second or so after its lease has ended, and the
 * next who comes begins a new one. Who gives up (HF_TIMEOUT, HF_CANCELLED) has not
 * come, and the others go on waiting for somebody in its place; if all were there in
 * that moment it is HF_OK. HF_UNKNOWN: it may have been counted, and the others may have passed; also if the
 * store was away when it gave up.
 */
HF_API hf_status hf_barrier_wait(hf_store *store, const void *name, size_t name_len,
                                 uint32_t parties, const char *who, int64_t wait_ms,
                                 hf_cancel *cancel, hf_error *err);
/*
 * A double one: enter together, work, leave together. HF_OK: all are inside, and
 * *ret_party is a lease that hf_barrier_leave() ends. Who comes while others are
 * inside waits until they have left.
 */
HF_API hf_status hf_barrier_enter(hf_store *store, const void *name, size_t name_len,
                                  uint32_t parties, const char *who, int64_t wait_ms,
                                  hf_cancel *cancel, hf_lease **ret_party, hf_error *err);
/*
 * Leave, and wait until all have left. The handle has ended, whatever is returned.
 * HF_BROKEN: somebody was gone before it left; or it was we, by our lost lease.
 * HF_TIMEOUT, HF_CANCELLED: we have left all the same, and do not know about the rest.
 */
HF_API hf_status hf_barrier_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel,
                                  hf_error *err);

/* ---- elections ------------------------------------------------------------------ */

/*
 * Who holds the lock leads, and says so in the cell of the same name (HF_CAP_CELLS):
 * a few bytes, an address, say. A leader is one for as long as its lease is valid by
 * its own clock, which ends before the store lets another one lead: on_lost,
 * hf_lease_fd() and hf_lease_remaining_ms() tell. No leader's words ever cover those of a
 * later one.
 */
#define HF_ELECTION_MAX 32768 /* bytes of a value */

/*
 * Campaign: acquire as `request` says (a mutex or a writer), then proclaim `value`.
 * HF_OK: *ret_leader is a lease like any other; hf_election_resign() ends it. Other
 * statuses are those of hf_acquire() and of hf_election_set(); we do not lead
 * then. Who acquires asynchronously calls hf_election_set() when it has the lease.
 */
HF_API hf_status hf_election_campaign(hf_store *store, const hf_acquire_request *request,
                                      const void *value, size_t len, hf_lease **ret_leader,
                                      hf_error *err);
/*
 * Say something (else). HF_LOST: we do not lead any more. HF_FENCED: a later leader
 * has spoken. HF_UNKNOWN: the same call may be made again. HF_MISMATCH: the name's
 * cell is something else.
 */
HF_API hf_status hf_election_set(hf_lease *leader, const void *value, size_t len, hf_error *err);
/* Say that nobody leads, and release. The handle has ended, whatever is returned; a plain
 * hf_release() ends it too, and observers find out within a second. */
HF_API hf_status hf_election_resign(hf_lease *leader, hf_error *err);

/* What an observer sees; to be freed by hf_leader_free(). */
typedef struct hf_leader {
    int leads;         /* 0: nobody leads, and the next four are empty */
    uint64_t token;    /* 0 where the engine has none */
    const void *value; /* with a NUL behind it that value_len does not count */
    size_t value_len;
    const char *label;
    uint64_t version; /* of what was proclaimed last */
    uint64_t reserved[4];
} hf_leader;

/*
 * Wait until what there is to see differs from `last` (NULL: return at once), at
 * most wait_ms: another leader, another value, nobody. The change of the value wakes
 * (with HF_CAP_CELL_WATCH by an event); a leader that is gone without a word is
 * found by looking at its lease once a second (HF_CAP_INSPECT; else it is not found
 * before another one leads). What came and went in between is not seen. HF_TIMEOUT:
 * nothing new.
 */
HF_API hf_status hf_election_wait(hf_store *store, const void *name, size_t name_len,
                                  const hf_leader *last, int64_t wait_ms, hf_cancel *cancel,
                                  hf_leader **ret_leader, hf_error *err);
HF_API void hf_leader_free(hf_leader *leader); /* NULL is fine */

/* ---- once only ------------------------------------------------------------------- */

/*
 * Something that is to be done once only, by whoever comes first: a lock, and a
 * mark under its name, in a cell, that it has been done (HF_CAP_CELLS). Whoever
 * crashes before the mark is set has not done it, and the next one does it again;
 * so does who comes after a holder that lost its lease. What must not be done twice
 * even then has to check the token.
 */
typedef struct hf_once_mark {
    size_t size;    /* set by the caller: sizeof */
    uint64_t token; /* of the lease under which it was done */
    int64_t at_ms;  /* when, in ms since 1970, by the clock of who did it */
    int64_t ttl_ms; /* how long the mark will stay; -1: for ever */
    char label[HF_LABEL_MAX + 1];
    uint64_t reserved[4];
} hf_once_mark;
/* clang-format off */
#define HF_ONCE_MARK_INIT { .size = sizeof(hf_once_mark) }
/* clang-format on */

/*
 * Begin. HF_OK with a lease: it is ours to do; then hf_once_finish() and
 * hf_release(), or hf_release() alone: it is not done. HF_OK with *ret_lease NULL:
 * it has been done, and *ret_mark (may be NULL) says by whom. The request is that
 * of an acquire, of a mutex or a writer; while somebody else is at it we wait as
 * it says. for_ms: the mark stays for so long only (HF_CAP_CELL_TTL, else
 * HF_UNSUPPORTED); 0: for ever. Other statuses: those of hf_acquire() and
 * hf_once_claim().
 */
HF_API hf_status hf_once_begin(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                               hf_lease **ret_lease, hf_once_mark *ret_mark, hf_error *err);
/* Has it been done? A look only. */
HF_API hf_status hf_once_get(hf_store *store, const void *name, size_t name_len, int *ret_done,
                             hf_once_mark *ret_mark, hf_error *err);
/*
 * Begin under a lease that is held already (acquired asynchronously, say).
 * *ret_done 1: it has been done; the lease is still ours to release. HF_LOST: too
 * late. HF_FENCED: a later lease is at it. HF_MISMATCH: the name's cell is
 * something else.
 */
HF_API hf_status hf_once_claim(hf_lease *lease, int64_t for_ms, int *ret_done,
                               hf_once_mark *ret_mark, hf_error *err);
/*
 * It is done: set the mark. HF_OK also if the lease is lost but nobody has begun
 * after us. HF_FENCED: somebody has, and it is done once more. HF_UNKNOWN: the same
 * call may be made again. HF_INVALID: it was not begun under this lease.
 */
HF_API hf_status hf_once_finish(hf_lease *lease, hf_error *err);
/* Take the mark away: the next one does it again. HF_NOT_FOUND: there is none. */
HF_API hf_status hf_once_delete(hf_store *store, const void *name, size_t name_len, hf_error *err);

/* ---- asynchronous use --------------------------------------------------- */

typedef struct hf_op hf_op;

/* Called once from hf_store_process(). `lease` is set only with HF_OK of an acquire. */
typedef void hf_done_fn(hf_status status, hf_lease *lease, const hf_error *err, void *arg);

/*
 * Begin to acquire; `done` is called once, from hf_store_process(), and always later
 * than this call returns. The request is copied. Not HF_OK: nothing began and
 * `done` is not called. *ret_op (ret_op may be NULL) is good until then.
 */
HF_API hf_status hf_acquire_async(hf_store *store, const hf_acquire_request *request,
                                  hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err);
/* Begin to release; waits for nobody. The lease handle has ended when this returns HF_OK. Of a lost lease `done`
 * comes, with HF_LOST, after its on_lost callback has ended. */
HF_API hf_status hf_release_async(hf_lease *lease, hf_done_fn *done, void *arg, hf_error *err);
/* Ask for an early end; `done` still comes: HF_CANCELLED, or HF_OK if it was too late. */
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
