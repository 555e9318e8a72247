/* SPDX-License-Identifier: MIT */
/*
 * The embedded engine, inside: one `directory` per process and store directory, shared
 * by every handle (store) that this process has on it.
 *
 * Locks, in their order:
 *   header->mutex   shared between processes; around every transaction of leases. Also guards
 *                   the directory's claim list and its environment. (cells_mutex: likewise for
 *                   the file of cells.)
 *   directory->local    the waits, the watch table; never held across a system call that blocks.
 *   directory->calls    held while the mail thread calls out (host->lost), so that a store
 *                   is not closed under it. Taken with none of the others held.
 */
#ifndef HFI_LMDB_INTERNAL_H
#define HFI_LMDB_INTERNAL_H

#include "engine/lmdb/layout.h"
#include "engine/lmdb/pages.h"
#include "engine/native.h"

#include "util/clock.h"

#include <lmdb.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <sys/types.h>

#define LMDB_WATCH_MAX    64 /* processes watched by pidfd; further ones are polled once a second */
#define LMDB_HEARTBEAT_MS 1000
#define LMDB_LOOK_MS \
    5000 /* how often a waiter checks the processes ahead even without an event: exec(2) causes
          * none */
#define LMDB_LOCK_WAIT_MS 5000 /* how long a stuck transaction of another process is waited for */
#define LMDB_PUT_OFF_MS \
    10 /* the least that an op waits for the mutex which has waited behind others on a worker */
#define LMDB_WAKES_INLINE 8

/* Return codes of transaction bodies, beside 0, LMDB's (-30799...) and errno (> 0). */
enum {
    LMDB_E_CORRUPT = -1,   /* a record that we cannot have written */
    LMDB_E_COLLISION = -2, /* two names of one hash */
    LMDB_E_TOKENS = -3,    /* no token below 2^53 is left, or none could be reserved */
    LMDB_E_DEAD = -4,      /* a dead process blocks the name: recover it and try again */
    LMDB_STOP = -5,        /* nothing to write: abort, all is well */
};

/* How long to wait for a mutex that another process has. */
struct lmdb_patience {
    /* at least LMDB_HEARTBEAT_MS all the same; HFI_NEVER: while it goes from hand to hand */
    int64_t until_ms;
    int64_t since_ms; /* one process may have it for lock_wait from then on; 0: from now on */
    bool tries;       /* the caller does not want to wait: not for a process that is stopped */
    bool never;       /* this thread must not sleep: LMDB_NOT_NOW */
};
#define LMDB_NOT_NOW HF_BUSY /* what taking the mutex says then; without a text */

struct lmdb_directory;

/* A waiting acquire. Type-stable: kept in the directory's pool until the directory closes, so that
 * a thread which reads one that has just ended does not read freed memory. */
struct lmdb_wait {
    struct lmdb_wait *next, *prev; /* in directory->waits, or next in the pool */
    struct hfi_op *op;             /* NULL once finished */
    struct hfi_claim *claim;
    struct lmdb_store *store;
    _Atomic uint64_t cookie; /* never used twice */
    uint64_t ticket;
    uint64_t replaced; /* HFI_CLAIM_REPLACES: the token of that holder */
    /* the token of a grant that the mail thread has read but not acted on; under the mutex */
    uint64_t told;
    uint32_t cell, turn;
    _Atomic int64_t wake_ms; /* when a holder expires or the name opens */
    _Atomic int64_t look_ms; /* when to check the processes ahead, watched or not */
    _Atomic int unwatched;   /* a process ahead has no pidfd here: check once a second */
    _Atomic uint64_t open;   /* its cookie, until a thread is about to finish the op; then 0 */
};

/* A process whose death is watched. */
struct lmdb_watch {
    uint32_t slot, generation;
    int fd; /* pidfd; -1: vacant */
};

/* The file of the cells, as it was when the transaction began; see cells_check.c. */
struct lmdb_cells_view {
    const char *pages; /* a mapping of our own; NULL: it is not open */
    int fd;
    uint64_t backed; /* pages that the file has */
    uint64_t txn;    /* the last transaction that we saw in it */
    uint64_t last_page;
    struct lmdb_tree free, main;
    /* a bit for each page: free, or of the tree of free pages; NULL: a read */
    unsigned char *taken;
    unsigned char *whole; /* likewise: checked in this transaction */
    bool looking;         /* LMDB will not read these pages */
    int deletions;        /* of this transaction */
    bool sealed;          /* records have checksums; false: not known yet, or they have none */
};

