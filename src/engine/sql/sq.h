/* SPDX-License-Identifier: MIT */
/*
 * The SQL engines: what PostgreSQL and MariaDB share. All of it is compiled into both modules.
 *
 *   sql/conf.c      what the URL says beyond the server: mode, tokens, prefix, connections
 *   sql/pool.c      connections (links): how many, who has one, deadlines, those that were lost
 *   sql/call.c      one statement on a link of the pool: retried where the server asks for it
 *   sql/schema.c    tables and routines: made on first use, or only looked for
 *   sql/lease.c     mode=lease: acquire, release, renew, cancel, adopt, break
 *   sql/wait.c      mode=lease: who waits, the bell thread, heartbeats, pokes
 *   sql/look.c      inspect, of all modes
 *   sql/cells.c     cells and time
 *   sql/hold.c      mode=row, mode=session: a lease that is a connection's
 *   sql/ghost.c     statements that may still run although their link is gone
 *   sql/doctor.c    is this server safe for what we promise?
 *
 *   postgres/, mariadb/   a driver (struct sq_driver) each, the SQL of each call, the engine's tables
 *
 * BLOCKING: every op runs on the calling thread, on a link that it has to itself meanwhile. A link is
 * never shared by two threads at once. Whoever waits for a lease sleeps on a futex without a link;
 * one thread of the engine per store (the bell) hears of grants.
 *
 * Locks: conn->lock guards the pool, the waits and what is held; it is never held over a call that
 * blocks, nor while core is called.
 */
#ifndef HFI_SQ_H
#define HFI_SQ_H

#include "engine/engine.h"

#include <pthread.h>

/* ---- values, rows ------------------------------------------------------------------------------ */

enum sq_type { SQ_NULL, SQ_INT, SQ_BYTES, SQ_TEXT };

struct sq_value {
    enum sq_type type;
    int64_t number;    /* SQ_INT */
    const void *bytes; /* SQ_BYTES, SQ_TEXT */
    size_t len;
};

/* What a statement answered: text of numbers is turned into SQ_INT where the column is a number. Lives
 * until sq_rows_free(), in memory of its own. */
struct sq_rows {
    uint32_t columns, count;
    struct sq_value *values; /* row by row */
    void *memory;
};

static inline const struct sq_value *sq_at(const struct sq_rows *rows, uint32_t row,
                                           uint32_t column)
{
    return &rows->values[(size_t)row * rows->columns + column];
}
void hfi_sq_rows_free(struct sq_rows *rows);

/* ---- one connection ----------------------------------------------------------------------------- */

/*
 * What became of a statement. Only SQ_DONE has rows. SQ_REFUSED: the server said no, and nothing was
 * changed: `again` tells whether the same may be tried again (deadlock 40P01/1213, serialization
 * failure 40001, lock wait timeout 55P03/1205). SQ_UNSENT: it never left. SQ_MAYBE: the link was lost,
 * or the deadline passed, after it had left; the link is dead (`run` has closed its socket), and the
 * server may still do it: sql/ghost.c.
 */
enum sq_outcome { SQ_DONE, SQ_REFUSED, SQ_UNSENT, SQ_MAYBE };

struct sq_trouble {
    hf_status
        status; /* what it means for the caller: HF_DENIED, HF_UNAVAILABLE, HF_FULL, HF_CONFIG, ... */
    bool again;     /* SQ_REFUSED: try again, it was nobody's fault */
    bool no_table;  /* SQ_REFUSED: a table or routine of ours is missing (or of another version) */
    hf_error error; /* native: the server's number; text: its words, without secrets */
};

struct sq_link {
    struct hfi_conn *conn;
    bool dead;         /* of no use any more */
    bool in_txn;       /* mode=row: a transaction is open */
    int64_t server_id; /* the server's name for this connection: backend pid, CONNECTION_ID() */
    int64_t since;     /* with server_id: which of those that had this number */
    void *native;      /* PGconn *, MYSQL * */
    uint64_t prepared; /* bit per sq_call that the driver has prepared on it */
    struct sq_link *next;
};

/* ---- calls -------------------------------------------------------------------------------------- */

/*
 * What is asked of the server in mode=lease, and for cells, in every mode. Each is one statement, one
 * round trip and one transaction, whatever it does inside; both drivers have SQL for each of them
 * (postgres/sql/, mariadb/sql/) with these parameters and columns, in this order. Times are of the
 * server's clock only, microseconds since 1970; durations are in ms.
 *
 * `client` is a random 63-bit number of the open store: its inbox. `window` is the claim window as in
 * the Redis engine: a grant by hand-over is good for that long unless it is renewed or released.
 *
 * ACQUIRE   name, owner, mode, capacity, permits, flags, ttl, delay, tokens, may_wait, window, client, label
 *           -> verdict, token, tokens, ms
 *           G granted (ms: the ttl); B busy; Q queued (ms: until a POKE may be worth while: the first of
 *           those ahead expires); M another kind or capacity. The same owner again: what it has already.
 * RELEASE   name, owner           -> verdict      R given back; L no such owner. Hands over to who is next,
 *                                                 and rings the winners' bells.
 * RENEW     n times (name, owner, ttl), sorted by name -> name's index, 1 or 0 (lost): only rows found are listed
 * CANCEL    name, owner           -> verdict, token, tokens, ms      C left the queue; G it was granted; N neither
 * BEAT      client, window        -> owner, token, tokens, ms (of the grant's window that is left): grants of this client
 *                                    that it has not renewed yet. We live: our waiters count for one window more.
 * POKE      name                  -> ms until the next may be worth while. Ends what has expired, hands over.
 * ADOPT     name, owner, ttl      -> token, tokens, mode, capacity, permits; no row: no such lease
 * BREAK     name, token           -> verdict      B ended, its owner's client is rung; N no such lease
 * LOOK      name or NULL: all     -> kind of row (H, W), name, mode, capacity, closed ms, token, tokens, permits, kind,
 *                                    flags, age ms, ttl ms left or -1, position, label
 * SWEEP     limit                 -> n            removes what has been idle and expired for long, a few rows at a time
 * CELL_READ name                  -> version, bytes, ttl ms left or -1; no row: none
 * CELL_SWAP name, version, bytes or NULL, ttl -> verdict, version    C done; V it has this other version
 * TIME                            -> us
 * TOKEN     name, tokens          -> token        tokens=on of row and session: raised and committed
 */
