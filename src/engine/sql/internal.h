/* SPDX-License-Identifier: MIT */
/*
 * The SQL engines: what PostgreSQL and MariaDB share. All of it is compiled into both modules.
 *
 *   sql/engine.c            open, close, submit, cancel: the entry to all of it
 *   sql/conf.c              what the URL says beyond the server: mode, tokens, prefix, connections
 *   sql/pool.c              connections: how many, which thread has one, deadlines, those that were lost
 *   sql/call.c              one statement on a connection of the pool: retried where the server asks for it
 *   sql/shape.c checks the shape of an answer before anything is read from it
 *   sql/schema.c tables and routines: created on first use, or only checked
 *   sql/acquire.c, lease.c  mode=lease: acquire and its waiting; release, renew, cancel, adopt, break
 *   sql/waits.c             mode=lease: ops that wait, how they sleep, and what a message does to them
 *   sql/heartbeat.c         mode=lease: heartbeats and rechecks
 *   sql/listener.c          mode=lease: the thread that hears of grants
 *   sql/inspect.c           inspection, of all modes
 *   sql/cells.c             cells and time
 *   sql/native_lock.c       mode=row, mode=session: a lease that is a connection's; native_lock.h has its parts
 *   sql/fork.c              a forked child lets go of all connections
 *   sql/stale_statements.c  statements that may still run although their connection is gone
 *   sql/doctor.c            is this server safe for what we promise?
 *
 *   postgres/, mariadb/     a driver (struct sql_driver) each, the SQL of each call, the engine's tables
 *
 * BLOCKING: every op runs on the calling thread, on a connection that it has to itself meanwhile. A connection is
 * never shared by two threads at once. A waiter has no connection: its thread sleeps on a futex, or it is suspended
 * (listener.h); one thread of the engine for each store (the listener) hears of grants.
 *
 * Locks: store->lock guards the pool, the waits and what is held; it is never held over a call that
 * blocks, nor while core is called.
 */
#ifndef HFI_SQL_INTERNAL_H
#define HFI_SQL_INTERNAL_H

#include "engine/engine.h"
#include "engine/native.h"
#include "engine/sql/extension.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- values, rows ------------------------------------------------------------------------------ */

enum sql_type { SQL_NULL, SQL_INT, SQL_BYTES, SQL_TEXT };

struct sql_value {
    enum sql_type type;
    int64_t number;    /* SQL_INT */
    const void *bytes; /* SQL_BYTES, SQL_TEXT */
    size_t len;
};

#define SQL_FEW_VALUES 8
#define SQL_FEW_BYTES  64

/* What a statement answered: text of numbers is turned into SQL_INT where the column is a number. Lives
 * until sql_rows_free(), in memory of its own, or, if it is little, in itself: a grant must not get lost because there is no
 * memory. So it must not be copied. */
struct sql_rows {
    uint32_t columns, count;
    struct sql_value *values; /* row by row */
    void *memory;
    struct sql_value few[SQL_FEW_VALUES];
    char few_bytes[SQL_FEW_BYTES];
};

/* A value; where there is none, NULL of SQL. */
static inline const struct sql_value *sql_at(const struct sql_rows *rows, uint32_t row,
                                             uint32_t column)
{
    static const struct sql_value none = { .type = SQL_NULL, .bytes = "" };

    return row < rows->count && column < rows->columns
               ? &rows->values[(size_t)row * rows->columns + column]
               : &none;
}

/* ---- one connection ----------------------------------------------------------------------------- */

/*
 * The outcome of a statement. Only SQL_DONE has rows. SQL_REFUSED: the server refused it and
 * changed nothing: `again` says whether it may be tried again (deadlock 40P01/1213, serialization
 * failure 40001, lock wait timeout 55P03/1205). SQL_UNSENT: it was never sent. SQL_MAYBE: the
 * connection was lost, or the deadline passed, after it was sent; the connection is dead (`run` has
 * closed its socket), and the server may still do it: sql/stale_statements.c.
 */
enum sql_outcome { SQL_DONE, SQL_REFUSED, SQL_UNSENT, SQL_MAYBE };

struct sql_trouble {
    /* what it means for the caller: HF_DENIED, HF_UNAVAILABLE, HF_FULL, HF_CONFIG, ... */
    hf_status status;
    bool again;     /* SQL_REFUSED: temporary, try again */
    bool no_table;  /* SQL_REFUSED: a table or routine of ours is missing (or of another version) */
    hf_error error; /* native: the server's number; text: its words, without secrets */
};