/* From the root to a leaf. */
struct lmdb_cells_path {
    int depth;
    struct {
        const struct lmdb_page *page;
        int at;
    } steps[LMDB_DEPTH_MAX];
};

/* Something must be made, and only a process that has `init` for itself may do that. */
#define LMDB_MUST_BE_ALONE HF_BUSY

struct lmdb_directory {
    struct lmdb_directory *next; /* in the process's list */
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
    bool alone;      /* while it is opened: no other process opens it, so files may be made */
    bool shared;     /* its URL says that the group is trusted */
    bool by_default; /* the URL named no directory */
    int32_t pid;
    uint64_t pid_namespace;
    int64_t lock_wait_ms;

    struct lmdb_header *header;
    _Atomic uint32_t slots_backed; /* slots that the control file had room for when we looked */
    uint32_t slot;

    MDB_env *env;
    MDB_dbi dbi;
    uint32_t epoch; /* of env */
    size_t map_size;
    const char *pages;     /* where LMDB has it; see page_check.c */
    jmp_buf damaged;       /* under header->mutex */
    jmp_buf cells_damaged; /* under header->cells_mutex */
    MDB_env *cells;        /* opened on first use, under `local` */
    MDB_dbi cells_dbi;
    struct lmdb_cells_view cells_view;

    struct hfi_claim *claims; /* list of all waiting and held; under header->mutex */
    uint64_t claim_count;
    uint32_t writes; /* transactions, counted to check now and then whether the file has become
                      * sparse */

    pthread_mutex_t local;
    struct lmdb_wait *waits,
        *last_wait; /* the oldest first: it is granted, and looked for, first */
    struct lmdb_wait *pool;
    uint64_t next_cookie;
    struct lmdb_watch watches[LMDB_WATCH_MAX];
    uint32_t emptied; /* how often the table was emptied */
    uint64_t cells_used[(LMDB_CELLS + 63) / 64];
    uint32_t turns[LMDB_CELLS];

    pthread_mutex_t calls;
    pthread_t mail_thread, watch_thread;
    _Atomic int mail_runs, watch_runs, stop;
    int epoll_fd, wake_fd;
};

struct lmdb_store {
    struct lmdb_directory *directory;
    struct hfi_host *host;
    bool own_label;       /* its label is not the slot's: stored with every record */
    _Atomic bool watches; /* it has had a WATCHED claim, and core knows that its mail is read */
};

/* What a claim has of ours, in claim->room. Under header->mutex, but for `pass`. */
struct lmdb_claim {
    struct hfi_claim *prev, *next; /* in directory->claims */
    struct lmdb_wait *wait;        /* while it is being acquired */
    struct lmdb_store *store;      /* NULL: it is in no list */
    uint64_t pass;                 /* see lmdb_passed() */
};

/* What an op has of ours, in op->room. */
struct lmdb_op {
    /* Of an acquire that waits: the waiting thread's own copy. */
    struct lmdb_wait *wait;
    uint64_t cookie;
    uint32_t cell, turn;
    /* a wait for a cell or a change: a thread is about to finish it; under directory->local */
    bool taken;
    bool put_off;     /* it must be submitted again, on a worker: see lmdb_finish() */
    int64_t since_ms; /* it was put off then; 0: it was not */
};

static inline struct lmdb_claim *lmdb_claim_of(struct hfi_claim *claim)
{
    return (struct lmdb_claim *)claim->room;
}

static inline struct lmdb_op *lmdb_op_of(struct hfi_op *op)
{
    return (struct lmdb_op *)op->room;
}

/* ---- txn.c: transactions, and what happens after them --------------------- */

enum lmdb_wake_kind {
    LMDB_WAKE_GRANTED = 1,
    LMDB_WAKE_CALLED,
    LMDB_WAKE_LOST,
    LMDB_WAKE_FORGET,
    LMDB_WAKE_WANTED,
    LMDB_WAKE_UNWANTED,
    LMDB_WAKE_ASKED
};

/* To be done once the transaction has committed. */
struct lmdb_wake {
    enum lmdb_wake_kind kind;
    uint32_t slot, cell, turn; /* FORGET: one record less of this slot */
    uint64_t cookie, token;
    int64_t granted_ms;
};

struct lmdb_txn {
    struct lmdb_directory *directory;
    MDB_txn *mdb;
    int64_t read_ms; /* 0: the clock was not read yet; see lmdb_now() */
    bool write;
    struct lmdb_wake *wakes, few[LMDB_WAKES_INLINE];
    size_t wake_count, wake_room;
    _Atomic uint32_t *futexes[LMDB_WAKES_INLINE]; /* futexes to wake after the mutex is free */
    size_t futex_count;
    uint32_t dead; /* with LMDB_E_DEAD: which slot */
};

