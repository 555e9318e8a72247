/* SPDX-License-Identifier: MIT */
/* What acquire.c, cells.c and the listener share: an op that waits. */
#ifndef SQL_WAIT_H
#define SQL_WAIT_H

#include "engine/kit/handover.h"
#include "engine/sql/internal.h"

/*
 * One op that waits: the beginning of its room. All of it is under store->lock.
 *
 * Between its statements it sleeps: a thread that the op has sleeps on `woken`; without one the op is suspended, so that it is
 * nothing but an entry of the list until sql_wait_wake() has it resumed (host->resume()), on any worker.
 */
struct sql_wait {
    struct sql_wait *next, *prev;
    struct sql_store *store;
    struct hfi_op *op;
    struct hfi_claim *claim; /* NULL: a cell is waited for */
    bool listed;
    bool suspended;
    _Atomic uint32_t woken; /* 1: something has happened to it since it slept last */
    int64_t wake_ms;        /* suspended: the listener wakes it then */
    int64_t resumed_ms;     /* it was resumed then, and has taken no step since; 0: it has */
    bool for_listener;      /* sql_listener_ready(): it is woken when that changes, ... */
    uint32_t failures;      /* ... and this is what it has seen of the listener */
    enum hfi_waiter_state state;
    int64_t window_ms;  /* of its grant */
    int64_t recheck_ms; /* when a RECHECK of its name is useful; a cell: when to read it again */

    int64_t heard_ms; /* the send of the last call that was answered "still waiting" */
    uint64_t floor;   /* a message with a token up to this is old */
    bool told;        /* while ASKING: a message came before the answer */
    bool naps;        /* it stands in the queue as one whose listener naps */
    bool others_wait; /* the message of its grant said so */
    bool granted;     /* what was granted: */
    bool forgotten;   /* the server does not know it any more */
    uint64_t token;
    uint32_t tokens;
    int64_t from_ms, lasts_ms;

    uint32_t round; /* of heartbeats, that named it last */

    uint64_t cell; /* hash of the cell's name */
};

/* What an acquire of mode=lease does next. */
enum sql_step {
    SQL_STEP_BEGIN,
    SQL_STEP_ASK,       /* send ACQUIRE */
    SQL_STEP_LISTENER,  /* wait for the listener, and ask again */
    SQL_STEP_REST,      /* wait until rest_ms, and ask again */
    SQL_STEP_QUEUED,    /* wait in the server's queue */
    SQL_STEP_SUSPENDED, /* it is none of this thread's business any more */
    SQL_STEP_END
};

/* op->room of an acquire of mode=lease; of a wait for a cell it is a struct sql_wait. */
struct sql_acquire {
    struct sql_wait wait;
    enum sql_step step;
    hf_status status; /* SQL_STEP_END */
    int64_t rest_ms;
    bool unsure;   /* a copy of our ACQUIRE may still be executed */
    bool silent;   /* it was stopped, and the server did not answer it any more */
    bool in_store; /* the server may have us in its queue */
    bool numbered; /* the grant's numbers are in claim->slots */
};

static inline struct sql_wait *sql_wait_of(struct hfi_op *op)
{
    return (struct sql_wait *)(void *)op->room;
}
#define SQL_STORAGE /* for the tables of both engines */ \
    HFI_STORAGE(struct sql_store, struct sql_acquire, union sql_claim)

/* Into the list: from here on cancel() finds it. Its members are set but for the first two. */
void sql_wait_add(struct sql_wait *wait);
void sql_wait_remove(struct sql_wait *wait);
/* Sleep until something has happened to it, or until_ms. Without the lock. true: look again. false: it is suspended, and nothing of
 * it may be touched any more. */
bool sql_wait_sleep(struct sql_wait *wait, int64_t until_ms);
/* With the lock: it shall look. */
void sql_wait_wake(struct sql_wait *wait);
/* With the lock: wake what is suspended until now or earlier. Returns when the next is to be woken. */
int64_t sql_waits_wake_due(struct sql_store *store, int64_t now_ms);
/* With the lock: a message says that it was granted. */
void sql_wait_message(struct sql_store *store, struct sql_wait *wait, uint64_t token,
                      uint32_t tokens, int64_t window_ms);