struct sql_connection {
    struct sql_store *store;
    bool dead;         /* cannot be used any more */
    bool in_txn;       /* mode=row: a transaction is open */
    bool contended;    /* others wait for what the call under way is about: not the common case */
    int64_t server_id; /* the server's name for this connection: backend pid, CONNECTION_ID() */
    int64_t since;     /* start time: with server_id it identifies the connection */
    void *native;      /* PGconn *, MYSQL * */
    uint64_t prepared; /* bit per sql_call that the driver has prepared on it */
    struct sql_connection *next; /* idle */
    struct sql_connection *all_next,
        *all_prev;                     /* pool.c: every connection there is, for abandon() */
    struct sql_stale_statement *stale; /* memory for it, in case */
};

/* ---- calls -------------------------------------------------------------------------------------- */

/*
 * What is asked of the server in mode=lease, and for cells, in every mode. Each is one statement, one
 * round trip and one transaction, whatever it does inside; both drivers have SQL for each of them
 * (postgres/sql/, mariadb/sql/) with these parameters and columns, in this order. Times are of the
 * server's clock only, microseconds since 1970; durations are in ms. Names, owners, labels are SQL_BYTES,
 * verdicts one letter of SQL_TEXT, all else SQL_INT. "n times": that many groups follow each other in params.
 * An answer that has other columns is refused (sql/shape.c has these in a table). The routines on the servers are part of what is
 * stored there and keep the names that they were made with: HEARTBEAT is "beat", RECHECK "poke", INSPECT "look", CELL_WATCH "cell_look".
 *
 * `client` is a random positive 62-bit number of the open store: its inbox. `window` is the claim window
 * as in the Redis engine: a grant by hand-over is good for that long unless it is renewed or released.
 * A waiter counts as alive as long as its client's row does, which only HEARTBEAT makes and touches.
 *
 * ACQUIRE   name, owner, mode, capacity, permits, flags, ttl, delay, tokens, may_wait, window, client, label
 *           -> verdict, token, tokens, ms
 *           G granted (ms: the ttl that is left); g the same, and others wait (WATCHED); B busy (tokens 1: a holder that
 *           lingers has it, and nobody waits); Q queued (token: the highest given so far, a message
 *           with a token up to it is an old one; ms: as HEARTBEAT says it); M another kind (token: its mode, ms: its
 *           capacity); F no token is left. The same owner again: what it has already (a holder's end becomes the later of both).
 * CLAIM     as ACQUIRE, and the owner of the holder that it replaces (HFI_CLAIM_REPLACES) or NULL (NUMBERED)
 *           -> verdict, token, tokens, ms, slots
 *           As ACQUIRE; N there is no such holder. One that replaces stands before all that wait. slots: of one that is NUMBERED and
 *           granted, the numbers, ascending, with commas between them, "0,3"; NULL: ask for them (SLOTS).
 * SLOTS     name, owner           -> slots        no row: it does not hold, or has no numbers
 * RELEASE   name, owner           -> verdict      R given back; L no such owner (one that waits leaves the queue). Hands
 *                                                 over to the next waiter, and notifies the winners' listeners.
 * RENEW     n times (name, owner, ttl), sorted by name -> index (from 0), 1 or 0 (lost), of each; 3: 1, and others wait (WATCHED); of
 *           several also 2: somebody is at its row, ask for it alone
 * REFILL    n times (name, owner, ttl, tokens), sorted by name -> index, as RENEW; first token and number of a further block, above
 *           every token that the name had (0: none). Of leases that linger; the lease keeps the first block of its grant.
 * CANCEL    name, owner           -> verdict, token, tokens, ms      C left the queue; G it was granted (ms left); N neither
 * HEARTBEAT client, window, n times (name, owner) -> index, verdict, token, tokens, ms
 *           Our waiters live for one window more. Of each that we think waits: Q it does (token: as ACQUIRE says it; ms:
 *           until a RECHECK of the name is worth while if it is the first that lives, at least 1; 0: it is not, or there
 *           is nothing to wait for); G it was granted (ms of it that are left); N the server has forgotten it.
 *           "Q" promises that no grant to it with a larger token was made, by the clock, before this call was sent: so HEARTBEAT must
 *           exclude grants to this client meanwhile (PostgreSQL: both lock the client's row), and a transaction that
 *           grants reads the clock after it has that lock.
 * RECHECK   name                  -> ms (as HEARTBEAT) until the next is worth while; 0. Ends what has expired, hands over.
 * ADOPT     name, owner, token, ttl (0: as it was) -> token, tokens, mode, capacity, permits, ttl, delay; no row: no such
 *           lease that is detached
 * BREAK     name, token (the one that holds now; of a lease that lingers, any of its tokens) -> verdict      B ended, its owner's
 *           client is notified; N no such lease
 * NOTE      n times (name, owner, token, tid), sorted by name -> nothing. Which token of the block holds now, for INSPECT and BREAK;
 *           tid SQL_TID_IDLE: no thread has it, it lingers
 * INSPECT   name, or NULL: all    -> kind of row (H holder, N its numbers, in the label, W waiter in order, C closed, or has a size), name, mode, capacity, closed ms (0: open),
 *                                    token, first token, permits, flags, age ms, ttl ms left, tid, label; sorted by name
 * SWEEP     limit                 -> n            removes what has been idle or expired for a while, some rows at a time
 * LEAVE     client                -> nothing      the client's row and letters, when it closes
 * CELL_READ name                  -> version, bytes, ttl ms left or -1; no row: none
 * CELL_SWAP name, version (0: none), bytes or NULL: delete, ttl (0: none) -> verdict, version    C done; V it has this other version
 * CELL_COMMIT n times (name, version (0: none), 0 only asserted, 1 write, 2 delete, bytes, ttl), sorted by name -> index, verdict, version,
 *           of each    C all were done, and it has this version now (0: none); V none was, and it has this one: of one at least it is another
 * CELL_WATCH client, window, n times (name, version), sorted by name: tell me (SQL_NOTICE_CELL, once) when one of them has another
 *           version -> index, version (0: none), ttl ms left or -1, of each. Lasts for a window; repeated with each heartbeat.
 * RESIZE    name, capacity (0: as claims say) -> verdict, mode, capacity    R done, and waiters that fit now were granted; M it is in use as
 *           this other kind
 * ASK       name, text            -> verdict      T told each holder of the name that is WATCHED; B none is; N nobody holds it
 * TIME                            -> us
 * LOCK_TRY  key                   -> 1 or 0       mode=session, of a server that prepares them (struct sql_lock_sql): the lock of
 * LOCK_WAIT key                   -> anything     this number is this connection's now, or was not free; is it, after waiting; and
 * LOCK_FREE key                   -> 1 or 0       is no longer, or was not
 * TOKEN     name, tokens          -> token        tokens=on of row and session: raised and committed; no row: none is left
 */
