/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: a lease is a lock of the server's own, and lives as long as the
 * connection that holds it.
 *
 *   native_lock.c          the ops, open and close
 *   lock_connection.c which connection serves which op
 *   lock_watch.c    one thread per store: connections that hang up, waits that must end
 *   lock_sql.c     statements: templates of each server, filled in
 *   lock_inspect.c     which wait is for which holder, for the detector
 *   lock_share.c shares waits and holders between processes
 *
 * A *lock connection* is a connection that holds locks. mode=row: a lease is a transaction, so a
 * lock connection has one lease. mode=session: up to SQL_LOCKS_MAX names share a lock connection.
 * The server lets a session lock again what it has locked, so a name is never requested on a lock
 * connection that holds it.
 *
 * A statement that may block (a *wait*) runs only on a lock connection that holds nothing:
 * otherwise it would delay releases. It has no time limit at the server; the watch thread ends it,
 * at its deadline or when core cancels it, by the server's own means (PQcancel, KILL QUERY). Such
 * an end races with the grant: so before the op is finished with anything but HF_OK, another
 * statement makes sure that the lock is released. If the server does not react at all, the
 * connection is closed: then whatever was or will be granted to it ends with it.
 *
 * locks->lock guards all of it; nothing that blocks is done under it. It is below store->lock in no path.
 */
#ifndef SQL_NATIVE_LOCK_H
#define SQL_NATIVE_LOCK_H

#include "engine/sql/internal.h"

#define SQL_LOCKS_MAX     512  /* names per connection, mode=session */
#define SQL_KNOWN         1024 /* names that this store has recorded, remembered by their hash */
#define SQL_SQL_ROOM      4096 /* a name of HF_NAME_MAX bytes in hex, three times, and words around it */
#define SQL_KEY_ROOM      128
#define SQL_KNOWN_KEY_MAX 47 /* of a key that the server tells */
#define SQL_TABLE_ROOM    256

/* Keepalives. The client's are shorter: a client that is cut off must notice before the server
 * grants to the next one. */
#define SQL_ALIVE_IDLE_S        5
#define SQL_ALIVE_INTERVAL_S    3
#define SQL_ALIVE_COUNT         3
#define SQL_ALIVE_TEXT_IDLE     "20" /* the server's */
#define SQL_ALIVE_TEXT_INTERVAL "5"
#define SQL_ALIVE_TEXT_COUNT    "4"

/*
 * The statements of one server. In templates {K} is the lock's key and {N} the name, as literals;
 * {T} is the table of recorded names and {R} that of rows. {W} is the table of waits, {C} our
 * number in it, {M} the mode. {H} is the name in hexadecimal digits, for statements in a session of others, which may read a
 * backslash in another way.
 */
struct sql_lock_sql {
    const char *limits;    /* name, value: time limits of an operator that are on */
    const char *keepalive; /* seconds after which the server probes a silent host; 0: not known */
    const char *prepare;   /* for a connection that will hold locks: switch off the operator's
                               * time limits */
    const char *names, *rows; /* the tables, without prefix */
    const char *interrupted;  /* the error of an interrupted statement: a SQLSTATE, or a number */
    /* mode=session. try_: 1 or not. wait: granted if its first value is not 0 and not NULL. free_: 1, or it was not held. */
    /* the name at this key; and the key as a text, if it is worth knowing */
    const char *session_record;
    const char *session_try, *session_wait, *session_free;
    const char *shared_try, *shared_wait,
        *shared_free; /* likewise, of a reader; NULL: there are none */
    bool calls;       /* the prepared SQL_LOCK_TRY, _WAIT and _FREE are used instead */
    /* mode=row. A row: it is locked. */
    const char *row_known, *row_add, *row_try, *row_wait, *row_free;
    /* In a transaction of the caller's, by enum hfi_sql_statement: the lock of mode=session, where it can end with a
     * transaction (else NULL), and that of mode=row. */
    const char *advisory[HFI_SQL_STATEMENTS], *row[HFI_SQL_STATEMENTS];
    /* lock_share.c: show that client {C} lives, as long as this connection does; remove rows of
     * dead clients. */
    const char *waits_live, *waits_sweep;
    /* The key of a name, from a hash of it and of where our tables are. */
    void (*key)(const uint64_t hash[2], char ret_key[SQL_KEY_ROOM]);
    /* Quote a table: `schema` may be "". */
    void (*table)(const char *schema, const char *prefix, const char *name,
                  char ret_table[SQL_TABLE_ROOM]);
    /* Is this a connection to the server itself, whose locks are reliable? HF_CONFIG says why
     * not. */
    hf_status (*verify)(struct sql_connection *connection, enum sql_mode mode, int64_t deadline_ms,
                        hf_error *err);
};

struct sql_held {
    uint64_t hash;
    struct hfi_claim *claim;
};

struct sql_lock_connection {
    struct sql_lock_connection *next;
    uint64_t id; /* never used again */
    struct sql_connection *connection;
    int fd; /* a duplicate of the connection's descriptor: to watch and to shut down, independent of
             * the driver */
    bool busy; /* a thread has it */
    bool hung; /* the other end is gone; its user, or the watch thread, ends it */
    uint32_t count;
    struct sql_held held[];
};

/* An acquire under way; on its thread's stack. */
struct sql_lock_wait {
    struct sql_lock_wait *next;
    struct hfi_op *op;
    int64_t key;                           /* mode=session: the number of the lock */
    struct sql_lock_connection *lock_conn; /* the connection on which its statement blocks; NULL:
                                            * none now */
    _Atomic int stop;                      /* HF_OK: continue; else the status to end with */
    bool interrupting; /* the watch thread is interrupting it, and uses `lock_conn` */
    int64_t act_ms;    /* when the watch thread must act on it */
    int64_t cut_ms;    /* when the connection is closed; 0: the wait was not stopped yet */
    unsigned asked;
    bool told; /* it is shared with other processes, or about to be */
};

