/* SPDX-License-Identifier: MIT */
/*
 * The embedded engine, inside: one `depot` per process and store directory, shared
 * by every handle (conn) that this process has on it.
 *
 * Locks, in their order:
 *   header->mutex   shared between processes; around every transaction. Also guards
 *                   the depot's claim list and its environment.
 *   depot->local    the waits, the watch table; never held across a system call that blocks.
 *   depot->calls    held while the bell thread calls out (host->lost), so that a conn
 *                   is not closed under it. Taken with none of the others held.
 */
#ifndef HFI_LM_H
#define HFI_LM_H

#include "engine/lmdb/layout.h"
#include "engine/lmdb/pages.h"

#include "util/clock.h"

#include <lmdb.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <sys/types.h>

#define LM_WATCH_MAX    64 /* processes watched by pidfd; more: looked at once a second */
#define LM_HEARTBEAT_MS 1000
#define LM_LOOK_MS \
    5000 /* how often a waiter looks itself, trusting no event: what has none is exec(2) */
#define LM_LOCK_WAIT_MS 5000 /* how long a stuck transaction of another process is waited for */
#define LM_WAKES_INLINE 8

/* Return codes of transaction bodies, beside 0, LMDB's (-30799...) and errno (> 0). */
enum {
    LM_E_CORRUPT = -1,   /* a record that we did not write so */
    LM_E_COLLISION = -2, /* two names of one hash */
    LM_E_TOKENS = -3,    /* no token below 2^53 is left, or none could be reserved */
    LM_E_DEAD = -4,      /* a dead process is in the way: recover it and try again */
    LM_STOP = -5,        /* nothing to write: abort, all is well */
};

struct lm_depot;

/* A waiting acquire. Type-stable: kept in the depot's pool until the depot closes, so that
 * a thread which looks at one that has just ended reads sense, not freed memory. */
struct lm_wait {
    struct lm_wait *next, *prev; /* in depot->waits, or next in the pool */
    struct hfi_op *op;           /* NULL once finished */
    struct hfi_claim *claim;
    struct hfi_conn *conn;
    _Atomic uint64_t cookie; /* never used twice */
    uint64_t ticket;
    uint64_t
        told; /* the token of a grant that the bell thread has read but not acted on; under the mutex */
    uint32_t cell, turn;
    _Atomic int64_t wake_ms; /* when a holder expires or the name opens */
    _Atomic int64_t look_ms; /* when to look at who is ahead, watched or not */
    _Atomic int unwatched;   /* somebody ahead has no pidfd here: look once a second */
    _Atomic uint64_t open;   /* its cookie, until somebody is about to finish the op; then 0 */
};

/* A process whose death we want to hear of. */
struct lm_watch {
    uint32_t slot, generation;
    int fd; /* pidfd; -1: vacant */
};

/* The file of the cells, as it was when the transaction began; see cells_sound.c. */
struct lm_cells_view {
    const char *pages; /* a mapping of our own; NULL: it is not open */
    int fd;
    uint64_t backed; /* pages that the file has */
    uint64_t txn;    /* the last transaction that we saw in it */
    uint64_t last_page;
    struct lm_tree free, main;
    unsigned char
        *taken; /* a bit for each page: free, or of the tree of free pages; NULL: a read */
    unsigned char *whole; /* and: looked at in this transaction */
    bool looking;         /* LMDB will not read what we do */
    int deletions;        /* of this transaction */
    bool sealed;          /* records have checksums; false: not known yet, or they have none */
};

/* From the root to a leaf. */
struct lm_cells_path {
    int depth;
    struct {
        const struct lm_page *page;
        int at;
    } steps[LM_DEPTH_MAX];
};

struct lm_depot {
    struct lm_depot *next; /* in the process's list */
    unsigned refs;
    uint64_t process; /* hfi_process_id() */
    dev_t dev;
    ino_t ino;
    char *path;     /* for people: absolute where it could be */
    char *location; /* "file:" + path */
    int dir_fd, store_fd, control_fd, live_fd, lease_fd;
    uid_t dir_uid;
    gid_t dir_gid;
    unsigned file_mode;
    bool shared;     /* its URL says that the group is trusted */
    bool by_default; /* nobody named it */
    int32_t pid;
    uint64_t pid_namespace;
    int64_t lock_wait_ms;