enum sql_call {
    SQL_ACQUIRE,
    SQL_CLAIM,
    SQL_SLOTS,
    SQL_RELEASE,
    SQL_RENEW,
    SQL_REFILL,
    SQL_CANCEL,
    SQL_HEARTBEAT,
    SQL_RECHECK,
    SQL_ADOPT,
    SQL_BREAK,
    SQL_NOTE,
    SQL_INSPECT,
    SQL_SWEEP,
    SQL_LEAVE,
    SQL_CELL_READ,
    SQL_CELL_SWAP,
    SQL_CELL_COMMIT,
    SQL_CELL_WATCH,
    SQL_TIME,
    SQL_TOKEN,
    SQL_ASK,
    SQL_RESIZE,
    SQL_LOCK_TRY,
    SQL_LOCK_WAIT,
    SQL_LOCK_FREE,
    SQL_CALLS
};

#define SQL_COMMIT_PARAMS 5 /* of each item of CELL_COMMIT */

#define SQL_FLAG_BARGE    1
#define SQL_FLAG_DETACHED 2
#define SQL_FLAG_LISTENS \
    4 /* a transaction that grants can see whether our listener lives; not before version 2 */
#define SQL_FLAG_WATCHED \
    16 /* its holder is told that others wait; where the engine declares HF_CAP_WANTED */
#define SQL_FLAG_LINGERS \
    32 /* with WATCHED: its process may keep it unused; its tokens may be HFI_TOKEN_AHEAD_US ahead */
#define SQL_FLAG_NUMBERED 64  /* its permits have numbers */
#define SQL_FLAG_SIZED    128 /* INSPECT: the size of the name was set */
#define SQL_TID_IDLE      (-1)
#define SQL_FLAG_NAPS \
    8 /* our listener naps: who grants ends the nap (PostgreSQL); not before version 3 */

/* What a listener said. SQL_NOTICE_GRANT comes with all that HEARTBEAT would tell; a server that can only notify
 * says SQL_NOTICE_ANY, and the listener thread asks with HEARTBEAT. SQL_NOTICE_LOST: broken. */
enum sql_notice {
    SQL_NOTICE_NONE,
    SQL_NOTICE_ANY,
    SQL_NOTICE_GRANT,
    SQL_NOTICE_LOST,
    SQL_NOTICE_CELL,
    SQL_NOTICE_WANTED
};