/* A name that this store has recorded: the hash of the name, and its number on the server; or the value of {K}, where the
 * server has told it ("": it has not). */
struct sql_known {
    uint64_t hash[2];
    int64_t key;
    char text[SQL_KNOWN_KEY_MAX + 1];
};

struct sql_locks {
    struct sql_store *store;
    const struct sql_lock_sql *sql;
    pthread_mutex_t lock;
    /* on CLOCK_MONOTONIC: a lock connection is free, a wait was stopped, an interrupt is over */
    pthread_cond_t changed;
    struct sql_lock_connection *lock_conns;
    _Atomic uint64_t last_id;
    uint32_t count, limit; /* lock connections that are open or being opened; their maximum */
    uint32_t locks_max;    /* leases on one */
    struct sql_lock_wait *lock_waits;
    bool watching, stop;
    pthread_t watcher;
    int epoll_fd, kick_fd;
    int64_t wakes_ms; /* when the watch thread will wake by itself */
    char names_table[SQL_TABLE_ROOM], rows_table[SQL_TABLE_ROOM], waits_table[SQL_TABLE_ROOM];
    _Atomic bool shares, unshare_due; /* rows are shared; some could not be removed yet */
    pthread_mutex_t share_lock;       /* above `lock`: one thread at a time shares or removes
                                       * rows */
    struct sql_known known[SQL_KNOWN];
};

extern const struct sql_lock_sql postgres_lock_sql, maria_lock_sql; /* each in its module */

/* ---- lock_sql.c ---- */

/* Is it a reader? (mode=session only) */
static inline bool sql_lock_is_shared(const struct hfi_claim *claim)
{
    return claim->permits < claim->capacity;
}
/* The template that releases it. */
const char *sql_lock_free_words(const struct sql_locks *locks, const struct hfi_claim *claim);
/* The key of a name as a number. */
int64_t sql_lock_key(const struct sql_locks *locks, const struct hfi_name *name);
/* false: out of room (never with names that core lets through). */
bool sql_lock_fill(struct sql_locks *locks, const char *template, const struct hfi_name *name,
                   char *sql, size_t room);

/* ---- lock_inspect.c, lock_share.c ---- */

/* A copy: claims belong to the caller again when the lock is released. */
struct sql_line {
    bool waits, here; /* here: through this very handle */
    uint64_t number;  /* hfi_claim_number() */
    uint32_t len;
    unsigned char name[HF_NAME_MAX];
    unsigned char owner[HFI_OWNER_LEN];
    char label[HF_LABEL_MAX + 1];
};

struct sql_lines {
    struct sql_line *all;
    size_t count, room;
};

void sql_locks_list(struct sql_store *store, struct hfi_op *op);
/* Room for `more` lines. false: no memory. */
bool sql_lines_room(struct sql_lines *lines, size_t more);

/* Share the waits among `lines` that belong to this handle, and add those of other processes. With
 * share_lock. false: that failed, and only this process is known. */
bool sql_share_waits(struct sql_store *store, struct sql_lines *lines);
/* The same of those that hold what is waited for. */
void sql_share_holders(struct sql_store *store, const struct sql_lines *lines);
/* Remove the rows of a shared wait that has ended, before its caller can release anything. NULL:
 * those that could not be removed before. */
void sql_unshare_wait(struct sql_locks *locks, const struct sql_lock_wait *wait);

/* ---- lock_connection.c: with locks->lock, but for those that say otherwise ---- */

enum sql_lock_how { SQL_LOCK_BY_TRY, SQL_LOCK_BY_WAIT };

/* A lock connection for this wait, busy for it, and what to do on it. `tried`: the name was found locked, so only a
 * lock connection on which it can wait will do. HF_OK, or why there is none. Without the lock. */
hf_status sql_lock_connection_take(struct sql_locks *locks, struct sql_lock_wait *wait, bool tried,
                                   struct sql_lock_connection **ret_lock_conn,
                                   enum sql_lock_how *ret_how, hf_error *err);
/* Return it; if it has hung up, or its connection is dead, its leases are lost. Without the
 * lock. */
void sql_lock_connection_give(struct sql_locks *locks, struct sql_lock_connection *lock_conn);
/* For a release: make it busy, and take the claim off. NULL: the claim is lost. Without the
 * lock. */
struct sql_lock_connection *sql_lock_connection_of(struct sql_locks *locks,
                                                   struct hfi_claim *claim);
void sql_lock_connection_put(struct sql_lock_connection *lock_conn, struct hfi_claim *claim,
                             int64_t key);
/* End a lock connection that is busy for us: connection and leases. Without the lock. */
void sql_lock_connection_end(struct sql_locks *locks, struct sql_lock_connection *lock_conn,
                             const char *why);
/* Sleep until something has changed, at most until until_ms. */
void sql_locks_sleep(struct sql_locks *locks, int64_t until_ms);

/* ---- lock_watch.c ---- */

/* Before the first lease. false: no thread could be started. With the lock. */
bool sql_watch_start(struct sql_locks *locks);
void sql_watch_stop(struct sql_locks *locks);
/* Make the watch thread check the waits at `at_ms`. With the lock. */
void sql_watch_at(struct sql_locks *locks, int64_t at_ms);
bool sql_watch_add(struct sql_locks *locks, struct sql_lock_connection *lock_conn);

#endif