    struct lm_header *header;
    _Atomic uint32_t slots_backed; /* slots that the control file had room for when we looked */
    uint32_t slot;

    MDB_env *env;
    MDB_dbi dbi;
    uint32_t epoch; /* of env */
    size_t map_size;
    const char *pages;     /* where LMDB has it; see sound.c */
    jmp_buf damaged;       /* under header->mutex */
    jmp_buf cells_damaged; /* under header->cells_mutex */
    MDB_env *cells;        /* opened on first use, under `local` */
    MDB_dbi cells_dbi;
    struct lm_cells_view cells_view;

    struct hfi_claim *claims; /* list of all waiting and held; under header->mutex */
    uint64_t claim_count;
    uint32_t writes; /* transactions, to look at the file's shape now and then */

    pthread_mutex_t local;
    struct lm_wait *waits, *pool;
    uint64_t next_cookie;
    struct lm_watch watches[LM_WATCH_MAX];
    uint32_t emptied; /* how often the table was */
    uint64_t cells_used[(LM_CELLS + 63) / 64];
    uint32_t turns[LM_CELLS];

    pthread_mutex_t calls;
    pthread_t bell_thread, watch_thread;
    _Atomic int bell_runs, watch_runs, stop;
    int epoll_fd, wake_fd;
};

struct hfi_conn {
    struct lm_depot *depot;
    struct hfi_host *host;
    bool own_label; /* its label is not the slot's: stored with every record */
};

/* Positions in claim->engine[]. */
enum { LM_CLAIM_PREV, LM_CLAIM_NEXT, LM_CLAIM_WAIT, LM_CLAIM_CONN, LM_CLAIM_PASS };
/* Positions in op->engine[] of a waiting acquire: the waiting thread's own copy. */
enum { LM_OP_WAIT, LM_OP_CELL, LM_OP_TURN, LM_OP_COOKIE };
/* And of a wait for a cell: somebody is about to finish it; under depot->local. */
enum { LM_OP_TAKEN };

/* ---- txn.c: transactions, and what happens after them --------------------- */

enum lm_wake_kind { LM_WAKE_GRANTED = 1, LM_WAKE_CALLED, LM_WAKE_LOST, LM_WAKE_FORGET };

/* To be done once the transaction has committed. */
struct lm_wake {
    enum lm_wake_kind kind;
    uint32_t slot, cell, turn; /* FORGET: one record less of this slot */
    uint64_t cookie, token;
    int64_t granted_ms;
};

struct lm_txn {
    struct lm_depot *depot;
    MDB_txn *mdb;
    int64_t read_ms; /* 0: the clock was not read yet; see hfi_lm_now() */
    bool write;
    struct lm_wake *wakes, few[LM_WAKES_INLINE];
    size_t wake_count, wake_room;
    _Atomic uint32_t *bells[LM_WAKES_INLINE]; /* futexes to wake after the mutex is free */
    size_t bell_count;
    uint32_t dead; /* with LM_E_DEAD: which slot */
};

/*
 * Run `body` in one transaction under the shared mutex. It returns 0 to commit, or a
 * code to abort. It may be run again from the start (the map grew, the file was
 * rebuilt, a dead process was removed): it changes nothing but the transaction,
 * the tokens and t->wakes. After a commit (or LM_STOP) `after`, which may be NULL, runs
 * once, still under the mutex; then wakes are delivered. `deadline_ms` bounds the wait
 * for the mutex. Statuses: what the body's code means, HF_UNAVAILABLE when the mutex
 * cannot be had.
 */
typedef int lm_body(struct lm_txn *t, void *arg);
typedef void lm_after(struct lm_txn *t, void *arg);
hf_status hfi_lm_run(struct lm_depot *d, bool write, int64_t deadline_ms, lm_body *body,
                     lm_after *after, void *arg, hf_error *err);