struct sql_message {
    enum sql_notice kind;
    unsigned char owner[HFI_OWNER_LEN]; /* GRANT, LOST, WANTED */
    bool others_wait;                   /* GRANT, of a WATCHED claim */
    enum hfi_wanted wanted;             /* WANTED */
    char text[HF_LABEL_MAX + 1];        /* ASKED */
    uint64_t token;
    uint32_t tokens;
    int64_t window_ms;
    uint64_t cell; /* CELL: hash[0] of the name of a cell that changed */
};

/* ---- a driver ------------------------------------------------------------------------------------ */

/* What a database has: nothing; some of our tables, or routines of an older version; everything. */
enum sql_found { SQL_FOUND_NONE, SQL_FOUND_OLD, SQL_FOUND_ALL };

/*
 * One server's client library. All calls block, on the calling thread, at most until deadline_ms
 * (hfi_now_ms() time), also if the server is stopped: sockets are polled, never just read.
 */
struct sql_lock_sql; /* native_lock.h */

struct sql_conf;

#define SQL_LACK_ROOM 256 /* what a user lacks, in words */

struct sql_driver {
    const char *name; /* "postgresql" */
    /* mode=row, mode=session in this server's words; never NULL */
    const struct sql_lock_sql *lock_sql;

    /* Its part of the URL into store->native (and store->location: no secrets). free_conf() also of what
     * is half made, or NULL. */
    hf_status (*parse)(struct sql_store *store, struct sql_conf *conf, hf_error *err);
    void (*free_conf)(struct sql_store *store);

    /* Connect; the session is made ready (time zone, autocommit, keepalives, application name, statement
     * timeouts off, plan settings). HF_UNAVAILABLE, HF_DENIED, HF_CONFIG. */
    hf_status (*open)(struct sql_store *store, int64_t deadline_ms,
                      struct sql_connection **ret_connection, hf_error *err);
    void (*close)(struct sql_connection *connection); /* also of a dead one */
    /* In a child after fork(): memory and descriptors only; nothing may be written to the server. */
    void (*abandon)(struct sql_connection *connection);

    /* One of the calls above. */
    enum sql_outcome (*call)(struct sql_connection *connection, enum sql_call call,
                             const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                             struct sql_rows *ret_rows, struct sql_trouble *trouble);
    /* Any statement, as text without parameters: schema, row and session modes, doctor. With several
     * results the last one that has rows is given. */
    enum sql_outcome (*text)(struct sql_connection *connection, const char *sql,
                             int64_t deadline_ms, struct sql_rows *ret_rows,
                             struct sql_trouble *trouble);
    /* A literal for text(): 'it''s', '\x00ff'::bytea, X'00ff'. Into `room` bytes at ret_text. */
    bool (*literal)(const struct sql_value *value, char *ret_text, size_t room);

    /* End the statement that runs on `connection`, from another thread, through another connection of the pool
     * (pg_cancel_backend(), KILL QUERY). Best effort. */
    void (*interrupt)(struct sql_connection *connection, int64_t deadline_ms);
    /* Is the connection's socket still there? For leases that are a connection's: no round trip. */
    bool (*alive)(struct sql_connection *connection);
    int (*fd)(struct sql_connection *connection);

    /* A new waiter lives for a window, whatever was heard of its client: it may be queued as soon as the listener listens. Else the
     * client must have sent a heartbeat lately. */
    bool waiter_lives;
    /* The listener of this store: a connection that is notified when this client is granted
     * something or loses it, or a cell that it watches changes. next_notice() blocks until that,
     * until_ms, or `kick` (an eventfd, which it empties) is readable. HF_UNAVAILABLE: the
     * connection is gone. */
    hf_status (*listen)(struct sql_store *store, int64_t deadline_ms,
                        struct sql_connection **ret_connection, hf_error *err);
    hf_status (*next_notice)(struct sql_connection *listener, int kick, int64_t until_ms,
                             struct sql_message *ret_message, hf_error *err);

