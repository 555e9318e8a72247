/* SPDX-License-Identifier: MIT */
/* What acquire.c, cells.c and the bell share: an op that waits. */
#ifndef SQL_WAIT_H
#define SQL_WAIT_H

#include "engine/kit/handover.h"
#include "engine/sql/internal.h"

/*
 * One op that waits, on its thread's stack. All of it is under conn->lock; `word` is raised with every
 * event, so that its thread can sleep on it.
 */
struct sql_wait {
    struct sql_wait *next, *prev;
    struct hfi_op *op;
    struct hfi_claim *claim; /* NULL: a cell is waited for */
    _Atomic uint32_t word;
    enum hfi_waiter_state state;
    hf_status stop;    /* HF_OK, or what it is to end with */
    int64_t window_ms; /* of its grant */
    int64_t poke_ms;   /* when a POKE of its name is worth while; a cell: when to look again */

    int64_t heard_ms; /* the send of the last call that was answered "still waiting" */
    uint64_t floor;   /* a message with a token up to this is an old one */
    bool told;        /* while ASKING: a message came before the answer */
    bool granted;     /* what was granted: */
    bool forgotten;   /* the server does not know it any more */
    uint64_t token;
    uint32_t tokens;
    int64_t from_ms, lasts_ms;

    uint32_t round; /* of beats, that named it last */

    uint64_t cell; /* hash of the cell's name */
    bool changed;  /* ... and there is reason to look at it */
};

void sql_wait_add(struct hfi_conn *conn, struct sql_wait *wait);
void sql_wait_remove(struct hfi_conn *conn, struct sql_wait *wait);
/* Sleep until something has happened to it, or until_ms. Without the lock. */
void sql_wait_sleep(struct hfi_conn *conn, struct sql_wait *wait, int64_t until_ms);
/* With the lock: its thread shall look. */
void sql_wait_wake(struct sql_wait *wait);
/* With the lock: a message said that it was granted this. */
void sql_wait_message(struct hfi_conn *conn, struct sql_wait *wait, uint64_t token, uint32_t tokens,
                      int64_t window_ms);

/* The bell runs, listens, and has told the server lately that we live: a wait can be answered by a message.
 * Starts it if need be, and waits for it until deadline_ms or until `wait` is to stop. */
hf_status sql_bell_ready(struct hfi_conn *conn, struct sql_wait *wait, int64_t deadline_ms,
                         hf_error *err);
/* Is it so now? With the lock. */
bool sql_bell_fresh(const struct hfi_conn *conn);
/* Have the bell look at what there is to do. */
void sql_bell_kick(struct hfi_conn *conn);

/* With the lock: something is held from now on; a pass is to be noted soon. */
void sql_bell_hold(struct hfi_conn *conn);
void sql_bell_note(struct hfi_conn *conn);

/* With the lock: it must not sleep past that. */
void sql_bell_by(struct hfi_conn *conn, int64_t at_ms);

int64_t sql_window_ms(const struct hfi_conn *conn, int64_t ttl_ms);

/* A lease of ours, as long as it is held: for messages that it was broken. */
void sql_held_add(struct hfi_conn *conn, struct hfi_claim *claim);
void sql_held_remove(struct hfi_conn *conn, struct hfi_claim *claim);
/* Tell the server what was passed on locally. On `link`, or one of the pool. */
/* HF_UNAVAILABLE, HF_UNKNOWN: the server may not have heard them; they are sent again with the next. */
hf_status sql_notes_send(struct hfi_conn *conn, struct sql_link *link, int64_t deadline_ms,
                         hf_error *err);

#endif