int hfi_lm_wake_later(struct lm_txn *t, struct lm_wake wake); /* ENOMEM */
/* The time of this transaction, read when first needed: one clock for all who share the store. */
static inline int64_t hfi_lm_now(struct lm_txn *t)
{
    if (!t->read_ms)
        t->read_ms = hfi_now_ms();
    return t->read_ms;
}
/* Has this moment come? Most deadlines are HFI_NEVER or 0: then nobody asks the clock. */
static inline bool hfi_lm_past(struct lm_txn *t, int64_t at_ms)
{
    return at_ms != HFI_NEVER && (at_ms == 0 || at_ms <= hfi_lm_now(t));
}
hf_status hfi_lm_failed(struct lm_depot *d, int rc, hf_error *err);

/* ---- control.c: the control file and its mutexes; slots.c: processes in it ---- */

hf_status hfi_lm_control_open(struct lm_depot *d, int64_t deadline_ms, hf_error *err);
void hfi_lm_control_close(struct lm_depot *d);
hf_status hfi_lm_lock(struct lm_depot *d, int64_t deadline_ms, hf_error *err);
hf_status hfi_lm_lock_cells(struct lm_depot *d, int64_t deadline_ms,
                            hf_error *err); /* the other mutex */
void hfi_lm_unlock_cells(struct lm_depot *d);
void hfi_lm_unlock(struct lm_depot *d);
hf_status hfi_lm_register(struct lm_depot *d, const char *label, int64_t deadline_ms,
                          hf_error *err);
void hfi_lm_unregister(struct lm_depot *d);
hf_status hfi_lm_refuse_second_copy(struct lm_depot *d, hf_error *err);
bool hfi_lm_alive(struct lm_depot *d, uint32_t slot); /* by its fcntl lock */
bool hfi_lm_anybody_alive(struct lm_depot *d, int32_t *ret_pid);
bool hfi_lm_anybody_running(struct lm_depot *d, int32_t *ret_pid); /* by their pids */
/* The page of a slot. A number that comes out of shared memory is compared with hfi_lm_slots_used() first. */
struct lm_slot *hfi_lm_slot(struct lm_depot *d, uint32_t slot);
/* Slots below it have been used, and are in the file, whatever stands in the header. */
uint32_t hfi_lm_slots_used(struct lm_depot *d);
/* Deliver one wake in shared memory, under the mutex. Returns the futex to wake, or NULL. */
_Atomic uint32_t *hfi_lm_deliver(struct lm_depot *d, const struct lm_wake *wake);
void hfi_lm_ring_all(struct lm_depot *d); /* everybody looks for himself; under the mutex */

/* ---- default.c: which directory; trust.c: who else may write to it ----------- */

#define LM_SITE_FILE   "/etc/holdfast/store" /* the administrator's word */
#define LM_OLD_DEFAULT "/var/lib/holdfast"   /* of all users, until version 0.1 */

struct lm_where {
    char *path;      /* absolute */
    bool shared;     /* shared=group */
    bool by_default; /* nobody named it */
    bool in_home;    /* its parents are made too */
};
enum lm_old { LM_OLD_NONE, LM_OLD_IDLE, LM_OLD_LIVE };
struct hfi_url;
hf_status hfi_lm_where(struct hfi_url *url, struct lm_where *ret, hf_error *err);
void hfi_lm_where_done(struct lm_where *where);
hf_status hfi_lm_default(const char *site_file, struct lm_where *ret, hf_error *err);
enum lm_old hfi_lm_old_default(const char *path, int32_t *ret_pid);
hf_status hfi_lm_refuse_two_defaults(const struct lm_where *where, hf_error *err);

enum lm_distrust { LM_TRUSTED, LM_OTHERS_WRITE, LM_GROUP_WRITES, LM_OTHER_OWNER };
enum lm_distrust hfi_lm_distrust(const struct stat *st, uid_t user, bool shared); /* pure */
const char *hfi_lm_strange(const struct stat *st);                                /* pure */
/* Of the directory (`name` NULL) or a file in it. HF_DENIED with what to do. */
hf_status hfi_lm_check_trust(struct lm_depot *d, const struct stat *st, const char *name,
                             hf_error *err);