/*
 * Run `body` in one transaction under the shared mutex. It returns 0 to commit, or a
 * code to abort. It may be run again from the start (the map grew, the file was
 * rebuilt, a dead process was removed): it changes nothing but the transaction,
 * the tokens and t->wakes. After a commit (or LMDB_STOP) `after`, which may be NULL, runs
 * once, still under the mutex; then wakes are delivered. `deadline_ms` bounds the wait
 * for the mutex. Statuses: what the body's code means, or HF_UNAVAILABLE if the mutex was not free
 * in time.
 */
typedef int lmdb_body(struct lmdb_txn *t, void *arg);
typedef void lmdb_after(struct lmdb_txn *t, void *arg);
hf_status lmdb_run(struct lmdb_directory *d, bool write, int64_t deadline_ms, lmdb_body *body,
                   lmdb_after *after, void *arg, hf_error *err);
/* Likewise, for an op: its error, and as long as it may wait. The op ends with lmdb_finish(): an op that may not
 * sleep (op->hurried), and for which the mutex was not free, has done nothing then, and is submitted again on a
 * worker. */
hf_status lmdb_run_op(struct lmdb_store *store, struct hfi_op *op, bool write, lmdb_body *body,
                      lmdb_after *after, void *arg);
void lmdb_finish(struct lmdb_store *store, struct hfi_op *op, hf_status status);
/* Nothing of it was done yet: let a worker do it. */
void lmdb_put_off(struct lmdb_store *store, struct hfi_op *op);
struct lmdb_patience lmdb_patience_of(const struct hfi_op *op);
int lmdb_wake_later(struct lmdb_txn *t, struct lmdb_wake wake); /* ENOMEM */
/* The time of this transaction, read when first needed: all processes of the store share one
 * clock. */
static inline int64_t lmdb_now(struct lmdb_txn *t)
{
    if (!t->read_ms)
        t->read_ms = hfi_now_ms();
    return t->read_ms;
}
/* Has this moment come? Most deadlines are HFI_NEVER or 0: then the clock is not read. */
static inline bool lmdb_past(struct lmdb_txn *t, int64_t at_ms)
{
    return at_ms != HFI_NEVER && (at_ms == 0 || at_ms <= lmdb_now(t));
}
hf_status lmdb_failed(struct lmdb_directory *d, int rc, hf_error *err);

/* ---- control.c: the control file and its mutexes; slots.c: processes in it ---- */

hf_status lmdb_control_open(struct lmdb_directory *d, int64_t deadline_ms, hf_error *err);
void lmdb_control_close(struct lmdb_directory *d);
hf_status lmdb_lock(struct lmdb_directory *d, int64_t deadline_ms, hf_error *err);
hf_status lmdb_lock_for(struct lmdb_directory *d, const struct lmdb_patience *patience,
                        hf_error *err);
hf_status lmdb_lock_cells(struct lmdb_directory *d, const struct lmdb_patience *patience,
                          hf_error *err); /* the other mutex */
void lmdb_unlock_cells(struct lmdb_directory *d);
void lmdb_unlock(struct lmdb_directory *d);
hf_status lmdb_register(struct lmdb_directory *d, const char *label, int64_t deadline_ms,
                        hf_error *err);
void lmdb_unregister(struct lmdb_directory *d);
hf_status lmdb_refuse_second_copy(struct lmdb_directory *d, hf_error *err);
bool lmdb_alive(struct lmdb_directory *d, uint32_t slot); /* by its fcntl lock */
bool lmdb_anybody_alive(struct lmdb_directory *d, int32_t *ret_pid);
bool lmdb_anybody_running(struct lmdb_directory *d, int32_t *ret_pid); /* by their pids */
/* The page of a slot. A number that comes out of shared memory is compared with lmdb_slots_used() first. */
struct lmdb_slot *lmdb_slot(struct lmdb_directory *d, uint32_t slot);
/* Slots below it have been used and are in the file, even if the number in the header is
 * damaged. */
uint32_t lmdb_slots_used(struct lmdb_directory *d);
/* Deliver one wake in shared memory, under the mutex. Returns the futex to wake, or NULL. */
_Atomic uint32_t *lmdb_deliver(struct lmdb_directory *d, const struct lmdb_wake *wake);
void lmdb_wake_all(struct lmdb_directory *d); /* every waiter checks its position itself; under the
                                               * mutex */

/* ---- default.c: which directory; trust.c: who else may write to it ----------- */