/* What the listener keeps for itself; under store->lock. */
struct sql_listener {
    bool stop;
    bool up;      /* it listens */
    bool hears;   /* core knows that. Its own thread only */
    bool asleep;  /* nothing was held for a while: it wants a kick when something is */
    bool busy;    /* something was held since it looked last */
    bool naps;    /* a transaction that grants to us shall end its nap; of a driver that naps */
    bool napping; /* such a nap is under way */
    bool heartbeat_now; /* a heartbeat was requested, or a notice requires it */
    int64_t until_ms;   /* it sleeps until then, unless a notice comes */
    int64_t note_ms;    /* when to send notes */
    hf_error why;       /* why it is not up */
    uint32_t failures;
    uint32_t round; /* of heartbeats */
};

/* HF_OK: the listener runs, listens, and has told the server lately that we live: a wait can be answered by a message.
 * HF_BUSY: not yet; it was started, and `wait` will be woken. Else why it cannot. */
hf_status sql_listener_ready(struct sql_wait *wait, hf_error *err);
/* Its thread, without the lock: messages arrive from now on, or do not any more. */
void sql_listener_hears(struct sql_store *store, bool on);
/* Its thread runs. With the lock. */
hf_status sql_listener_start(struct sql_store *store, hf_error *err);
/* Is that so now? With the lock. */
bool sql_listener_fresh(const struct sql_store *store);
/* Make the listener check for work. */
void sql_listener_kick(struct sql_store *store);

/* With the lock: something is held from now on (WATCHED: it must listen at once); a pass is to be noted soon. */
void sql_listener_held(struct sql_store *store, bool watched);
void sql_listener_note(struct sql_store *store);

/* With the lock: it must not sleep past that. */
void sql_listener_by(struct sql_store *store, int64_t at_ms);

/* Ask for the numbers of a NUMBERED lease. HF_OK; HF_NOT_FOUND: it does not hold, or has none. */
hf_status sql_slots_get(struct sql_store *store, struct hfi_claim *claim, int64_t deadline_ms,
                        hf_error *err);

int64_t sql_window_ms(const struct sql_store *store, int64_t ttl_ms);

/* Note a lease while it is held: for messages that it was broken. */
void sql_held_add(struct sql_store *store, struct hfi_claim *claim);
void sql_held_remove(struct sql_store *store, struct hfi_claim *claim);
/* Tell the server what was passed on locally. HF_UNAVAILABLE, HF_UNKNOWN: the server may not have received them; they are sent again with the
 * next. */
hf_status sql_notes_send(struct sql_store *store, int64_t deadline_ms, hf_error *err);

/* ---- between waits.c, heartbeat.c and listener.c ---- */

/* With the lock: it was granted this, from from_ms on. */
void sql_wait_granted(struct sql_wait *wait, uint64_t token, uint32_t tokens, int64_t from_ms,
                      int64_t lasts_ms);
/* With the lock. NULL: nobody waits as this owner. */
struct sql_wait *sql_wait_find(struct sql_store *store, const unsigned char *owner);
/* A lease of this owner, if it is held here, is lost. Without the lock. */
void sql_held_lost(struct sql_store *store, const unsigned char *owner);
/* What the server told the listener. Without the lock. */
void sql_take_notice(struct sql_store *store, const struct sql_message *m);
/* With the lock: what waits for the listener shall look. */
void sql_listener_changed(struct sql_store *store);
/* Does a wait stand in the queue as one whose listener naps? Without the lock. */
bool sql_waits_need_nap(struct sql_store *store);
/* Whether it may nap from now on; whether it does. Without the lock; the listener's thread. */
void sql_listener_naps(struct sql_store *store, bool may);
void sql_listener_napping(struct sql_store *store, bool does);

#define SQL_HEARTBEAT_BATCH 256 /* waits that one HEARTBEAT names */

/* Names and owners of waits, copied: the waits themselves may be gone when the answer comes. */
struct sql_heartbeat_batch {
    uint32_t count;
    int64_t window_ms;
    struct sql_value params[2 + 2 * SQL_HEARTBEAT_BATCH];
    unsigned char owners[SQL_HEARTBEAT_BATCH][HFI_OWNER_LEN];
    unsigned char names[SQL_HEARTBEAT_BATCH][HF_NAME_MAX];
};

/* A heartbeat of all that wait; with `held` also of what is held. */
hf_status sql_heartbeat(struct sql_store *store, struct sql_heartbeat_batch *batch, bool held,
                        hf_error *err);
/* A recheck of every name for which one is due. */
hf_status sql_recheck_due(struct sql_store *store, hf_error *err);

#endif