    /* Is all there that the calls need? One statement. HF_OK: *ret_found says it. */
    hf_status (*probe)(struct sql_connection *connection, int64_t deadline_ms,
                       enum sql_found *ret_found, hf_error *err);
    /* The schema: SQL that makes what is missing and replaces routines that are there, statements one by one (`emit` returns
     * false: stop), for store->conf's schema and prefix. `lock` first and `unlock` last (may be NULL) keep first users apart. */
    bool (*schema)(struct sql_store *store, bool (*emit)(void *arg, const char *sql), void *arg);
    const char *lock, *unlock;
    /* its client program ends a statement at the first ';', even inside a routine, but for a
     * DELIMITER */
    bool delimits;
    /* May this user make what the probe missed? HF_OK: ret_lack has what the user lacks, in words; "": nothing that is known. */
    hf_status (*may_make)(struct sql_connection *connection, int64_t deadline_ms, char *ret_lack,
                          size_t room, hf_error *err);
    /* What this server's settings mean for the promises. May be NULL. */
    hf_status (*doctor)(struct sql_connection *connection, int64_t deadline_ms,
                        hfi_finding_fn *finding, void *arg, hf_error *err);
    /* Make sure that statements of a lost connection do not run any more (stale_statements.c). HF_OK: they do not. */
    hf_status (*wait_until_gone)(struct sql_store *store, int64_t server_id, int64_t since,
                                 int64_t deadline_ms, hf_error *err);
};

enum sql_mode { SQL_MODE_LEASE, SQL_MODE_ROW, SQL_MODE_SESSION };

/* What the URL says, beyond what the client library takes. */
struct sql_conf {
    struct hfi_conf url;
    enum sql_mode mode;   /* mode=lease|row|session */
    bool tokens;          /* tokens=on: row and session */
    uint32_t connections; /* connections=N: the most that are open; default 16 */
    const char *schema;   /* schema= (PostgreSQL); "": the database's own */
    const char *prefix;   /* prefix=holdfast_ */
    int pooler;           /* pooler=session is 0; ... */
    bool pooled;          /* ... what is between us and the server keeps sessions apart */
    bool create;          /* create=on|off: make tables on first use */
    int64_t window_ms;    /* window=; 0: not given */
    int64_t window_min_ms, window_max_ms; /* claim window: the ttl, but within these: 3 s, 10 s */
    int64_t connect_ms, op_ms;            /* connect_timeout=, op_timeout=: of one statement */
};

#define SQL_SCHEMA_MAX   60 /* bytes of schema= */
#define SQL_PREFIX_MAX   40 /* bytes of prefix= */
#define SQL_PREFIX       "holdfast_"
#define SQL_LIMIT_MIN_MS 10
#define SQL_LIMIT_MAX_MS (INT64_C(10) * 60 * 1000)

/* Rows of every engine of SQL; the struct of an engine begins with a struct sql_conf. */
#define SQL_AT(member) offsetof(struct sql_conf, member)
#define SQL_PARAMS                                                                                 \
    { "mode", HFI_PARAM_CHOICE, SQL_AT(mode), 0, 0, SQL_MODE_LEASE, "lease row session" },         \
        { "tokens", HFI_PARAM_SWITCH, SQL_AT(tokens), 0, 0, 0, NULL },                             \
        { "create", HFI_PARAM_SWITCH, SQL_AT(create), 0, 0, 1, NULL },                             \
        { "prefix", HFI_PARAM_TEXT, SQL_AT(prefix), 0, SQL_PREFIX_MAX, 0, SQL_PREFIX },            \
        { "connections", HFI_PARAM_NUMBER, SQL_AT(connections), 1, 1000, 16, NULL },               \
        { "pooler", HFI_PARAM_CHOICE, SQL_AT(pooler), 0, 0, 1, "session" },                        \
        { "window", HFI_PARAM_DURATION, SQL_AT(window_ms), 3000, SQL_LIMIT_MAX_MS, 0, NULL },      \
    {                                                                                              \
        "op_timeout", HFI_PARAM_DURATION, SQL_AT(op_ms), SQL_LIMIT_MIN_MS, SQL_LIMIT_MAX_MS, 5000, \
            NULL                                                                                   \
    }

/* ---- one open store --------------------------------------------------------------------------------- */

#define SQL_TTL_MS 30000
#define SQL_BLOCK_MAX \
    1000 /* tokens: no block ends this number of microseconds ahead of the server's clock (sql/00_tables.sql, sql/10_tables.sql) */
#define SQL_MIN_TTL_MS 1000
#define SQL_GUARD_MS   2
#define SQL_CANCEL_MS  2000 /* how long a waiter that leaves the queue waits for an answer */
#define SQL_STOP_MS \
    1000 /* how long an op that was stopped waits for the answer to what it has sent before */
#define SQL_LOOK_MS \
    200 /* how often such an op looks whether it was stopped, while the server says nothing */

struct sql_wait;            /* listener.c: one acquire that waits in the store */
struct sql_stale_statement; /* stale_statements.c */
struct sql_locks;           /* native_lock.c */

struct sql_store {
    const struct sql_driver *driver;
    struct hfi_host *host;
    struct sql_conf conf;
    const char *location; /* by driver->parse() */
    void *native;         /* likewise: of the driver */
    int64_t client;       /* our number on the server */
    pthread_mutex_t lock;

