/* SPDX-License-Identifier: MIT */
/*
 * The keeper: a thread per store, started with the first lease that has an end.
 * It watches every deadline, begins renewals in batches, and releases claims whose outcome is
 * unknown. It never blocks in an engine: work that may block goes to the pool, so that a lease
 * becomes LOST in time whatever the store does.
 */
#ifndef HFI_KEEPER_H
#define HFI_KEEPER_H

#include "core/drive.h"
#include "core/heap.h"
#include "core/pool.h"
#include "util/list.h"

#include <pthread.h>
#include <stdatomic.h>

struct hfi_call;
struct hfi_lease;
struct hfi_store;

#define HFI_BATCH_MAX       512 /* leases renewed by one op */
#define HFI_BATCH_EARLY_MS  100 /* how much earlier a lease may be renewed to share an op */
#define HFI_SETTLE_FIRST_MS 50  /* how soon a failed release is tried again; doubled each time */
#define HFI_SETTLE_LAST_MS  5000
#define HFI_KEEPER_IDLE_MS  50 /* how soon the keeper drives again after another thread did */

struct hfi_keeper {
    pthread_mutex_t lock;
    struct hfi_heap heap;
    uint32_t reserved;        /* timers that have a place */
    struct hfi_list settling; /* leases, by `settling` */
    struct hfi_list left;     /* likewise: those that stay in the store past hf_close() */
    uint32_t busy;            /* renewals and releases under way in the background */
    struct hfi_call *reserve; /* used when there is no memory for another one */
    bool reserve_used;
    bool running, stop;
    bool armed;       /* a timer was, since it looked last */
    bool closed;      /* claims that cannot be settled now are dropped */
    int64_t wakes_ms; /* it sleeps until then; HFI_NEVER; INT64_MIN: it does not sleep */
    _Atomic uint32_t bell;
    pthread_t thread;
    struct hfi_call *renewal; /* whose batch is being filled; the thread's own; NULL: none */
    pthread_cond_t ended;     /* a renewal has ended ... */
    uint64_t rounds;          /* ... as many so far */
};

void hfi_keeper_init(struct hfi_keeper *keeper);
/* Make sure that it runs. false: it could not be started. */
bool hfi_keeper_start(struct hfi_store *store);
/* End it, and give up what is not settled after HFI_CLOSE_WAIT_MS. */
void hfi_keeper_stop(struct hfi_store *store);
/* The engine is closed: free everything. */
void hfi_keeper_done(struct hfi_store *store);

/* Reserve a place for one timer, so that arming it cannot fail. false: out of memory. */
bool hfi_keeper_reserve(struct hfi_store *store);
/* Set the timer, which has a place. Locks of shards may be held. */
void hfi_keeper_arm(struct hfi_store *store, struct hfi_timer *timer, int64_t due_ms);
/* Stop the timer and give its place back. It may be firing right now. */
void hfi_keeper_forget(struct hfi_store *store, struct hfi_timer *timer);

/* Release the claim of a slot in the background, not before `not_before_ms`, and repeat that until
 * the store says that it is gone; then HFI_PART_CLAIM is dropped. The slot is in no table. If it
 * was `counted` in its shard, it no longer is: hf_close() finds it here. */
void hfi_keeper_settle(struct hfi_lease *lease, int64_t not_before_ms, bool counted);

/* ---- renew.c ---------------------------------------------------------------- */

/* The timer of a held lease. */
void hfi_renew_due(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms);
/* Send what the last round of timers has put into the batch. */
void hfi_renew_flush(struct hfi_store *store);

/* ---- settle.c --------------------------------------------------------------- */

/* hfi_keeper_settle(), but the release begins at once, on this thread. Without locks, after hfi_keeper_busy(). */
void hfi_settle_now(struct hfi_lease *lease);

/* Begin the releases that are due; returns when to call this again. With keeper.lock, which is
 * dropped in between. */
int64_t hfi_settle_round(struct hfi_store *store, int64_t now_ms);
/* hf_close() begins: claims that must stay are left in the store, whose ttl ends them. With keeper.lock. */
void hfi_settle_leave(struct hfi_store *store, int64_t now_ms);
/* The engine is closed, and has forgotten them: free their slots. */
void hfi_settle_forget(struct hfi_store *store);
/* Drop the claims that are not settled. */
void hfi_settle_drop(struct hfi_store *store);
/* How long to wait after that many failures. Pure. */
int64_t hfi_settle_pause(uint32_t tries);

/* An op in the background begins, and ends; hf_close() waits for them. */
void hfi_keeper_busy(struct hfi_store *store);
void hfi_keeper_idle(struct hfi_store *store);
/* Wake the thread. With keeper.lock. */
void hfi_keeper_ring(struct hfi_store *store);

#endif
