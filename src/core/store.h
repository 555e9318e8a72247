/* SPDX-License-Identifier: MIT */
/*
 * An open store: the engine's part, and everything that core keeps about it.
 *
 * Locks, in their order; a thread that has one takes only those below it:
 *
 *   cancel->lock, store->lock    lists of waits that can be stopped; while one is held,
 *                                engine->cancel() may be called
 *   shard->lock                  leases, local queues (several shards: in index order)
 *   keeper, notify, pool, drive  a lock each; while one is held, at most the last is taken
 *   loop->lock, call->lock
 *   closing.lock
 *
 * An engine's callbacks (done, host->lost, host->wake) take shard locks and those
 * below, so no engine function is called with one of them held, except passed(), which only makes a
 * note.
 */
#ifndef HFI_STORE_H
#define HFI_STORE_H

#include "core/adapt.h"
#include "core/drive.h"
#include "core/handle.h"
#include "core/keeper.h"
#include "core/lease.h"
#include "core/loop.h"
#include "core/notify.h"
#include "core/observer.h"
#include "core/pool.h"
#include "core/stats.h"
#include "deadlock/detector.h"
#include "deadlock/session.h"
#include "engine/engine.h"
#include "util/place.h"
#include "util/process.h"

#include <pthread.h>

#define HFI_SHARDS         16
#define HFI_BUCKETS_FIRST  16 /* of a shard */
#define HFI_PASSES_DEFAULT 64
#define HFI_PASSES_MAX     1000
#define HFI_PASS_MS        20 /* a few hand-overs by the store */
#define HFI_OPEN_WAIT_MS   5000
#define HFI_CALL_LIMIT_MS  5000 /* how long an op may take that does not queue */
#define HFI_GRACE_MS       2000 /* how long a cancelled op may take to end */
#define HFI_CLOSE_WAIT_MS  1000 /* how long hf_close() waits for claims that are being settled */

/* The leases and requests of the names that hash to it. */
struct hfi_shard {
    pthread_mutex_t lock;
    struct hfi_store *store;
    struct hfi_lease **buckets; /* `first`, until there are more than that */
    uint32_t bucket_count, linked;
    struct hfi_lease *first[HFI_BUCKETS_FIRST];
    uint32_t idles;        /* slots that are IDLE */
    uint64_t entered;      /* slots that came in */
    _Atomic uint64_t left; /* slots that are done; entered - left keep the store open */
    struct hfi_stats stats;
} __attribute__((aligned(64)));

/* How hf_close() learns that something which it waits for has ended. */
struct hfi_closing {
    _Atomic bool on;       /* it has begun, and the engine is still there */
    pthread_t thread;      /* its own, while `on` */
    _Atomic uint32_t word; /* changes each time; a futex */
    pthread_mutex_t lock;  /* while hf_close() is woken; none is taken below it */
};

#define HFI_STARTED_KEEPER 1u
#define HFI_STARTED_NOTIFY 2u

#define HFI_EXPOSED_MAX 200

/* INLINE: ops that could not be done at once on the thread of an event loop (workers.c). */
struct hfi_put_off {
    pthread_mutex_t lock;
    struct hfi_list calls;  /* the oldest first */
    struct hfi_call *now;   /* a worker is about to submit it, or does; NULL: none */
    _Atomic uint32_t count; /* of them, and the one that a worker has now */
    bool runs;              /* `task` is queued, or runs */
    struct hfi_pool_task task;
};

struct hfi_store {
    struct hfi_slot slot;
    _Atomic(const struct hfi_engine *) engine;
    _Atomic(const struct hfi_promises *) promises;
    void *opened;          /* the engine's own struct */
    struct hfi_conf *conf; /* lives as long as `opened` */
    struct hfi_host host;
    enum hfi_drive_kind drive; /* engine->drive->kind */
    uint32_t pass_limit; /* how often a lease is passed on while others wait in the store ... */
    int64_t pass_ms;     /* ... and for how long; 0: no limit */
    char label[HF_LABEL_MAX + 1];
    char source[HFI_SOURCE_MAX]; /* for people: what chose the URL */
    char exposed
        [HFI_EXPOSED_MAX]; /* for the doctor: a file with a password that others may read; "": none */

    pthread_mutex_t lock;
    struct hfi_list waits; /* requests that wait in the store, and asynchronous ones */
    uint32_t calls;        /* public calls under way that are not counted in a shard */
    struct hfi_closing closing;