/* Is there room for `permits` more? */
static inline bool lmdb_fits(uint32_t capacity, uint32_t taken, uint32_t permits)
{
    return taken <= capacity && permits <= capacity - taken;
}

#define LMDB_SITE_FILE   "/etc/holdfast/store" /* set by the administrator */
#define LMDB_OLD_DEFAULT "/var/lib/holdfast"   /* of all users, until version 0.1 */

struct lmdb_where {
    char *path;      /* absolute */
    bool shared;     /* shared=group */
    bool by_default; /* the URL named no directory */
    bool in_home;    /* its parents are made too */
};
enum lmdb_old { LMDB_OLD_NONE, LMDB_OLD_IDLE, LMDB_OLD_LIVE };
struct lmdb_conf { /* what the URL says */
    struct hfi_conf url;
    int shared; /* shared=group is 0; 1: not given */
    int64_t lock_wait_ms;
};
extern const struct hfi_conf_type lmdb_conf_type;
hf_status lmdb_where(struct lmdb_conf *conf, struct lmdb_where *ret, hf_error *err);
void lmdb_where_done(struct lmdb_where *where);
hf_status lmdb_default(const char *site_file, struct lmdb_where *ret, hf_error *err);
enum lmdb_old lmdb_old_default(const char *path, int32_t *ret_pid);
hf_status lmdb_refuse_two_defaults(const struct lmdb_where *where, hf_error *err);

enum lmdb_distrust { LMDB_TRUSTED, LMDB_OTHERS_WRITE, LMDB_GROUP_WRITES, LMDB_OTHER_OWNER };
enum lmdb_distrust lmdb_distrust(const struct stat *st, uid_t user, bool shared); /* pure */
void lmdb_user_words(uid_t uid, char *buf, size_t size);                          /* "user ada" */
/* Of a directory that refused us: ": it belongs to user ada; ...", and what to do. "": it is ours. */
void lmdb_owner_words(const struct stat *st, char *buf, size_t size);
const char *lmdb_strange(const struct stat *st); /* pure */
/* Of the directory (`name` NULL) or a file in it. HF_DENIED with what to do. */
hf_status lmdb_check_trust(struct lmdb_directory *d, const struct stat *st, const char *name,
                           hf_error *err);
void lmdb_sharing_words(struct lmdb_directory *d, char *buf, size_t size);

/* ---- directory.c, tokens.c: directory, durable file ---------------------------- */

/* `existing`: make nothing. HF_NOT_FOUND: there is no store yet. */
hf_status lmdb_directory_open(struct lmdb_directory *d, const struct lmdb_where *where,
                              bool existing, hf_error *err);
void lmdb_directory_close(struct lmdb_directory *d);
bool lmdb_network_fs(long type, const char **ret_name); /* pure */
/* Open a file of the store, or create it empty. HF_DENIED: it is not a file that we would
 * create. */
hf_status lmdb_file(struct lmdb_directory *d, const char *name, int *ret_fd, bool *ret_created,
                    hf_error *err);
hf_status lmdb_reserve_space(struct lmdb_directory *d, int fd, const char *name, int64_t size,
                             hf_error *err);
hf_status lmdb_boot_id(char ret_id[40], hf_error *err);
hf_status lmdb_tokens_open(struct lmdb_directory *d, uint64_t *ret_limit, hf_error *err);
/* Raise the durable mark to `limit`, on disk before this returns. */
int lmdb_tokens_reserve(struct lmdb_directory *d, uint64_t limit);
/* Pure: which of two copies counts; false: neither. */
bool lmdb_mark_pick(const struct lmdb_mark *first, const struct lmdb_mark *second,
                    struct lmdb_mark *ret);

/* ---- leases.c: the LMDB file of an epoch, and its rebuilding ---------------- */

hf_status lmdb_leases_open(struct lmdb_directory *d, bool create, hf_error *err);
void lmdb_leases_close(struct lmdb_directory *d);
int lmdb_leases_grow(struct lmdb_directory *d);
void lmdb_close_on_exec(MDB_env *env);
int lmdb_leases_remap(struct lmdb_directory *d); /* as large as the file is by now */
bool lmdb_is_corrupt(int rc);
/* The lease file is damaged: begin a new epoch. Under the mutex. */
hf_status lmdb_rebuild(struct lmdb_directory *d, hf_error *err);
/* If the file is mostly holes, go on in a new epoch with a copy. Under the mutex. Failing is harmless. */
void lmdb_compact(struct lmdb_directory *d);
/* Another epoch has begun: open its file and register our leases there. Under the mutex. */
hf_status lmdb_follow(struct lmdb_directory *d, hf_error *err);
/* May grants be made? While rebuilding: checks whether all processes have registered. *ret_slot:
 * one that has not (LMDB_NO_SLOT: only closed_ms is still to come). Under the mutex. */
