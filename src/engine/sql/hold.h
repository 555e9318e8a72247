/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: a lease is a lock of the server's own, and lives as long as the
 * connection that holds it.
 *
 *   hold.c          the ops, open and close
 *   hold_seat.c     which connection serves whom
 *   hold_watch.c    one thread per store: connections that hang up, waits that must end
 *   hold_text.c     statements: templates of each server, filled in
 *   hold_look.c     who waits for whom, for the detector
 *   hold_tell.c     what processes tell each other for that
 *
 * A *seat* is a connection for locks. mode=row: a lease is a transaction, so a seat has one. mode=session:
 * up to SQL_SEAT_MAX names share a seat. The server lets a session lock again what it has locked, so
 * a name that a seat holds is never asked for on that seat.
 *
 * A statement that may block (a *stay*) runs only on a seat that holds nothing: it would keep others from
 * releasing. It has no time limit at the server; the watch thread ends it, at its deadline or when core
 * cancels it, by the server's own means (PQcancel, KILL QUERY). Such an end races with the grant: so the lock
 * is given back, by a statement that is certain, before the op is finished with anything but HF_OK. If the
 * server does not react at all the connection is cut: then whatever was or will be granted to it ends with it.
 *
 * hold->lock guards all of it; nothing that blocks is done under it. It is below conn->lock in no path.
 */
#ifndef SQL_HOLD_H
#define SQL_HOLD_H

#include "engine/sql/internal.h"

#define SQL_SEAT_MAX   512  /* names per connection, mode=session */
#define SQL_KNOWN      1024 /* names that this store has recorded, remembered by their hash */
#define SQL_SQL_ROOM   4096 /* a name of HF_NAME_MAX bytes in hex, twice, and words around it */
#define SQL_KEY_ROOM   128
#define SQL_TABLE_ROOM 256

/* Keepalives. The client's are shorter: who is cut off must know before the server lets the next one in. */
#define SQL_ALIVE_IDLE_S        5
#define SQL_ALIVE_INTERVAL_S    3
#define SQL_ALIVE_COUNT         3
#define SQL_ALIVE_TEXT_IDLE     "20" /* the server's */
#define SQL_ALIVE_TEXT_INTERVAL "5"
#define SQL_ALIVE_TEXT_COUNT    "4"

/*
 * What a server is told, in its own words. In templates {K} is the lock's key and {N} the name, as literals;
 * {T} is the table of recorded names and {R} that of rows. {W} is the table of waits, {C} our number in it, {M} the mode.
 */
struct sql_hold_words {
    const char *limits; /* name, value: time limits of an operator that are on */
    const char
        *keepalive; /* seconds after which the server looks for a silent host; 0: it does not say */
    const char *prepare;      /* a connection that will hold: no operator's time limit may end it */
    const char *names, *rows; /* the tables, without prefix */
    const char *interrupted;  /* the error of an interrupted statement: a SQLSTATE, or a number */
    /* mode=session. try_: 1 or not. wait: granted if its first value is not 0 and not NULL. free_: 1, or it was not held. */
    const char *session_record; /* the name at this key */
    const char *session_try, *session_wait, *session_free;
    bool calls; /* what a pair needs is SQL_LOCK_TRY and SQL_LOCK_FREE instead, prepared */
    /* mode=row. A row: it is locked. */
    const char *row_known, *row_add, *row_try, *row_wait, *row_free;
    /* hold_tell.c: the connection says that {C} lives, as long as it does; rows of those that do not live go. */
    const char *waits_live, *waits_sweep;
    /* The key of a name, from a hash of it and of where our tables are. */
    void (*key)(const uint64_t hash[2], char ret_key[SQL_KEY_ROOM]);
    /* Quote a table: `schema` may be "". */
    void (*table)(const char *schema, const char *prefix, const char *name,
                  char ret_table[SQL_TABLE_ROOM]);
    /* Is this a connection to the server itself, and one whose locks mean something? HF_CONFIG says why not. */
    hf_status (*verify)(struct sql_link *link, enum sql_mode mode, int64_t deadline_ms,
                        hf_error *err);
};

struct sql_held {
    uint64_t hash;
    struct hfi_claim *claim;
};

struct sql_seat {
    struct sql_seat *next;
    uint64_t id; /* never used again */
    struct sql_link *link;
    int fd; /* a copy of the link's: ours to watch and to cut, whatever the driver does with its own */
    bool busy; /* a thread has it */
    bool hung; /* the other end is gone; who has it, or the watch thread, ends it */
    uint32_t count;
    struct sql_held held[];
};

