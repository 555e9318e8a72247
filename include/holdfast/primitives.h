/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: what is built on leases and on versioned cells: cells, counters, guarded resources, rate limits, latches,
 * barriers, elections, and work that is done once. The conventions of holdfast.h apply.
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

/* ---- guarding a resource -------------------------------------------------- */

#define HF_GUARD_MAX 65536 /* bytes of one guarded thing */

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

#ifdef __cplusplus
}
#endif
#endif