void hfi_lm_sharing_words(struct lm_depot *d, char *buf, size_t size);

/* ---- place.c, tokens.c: directory, durable file ---------------------------- */

/* `existing`: make nothing. HF_NOT_FOUND: there is no store yet. */
hf_status hfi_lm_place_open(struct lm_depot *d, const struct lm_where *where, bool existing,
                            hf_error *err);
void hfi_lm_place_close(struct lm_depot *d);
bool hfi_lm_network_fs(long type, const char **ret_name); /* pure */
/* Open a file of the store: existing, else created empty. HF_DENIED: it is none that we would make. */
hf_status hfi_lm_file(struct lm_depot *d, const char *name, int *ret_fd, bool *ret_created,
                      hf_error *err);
hf_status hfi_lm_reserve_space(struct lm_depot *d, int fd, const char *name, int64_t size,
                               hf_error *err);
hf_status hfi_lm_boot_id(char ret_id[40], hf_error *err);
hf_status hfi_lm_tokens_open(struct lm_depot *d, uint64_t *ret_limit, hf_error *err);
/* Raise the durable mark to `limit`, on disk before this returns. */
int hfi_lm_tokens_reserve(struct lm_depot *d, uint64_t limit);
/* Pure: which of two copies counts; false: neither. */
bool hfi_lm_mark_pick(const struct lm_mark *first, const struct lm_mark *second,
                      struct lm_mark *ret);

/* ---- leases.c: the LMDB file of an epoch, and its rebuilding ---------------- */

hf_status hfi_lm_leases_open(struct lm_depot *d, bool create, hf_error *err);
void hfi_lm_leases_close(struct lm_depot *d);
int hfi_lm_leases_grow(struct lm_depot *d);
void hfi_lm_close_on_exec(MDB_env *env);
int hfi_lm_leases_remap(struct lm_depot *d); /* as large as the file is by now */
bool hfi_lm_is_corrupt(int rc);
/* The lease file is damaged: begin a new epoch. Under the mutex. */
hf_status hfi_lm_rebuild(struct lm_depot *d, hf_error *err);
/* If the file is mostly holes, go on in a new epoch with a copy. Under the mutex. Failing is harmless. */
void hfi_lm_compact(struct lm_depot *d);
/* Another epoch has begun: open its file and register our leases there. Under the mutex. */
hf_status hfi_lm_follow(struct lm_depot *d, hf_error *err);
/* May grants be made? If rebuilding: looks whether all have registered. *ret_slot: who has not
 * (LM_NO_SLOT: only time is missing). Under the mutex. */
bool hfi_lm_open_for_grants(struct lm_txn *t, uint32_t *ret_slot);

/* ---- sound.c: what lies beneath the records ---------------------------------------- */

bool hfi_lm_sound_file(struct lm_depot *d);               /* when it is opened */
bool hfi_lm_sound_find(struct lm_depot *d, MDB_txn *txn); /* whenever it was mapped */
bool hfi_lm_sound(struct lm_depot *d);                    /* before a transaction */
void hfi_lm_sound_committed(struct lm_depot *d);          /* after it */
bool hfi_lm_sound_room(
    struct lm_depot *d); /* for one that takes something: enough is left for those who give back */
/* Is the way to where this name is, or would be, as it should be? Then "not there" is true. */
bool hfi_lm_sound_way(struct lm_txn *t, const uint64_t hash[2]);
/* This name was not found though it should have been: is it really not there? */
bool hfi_lm_sound_absent(struct lm_txn *t, const uint64_t hash[2]);
MDB_assert_func hfi_lm_sound_assert;
/*
 * To be called by the function that calls LMDB, before it does: false when LMDB gave up on its pages
 * in there, and this returns a second time. Nothing may be held then that is not in the depot.
 */
#define LM_GUARD(depot)       (_setjmp((depot)->damaged) == 0)
#define LM_CELLS_GUARD(depot) (_setjmp((depot)->cells_damaged) == 0)

/* ---- records.c: reading and writing records --------------------------------- */