    /* pool.c */
    pthread_cond_t connection_free; /* on CLOCK_MONOTONIC */
    struct sql_connection *idle;
    struct sql_connection *all; /* also those in use, that of the listener, and lock connections */
    uint32_t connections;       /* that are open, or being opened */
    uint32_t takers;            /* threads that wait for one */
    bool closing;

    /* schema.c */
    /* 1: the schema has been found, or made; 0: look for it; -1: something of it is missing */
    _Atomic int ready;
    pthread_mutex_t schema_lock;

    struct sql_stale_statement *stale_statements;

    /* listener.c, lease.c */
    struct sql_wait *waits; /* acquires that the listener knows of */
    struct hfi_claim *held; /* through struct sql_lease_claim */
    struct sql_note *notes; /* local passes that the server does not know yet */
    _Atomic bool watches;   /* a WATCHED claim was asked for */
    /* while they are sent; taken before store->lock, and held over the call */
    pthread_mutex_t note_lock;
    struct sql_connection *listener_connection;
    pthread_t listener_thread;
    bool listener_runs;
    int kick_fd;
    int64_t heartbeat_sent_ms;   /* when the last HEARTBEAT left that was answered; 0: none */
    _Atomic int64_t answered_ms; /* when the last statement left that was answered; 0: none */
    struct sql_listener *listener;

    /* sweep.c */
    _Atomic uint32_t unswept;     /* releases since the last sweep */
    _Atomic uint32_t sweep_every; /* 0: not known yet */

    struct sql_locks *locks;     /* native_lock.c's own */
    struct sql_store *fork_next; /* fork.c's */
};

/* claim->room: a lease that is held, in mode=lease, and in the other modes. */
struct sql_lease_claim {
    struct hfi_claim *next, *prev; /* in store->held, if it is listed */
    bool listed;
    struct sql_note *note; /* NULL: it cannot be passed on */
    uint32_t round;        /* of heartbeats, that named it last */
    int64_t since_ms;      /* when it was granted */
    uint64_t last;         /* of its tokens, as far as we were told */
    bool wanted;           /* others wait for it, as far as we were told */
};

struct sql_lock_claim {
    struct sql_lock_connection *lock_conn; /* NULL: it holds nothing (any more) */
    size_t at;                             /* in lock connection->held */
    int64_t key;                           /* mode=session: its number (sql_lock_key) */
};

union sql_claim {
    struct sql_lease_claim lease;
    struct sql_lock_claim lock;
};

static inline struct sql_lease_claim *sql_lease_claim(struct hfi_claim *claim)
{
    return &((union sql_claim *)(void *)claim->room)->lease;
}
static inline struct sql_lock_claim *sql_lock_claim(struct hfi_claim *claim)
{
    return &((union sql_claim *)(void *)claim->room)->lock;
}

/* ---- engine.c ---------------------------------------------------------------------------------------- */

hf_status sql_store_open(struct sql_store *store, const struct sql_driver *driver,
                         struct hfi_conf *conf, struct hfi_host *host, hf_error *err);
/* The promises of a URL's mode: mode=lease, or a native lock, [mode is session][tokens=on]. */
const struct hfi_promises *sql_promises(const struct sql_conf *conf,
                                        const struct hfi_promises *lease,
                                        const struct hfi_promises native[2][2]);
void sql_close(void *self);
void sql_abandon(struct sql_store *store);
void sql_submit(void *self, struct hfi_op *op);
void sql_cancel(void *self, struct hfi_op *op, hf_status status);
/* Finish op with `status` and these words (NULL: the status' own). No lock held. */
void sql_finish(struct hfi_op *op, hf_status status, const hf_error *err);

/* ---- conf.c ------------------------------------------------------------------------------------------- */

/* What follows from the table. HF_CONFIG. */
hf_status sql_conf_finish(struct sql_conf *conf, hf_error *err);
/* After driver->parse(): store->location says the mode and the prefix, too. */
hf_status sql_conf_select(struct sql_store *store, struct hfi_conf *url, hf_error *err);

/* ---- pool.c: any thread, without the lock --------------------------------------------------------------- */

/* A connection for this thread alone, with the schema made; waits for one, or opens one. */
hf_status sql_take(struct sql_store *store, int64_t deadline_ms,
                   struct sql_connection **ret_connection, hf_error *err);
/* Likewise, without checking the schema. */
hf_status sql_take_raw(struct sql_store *store, int64_t deadline_ms,
                       struct sql_connection **ret_connection, hf_error *err);
