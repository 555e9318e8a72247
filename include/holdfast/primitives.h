/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: what is built on leases and on versioned cells: cells, counters, guarded resources,
 * rate limits, latches, barriers, elections, and work that is done once. The conventions of
 * holdfast.h apply.
 */
#ifndef HOLDFAST_PRIMITIVES_H
#define HOLDFAST_PRIMITIVES_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cells: bytes with a version -------------------------------------------- */

#define HF_CELL_MAX 65536 /* bytes of one cell */

/*
 * A cell is a few bytes under a name, in a store with HF_CAP_CELLS, and a version: a positive
 * number that every write changes and that never comes back, not even if the cell is deleted and
 * made again. That allows compare-and-swap: read, compute, and write only if the cell has not been
 * written since. Names of cells are separate from names of locks, but shared with the other things
 * made of cells (guarded resources, counters, ...): the cell of a name is one or the other.
 *
 * HF_UNSUPPORTED: the engine lacks HF_CAP_CELLS. HF_MISMATCH: the cell of this name is something
 * else. HF_UNKNOWN: a write may have been done, or may still be done when a late request arrives.
 */

typedef struct hf_cell {
    size_t size;
    void *bytes;      /* followed by a NUL that `len` does not count; to be freed by hf_free() */
    size_t len;       /* 0 to HF_CELL_MAX */
    uint64_t version; /* never 0 */
    int64_t ttl_ms;   /* left; -1: it has none */
    uint64_t reserved[3];
} hf_cell;
#define HF_CELL_INIT HF_INIT(hf_cell)

typedef enum hf_cell_action {
    HF_CELL_ACTION_LEAVE, /* write nothing; in a commit: only assert the version */
    HF_CELL_ACTION_WRITE,
    HF_CELL_ACTION_DELETE
} hf_cell_action;

/* What a callback of hf_cell_update() wants to happen. */
typedef struct hf_cell_change {
    size_t size;           /* set by the library */
    hf_cell_action action; /* HF_CELL_ACTION_LEAVE unless the callback says otherwise */
    const void *bytes;     /* WRITE: copied before the callback is called again */
    size_t len;
    int64_t ttl_ms; /* WRITE: as of hf_cell_request */
    uint64_t reserved[3];
} hf_cell_change;

/* Decide what becomes of the cell `old` (version 0, bytes NULL: there is none), and write it into
 * `change`. The callback may be called several times, each time with the present cell, and only
 * its last answer counts: it must have no side effects. If it returns another status than HF_OK,
 * hf_cell_update() ends with that status and writes nothing. It may call anything of this library
 * but hf_close(). */
typedef hf_status hf_cell_fn(const hf_cell *old, hf_cell_change *change, void *arg);

/* Fields that a call does not name are ignored. */
typedef struct hf_cell_request {
    size_t size;
    const void *name;  /* 1 to HF_NAME_MAX bytes */
    size_t name_len;   /* HF_CSTRING: it ends with a NUL */
    const void *bytes; /* set, swap: what to write */
    size_t len;        /* 0 to HF_CELL_MAX */
    /* Set, swap: the cell is deleted after this time (or a few seconds later where the engine
     * counts in seconds) unless it is written again. 0: never; else HF_TTL_MIN_MS to
     * HF_DURATION_MAX_MS, and only with HF_CAP_CELL_TTL (HF_UNSUPPORTED). */
    int64_t ttl_ms;
    uint64_t version; /* swap, wait: as a call here has returned it; 0: there is no cell */
    hf_cell_fn *fn;   /* update */
    void *fn_arg;
    int64_t wait_ms;   /* update, wait: 0: try once; HF_FOREVER; else at most this long */
    hf_cancel *cancel; /* update, wait: hf_cancel_fire() ends the waiting; NULL: none */
    uint64_t reserved[4];
} hf_cell_request;
#define HF_CELL_REQUEST_INIT HF_INIT(hf_cell_request)

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Read a cell. HF_OK: ret_cell->bytes are freed by hf_free(). HF_NOT_FOUND: there is none. */
HF_API HF_USE hf_status hf_cell_get(hf_store *store, const void *name, size_t name_len,
                                    hf_cell *ret_cell, hf_error *err);

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Write `bytes`, whatever is there. *ret_version (ret_version may be NULL) is the new version.
 * HF_BUSY: others kept writing it for seconds. */