enum sq_call {
    SQ_ACQUIRE,
    SQ_RELEASE,
    SQ_RENEW,
    SQ_CANCEL,
    SQ_BEAT,
    SQ_POKE,
    SQ_ADOPT,
    SQ_BREAK,
    SQ_LOOK,
    SQ_SWEEP,
    SQ_CELL_READ,
    SQ_CELL_SWAP,
    SQ_TIME,
    SQ_TOKEN,
    SQ_CALLS
};

#define SQ_FLAG_BARGE    1
#define SQ_FLAG_DETACHED 2

/* What a bell said. SQ_BELL_GRANT comes with all that BEAT would tell; a server that can only ring
 * says SQ_BELL_RUNG, and the bell thread asks with BEAT. */
enum sq_bell { SQ_BELL_QUIET, SQ_BELL_RUNG, SQ_BELL_GRANT, SQ_BELL_LOST, SQ_BELL_CELL };

struct sq_message {
    enum sq_bell kind;
    unsigned char owner[HFI_OWNER_LEN]; /* GRANT, LOST */
    uint64_t token;
    uint32_t tokens;
    int64_t window_ms;
    uint64_t cell[2]; /* CELL: hash of the name of a cell that changed */
};

/* ---- a driver ------------------------------------------------------------------------------------ */

/*
 * One server's client library. All calls block, on the calling thread, at most until deadline_ms
 * (hfi_now_ms() time), also if the server is stopped: sockets are polled, never just read.
 */
struct sq_driver {
    const char *name; /* "postgresql" */

    /* Connect; the session is made ready (time zone, autocommit, keepalives, application name, statement
     * timeouts off, plan settings). HF_UNAVAILABLE, HF_DENIED, HF_CONFIG. */
    hf_status (*open)(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_link,
                      hf_error *err);
    void (*close)(struct sq_link *link); /* also of a dead one */
    /* In a child after fork(): memory and descriptors only; nothing may be written to the server. */
    void (*abandon)(struct sq_link *link);

    /* One of the calls above. */
    enum sq_outcome (*call)(struct sq_link *link, enum sq_call call, const struct sq_value *params,
                            uint32_t count, int64_t deadline_ms, struct sq_rows *ret_rows,
                            struct sq_trouble *trouble);
    /* Any statement, as text without parameters: schema, row and session modes, doctor. With several
     * results the last one that has rows is given. */
    enum sq_outcome (*text)(struct sq_link *link, const char *sql, int64_t deadline_ms,
                            struct sq_rows *ret_rows, struct sq_trouble *trouble);
    /* A literal for text(): 'it''s', '\x00ff'::bytea, X'00ff'. Into `room` bytes at ret_text. */
    bool (*literal)(const struct sq_value *value, char *ret_text, size_t room);

    /* End the statement that runs on `link`, from another thread, with a connection of its own (PQcancel,
     * KILL QUERY). Best effort. */
    void (*interrupt)(struct sq_link *link, int64_t deadline_ms);
    /* Is the link's socket still there? For leases that are a connection's: no round trip. */
    bool (*alive)(struct sq_link *link);
    int (*fd)(struct sq_link *link);

    /* The bell of this store: a link that is told when this client is granted something or loses it, or a
     * cell that it watches changes. bell_wait() blocks until that, until_ms, or `kick` (an eventfd, which
     * it empties) is readable. HF_UNAVAILABLE: the link is gone. */
    hf_status (*bell_open)(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_bell,
                           hf_error *err);
    hf_status (*bell_wait)(struct sq_link *bell, int kick, int64_t until_ms,
                           struct sq_message *ret_message, hf_error *err);

    /* The schema: SQL that makes what is missing, one statement a string, NULL at the end; `prefix` is
     * in it as a name that is quoted already. */
    const char *const *(*schema)(struct hfi_conn *conn);
    /* Make sure that statements of a lost link do not run any more (ghost.c). HF_OK: they do not. */
    hf_status (*lay)(struct hfi_conn *conn, int64_t server_id, int64_t since, int64_t deadline_ms,
                     hf_error *err);
};

enum sq_mode { SQ_MODE_LEASE, SQ_MODE_ROW, SQ_MODE_SESSION };

/* What the URL says, beyond what the client library takes. */
struct sq_conf {
    enum sq_mode mode;
    bool tokens;                          /* tokens=on: row and session */
    uint32_t connections;                 /* connections=N: at most so many links; default 16 */
    char schema[64];                      /* schema= (PostgreSQL) or database of the URL */
    char prefix[64];                      /* prefix=holdfast_ */
    bool create;                          /* create=on|off: make tables on first use */
    int64_t window_min_ms, window_max_ms; /* claim window: the ttl, but within these: 3 s, 10 s */
};

#endif