/* An acquire under way; on its thread's stack. */
struct sql_stay {
    struct sql_stay *next;
    struct hfi_op *op;
    struct sql_seat *seat; /* whose statement blocks for it; NULL: none now */
    _Atomic int stop;      /* HF_OK: go on; else the status with which it is to end */
    bool interrupting;     /* the watch thread is at it, and needs `seat` */
    int64_t act_ms;        /* when the watch thread has something to do about it */
    int64_t cut_ms;        /* when it loses patience; 0: it was not asked to end yet */
    unsigned asked;
    bool told; /* other processes have been told of it, or are about to be */
};

struct sql_hold {
    struct hfi_conn *conn;
    const struct sql_hold_words *words;
    pthread_mutex_t lock;
    pthread_cond_t
        changed; /* on CLOCK_MONOTONIC: a seat is free, a stay was stopped, an interrupt is over */
    struct sql_seat *seats;
    _Atomic uint64_t last_id;
    uint32_t count, limit; /* seats that are there or being opened; at most */
    uint32_t seat_max;     /* leases on one */
    struct sql_stay *stays;
    bool watching, stop;
    pthread_t watcher;
    int epoll_fd, kick_fd;
    int64_t wakes_ms; /* when the watch thread will look by itself */
    char names[SQL_TABLE_ROOM], rows[SQL_TABLE_ROOM], waits[SQL_TABLE_ROOM];
    _Atomic bool tells, owing; /* something was told; and could not be taken back yet */
    pthread_mutex_t tell_lock; /* above `lock`: one tells at a time, or takes back */
    uint64_t known[SQL_KNOWN][2];
};

extern const struct sql_hold_words postgres_hold, maria_hold; /* each in its module */

/* ---- hold_text.c ---- */

/* false: out of room (never with names that core lets through). */
/* The key of a name as a number. */
int64_t sql_hold_key(const struct sql_hold *hold, const struct hfi_name *name);
bool sql_hold_fill(struct sql_hold *hold, const char *template, const struct hfi_name *name,
                   char *sql, size_t room);

/* ---- hold_look.c, hold_tell.c ---- */

/* A copy: claims are the caller's again when the lock is given back. */
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

void sql_hold_look(struct hfi_conn *conn, struct hfi_op *op);
/* Room for `more` lines. false: no memory. */
bool sql_lines_room(struct sql_lines *lines, size_t more);

/* Tell other processes of the waits among `lines` that are here; add what they tell. With tell_lock. false: it did not work, and
 * only this process is known. */
bool sql_tell_waits(struct hfi_conn *conn, struct sql_lines *lines);
/* The same of those that hold what is waited for. */
void sql_tell_holders(struct hfi_conn *conn, const struct sql_lines *lines);
/* A wait of which others were told is over: before its caller can release anything. NULL: what could not be taken back before. */
void sql_take_back(struct sql_hold *hold, const struct sql_stay *stay);

/* ---- hold_seat.c: with hold->lock, but for those that say otherwise ---- */

enum sql_way { SQL_WAY_TRY, SQL_WAY_WAIT };

/* A seat for this stay, busy for it, and what to do on it. `tried`: the name was found locked, so only a
 * seat on which it can wait will do. HF_OK, or why there is none. Without the lock. */
hf_status sql_seat_take(struct sql_hold *hold, struct sql_stay *stay, bool tried,
                        struct sql_seat **ret_seat, enum sql_way *ret_way, hf_error *err);
/* Back from this thread; if it has hung up, or its link is dead, its leases are lost. Without the lock. */
void sql_seat_give(struct sql_hold *hold, struct sql_seat *seat);
/* For a release: busy for us, the claim taken off. NULL: it is lost. Without the lock. */
struct sql_seat *sql_seat_of(struct sql_hold *hold, struct hfi_claim *claim);
void sql_seat_put(struct sql_seat *seat, struct hfi_claim *claim);
/* End a seat that is busy for us: connection and leases. Without the lock. */
void sql_seat_end(struct sql_hold *hold, struct sql_seat *seat, const char *why);
/* Sleep until something has changed, at most until until_ms. */
void sql_hold_sleep(struct sql_hold *hold, int64_t until_ms);

/* ---- hold_watch.c ---- */

/* Before the first lease. false: no thread to be had. With the lock. */
bool sql_watch_start(struct sql_hold *hold);
void sql_watch_stop(struct sql_hold *hold);
/* It must look at the stays at `at_ms`. With the lock. */
void sql_watch_at(struct sql_hold *hold, int64_t at_ms);
bool sql_watch_add(struct sql_hold *hold, struct sql_seat *seat);

#endif