bool lmdb_open_for_grants(struct lmdb_txn *t, uint32_t *ret_slot);

/* ---- page_check.c: what lies beneath the records ---------------------------------------- */

bool lmdb_pages_file(struct lmdb_directory *d);               /* when it is opened */
bool lmdb_pages_find(struct lmdb_directory *d, MDB_txn *txn); /* whenever it was mapped */
bool lmdb_pages_check(struct lmdb_directory *d);              /* before a transaction */
void lmdb_pages_committed(struct lmdb_directory *d);          /* after it */
bool lmdb_pages_room(
    struct lmdb_directory
        *d); /* for a transaction that adds something: is enough space left for releases? */
/* Is the path to the position of this name sound? Then "not found" is true. */
bool lmdb_pages_way(struct lmdb_txn *t, const uint64_t hash[2]);
/* This name was not found although it should exist: is it certainly absent? */
bool lmdb_pages_absent(struct lmdb_txn *t, const uint64_t hash[2]);
MDB_assert_func lmdb_pages_assert;
/*
 * Call this in the function that calls LMDB, before it does: if an assertion of LMDB fails in
 * there, this returns a second time, with false. Nothing may be held then that is not in the
 * directory.
 */
#define LMDB_GUARD(directory)       (_setjmp((directory)->damaged) == 0)
#define LMDB_CELLS_GUARD(directory) (_setjmp((directory)->cells_damaged) == 0)

/* ---- records.c: reading and writing records --------------------------------- */

int lmdb_name_get(struct lmdb_txn *t, const struct hfi_name *name, struct lmdb_name *ret);
int lmdb_name_get_by_hash(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *ret);
int lmdb_name_parse(const void *key, const MDB_val *value, struct lmdb_name *ret);
int lmdb_name_take(struct lmdb_txn *t, const struct hfi_name *name,
                   const unsigned char owner[HFI_OWNER_LEN], struct lmdb_name *ret,
                   bool *ret_deleted);
/* Write it, or delete it if nothing is left in it. */
int lmdb_name_put(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec);
void lmdb_name_init(struct lmdb_name *rec, const struct hfi_name *name);
size_t lmdb_name_seal(struct lmdb_name *rec,
                      const uint64_t hash[2]); /* checksum; returns the stored size */
bool lmdb_record_sound(const void *key, size_t key_len, const void *record, size_t len);
void lmdb_first_set(struct lmdb_name *rec, const struct lmdb_holder *h, const char *label,
                    size_t len);
int lmdb_further_put(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_holder *h,
                     const char *label, size_t label_len);
int lmdb_further_get(struct lmdb_txn *t, const uint64_t hash[2], uint64_t token,
                     struct lmdb_further *ret);
int lmdb_further_del(struct lmdb_txn *t, const uint64_t hash[2], uint64_t token);
/* The first further holder with a token >= *token (which is set), or MDB_NOTFOUND. */
int lmdb_further_next(struct lmdb_txn *t, const uint64_t hash[2], uint64_t *token,
                      struct lmdb_further *ret);
int lmdb_waiter_put(struct lmdb_txn *t, const uint64_t hash[2], uint64_t ticket,
                    struct lmdb_waiter *w);
int lmdb_waiter_get(struct lmdb_txn *t, const uint64_t hash[2], uint64_t ticket,
                    struct lmdb_waiter *ret);
int lmdb_waiter_del(struct lmdb_txn *t, const uint64_t hash[2], uint64_t ticket);
int lmdb_waiter_next(struct lmdb_txn *t, const uint64_t hash[2], uint64_t *ticket,
                     struct lmdb_waiter *ret);
int lmdb_waiter_before(struct lmdb_txn *t, const uint64_t hash[2], uint64_t *ticket,
                       struct lmdb_waiter *ret);
/* Find the holder with this owner. *ret_label may be NULL. MDB_NOTFOUND. */
int lmdb_holder_find(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                     const unsigned char owner[HFI_OWNER_LEN], uint64_t token,
                     struct lmdb_holder *ret);
int lmdb_holder_update(
    struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
    const struct lmdb_holder *h); /* the name record itself is put by the caller */

/* ---- holders.c: the permit model; acquire.c, release.c; claims.c ------------------ */