HF_API HF_USE hf_status hf_cell_set(hf_store *store, const hf_cell_request *request,
                                    uint64_t *ret_version, hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Write `bytes` if the cell still has `version` (0: if there is none), atomically. *ret_version is
 * as for hf_cell_set(). HF_CHANGED: it has another version, or does not exist; nothing was done. */
HF_API HF_USE hf_status hf_cell_swap(hf_store *store, const hf_cell_request *request,
                                     uint64_t *ret_version, hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Delete the cell if it still has `version`. HF_CHANGED: it has another one, or does not exist;
 * nothing was done. */
HF_API HF_USE hf_status hf_cell_delete(hf_store *store, const void *name, size_t name_len,
                                       uint64_t version, hf_error *err);

/* Blocks: up to wait_ms. Callbacks: here. After fork: HF_FORKED.
 * Read the cell, let `fn` decide, and write if the cell has not been written in between; otherwise
 * begin again after a pause of random length, for at most wait_ms. *ret_version (may be NULL) is
 * the version that the cell has then, 0: none. HF_BUSY (wait_ms 0), HF_TIMEOUT: others were always
 * faster. HF_CANCELLED: `cancel` or hf_close() ended it between two tries. HF_UNKNOWN: the last
 * write may have been done. It is not tried again, because it could be done twice. */
HF_API HF_USE hf_status hf_cell_update(hf_store *store, const hf_cell_request *request,
                                       uint64_t *ret_version, hf_error *err);

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Wait until the version of the cell is not `version`; return at once if it is not already.
 * *ret_version is the present version, 0: the cell was deleted or its ttl ended. Changes in
 * between are not reported one by one. With HF_CAP_CELL_WATCH an event ends the wait; elsewhere
 * the cell is read repeatedly, at intervals that grow to a second at most. If the store becomes
 * unreachable, the call waits for it. HF_TIMEOUT: nothing changed. HF_CANCELLED: `cancel` or
 * hf_close() ended it. HF_UNAVAILABLE: the time is over, and the store is unreachable. */
HF_API HF_USE hf_status hf_cell_wait(hf_store *store, const hf_cell_request *request,
                                     uint64_t *ret_version, hf_error *err);

/* ---- several cells in one step ------------------------------------------------ */

#define HF_CELLS_MAX       64         /* items of one commit */
#define HF_CELLS_BYTES_MAX 524288     /* names and new bytes of all items together */
#define HF_CELL_ANY        UINT64_MAX /* `version`: whatever is there, also nothing */

/* One item of a commit. The action LEAVE only asserts the version. */
typedef struct hf_cell_item {
    size_t size;
    const void *name; /* 1 to HF_NAME_MAX bytes; no name twice in one list */
    size_t name_len;  /* HF_CSTRING: it ends with a NUL */
    /* The version that the cell must have, as a call here has returned it. 0: there must be no cell (LEAVE, WRITE). HF_CELL_ANY
     * (WRITE, DELETE): any, or none. */
    uint64_t version;
    hf_cell_action action;
    const void *bytes; /* WRITE */
    size_t len;        /* WRITE: 0 to HF_CELL_MAX */
    int64_t ttl_ms;    /* WRITE: as of hf_cell_request */
    uint64_t reserved[3];
} hf_cell_item;
#define HF_CELL_ITEM_INIT HF_INIT(hf_cell_item)

/*
 * Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Do all items, in one step for every other client, if the cell of each has the version that the
 * item expects; otherwise do nothing. 1 to HF_CELLS_MAX items of the same `size`. If all items
 * only assert (LEAVE), the call says whether what was read before existed together at one moment.
 *
 * HF_OK: ret_versions[i] (`count` of them; ret_versions may be NULL) is the version that the cell
 * of items[i] has now, 0: none. HF_CHANGED: nothing was done. *ret_index (may be NULL) is the
 * first item whose cell has another version, and ret_versions[*ret_index] is that version, 0: it
 * does not exist. HF_BUSY: others kept writing cells of HF_CELL_ANY items for seconds.
 * HF_MISMATCH: the cell of an HF_CELL_ANY item belongs to another primitive. HF_INVALID: the text
 * names the item and its field; or the names are in different slots of a Redis Cluster (one {tag}
 * in prefix= keeps all names of a store in one slot). HF_UNSUPPORTED: the engine has no
 * transactions (memcached), or no cells; the text says which. HF_UNKNOWN: all or nothing was done,
 * and it is not known which.
 *
 * If the answer to a commit is lost, the library sends it again at the same versions, for some
 * seconds at most, and two copies are never both done. (A commit that only makes cells is not sent
 * again.) HF_UNKNOWN is the answer if that does not settle it. The caller may commit the same
 * items again (without HF_CELL_ANY): they are never done twice, but HF_CHANGED then does not say
 * whether the first call did them. Only an id of the caller's own in one of the cells says so.
 */
HF_API HF_USE hf_status hf_cells_commit(hf_store *store, const hf_cell_item *items, size_t count,
                                        uint64_t *ret_versions, size_t *ret_index, hf_error *err);

/* ---- counters ---------------------------------------------------------------- */

/*
 * A counter is a 64-bit number under a name, in a store with HF_CAP_CELLS; one that does not exist
 * is 0. Each call is atomic. On Redis it is one command (INCRBY on the key "hf:{NAME}:c", which
 * redis-cli can read too); elsewhere it is a cell that is read and swapped, again if another
 * client was faster.
 *
 * hf_counter_add() adds any number, also a negative one. hf_counter_swap() sets the counter if it
 * is `expected`; *ret_current is its value afterwards, also with HF_CHANGED. hf_counter_delete()
 * is HF_OK also if the counter did not exist. ret_value of hf_counter_add() and ret_current may be
 * NULL.
 *
 * HF_CHANGED: it is not `expected`; nothing was done. HF_OVERFLOW: the sum would leave the range;
 * nothing was done. HF_MISMATCH: the name is a cell of another kind, or in Redis a key that is not
 * a number. HF_BUSY: others kept changing it for some seconds; nothing was done. HF_UNAVAILABLE:
 * nothing was done. HF_UNKNOWN: the answer was lost: it may have been done, once, or may still be
 * done. It is never sent twice, because it could count twice, and the library settles nothing in
 * the background: only the caller can know what to do. HF_UNSUPPORTED: the engine lacks
 * HF_CAP_CELLS.
 */

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED. */
HF_API HF_USE hf_status hf_counter_add(hf_store *store, const void *name, size_t name_len,
                                       int64_t delta, int64_t *ret_value, hf_error *err);
HF_API HF_USE hf_status hf_counter_get(hf_store *store, const void *name, size_t name_len,
                                       int64_t *ret_value, hf_error *err);
HF_API HF_USE hf_status hf_counter_set(hf_store *store, const void *name, size_t name_len,
                                       int64_t value, hf_error *err);
HF_API HF_USE hf_status hf_counter_swap(hf_store *store, const void *name, size_t name_len,
                                        int64_t expected, int64_t value, int64_t *ret_current,
                                        hf_error *err);
HF_API HF_USE hf_status hf_counter_delete(hf_store *store, const void *name, size_t name_len,
                                          hf_error *err);

/* ---- guarding a resource -------------------------------------------------- */

#define HF_GUARD_MAX 65536 /* bytes of one guarded resource */

/*
 * A guarded resource is a few bytes under a name, in a store with HF_CAP_CELLS. It remembers the
 * highest token that it has seen and refuses every lower one. So it is safe from a holder that was
 * paused until after the end of its lease, and from a second holder that the store of the lock let
 * in by mistake. The tokens of one resource must all be of one lock name in one store, which may
 * be another store than `at`. A resource is never deleted: the highest token would be lost with
 * it.
 *
 * HF_FENCED: a higher token has been used; nothing was changed. Stop: the lease belongs to another
 * holder. HF_UNKNOWN: it may have been done or not. HF_BUSY: others kept changing the resource.
 * HF_MISMATCH: the cell of this name is something else. HF_UNSUPPORTED: the engine lacks
 * HF_CAP_CELLS.
 */

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Present the token and read, atomically: from then on no lower token is accepted. Claim before
 * reading: a holder that reads first and claims afterwards may have read a value that an older
 * holder changed in between. HF_OK: *ret_bytes, to be freed by hf_free(), is what the last write
 * left, followed by a NUL that *ret_len does not count. If nothing was ever written, *ret_bytes is
 * NULL and *ret_len 0. Both parameters may be NULL: then the call only claims. */
HF_API HF_USE hf_status hf_guard_claim(hf_store *at, const void *name, size_t name_len,
                                       uint64_t token, void **ret_bytes, size_t *ret_len,
                                       hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Replace the bytes if no higher token has been seen, atomically, and present the token as a claim
 * does. */
HF_API HF_USE hf_status hf_guard_set(hf_store *at, const void *name, size_t name_len,
                                     uint64_t token, const void *bytes, size_t len, hf_error *err);

/* The dialect of the database. That of MySQL is also that of MariaDB. */
typedef enum hf_sql_dialect {
    HF_SQL_DIALECT_POSTGRESQL = 1,
    HF_SQL_DIALECT_MYSQL = 2
} hf_sql_dialect;

/* Run one statement on the caller's connection, inside the caller's transaction. If the statement
 * returns a row, *ret_number is the number in its first column. Return 0 if it was done, anything
 * else if it failed. */
typedef int hf_sql_fn(const char *sql, int64_t *ret_number, void *arg);

typedef struct hf_guard_sql_request {
    size_t size;
    hf_sql_dialect dialect; /* of the database of the rows */
    const char *table; /* one row for each name: hf_guard_sql_schema(); NULL: "holdfast_guard" */
    const void *name;  /* what is guarded: 1 to HF_NAME_MAX bytes */
    size_t name_len;   /* HF_CSTRING: it ends with a NUL */
    uint64_t token;    /* of the lease, as hf_lease_fence() returned it */
    hf_sql_fn *run;    /* runs each statement of the claim */
    void *run_arg;
    uint64_t reserved[4];
} hf_guard_sql_request;
#define HF_GUARD_SQL_REQUEST_INIT HF_INIT(hf_guard_sql_request)

/*
 * Blocks: for as long as `run` does. Callbacks: here. After fork: works.
 * Claim a token for rows of a database that a lock protects: in the transaction that will read and
 * write them, before it reads. The tokens of one name must all be of one lock name in one store.
 * The call needs no store. **Rows that another transaction writes than the one that claimed are
 * not protected.**
 *
 * HF_OK: no other transaction claims this name until this one ends, and after its commit no lower
 * token is accepted. HF_FENCED: a higher token has been used, so the lease belongs to another
 * holder; roll back. HF_UNAVAILABLE: `run` failed; roll back.
 */
HF_API HF_USE hf_status hf_guard_claim_sql(const hf_guard_sql_request *request, hf_error *err);
/* Blocks: no. Callbacks: none. After fork: works.
 * The statement that makes the table "holdfast_guard". NULL: no such dialect. */
HF_API HF_USE const char *hf_guard_sql_schema(hf_sql_dialect dialect);

/* ---- a lock inside the caller's own transaction ------------------------------------- */

typedef struct hf_sql_lock_request {
    size_t size;
    const char *url;  /* of the store whose names these are; it is read, and not connected to */
    const void *name; /* 1 to HF_NAME_MAX bytes */
    size_t name_len;  /* HF_CSTRING: it ends with a NUL */
    hf_kind kind;     /* HF_KIND_MUTEX and HF_KIND_EXCLUSIVE: alone; HF_KIND_SHARED: a reader */
    int64_t wait_ms;  /* 0: try; HF_FOREVER: for as long as the server lets a statement wait */
    hf_sql_fn *run;   /* hf_sql_lock() only */
    void *run_arg;
    uint64_t reserved[4];
} hf_sql_lock_request;
#define HF_SQL_LOCK_REQUEST_INIT HF_INIT(hf_sql_lock_request)

/*
 * Blocks: for as long as `run` does. Callbacks: here. After fork: works.
 * Lock a name for the rest of the transaction in which `run` runs, on the caller's own connection.
 * The connection may go through a pooler of transactions (pgbouncer). The lock ends with the
 * transaction and nothing else ends it: it has no ttl, no token and no handle. Outside a
 * transaction it ends with its statement.
 *
 * mode= in the URL chooses the lock. mode=session, PostgreSQL: the advisory lock that this name
 * has in mode=session of the same schema= and prefix=, so it and the leases of such stores exclude
 * each other. mode=row: the row of this name in the table of mode=row, which must exist
 * (hf_sql_get_schema()). mode=lease: as mode=session on PostgreSQL, as mode=row on MariaDB; it is
 * independent of the leases of that mode.
 *
 * HF_OK: locked. HF_BUSY: wait_ms is 0, and another transaction has it; this one may go on.
 * HF_UNAVAILABLE: `run` failed (a lock_timeout, a deadlock that the server found, ...): roll back.
 * HF_INVALID: the text names the field. HF_UNSUPPORTED: mode=session on MariaDB, whose session
 * locks do not end with a transaction; or the URL is that of another engine.
 *
 * Lock before you read. Then the transaction reads what others committed before their locks ended:
 * on PostgreSQL in READ COMMITTED, on MariaDB in any level, but not after a try in the same
 * transaction that was HF_BUSY. (In a higher level of PostgreSQL the snapshot is that of the first
 * statement, which is the lock itself, and may be older than the grant.) The row of a name is made
 * at its first use: a try may then wait for another transaction that is just making it.
 */
HF_API HF_USE hf_status hf_sql_lock(const hf_sql_lock_request *request, hf_error *err);
/* Blocks: no. Callbacks: none. After fork: works.
 * The statements of hf_sql_lock() as text, each followed by ";\n", for a program that sends them
 * itself; `run` is not used. The last one returns a row with a 1 if the name is locked; for a try,
 * a 0 or no row if it is busy. *ret_sql is freed by hf_free(). */
HF_API HF_USE hf_status hf_sql_get_lock(const hf_sql_lock_request *request, char **ret_sql,
                                        hf_error *err);

/* ---- rate limits -------------------------------------------------------------- */

typedef enum hf_limit_algorithm {
    HF_LIMIT_ALGORITHM_FIXED = 0,   /* a window begins with its first call; then the next one */
    HF_LIMIT_ALGORITHM_SLIDING = 1, /* never more than `rate` in any interval of per_ms */
    HF_LIMIT_ALGORITHM_BUCKET = 2   /* `burst` at once, refilled at `rate` in per_ms */
} hf_limit_algorithm;

#define HF_LIMIT_SLIDING_MAX 4096 /* largest rate of a sliding window: it remembers every grant */

typedef struct hf_limit_request {
    size_t size;
    const void *name; /* 1 to HF_NAME_MAX bytes */
    size_t name_len;  /* HF_CSTRING: it ends with a NUL */
    hf_limit_algorithm algorithm;
    uint32_t rate; /* permits in per_ms */
    int64_t per_ms;
    uint32_t burst;    /* bucket only: the most at once; 0: `rate` */
    uint32_t permits;  /* to be taken, all or none; 0 means 1 */
    int64_t wait_ms;   /* 0: try once; HF_FOREVER; else at most this long */
    hf_cancel *cancel; /* hf_cancel_fire() ends the waiting; NULL: none */
    uint64_t reserved[6];
} hf_limit_request;
#define HF_LIMIT_REQUEST_INIT HF_INIT(hf_limit_request)

typedef struct hf_limit_result {
    size_t size;
    uint64_t left;     /* permits that could be taken at once, after this call */
    int64_t refill_ms; /* until all are available again, if none is taken */
    int64_t waited_ms; /* how long this call slept */
    int64_t retry_ms;  /* refused: the wait_ms that would have been enough; else 0 */
    int64_t at_us;     /* granted: when, by the store's clock, in microseconds since 1970 */
    int64_t per_ms;    /* the rule in force: `rate` permits in per_ms */
    uint32_t rate;
    uint32_t burst; /* bucket only */
    hf_limit_algorithm algorithm;
    bool is_set; /* it was set by hf_limit_set() */
    uint64_t reserved[1];
} hf_limit_result;
#define HF_LIMIT_RESULT_INIT HF_INIT(hf_limit_result)

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Take permits of a rate limit. A limit exists by being used: name, algorithm, rate, per_ms and
 * burst are the same in all requests that share it. A rule that was set (hf_limit_set()) replaces
 * rate, per_ms and burst of the request. Only the clock of the store counts.
 *
 * A waiting call reserves its slot at once: the store returns the time at which it may proceed,
 * and the call sleeps until then. Slots are given in the order in which calls reach the store, so
 * no call is overtaken, and a call that may not wait is refused while others wait. If a waiter
 * dies, or is cancelled too late for its permits to be given back, the permits are used. A call
 * may return late (a slow network, a busy machine), but never before its slot.
 *
 * HF_OK: taken. HF_BUSY: wait_ms is 0, and it would have to wait. HF_TIMEOUT: it would have to
 * wait longer than wait_ms; returned at once, and nothing is reserved. HF_CANCELLED: by `cancel`
 * or hf_close(). HF_MISMATCH: the limit is in use with another algorithm, rate, per_ms or burst
 * (until it has refilled); or the rule that was set has another algorithm, or never has as many
 * permits; or the cell of this name is something else. HF_INVALID: the text names the field; or
 * more permits than the limit ever has. HF_UNKNOWN: the permits may have been taken.
 * HF_UNSUPPORTED: the engine lacks HF_CAP_CELLS or HF_CAP_CLOCK.
 *
 * *ret_result, which may be NULL, is filled in for HF_OK, HF_BUSY and HF_TIMEOUT.
 */
HF_API HF_USE hf_status hf_limit_take(hf_store *store, const hf_limit_request *limit,
                                      hf_limit_result *ret_result, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Return how many permits are left, when the limit refills, and its rule. Nothing is taken;
 * permits, wait_ms and cancel are ignored. With rate 0 the call returns the limit as the store has
 * it, whatever its rule is. HF_NOT_FOUND (rate 0): all permits are there, and no rule was set. */
HF_API HF_USE hf_status hf_limit_get(hf_store *store, const hf_limit_request *limit,
                                     hf_limit_result *ret_result, hf_error *err);
/*
 * Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Set rate, per_ms and burst of a limit, also while it is in use. The store keeps the rule, also
 * when the limit is idle, and uses it instead of what requests say until it is set again; with
 * rate 0: until the next request, which brings its own rule. permits, wait_ms and cancel are
 * ignored.
 *
 * Used permits stay used. FIXED: the window that has begun keeps its beginning and its count.
 * SLIDING: the new rule judges the grants that are remembered. BUCKET: missing permits stay
 * missing, but no more than the new burst, and come back at the new rate. A slot that a waiting
 * call has reserved stays, and no later call gets an earlier one: the new rule begins after the
 * last reserved slot. Permits that were reserved in a fixed window or a bucket can no longer be
 * given back.
 *
 * HF_OK: *ret_result, which may be NULL, is what hf_limit_get() would return; with rate 0 it is
 * only cleared. HF_MISMATCH: the limit is in use, or set, with another algorithm; or calls have
 * reserved further ahead than the new rule can count exactly. HF_UNKNOWN: it may have been set;
 * set it again. Clients that were built before this call existed get HF_VERSION from a limit that
 * is set.
 */
HF_API HF_USE hf_status hf_limit_set(hf_store *store, const hf_limit_request *limit,
                                     hf_limit_result *ret_result, hf_error *err);

/* ---- latches and barriers ------------------------------------------------------ */

#define HF_PARTICIPANTS_MAX 256 /* of one latch or barrier */
#define HF_PARTICIPANT_MAX  64  /* bytes of the name of one of them */

/* Fields that a call does not name are ignored. */
typedef struct hf_party_request {
    size_t size;
    const void *name; /* of the latch or barrier: 1 to HF_NAME_MAX bytes */
    size_t name_len;  /* HF_CSTRING: it ends with a NUL */
    /* Latch join, barriers: identifies the participant, a text of 1 to HF_PARTICIPANT_MAX bytes.
     * NULL, for barriers only: a random id. With `name` it has at most HF_NAME_MAX - 1 bytes. If an
     * earlier incarnation still holds its lease, the call waits until that lease ends. */
    const char *who;
    uint32_t parties;  /* barriers: how many; the same in all requests, else HF_MISMATCH */
    int64_t wait_ms;   /* 0: try once; HF_FOREVER; else at most this long */
    hf_cancel *cancel; /* hf_cancel_fire() ends the waiting; NULL: none */
    /* hf_latch_join(), hf_barrier_enter(): what happens to the lease that they return, as in
     * hf_acquire_request; NULL: none. HF_INVALID for calls that return none. */
    hf_event_fn *on_event;
    void *on_event_arg;
    /* Latch join, barriers: the ttl of the participant's lease. If the participant dies, the others
     * notice when the lease has ended. 0: the default of the store (with a server mostly 30 s);
     * else as in hf_acquire_request. */
    int64_t ttl_ms;
    uint64_t reserved[1];
} hf_party_request;
#define HF_PARTY_REQUEST_INIT HF_INIT(hf_party_request)

/*
 * A latch (HF_CAP_CELLS) is made for a count. Each participant is counted once, however often it
 * counts down: a call that ended with HF_UNKNOWN is made again. When that many participants have
 * counted down, the latch is open for good, and every present and later waiter passes.
 *
 * A participant that joins before it begins to work holds a lease, and releases it with
 * hf_release() after it has counted down. If that lease ends before, the latch is broken, and
 * every present and later waiter gets HF_BROKEN with the name of the participant. Waiters check
 * these leases once a second, eight each; every other change wakes them (with HF_CAP_CELL_WATCH by
 * an event).
 */

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Make a latch for `count` participants, 1 to HF_PARTICIPANTS_MAX. HF_OK: also if there is one with
 * this count. HF_MISMATCH: there is one with another count, or the cell of this name is something
 * else. */
HF_API HF_USE hf_status hf_latch_create(hf_store *store, const void *name, size_t name_len,
                                        uint32_t count, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Count down for `who`, as in hf_party_request. *ret_left (may be NULL): how many are missing; 0:
 * the latch is open. HF_BROKEN: a participant died before; this call was not counted.
 * HF_NOT_FOUND: there is no such latch. HF_FULL: it has HF_PARTICIPANTS_MAX other participants. */
HF_API HF_USE hf_status hf_latch_count_down(hf_store *store, const void *name, size_t name_len,
                                            const char *who, uint32_t *ret_left, hf_error *err);
/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Join as `who`, before beginning to work. *ret_lease is an ordinary lease. HF_BUSY (wait_ms 0),
 * HF_TIMEOUT, HF_CANCELLED: an earlier incarnation of `who` still holds its lease. HF_BROKEN,
 * HF_NOT_FOUND, HF_FULL: as of hf_latch_count_down(); nothing is held. */
HF_API HF_USE hf_status hf_latch_join(hf_store *store, const hf_party_request *request,
                                      hf_lease **ret_lease, hf_error *err);
/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Wait until the latch is open. HF_OK: it is open. HF_TIMEOUT, HF_CANCELLED: it was not opened in
 * time. HF_BROKEN: a participant died; the text names it. HF_NOT_FOUND: there is no such latch, or
 * it was deleted. */
HF_API HF_USE hf_status hf_latch_wait(hf_store *store, const hf_party_request *request,
                                      hf_error *err);
/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * The count of a latch, and how many participants are missing; both parameters may be NULL.
 * HF_BROKEN: the latch is broken. HF_NOT_FOUND: there is no such latch. */
HF_API HF_USE hf_status hf_latch_get(hf_store *store, const void *name, size_t name_len,
                                     uint32_t *ret_count, uint32_t *ret_left, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Delete a latch; its waiters get HF_NOT_FOUND. HF_NOT_FOUND: there is no such latch. */
HF_API HF_USE hf_status hf_latch_delete(hf_store *store, const void *name, size_t name_len,
                                        hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * A barrier (HF_CAP_CELLS) for `parties`: each call waits until that many have come, and all
 * proceed together; then the next generation may come. `who` takes part once at a time.
 *
 * HF_OK: all have come. HF_BROKEN: a participant died while others waited; the text names it. All
 * of its generation get this within about a second after its lease has ended, and the next
 * participant begins a new generation. HF_TIMEOUT, HF_CANCELLED: this participant has given up and
 * does not count; the others go on waiting for another one in its place. (If all had come at that
 * moment, the status is HF_OK.) HF_UNKNOWN: it may have been counted, and the others may have
 * passed; also if the store was unreachable when it gave up. HF_BUSY: wait_ms is 0, and an earlier
 * incarnation of `who` still holds its lease. HF_MISMATCH: another number of `parties`, or the cell
 * of this name is something else.
 */
HF_API HF_USE hf_status hf_barrier_wait(hf_store *store, const hf_party_request *request,
                                        hf_error *err);
/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * A double barrier: enter together, work, leave together. A participant that comes while others are
 * inside waits until they have left. The statuses are those of hf_barrier_wait(). HF_OK: all are
 * inside, and *ret_party is a lease that hf_barrier_leave() ends. */
HF_API HF_USE hf_status hf_barrier_enter(hf_store *store, const hf_party_request *request,
                                         hf_lease **ret_party, hf_error *err);
/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Leave, and wait until all have left. The handle has ended, whatever the status (but HF_FORKED and
 * HF_INVALID: not a lease of hf_barrier_enter()). HF_BROKEN: a participant died before it left, or
 * the lease of the caller was lost. HF_TIMEOUT, HF_CANCELLED:
 * the caller has left all the same, and nothing is known about the others. HF_UNKNOWN: it may have
 * been the last to leave. */
HF_API hf_status hf_barrier_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel,
                                  hf_error *err);

/* ---- elections ------------------------------------------------------------------ */

/*
 * The holder of the lock is the leader, and publishes a value (an address, for example) in the
 * cell of the same name (HF_CAP_CELLS). A leader leads while its lease is valid by its own clock,
 * which ends before the store lets another one lead: on_event, hf_lease_fd() and
 * hf_lease_remaining_ms() report it. A former leader can never overwrite the value of a later one.
 */

#define HF_ELECTION_MAX 32768 /* bytes of a value */

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Acquire as `request` says (a mutex or a writer), then publish `value`. A status that is not HF_OK
 * is one of hf_acquire() or of hf_election_set(); the caller does not lead then. HF_OK: the caller
 * leads. *ret_leader is a lease like any other; hf_election_resign() ends it. */
HF_API HF_USE hf_status hf_election_campaign(hf_store *store, const hf_acquire_request *request,
                                             const void *value, size_t len, hf_lease **ret_leader,
                                             hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Publish another value; also the first one, under a lease that was acquired asynchronously.
 * HF_LOST: the caller does not lead any more. HF_FENCED: a later leader has published. HF_UNKNOWN:
 * the same call may be made again. HF_MISMATCH: the cell of this name is something else. */
HF_API HF_USE hf_status hf_election_set(hf_lease *leader, const void *value, size_t len,
                                        hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Publish that nobody leads, and release. The handle has ended, whatever the status. If the release
 * is not HF_OK, its status is returned. Otherwise the lease was released, and a status that is not
 * HF_OK, as of hf_election_set(), says why the value is still there. A plain hf_release() also ends
 * the leadership; observers then find out within a second. */
HF_API hf_status hf_election_resign(hf_lease *leader, hf_error *err);

/* What an observer sees. It is freed by hf_free(). */
typedef struct hf_leader {
    bool leads;        /* false: nobody leads, and the next four are empty */
    uint64_t token;    /* 0 where the engine has none */
    const void *value; /* followed by a NUL that value_len does not count */
    size_t value_len;
    const char *label;
    uint64_t version; /* of what was published last */
} hf_leader;

typedef struct hf_election_request {
    size_t size;
    const void *name;      /* 1 to HF_NAME_MAX bytes */
    size_t name_len;       /* HF_CSTRING: it ends with a NUL */
    const hf_leader *last; /* what was seen last; NULL: return at once */
    int64_t wait_ms;       /* 0: try once; HF_FOREVER; else at most this long */
    hf_cancel *cancel;     /* hf_cancel_fire() ends the waiting; NULL: none */
    uint64_t reserved[4];
} hf_election_request;
#define HF_ELECTION_REQUEST_INIT HF_INIT(hf_election_request)

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Wait until the election differs from `last`: another leader, another value, no leader. A change
 * of the value ends the wait, with HF_CAP_CELL_WATCH by an event. A leader that died is found by
 * looking at its lease once a second (HF_CAP_INSPECT; without it only when another one leads).
 * Changes in between are not reported one by one. HF_TIMEOUT: nothing new. */
HF_API HF_USE hf_status hf_election_wait(hf_store *store, const hf_election_request *request,
                                         hf_leader **ret_leader, hf_error *err);

/* ---- cells that end with a lease ------------------------------------------------------ */

/*
 * A cell that is bound to an exclusive lease, and gone when the lease ends: by hf_release(), its
 * ttl, hf_lease_break(), or the death of its process. A reader asks the store whether the lease
 * still exists, so the cell is never shown after the end of the lease in the store. Names are
 * those of cells; hf_cell_get() of such a cell is HF_MISMATCH, and so is hf_lease_cell_get() of
 * any other. A lease with such a cell is not passed on within the process, and does not linger.
 * What is left of a cell after its lease stays in the store, unseen, until the name is bound again
 * or the cell is deleted; until then hf_cell_set() of its name is HF_MISMATCH.
 *
 * HF_UNSUPPORTED: the engine lacks HF_CAP_CELLS, HF_CAP_INSPECT or HF_CAP_TOKEN; or the lease is
 * one of several that may overlap.
 */

#define HF_LEASE_CELL_MAX 32768 /* bytes */

/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Write `bytes` into the cell `name`, for the life of `lease`. A lease may have any number of
 * cells, and each may be written again. HF_BUSY: the cell is bound to another lease, which is
 * held. HF_LOST: the lease is lost. HF_UNKNOWN: the same call may be made again. */
HF_API HF_USE hf_status hf_lease_cell_set(hf_lease *lease, const void *name, size_t name_len,
                                          const void *bytes, size_t len, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Read the cell, as hf_cell_get() does. HF_NOT_FOUND: there is none, or its lease has ended. */
HF_API HF_USE hf_status hf_lease_cell_get(hf_store *store, const void *name, size_t name_len,
                                          hf_cell *ret_cell, hf_error *err);

/* ---- members of a group ------------------------------------------------------------ */

/*
 * A list of the members that are alive. A group is a read-write lock (HF_CAP_SHARED,
 * HF_CAP_INSPECT, HF_CAP_TOKEN), and a member is one of its readers: it is a member for exactly as
 * long as its lease is in the store, whether the lease is released, expires, is broken or ends
 * with its process. A writer of the same name waits until the group is empty, and keeps others
 * from joining.
 *
 * With HF_CAP_CELLS each member writes the cell of the group's name when it joins and when it
 * leaves, which wakes calls that wait in hf_members_wait(): by an event with HF_CAP_CELL_WATCH. A
 * member that died is found by a look once a second, after the store has ended its lease. Use the
 * cell of that name for nothing else: otherwise joins and leaves, too, are found only by that
 * look.
 */

/* One member. */
typedef struct hf_member {
    uint64_t token; /* of its lease: no other member ever has it */
    const char *value;
    int64_t age_ms;
    int64_t ttl_ms; /* left; -1: none */
    int64_t pid;    /* 0: unknown, or in another PID namespace */
} hf_member;

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Join the group that is the name in `request`, as `value`: a text of at most HF_LABEL_MAX bytes
 * without control characters, an address for example (NULL: the label of the store). The kind is
 * HF_KIND_SHARED, or 0. The label is not used, and membership takes no part in deadlock detection.
 * The statuses are those of hf_acquire(). HF_OK: *ret_member is a lease like any other;
 * hf_member_leave() ends it. HF_UNSUPPORTED: the engine cannot hold groups. */
HF_API HF_USE hf_status hf_member_join(hf_store *store, const hf_acquire_request *request,
                                       const char *value, hf_lease **ret_member, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Release, and tell those that watch. The status is that of hf_release(), and the handle has
 * ended. A plain hf_release() leaves the group too; that is found within a second. */
HF_API hf_status hf_member_leave(hf_lease *member, hf_error *err);

typedef struct hf_members hf_members;

typedef struct hf_members_request {
    size_t size;
    const void *name;       /* of the group: 1 to HF_NAME_MAX bytes */
    size_t name_len;        /* HF_CSTRING: it ends with a NUL */
    const hf_members *last; /* what was seen last; NULL: return at once */
    int64_t wait_ms;        /* 0: look once; HF_FOREVER; else at most this long */
    hf_cancel *cancel;      /* hf_cancel_fire() ends the waiting; NULL: none */
    uint64_t reserved[4];
} hf_members_request;
#define HF_MEMBERS_REQUEST_INIT HF_INIT(hf_members_request)

/* Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * List the members, as of one moment; with `last`, wait until they differ from it. *ret_members is
 * freed by hf_free(). Members that joined and left in between are not seen. HF_TIMEOUT: nobody has
 * joined or left. */
HF_API HF_USE hf_status hf_members_wait(hf_store *store, const hf_members_request *request,
                                        hf_members **ret_members, hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * The members of a list, sorted by token: the oldest first where tokens grow. All of it lives as
 * long as the list. NULL: no such index. */
HF_API HF_USE size_t hf_members_count(const hf_members *members);
HF_API HF_USE const hf_member *hf_members_item(const hf_members *members, size_t index);

/* ---- once only ------------------------------------------------------------------- */

/*
 * Work that is to be done once: a lock, and a mark under its name, in a cell, that says that the
 * work has been done (HF_CAP_CELLS). If a worker crashes before the mark is set, the work is not
 * done, and the next worker does it again; so does a worker that comes after one that lost its
 * lease. **Work that must not be done twice even then has to check the token.**
 */

/* The mark of work that has been done: when, and under which lease. */
typedef struct hf_once_mark {
    size_t size;
    uint64_t token; /* of the lease under which it was done */
    int64_t at_ms;  /* when, in ms since 1970, by the clock of the process that did it */
    int64_t ttl_ms; /* how long the mark will stay; -1: it does not end */
    char label[HF_LABEL_MAX + 1];
    uint64_t reserved[4];
} hf_once_mark;
#define HF_ONCE_MARK_INIT HF_INIT(hf_once_mark)

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: HF_FORKED.
 * Begin. The request is that of an acquire, of a mutex or a writer; while another worker is at it,
 * the call waits as the request says. for_ms: how long the mark stays once it is set,
 * HF_TTL_MIN_MS to HF_DURATION_MAX_MS (HF_UNSUPPORTED without HF_CAP_CELL_TTL); 0: it does not
 * end. The statuses are those of hf_acquire() and hf_once_claim(), and HF_DONE.
 *
 * HF_OK: do the work; then hf_once_finish() and hf_release(). hf_release() alone: the work is not
 * done. HF_DONE: it has been done before; there is no lease, and *ret_mark (may be NULL) says by
 * whom.
 */
HF_API HF_USE hf_status hf_once_begin(hf_store *store, const hf_acquire_request *request,
                                      int64_t for_ms, hf_lease **ret_lease, hf_once_mark *ret_mark,
                                      hf_error *err);
/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Read the mark. HF_OK: the work has been done, and *ret_mark (may be NULL) says by whom.
 * HF_NOT_FOUND: it has not. */
HF_API HF_USE hf_status hf_once_get(hf_store *store, const void *name, size_t name_len,
                                    hf_once_mark *ret_mark, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Begin under a lease that is held already (one that was acquired asynchronously, for example).
 * HF_OK: do the work. HF_DONE: it has been done, and *ret_mark (may be NULL) says by whom; the
 * caller still releases the lease. HF_LOST: too late. HF_FENCED: a later lease has begun.
 * HF_MISMATCH: the cell of this name is something else. */
HF_API HF_USE hf_status hf_once_claim(hf_lease *lease, int64_t for_ms, hf_once_mark *ret_mark,
                                      hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * The work is done: set the mark. HF_OK: set; also if the lease is lost but no other worker has
 * begun since. HF_FENCED: another worker has begun, and the work is done once more. HF_LOST: the
 * lease is lost, and without tokens (HF_CAP_TOKEN), or after hf_once_delete(), it is not known
 * whether another worker has begun. HF_UNKNOWN: the same call may be made again. HF_INVALID: the
 * work was not begun under this lease. */
HF_API HF_USE hf_status hf_once_finish(hf_lease *lease, hf_error *err);
/* Blocks: for some round trips. Callbacks: none. After fork: HF_FORKED.
 * Delete the mark: the next worker does the work again. HF_NOT_FOUND: there is none. */
HF_API HF_USE hf_status hf_once_delete(hf_store *store, const void *name, size_t name_len,
                                       hf_error *err);

/* ---- asynchronous forms --------------------------------------------------------- */

/*
 * Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * Each call above that blocks, without a thread (see "asynchronous use" in holdfast.h). All inputs
 * are copied; hf_op_cancel() and the canceller end a wait. `fn` of hf_cell_update_async() runs in
 * hf_store_process() too. hf_barrier_leave_async() and hf_election_resign_async() end the lease
 * only if they return HF_OK. What a result has beside status and error:
 *
 *   cell_get             bytes, len, version; number: the ttl that is left
 *   cell_set             version
 *   cell_swap            version
 *   cell_update          version
 *   cell_wait            version
 *   cells_commit         versions, count; with HF_CHANGED the index in number, and version
 *   counter_add          number
 *   counter_get          number
 *   counter_set          number
 *   counter_swap         number, also with HF_CHANGED
 *   guard_claim          bytes, len
 *   limit_take           limit, also if the limit refused it
 *   limit_get            limit
 *   limit_set            limit
 *   latch_count_down     number: how many are missing
 *   latch_get            count; number: how many are missing
 *   latch_join           lease
 *   barrier_enter        lease
 *   election_campaign    lease
 *   election_wait        leader
 *   lease_cell_get       bytes, len, version
 *   member_join          lease
 *   members_wait         members
 *   once_begin           lease; mark, with HF_DONE
 *   once_claim           mark, with HF_DONE
 *   once_get             mark
 */
HF_API HF_USE hf_status hf_cell_get_async(hf_store *store, const void *name, size_t name_len,
                                          hf_done_fn *done, void *arg, hf_op **ret_op,
                                          hf_error *err);
HF_API HF_USE hf_status hf_cell_set_async(hf_store *store, const hf_cell_request *request,
                                          hf_done_fn *done, void *arg, hf_op **ret_op,
                                          hf_error *err);
HF_API HF_USE hf_status hf_cell_swap_async(hf_store *store, const hf_cell_request *request,
                                           hf_done_fn *done, void *arg, hf_op **ret_op,
                                           hf_error *err);
HF_API HF_USE hf_status hf_cell_update_async(hf_store *store, const hf_cell_request *request,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);
HF_API HF_USE hf_status hf_cell_wait_async(hf_store *store, const hf_cell_request *request,
                                           hf_done_fn *done, void *arg, hf_op **ret_op,
                                           hf_error *err);
HF_API HF_USE hf_status hf_cells_commit_async(hf_store *store, const hf_cell_item *items,
                                              size_t count, hf_done_fn *done, void *arg,
                                              hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_cell_delete_async(hf_store *store, const void *name, size_t name_len,
                                             uint64_t version, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_counter_add_async(hf_store *store, const void *name, size_t name_len,
                                             int64_t delta, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_counter_get_async(hf_store *store, const void *name, size_t name_len,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);
HF_API HF_USE hf_status hf_counter_set_async(hf_store *store, const void *name, size_t name_len,
                                             int64_t value, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_counter_swap_async(hf_store *store, const void *name, size_t name_len,
                                              int64_t expected, int64_t value, hf_done_fn *done,
                                              void *arg, hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_counter_delete_async(hf_store *store, const void *name, size_t name_len,
                                                hf_done_fn *done, void *arg, hf_op **ret_op,
                                                hf_error *err);
HF_API HF_USE hf_status hf_guard_claim_async(hf_store *at, const void *name, size_t name_len,
                                             uint64_t token, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_guard_set_async(hf_store *at, const void *name, size_t name_len,
                                           uint64_t token, const void *bytes, size_t len,
                                           hf_done_fn *done, void *arg, hf_op **ret_op,
                                           hf_error *err);
HF_API HF_USE hf_status hf_limit_take_async(hf_store *store, const hf_limit_request *limit,
                                            hf_done_fn *done, void *arg, hf_op **ret_op,
                                            hf_error *err);
HF_API HF_USE hf_status hf_limit_get_async(hf_store *store, const hf_limit_request *limit,
                                           hf_done_fn *done, void *arg, hf_op **ret_op,
                                           hf_error *err);
HF_API HF_USE hf_status hf_limit_set_async(hf_store *store, const hf_limit_request *limit,
                                           hf_done_fn *done, void *arg, hf_op **ret_op,
                                           hf_error *err);
HF_API HF_USE hf_status hf_latch_create_async(hf_store *store, const void *name, size_t name_len,
                                              uint32_t count, hf_done_fn *done, void *arg,
                                              hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_latch_count_down_async(hf_store *store, const void *name,
                                                  size_t name_len, const char *who,
                                                  hf_done_fn *done, void *arg, hf_op **ret_op,
                                                  hf_error *err);
HF_API HF_USE hf_status hf_latch_join_async(hf_store *store, const hf_party_request *request,
                                            hf_done_fn *done, void *arg, hf_op **ret_op,
                                            hf_error *err);
HF_API HF_USE hf_status hf_latch_wait_async(hf_store *store, const hf_party_request *request,
                                            hf_done_fn *done, void *arg, hf_op **ret_op,
                                            hf_error *err);
HF_API HF_USE hf_status hf_latch_get_async(hf_store *store, const void *name, size_t name_len,
                                           hf_done_fn *done, void *arg, hf_op **ret_op,
                                           hf_error *err);
HF_API HF_USE hf_status hf_latch_delete_async(hf_store *store, const void *name, size_t name_len,
                                              hf_done_fn *done, void *arg, hf_op **ret_op,
                                              hf_error *err);
HF_API HF_USE hf_status hf_barrier_wait_async(hf_store *store, const hf_party_request *request,
                                              hf_done_fn *done, void *arg, hf_op **ret_op,
                                              hf_error *err);
HF_API HF_USE hf_status hf_barrier_enter_async(hf_store *store, const hf_party_request *request,
                                               hf_done_fn *done, void *arg, hf_op **ret_op,
                                               hf_error *err);
HF_API HF_USE hf_status hf_barrier_leave_async(hf_lease *party, int64_t wait_ms, hf_cancel *cancel,
                                               hf_done_fn *done, void *arg, hf_op **ret_op,
                                               hf_error *err);
HF_API HF_USE hf_status hf_election_campaign_async(hf_store *store,
                                                   const hf_acquire_request *request,
                                                   const void *value, size_t len, hf_done_fn *done,
                                                   void *arg, hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_election_set_async(hf_lease *leader, const void *value, size_t len,
                                              hf_done_fn *done, void *arg, hf_op **ret_op,
                                              hf_error *err);
HF_API HF_USE hf_status hf_election_resign_async(hf_lease *leader, hf_done_fn *done, void *arg,
                                                 hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_election_wait_async(hf_store *store, const hf_election_request *request,
                                               hf_done_fn *done, void *arg, hf_op **ret_op,
                                               hf_error *err);
HF_API HF_USE hf_status hf_lease_cell_set_async(hf_lease *lease, const void *name, size_t name_len,
                                                const void *bytes, size_t len, hf_done_fn *done,
                                                void *arg, hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_lease_cell_get_async(hf_store *store, const void *name, size_t name_len,
                                                hf_done_fn *done, void *arg, hf_op **ret_op,
                                                hf_error *err);
HF_API HF_USE hf_status hf_member_join_async(hf_store *store, const hf_acquire_request *request,
                                             const char *value, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_member_leave_async(hf_lease *member, hf_done_fn *done, void *arg,
                                              hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_members_wait_async(hf_store *store, const hf_members_request *request,
                                              hf_done_fn *done, void *arg, hf_op **ret_op,
                                              hf_error *err);
HF_API HF_USE hf_status hf_once_begin_async(hf_store *store, const hf_acquire_request *request,
                                            int64_t for_ms, hf_done_fn *done, void *arg,
                                            hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_once_get_async(hf_store *store, const void *name, size_t name_len,
                                          hf_done_fn *done, void *arg, hf_op **ret_op,
                                          hf_error *err);
HF_API HF_USE hf_status hf_once_claim_async(hf_lease *lease, int64_t for_ms, hf_done_fn *done,
                                            void *arg, hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_once_finish_async(hf_lease *lease, hf_done_fn *done, void *arg,
                                             hf_op **ret_op, hf_error *err);
HF_API HF_USE hf_status hf_once_delete_async(hf_store *store, const void *name, size_t name_len,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