/* Give it back, or close it if it is dead. */
void sql_give(struct sql_connection *connection);
/* It no longer counts in the pool (it holds leases), and belongs to the caller until sql_drop(). */
void sql_keep(struct sql_connection *connection);
/* A connection that is the driver's open(), listen() becomes known to the pool; the end of any connection. */
void sql_pool_adopt(struct sql_connection *connection);
void sql_drop(struct sql_connection *connection);
void sql_pool_close(struct sql_store *store);
/* Sleep on a condition of CLOCK_MONOTONIC, at most until until_ms; may return early. With its lock. */
void sql_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms);
/* For poll() and epoll_wait(); they may return early. */
int sql_poll_ms(int64_t until_ms);

/* What this thread asks the server from now on is for `op`, which may be stopped meanwhile; NULL: for none. An answer that is under way
 * when it is stopped is awaited for SQL_STOP_MS at most: the outcome is unknown then, and core settles it. */
void sql_serve(const struct hfi_op *op);
/* The end of such a wait, which would be at until_ms. */
int64_t sql_until_ms(int64_t until_ms);
/* For poll(): as sql_poll_ms(), and soon enough to see that it was stopped. */
int sql_slice_ms(int64_t until_ms);

/* ---- call.c ----------------------------------------------------------------------------------------------- */

/* One call: its parameters and its outcome. */
struct sql_request {
    enum sql_call call;
    const struct sql_value *params;
    uint32_t count;
    int64_t deadline_ms;
    bool contended; /* others are known to wait for it */
    /* may be sent again after its connection was lost: a second copy finds what the first has
     * done */
    bool again;
    /* if the connection is lost, the stale statement may still act on this claim */
    const struct hfi_claim *claim;

    struct sql_rows rows; /* SQL_DONE: free with sql_rows_free() */
    int64_t sent_ms;      /* when the answered copy was sent */
    bool copied;          /* an earlier copy may have been executed too */
    struct sql_trouble trouble;
};
/* HF_OK: request->rows. HF_UNAVAILABLE, HF_DENIED, HF_CONFIG, ...: it was not done. HF_UNKNOWN: it
 * may have been, or may still be. The text is in request->trouble.error. */
hf_status sql_call(struct sql_store *store, struct sql_request *request);
/* The driver's call(), whose answer has the shape that it must have. SQL_MAYBE with HF_CORRUPT: it has not. */
enum sql_outcome sql_send(struct sql_connection *connection, enum sql_call call,
                          const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                          struct sql_rows *ret_rows, struct sql_trouble *trouble);
/* Any statement, on a connection that the caller has. Retried like a call. */
hf_status sql_text(struct sql_connection *connection, const char *sql, int64_t deadline_ms,
                   struct sql_rows *ret_rows, struct sql_trouble *trouble);
/* Reading rows. What is not of that kind is 0, "" or '?'. */
int64_t sql_int(const struct sql_rows *rows, uint32_t row, uint32_t column);
char sql_letter(const struct sql_rows *rows, uint32_t row, uint32_t column);
void sql_rows_free(struct sql_rows *rows);
/* For drivers: room for rows * columns values and `bytes` of data behind them. false: no memory. */
bool sql_rows_make(struct sql_rows *rows, uint32_t count, uint32_t columns, size_t bytes,
                   char **ret_data);

/* ---- shape.c ------------------------------------------------------------------------------------------------ */

/* Does the answer to a call with `params` parameters have its shape? Durations beyond HF_DURATION_MAX_MS become that. */
bool sql_answer_fits(enum sql_call call, uint32_t params, struct sql_rows *rows);
/* The same for any statement: these columns (shape.c has the letters), from `least` to `most` rows. */
bool sql_fits(struct sql_rows *rows, const char *columns, uint32_t least, uint32_t most);
/* The answer does not have its shape: free the rows, and mark the connection as dead. `what`
 * describes the statement. HF_CORRUPT. */
hf_status sql_odd(struct sql_connection *connection, const char *what, struct sql_rows *rows,
                  hf_error *err);
bool sql_only_reads(enum sql_call call);
/* "0,3,17", ascending. false: that is no list of numbers. */
bool sql_slots_parse(const struct sql_value *value, uint32_t ret_slots[HF_SLOTS_MAX],
                     uint32_t *ret_count);
const char *sql_call_name(enum sql_call call);

static inline struct sql_value sql_int_of(int64_t number)
{
    return (struct sql_value){ .type = SQL_INT, .number = number };
}
static inline struct sql_value sql_bytes(const void *bytes, size_t len)
{
    return (struct sql_value){ .type = SQL_BYTES, .bytes = bytes, .len = len };
}
static inline struct sql_value sql_null(void)
{
    return (struct sql_value){ .type = SQL_NULL };
}