/* Take a holder out of the record; `unclean` starts its lock_delay at `since_ms`. */
int lmdb_holder_remove(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                       const struct lmdb_holder *h, bool unclean, int64_t since_ms);
/* Drop what has expired, then grant to the waiters whose turn it is. `self`: the ticket of the
 * barging waiter that calls this, else 0. */
int lmdb_promote(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec, uint64_t self);
int lmdb_expire(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec);
/* Tell the first waiter to read the holders and their deadlines again. */
int lmdb_call_head(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec);
/* Drop every holder and waiter of `slot` in this name, and promote. */
int lmdb_name_forget(struct lmdb_txn *t, const uint64_t hash[2], uint32_t slot);
/* LMDB_E_DEAD if a process that blocks this name is dead; `trust_watch`: skip those with a pidfd
 * here, whose death will be reported. */
int lmdb_find_dead(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                   bool trust_watch);
const char *lmdb_label(const struct lmdb_store *store, const struct hfi_claim *claim,
                       size_t *ret_len);
void lmdb_claim_link(struct lmdb_directory *d, struct hfi_claim *claim, struct lmdb_store *store);
void lmdb_claim_unlink(struct lmdb_directory *d,
                       struct hfi_claim *claim); /* no harm if it is not linked */
/* Add a holder with a token of its own (set in *h), and numbers if it is NUMBERED, or with the token that it has. The caller puts
 * `rec`. */
int lmdb_holder_grant(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                      struct lmdb_holder *h, const char *label, size_t label_len,
                      uint32_t ret_slots[HF_SLOTS_MAX]);
int lmdb_holder_add(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                    const struct lmdb_holder *h, const char *label, size_t label_len);
/* After the latest of these no lease that no process remembers can still be valid. */
void lmdb_remember_latest(struct lmdb_txn *t, int64_t until_ms);
int lmdb_sweep(struct lmdb_txn *t);
int lmdb_token_take(struct lmdb_txn *t, uint32_t count, uint64_t *ret_first);
void lmdb_acquire(struct lmdb_store *store, struct hfi_op *op);
void lmdb_release(struct lmdb_store *store, struct hfi_op *op);
void lmdb_renew(struct lmdb_store *store, struct hfi_op *op);
void lmdb_adopt(struct lmdb_store *store, struct hfi_op *op);

/* ---- numbers.c: the numbers of a semaphore's slots; sizes.c: sizes that were set ---- */

/* How many bytes of its label are numbers; are they all there? */
static inline size_t lmdb_numbers_len(const struct lmdb_holder *h)
{
    return h->token && h->flags & LMDB_HOLDER_NUMBERED ? h->permits * sizeof(uint32_t) : 0;
}
static inline bool lmdb_numbers_whole(const struct lmdb_holder *h, size_t label_len)
{
    return lmdb_numbers_len(h) == 0 ||
           (h->permits <= HF_SLOTS_MAX && lmdb_numbers_len(h) <= label_len);
}
/* Numbers and label in one text; returns its length. */
size_t lmdb_numbers_put(const uint32_t *slots, uint32_t count, const char *label, size_t label_len,
                        char ret_text[HF_LABEL_MAX + 1]);
/* The lowest that no holder has. */
int lmdb_numbers_give(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                      uint32_t count, uint32_t ret_slots[HF_SLOTS_MAX]);
/* Those of this holder, which is in `rec` or in a record of its own. */
int lmdb_numbers_get(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                     const struct lmdb_holder *h, uint32_t ret_slots[HF_SLOTS_MAX]);
/* The claim was granted by a hand-over: read its numbers. false: they are not there, or it could not be read. */
bool lmdb_numbers_fetch(struct lmdb_directory *d, struct hfi_claim *claim);
void lmdb_resize(struct lmdb_store *store, struct hfi_op *op);
/* Put the sizes of the durable file into the lease file: all, into a new one, or the last one, which a process that was killed may
 * not have put there. Under the mutex, with no transaction open. */
hf_status lmdb_sizes_load(struct lmdb_directory *d, bool all, hf_error *err);

/* ---- wait.c, queue.c: waiting in the queue of a name ------------------------------- */