    _Atomic bool hears; /* host->wanted() can be heard: the engine's line is up */
    /* slots whose claims are WATCHED: the keeper drives as soon as nobody else does */
    _Atomic uint32_t listens;
    int64_t linger_ms;                 /* of requests that do not say; 0: they do not linger */
    int64_t try_wait_ms;               /* how long a try waits for a lease that lingers elsewhere */
    _Atomic(struct hfi_adapt *) adapt; /* NULL: nothing has been called back yet */
    _Atomic unsigned started;          /* HFI_STARTED_*: which threads are there */
    struct hfi_shard shards[HFI_SHARDS];
    struct hfi_keeper keeper;
    struct hfi_notify notify;
    struct hfi_loop loop;
    struct hfi_pool pool;
    struct hfi_put_off put_off;
    struct hfi_driver driver;
    struct hfi_detector detector;
    struct hfi_scopes scopes;
};

extern struct hfi_table hfi_stores;

/* There is no such store: the text. Returns status. */
hf_status hfi_store_missing(hf_status status, hf_error *err);
/* The store of a handle, without any lock: its memory stays a store, but it may be closed any
 * moment until the caller is counted in a shard or by hfi_store_enter(). */
static inline hf_status hfi_store_find(hf_store *handle, struct hfi_store **ret_store,
                                       hf_error *err)
{
    *ret_store = hfi_slot_find(&hfi_stores, handle);
    if (!*ret_store)
        return hfi_store_missing(HF_INVALID, err);
    return hfi_slot_ours(&(*ret_store)->slot, hfi_process_id()) ? HF_OK
                                                                : hfi_store_missing(HF_FORKED, err);
}
/* Likewise, and keep it open until hfi_store_leave(). */
hf_status hfi_store_enter(hf_store *handle, struct hfi_store **ret_store, hf_error *err);
void hfi_store_leave(struct hfi_store *store);
/* Make sure that these threads run (HFI_STARTED_*). The store cannot be closed meanwhile. false: out
 * of memory or threads. */
bool hfi_store_start(struct hfi_store *store, unsigned threads);

static inline const struct hfi_engine *hfi_store_engine(struct hfi_store *store)
{
    return atomic_load_explicit(&store->engine, memory_order_relaxed);
}

/* What it promises: as the engine's table, and after open() as the URL chose. */
static inline const struct hfi_promises *hfi_store_promises(struct hfi_store *store)
{
    return atomic_load_explicit(&store->promises, memory_order_relaxed);
}

static inline struct hfi_shard *hfi_store_shard(struct hfi_store *store, const uint64_t hash[2])
{
    return &store->shards[hash[0] % HFI_SHARDS];
}

/* Something that hf_close() waits for has ended, or is due: wake it if it waits. Any thread, any
 * locks. The store may have been closed since: its memory stays a store. */
void hfi_closing_wake(struct hfi_store *store);

static inline void hfi_closing_tell(struct hfi_store *store)
{
    if (__builtin_expect(atomic_load(&store->closing.on), 0))
        hfi_closing_wake(store);
}

/* Likewise, but hf_close() itself does this in every round: then there is nothing to look at. */
static inline void hfi_closing_tell_others(struct hfi_store *store)
{
    if (__builtin_expect(atomic_load(&store->closing.on), 0) &&
        !pthread_equal(store->closing.thread, pthread_self()))
        hfi_closing_wake(store);
}

/* What entered by this shard keeps the store open no longer. */
static inline void hfi_shard_leave(struct hfi_shard *shard)
{
    struct hfi_store *store = shard->store;

    atomic_fetch_add(&shard->left, 1);
    hfi_closing_tell(store);
}

/* Fill in err: "<location>: <verb> '<name>': <inner's text, or the status's>". Returns status. */
hf_status hfi_store_error(struct hfi_store *store, const char *verb, const struct hfi_name *name,
                          hf_status status, const hf_error *inner, hf_error *err);

/* Clear the err of a call that succeeded. Cheap: only the first byte of the text is written. */
static inline hf_status hfi_ok(hf_error *err)
{
    if (err) {
        err->status = HF_OK;
        err->native = 0;
        err->text[0] = 0;
    }
    return HF_OK;
}

/* A hold ends at now_ms, and not by a loss. With the lock. */
static inline void hfi_stats_hold_released(struct hfi_lease *lease, int64_t now_ms)
{
    if (__builtin_expect((lease->id | lease->waited_ms | lease->handed) == 0 &&
                             now_ms <= lease->since_ms && !hfi_observed(),
                         1))
        atomic_load_explicit(&lease->shard, memory_order_relaxed)->stats.quick++;
    else
        hfi_stats_hold_ended(lease, HF_LOSS_NONE, "", now_ms);
}

#endif