/* ---- fork.c ------------------------------------------------------------------------------------------------ */

/* Between these a forked child closes all connections of the store. */
void sql_fork_add(struct sql_store *store);
void sql_fork_remove(struct sql_store *store);
/* How often this process has been forked. */
unsigned sql_forks(void);
/* All open stores of this process that have the same server and tables as `store`, and `store` itself. None is closed meanwhile,
 * nor is the process forked. */
void sql_each(const struct sql_store *store, void (*visit)(struct sql_store *store, void *arg),
              void *arg);

/* ---- schema.c ------------------------------------------------------------------------------------------------ */

/* Make sure that tables and routines exist; create=off: only check. On `connection`, which has just
 * been opened. */
hf_status sql_schema(struct sql_connection *connection, int64_t deadline_ms, hf_error *err);

/* ---- stale_statements.c --------------------------------------------------------------------------------------------------- */

/* Memory for it, before a statement leaves that may grant something. false: none. */
bool sql_stale_reserve(struct sql_connection *connection);
/* The statement on this connection, which is dead, may still run and grant `claim`. sql_stale_reserve() was true. */
void sql_stale_add(struct sql_connection *connection, const struct hfi_claim *claim);
/* HF_OK: nothing of ours that could grant `claim` runs any more. */
hf_status sql_stale_wait_until_gone(struct sql_store *store, const struct hfi_claim *claim,
                                    int64_t deadline_ms, hf_error *err);
void sql_stale_free(struct sql_store *store);

/* ---- lease.c, listener.c, inspect.c, cells.c: the ops; each finishes its op ----------------------------------------------- */

void sql_acquire(struct sql_store *store, struct hfi_op *op);
void sql_release(struct sql_store *store, struct hfi_op *op);
void sql_renew(struct sql_store *store, struct hfi_op *op);
void sql_adopt(struct sql_store *store, struct hfi_op *op);
void sql_break(struct sql_store *store, struct hfi_op *op);
void sql_ask(struct sql_store *store, struct hfi_op *op);
void sql_resize(struct sql_store *store, struct hfi_op *op);
void sql_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid);
void sql_list(struct sql_store *store, struct hfi_op *op);
void sql_look(struct sql_store *store, struct hfi_op *op);
void sql_cell_read(struct sql_store *store, struct hfi_op *op);
void sql_cell_swap(struct sql_store *store, struct hfi_op *op);
void sql_cells_commit(struct sql_store *store, struct hfi_op *op);
void sql_cell_wait(struct sql_store *store, struct hfi_op *op);
void sql_time(struct sql_store *store, struct hfi_op *op);
/* cancel() of a waiting acquire or cell wait: it ends soon, on its own thread or a worker. */
void sql_wait_cancel(struct sql_store *store, struct hfi_op *op);
void sql_listener_stop(struct sql_store *store);
/* Remove old rows, now and then. Best effort. */
/* sweep.c: after a release; and when the store is closed. `known`: the server has rows of this client. */
void sql_sweep_released(struct sql_store *store);
void sql_sweep_closing(struct sql_store *store, bool known);
hf_status sql_doctor(struct sql_store *store, hfi_finding_fn *finding, void *arg, hf_error *err);
/* hf_sql_get_schema(), for the extension of an engine. */
hf_status sql_get_schema(const struct sql_driver *driver, struct hfi_conf *conf, char **ret_sql,
                         hf_error *err);
/* lock_sql.c: a statement of hf_sql_lock(), likewise. */
hf_status sql_get_lock(const struct sql_driver *driver, struct hfi_conf *conf,
                       const struct hfi_name *name, enum hfi_sql_statement which, char **ret_sql,
                       hf_error *err);

/* ---- native_lock.c: mode=row, mode=session. open: after conf, before anything else; NULL-safe ends ------------------------- */

hf_status sql_locks_open(struct sql_store *store, hf_error *err);
void sql_locks_close(struct sql_store *store);
void sql_locks_abandon(struct sql_store *store);
/* ACQUIRE, RELEASE, RENEW, LIST of these modes. */
void sql_locks_submit(struct sql_store *store, struct hfi_op *op);
void sql_locks_cancel(struct sql_store *store, struct hfi_op *op, hf_status status);
hf_status sql_locks_doctor(struct sql_store *store, hfi_finding_fn *finding, void *arg,
                           hf_error *err);
/* The one of the store's mode. */
hf_status sql_any_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);

#endif