/* The holders and waiters ahead of a waiter. */
struct lmdb_ahead {
    uint32_t slots[LMDB_WATCH_MAX], generations[LMDB_WATCH_MAX];
    uint32_t count;
    bool more;       /* did not fit */
    int64_t wake_ms; /* earliest expiry or opening */
};
struct lmdb_wait *lmdb_wait_new(struct lmdb_store *store, struct hfi_op *op);
void lmdb_wait_end(struct lmdb_directory *d, struct lmdb_wait *w); /* back into the pool */
/* Write our waiter record and count it in `rec`, which the caller puts. */
int lmdb_enqueue(struct lmdb_txn *t, struct lmdb_name *rec, struct lmdb_wait *w, uint64_t ticket);
/* The token of the holder whose place the waiter takes; 0: of none. And its label, which need not end with a NUL. */
uint64_t lmdb_waiter_replaced(const struct lmdb_waiter *w);
const char *lmdb_waiter_label(const struct lmdb_waiter *w, uint32_t *ret_len);
/* A ticket behind all others; before all others of this name. */
uint64_t lmdb_ticket_last(struct lmdb_txn *t);
int lmdb_ticket_first(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                      uint64_t *ret_ticket);
int lmdb_waiter_remove(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                       uint64_t ticket, const unsigned char owner[HFI_OWNER_LEN]);
int lmdb_look_ahead(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                    uint64_t ticket, struct lmdb_ahead *ret);
/* The wait is in the store: watch the processes ahead. Outside the mutex. */
void lmdb_wait_begun(struct lmdb_directory *d, struct lmdb_wait *w, uint64_t cookie,
                     const struct lmdb_ahead *ahead, bool by_mail);
void lmdb_wait(struct lmdb_store *store, struct hfi_op *op, int64_t until_ms);
void lmdb_cancel(struct lmdb_store *store, struct hfi_op *op, hf_status status);
void lmdb_attend(struct lmdb_directory *d, uint64_t cookie); /* check this wait's position again */
void lmdb_wake_own(struct lmdb_directory *d); /* a granter may have died before it woke us */
void lmdb_wait_granted(struct lmdb_directory *d, uint64_t cookie, uint64_t token,
                       uint32_t granted_ms);

/* ---- watch.c: deaths --------------------------------------------------------------- */

bool lmdb_watched(struct lmdb_directory *d, uint32_t slot, uint32_t generation);
bool lmdb_watch_add(struct lmdb_directory *d, uint32_t slot,
                    uint32_t generation); /* true: will be told */
hf_status lmdb_recover(struct lmdb_directory *d, uint32_t slot, uint32_t generation, hf_error *err);
/* Recover every process that is dead now. */
void lmdb_reap(struct lmdb_directory *d);
hf_status lmdb_watch_start(struct lmdb_directory *d, hf_error *err);
void lmdb_watch_poke(struct lmdb_directory *d); /* recompute the timers */
void lmdb_watch_stop(struct lmdb_directory *d);

/* ---- mail.c: mail ------------------------------------------------------------------- */

hf_status lmdb_mail_start(struct lmdb_directory *d, hf_error *err);
void lmdb_mail_stop(struct lmdb_directory *d);
/* The token of a claim that is held; 0 while it waits. Under the mutex. */
uint64_t lmdb_token_of(struct lmdb_directory *d, struct hfi_claim *claim);

/* ---- wanted.c: holders learn that others wait ------------------------------------------- */

/* Tell those that asked for it, by WANTED, UNWANTED or ASKED. *ret_told, which may be NULL: how many these are. */
int lmdb_tell_holders(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                      enum lmdb_wake_kind kind, uint32_t *ret_told);
/* WANTED or UNWANTED, as it is now. */
int lmdb_tell_waiters(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec);
void lmdb_ask(struct lmdb_store *store, struct hfi_op *op);
/* Notice the death of the process (`cookie` of WANTED) of the first waiter for a lease of ours. */
void lmdb_watch_waiter(struct lmdb_directory *d, uint64_t process);
/* Tell core. false: no lease of ours has that token yet, and one that waits may have been granted it. */
bool lmdb_wanted(struct lmdb_directory *d, uint64_t token, enum hfi_wanted what, const char *text);
/* Messages may have been lost: tell core how it is. */
void lmdb_wanted_audit(struct lmdb_directory *d);

/* ---- inspect.c, change.c, doctor.c, cells.c --------------------------------------------- */