int hfi_lm_name_get(struct lm_txn *t, const struct hfi_name *name, struct lm_name *ret);
int hfi_lm_name_get_by_hash(struct lm_txn *t, const uint64_t hash[2], struct lm_name *ret);
int hfi_lm_name_parse(const void *key, const MDB_val *value, struct lm_name *ret);
int hfi_lm_name_take(struct lm_txn *t, const struct hfi_name *name,
                     const unsigned char owner[HFI_OWNER_LEN], struct lm_name *ret,
                     bool *ret_deleted);
/* Write it, or delete it if nothing is left in it. */
int hfi_lm_name_put(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec);
void hfi_lm_name_init(struct lm_name *rec, const struct hfi_name *name);
size_t hfi_lm_name_seal(struct lm_name *rec,
                        const uint64_t hash[2]); /* checksum; returns the stored size */
bool hfi_lm_record_sound(const void *key, size_t key_len, const void *record, size_t len);
void hfi_lm_first_set(struct lm_name *rec, const struct lm_holder *h, const char *label,
                      size_t len);
int hfi_lm_further_put(struct lm_txn *t, const uint64_t hash[2], const struct lm_holder *h,
                       const char *label, size_t label_len);
int hfi_lm_further_get(struct lm_txn *t, const uint64_t hash[2], uint64_t token,
                       struct lm_further *ret);
int hfi_lm_further_del(struct lm_txn *t, const uint64_t hash[2], uint64_t token);
/* The first further holder with a token >= *token (which is set), or MDB_NOTFOUND. */
int hfi_lm_further_next(struct lm_txn *t, const uint64_t hash[2], uint64_t *token,
                        struct lm_further *ret);
int hfi_lm_waiter_put(struct lm_txn *t, const uint64_t hash[2], uint64_t ticket,
                      struct lm_waiter *w);
int hfi_lm_waiter_get(struct lm_txn *t, const uint64_t hash[2], uint64_t ticket,
                      struct lm_waiter *ret);
int hfi_lm_waiter_del(struct lm_txn *t, const uint64_t hash[2], uint64_t ticket);
int hfi_lm_waiter_next(struct lm_txn *t, const uint64_t hash[2], uint64_t *ticket,
                       struct lm_waiter *ret);
int hfi_lm_waiter_before(struct lm_txn *t, const uint64_t hash[2], uint64_t *ticket,
                         struct lm_waiter *ret);
/* Find the holder with this owner. *ret_label may be NULL. MDB_NOTFOUND. */
int hfi_lm_holder_find(struct lm_txn *t, const uint64_t hash[2], const struct lm_name *rec,
                       const unsigned char owner[HFI_OWNER_LEN], uint64_t token,
                       struct lm_holder *ret);
int hfi_lm_holder_update(
    struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec,
    const struct lm_holder *h); /* the name record itself is put by the caller */

/* ---- holders.c: the permit model; acquire.c, release.c; claims.c ------------------ */

/* Take a holder out of the record; `unclean` starts its lock_delay at `since_ms`. */
int hfi_lm_holder_remove(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec,
                         const struct lm_holder *h, bool unclean, int64_t since_ms);
/* Drop what has expired, then grant to the waiters whose turn it is. `self`: the ticket of a barging
 * waiter that is looking itself, else 0. */
int hfi_lm_promote(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec, uint64_t self);
int hfi_lm_expire(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec);
/* Tell the first waiter to look again at who holds, and until when. */
int hfi_lm_call_head(struct lm_txn *t, const uint64_t hash[2], const struct lm_name *rec);
/* Drop every holder and waiter of `slot` in this name, and promote. */
int hfi_lm_name_forget(struct lm_txn *t, const uint64_t hash[2], uint32_t slot);
/* LM_E_DEAD if a process that blocks this name is dead; `trust_watch`: those with a pidfd here will
 * be told of in time. */
int hfi_lm_find_dead(struct lm_txn *t, const uint64_t hash[2], const struct lm_name *rec,
                     bool trust_watch);
const char *hfi_lm_label(const struct hfi_conn *conn, const struct hfi_claim *claim,
                         size_t *ret_len);
