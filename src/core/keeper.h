/* SPDX-License-Identifier: MIT */
/*
 * The keeper: a thread per store, started with the first lease that has an end.
 * It watches every deadline, begins renewals in batches, and gives back claims
 * whose outcome is not known. It never blocks in an engine: what may block goes
 * to the pool, so that a lease is told LOST in time whatever the store does.
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
#define HFI_KEEPER_IDLE_MS  50 /* how soon the keeper drives again after somebody else did */

struct hfi_keeper {
    pthread_mutex_t lock;
    struct hfi_heap heap;
    uint32_t reserved;        /* timers that may come */
    struct hfi_list settling; /* leases, by `settling` */
    uint32_t busy;            /* renewals and releases under way in the background */
    struct hfi_call *reserve; /* for when there is no memory for another */
    bool reserve_used;
    bool running, stop;
    bool closed;      /* what cannot be settled now is let go */
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
/* The engine is closed: nothing comes after this. */
void hfi_keeper_done(struct hfi_store *store);

/* Keep a place for one timer, so that arming it cannot fail. false: out of memory. */
bool hfi_keeper_reserve(struct hfi_store *store);
/* Set the timer, which has a place. Locks of shards may be held. */
void hfi_keeper_arm(struct hfi_store *store, struct hfi_timer *timer, int64_t due_ms);
/* Stop the timer and give its place back. It may be firing right now. */
void hfi_keeper_forget(struct hfi_store *store, struct hfi_timer *timer);

/* Give back the claim of a slot in the background, not before `not_before_ms`: again and again until
 * the store says that it is gone; in the end HFI_PART_CLAIM is dropped. The slot is in no table, and if
 * it is `counted` in its shard, it is not any more: hf_close() knows it from here. */
void hfi_keeper_settle(struct hfi_lease *lease, int64_t not_before_ms, bool counted);

/* ---- renew.c ---------------------------------------------------------------- */

/* The timer of a held lease. */
void hfi_renew_due(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms);
/* Send what the last round of timers has put into the batch. */
void hfi_renew_flush(struct hfi_store *store);

/* ---- settle.c --------------------------------------------------------------- */

/* Begin the releases that are due; returns when to look again. With keeper.lock, which is dropped in
 * between. */
int64_t hfi_settle_round(struct hfi_store *store, int64_t now_ms);
/* Let go of what is not settled. */
void hfi_settle_drop(struct hfi_store *store);
/* How long to wait after that many failures. Pure. */
int64_t hfi_settle_pause(uint32_t tries);

/* An op in the background begins, and ends; hf_close() waits for them. */
void hfi_keeper_busy(struct hfi_store *store);
void hfi_keeper_idle(struct hfi_store *store);
/* Make the thread look again. With keeper.lock. */
void hfi_keeper_ring(struct hfi_store *store);

#endif