void lmdb_list(struct lmdb_store *store, struct hfi_op *op);
void lmdb_look(struct lmdb_store *store, struct hfi_op *op);
void lmdb_break(struct lmdb_store *store, struct hfi_op *op);
void lmdb_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid);
void lmdb_pass_end(struct lmdb_directory *d, struct hfi_claim *claim);
/* change.c: a wait is answered at once if it can be; else wait() or cancel() finishes it. */
void lmdb_change_begin(struct lmdb_store *store, struct hfi_op *op);
void lmdb_change_wait(struct lmdb_store *store, struct hfi_op *op, int64_t until_ms);
void lmdb_change_cancel(struct lmdb_store *store, struct hfi_op *op, hf_status status);
void lmdb_changed(struct lmdb_directory *d);      /* something did change */
void lmdb_tell_changed(struct lmdb_directory *d); /* wake the threads that wait for that */
hf_status lmdb_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);
void lmdb_cell_read(struct lmdb_store *store, struct hfi_op *op);
void lmdb_cell_swap(struct lmdb_store *store, struct hfi_op *op);
void lmdb_cells_commit(struct lmdb_store *store, struct hfi_op *op);
void lmdb_cells_close(struct lmdb_directory *d);
struct lmdb_cells_report {
    uint64_t cells, damaged;
    bool sealed;     /* they have checksums */
    char first[600]; /* a damaged one, as far as its name can be read */
};
hf_status lmdb_cells_report(struct lmdb_directory *d, int64_t deadline_ms,
                            struct lmdb_cells_report *ret, hf_error *err);
/* cell_records.c */
#define LMDB_CELL_COUNTER     "v" /* the key of the counter of versions: shorter than any hash */
#define LMDB_CELL_COUNTER_LEN 1
/* A record, as it lies in LMDB's pages. */
struct lmdb_found {
    uint64_t version; /* 0: there is none */
    int64_t end_ms;   /* HFI_NEVER: none */
    const unsigned char *name;
    uint16_t name_len;
    MDB_val bytes;
};
/* `sealed`: the records of the store have checksums. If the checksum is wrong, the rest of *ret is
 * filled in all the same. */
int lmdb_cell_parse(const MDB_val *key, const MDB_val *value, bool sealed, struct lmdb_found *ret);
int lmdb_cell_counter_parse(const MDB_val *value, uint64_t *ret_version, bool *ret_sealed);
int lmdb_cell_counter_put(MDB_txn *txn, MDB_dbi dbi, uint64_t version);
int lmdb_cell_put(MDB_txn *txn, MDB_dbi dbi, const uint64_t hash[2],
                  const struct lmdb_found *record);
int lmdb_cell_seal_all(MDB_txn *txn, MDB_dbi dbi);
/* cells_check.c */
#define LMDB_CELLS_MAP ((size_t)1 << 30)
int lmdb_cells_map(struct lmdb_cells_view *v, int fd); /* and check all pages */
void lmdb_cells_unmap(struct lmdb_cells_view *v);
int lmdb_cells_begin(struct lmdb_cells_view *v, bool write);
int lmdb_cells_audit(const struct lmdb_cells_view *v); /* all pages, however many */
/* cells_find.c */
int lmdb_cells_compare(const struct lmdb_node *one, const struct lmdb_node *two, bool numbers);
bool lmdb_cells_page_whole(const struct lmdb_page *page, bool numbers);
bool lmdb_cells_value(const struct lmdb_cells_view *v, const struct lmdb_page *page,
                      const struct lmdb_node *node, MDB_val *ret);
int lmdb_cells_find(struct lmdb_cells_view *v, const MDB_val *key, MDB_val *ret);
int lmdb_cells_from(struct lmdb_cells_view *v, const MDB_val *key, struct lmdb_cells_path *ret);
int lmdb_cells_next(struct lmdb_cells_view *v, struct lmdb_cells_path *path, MDB_val *ret_key,
                    MDB_val *ret_value);
bool lmdb_cells_around(struct lmdb_cells_view *v, const MDB_val *key); /* before it is deleted */
/* The version of a cell (0: there is none), and when it expires by the wall clock (HFI_NEVER). */
hf_status lmdb_cell_look(struct lmdb_directory *d, const struct hfi_name *name, int64_t deadline_ms,
                         uint64_t *ret_version, int64_t *ret_end_ms, hf_error *err);
int64_t lmdb_wall_us(void);

/* ---- cell_wait.c: waiting for a cell to change ------------------------------------------ */

/* Under cells_mutex, before the commit: a waiter that reads the cell from now on waits for the
 * commit. Returns the futex to wake once the mutex is free. */
_Atomic uint32_t *lmdb_cell_futex(struct lmdb_directory *d, uint64_t hash);
void lmdb_cell_wait(struct lmdb_store *store, struct hfi_op *op, int64_t until_ms);
/* Claim the right to finish a wait for a cell or a change: the waiting thread and a cancel compete for it. */
bool lmdb_op_take(struct lmdb_directory *d, struct hfi_op *op);
void lmdb_cell_cancel(struct lmdb_store *store, struct hfi_op *op, hf_status status);

#endif