void hfi_lm_claim_link(struct lm_depot *d, struct hfi_claim *claim, struct hfi_conn *conn);
void hfi_lm_claim_unlink(struct lm_depot *d,
                         struct hfi_claim *claim); /* no harm if it is not linked */
/* Add a holder with a token of its own (set in *h), or with the one it has. The caller puts `rec`. */
int hfi_lm_holder_grant(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec,
                        struct lm_holder *h, const char *label, size_t label_len);
int hfi_lm_holder_add(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec,
                      const struct lm_holder *h, const char *label, size_t label_len);
/* Nothing of a lease that no process remembers can still count after the latest of these. */
void hfi_lm_remember_latest(struct lm_txn *t, int64_t until_ms);
int hfi_lm_sweep(struct lm_txn *t);
int hfi_lm_token_take(struct lm_txn *t, uint32_t count, uint64_t *ret_first);
void hfi_lm_acquire(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_release(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_renew(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_adopt(struct hfi_conn *conn, struct hfi_op *op);

/* ---- wait.c: waiting in the store's queue --------------------------------------- */

/* What stands between a waiter and its grant. */
struct lm_ahead {
    uint32_t slots[LM_WATCH_MAX], generations[LM_WATCH_MAX];
    uint32_t count;
    bool more;       /* did not fit */
    int64_t wake_ms; /* earliest expiry or opening */
};
struct lm_wait *hfi_lm_wait_new(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_wait_end(struct lm_depot *d, struct lm_wait *w); /* back into the pool */
/* Write our waiter record and count it in `rec`, which the caller puts. */
int hfi_lm_enqueue(struct lm_txn *t, struct lm_name *rec, struct lm_wait *w, uint64_t ticket);
int hfi_lm_waiter_remove(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec,
                         uint64_t ticket, const unsigned char owner[HFI_OWNER_LEN]);
int hfi_lm_look_ahead(struct lm_txn *t, const uint64_t hash[2], const struct lm_name *rec,
                      uint64_t ticket, struct lm_ahead *ret);
/* The wait is in the store: watch who is ahead. Outside the mutex. */
void hfi_lm_wait_begun(struct lm_depot *d, struct lm_wait *w, uint64_t cookie,
                       const struct lm_ahead *ahead, bool by_mail);
void hfi_lm_wait(struct hfi_conn *conn, struct hfi_op *op, int64_t until_ms);
void hfi_lm_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status);
void hfi_lm_attend(struct lm_depot *d, uint64_t cookie); /* look at this wait's place anew */
void hfi_lm_ring_own(struct lm_depot *d); /* a granter may have died before he rang */
void hfi_lm_wait_granted(struct lm_depot *d, uint64_t cookie, uint64_t token, uint32_t granted_ms);

/* ---- watch.c: deaths --------------------------------------------------------------- */

bool hfi_lm_watched(struct lm_depot *d, uint32_t slot, uint32_t generation);
bool hfi_lm_watch_add(struct lm_depot *d, uint32_t slot,
                      uint32_t generation); /* true: will be told */
hf_status hfi_lm_recover(struct lm_depot *d, uint32_t slot, uint32_t generation, hf_error *err);
/* Recover every process that is dead now. */
void hfi_lm_reap(struct lm_depot *d);
hf_status hfi_lm_watch_start(struct lm_depot *d, hf_error *err);
void hfi_lm_watch_poke(struct lm_depot *d); /* look at the timers again */
void hfi_lm_watch_stop(struct lm_depot *d);

/* ---- bell.c: mail ------------------------------------------------------------------- */

hf_status hfi_lm_bell_start(struct lm_depot *d, hf_error *err);
void hfi_lm_bell_stop(struct lm_depot *d);

/* ---- look.c, change.c, doctor.c, cells.c --------------------------------------------- */

void hfi_lm_inspect(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_break(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_passed(struct hfi_conn *conn, struct hfi_claim *claim, uint64_t token, int64_t tid);
void hfi_lm_pass_end(struct lm_depot *d, struct hfi_claim *claim);
hf_status hfi_lm_wait_change(struct hfi_conn *conn, uint64_t *seq, int64_t until_ms,
                             const _Atomic int *stop, hf_error *err);
void hfi_lm_stop_wait(struct hfi_conn *conn);
void hfi_lm_changed(struct lm_depot *d);      /* something did change */
void hfi_lm_tell_changed(struct lm_depot *d); /* wake who waits for that */
hf_status hfi_lm_doctor(struct hfi_conn *conn, hf_finding_fn *finding, void *arg, hf_error *err);
void hfi_lm_cell_read(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_cell_swap(struct hfi_conn *conn, struct hfi_op *op);
void hfi_lm_cells_close(struct lm_depot *d);
struct lm_cells_report {
    uint64_t cells, damaged;
    bool sealed;     /* they have checksums */
    char first[600]; /* a damaged one, as far as its name can be read */
};
hf_status hfi_lm_cells_report(struct lm_depot *d, int64_t deadline_ms, struct lm_cells_report *ret,
                              hf_error *err);
/* cell_records.c */
#define LM_CELL_COUNTER     "v" /* the key of the counter of versions: shorter than any hash */
#define LM_CELL_COUNTER_LEN 1
/* A record, as it lies in LMDB's pages. */
struct lm_found {
    uint64_t version; /* 0: there is none */
    int64_t end_ms;   /* HFI_NEVER: none */
    const unsigned char *name;
    uint16_t name_len;
    MDB_val bytes;
};
/* `sealed`: of a store whose records have checksums. If that is wrong, the rest of *ret is what it would be. */
int hfi_lm_cell_parse(const MDB_val *key, const MDB_val *value, bool sealed, struct lm_found *ret);
int hfi_lm_cell_counter_parse(const MDB_val *value, uint64_t *ret_version, bool *ret_sealed);
int hfi_lm_cell_counter_put(MDB_txn *txn, MDB_dbi dbi, uint64_t version);
int hfi_lm_cell_put(MDB_txn *txn, MDB_dbi dbi, const uint64_t hash[2],
                    const struct lm_found *record);
int hfi_lm_cell_seal_all(MDB_txn *txn, MDB_dbi dbi);
/* cells_sound.c */
#define HFI_LM_CELLS_MAP ((size_t)1 << 30)
int hfi_lm_cells_map(struct lm_cells_view *v, int fd); /* and look at all pages */
void hfi_lm_cells_unmap(struct lm_cells_view *v);
int hfi_lm_cells_begin(struct lm_cells_view *v, bool write);
int hfi_lm_cells_audit(const struct lm_cells_view *v); /* all pages, however many */
/* cells_find.c */
int hfi_lm_cells_compare(const struct lm_node *one, const struct lm_node *two, bool numbers);
bool hfi_lm_cells_page_whole(const struct lm_page *page, bool numbers);
bool hfi_lm_cells_value(const struct lm_cells_view *v, const struct lm_page *page,
                        const struct lm_node *node, MDB_val *ret);
int hfi_lm_cells_find(struct lm_cells_view *v, const MDB_val *key, MDB_val *ret);
int hfi_lm_cells_from(struct lm_cells_view *v, const MDB_val *key, struct lm_cells_path *ret);
int hfi_lm_cells_next(struct lm_cells_view *v, struct lm_cells_path *path, MDB_val *ret_key,
                      MDB_val *ret_value);
bool hfi_lm_cells_around(struct lm_cells_view *v, const MDB_val *key); /* before it is deleted */
/* Which version a cell has (0: there is none), and when that ends by the wall clock (HFI_NEVER). */
hf_status hfi_lm_cell_look(struct lm_depot *d, const struct hfi_name *name, int64_t deadline_ms,
                           uint64_t *ret_version, int64_t *ret_end_ms, hf_error *err);
int64_t hfi_lm_wall_us(void);

/* ---- cell_wait.c: waiting for a cell to change ------------------------------------------ */

/* Under cells_mutex, before the commit: whoever looks from now on waits for it. Returns the futex to
 * wake once the mutex is free. */
_Atomic uint32_t *hfi_lm_cell_bell(struct lm_depot *d, uint64_t hash);
void hfi_lm_cell_wait(struct hfi_conn *conn, struct hfi_op *op, int64_t until_ms);
void hfi_lm_cell_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status);

#endif
