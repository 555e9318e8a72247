/* SPDX-License-Identifier: MIT */
/*
 * hf_close(). Whether a store is in use is decided with all of its locks held, so a refused close
 * has no effect. After that its handle is invalid, nothing new begins, and everything that is under
 * way is ended:
 *
 *   stop what waits, lose what is held -> call back -> leases become orphans ->
 *   claims go back -> settle -> threads end -> the engine is closed
 *
 * An orphan is a lease whose store is gone: its handle can only be passed to hf_release(), which
 * returns HF_LOST. A detached lease whose handle was exported (hf_lease_export(), hf_lease_adopt())
 * does not keep a store open: it stays in the store, for the process that has the handle.
 */
#include "core/call.h"
#include "core/conf.h"
#include "core/idle.h"
#include "core/table.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/futex.h"

/* Leases without a store, by ->next. */
struct orphans {
    struct hfi_lease *lost;  /* their claims are released */
    struct hfi_lease *alone; /* detached: they stay in the store */
};

static bool in_use(struct hfi_store *store);
static void end_all(struct hfi_store *store, struct orphans *orphans);
static void orphan_all(struct hfi_store *store, struct orphans *orphans);
static void orphan(struct hfi_store *store, struct hfi_lease *lease, struct orphans *orphans);
static void give_back(struct hfi_lease *lost);
static void forget(struct hfi_lease *alone);
static void free_store(struct hfi_store *store);

static void lock_all(struct hfi_store *store)
{
    pthread_mutex_lock(&store->lock);
    for (int i = 0; i < HFI_SHARDS; i++)
        pthread_mutex_lock(&store->shards[i].lock);
}

static void unlock_all(struct hfi_store *store)
{
    for (int i = HFI_SHARDS; i-- > 0;)
        pthread_mutex_unlock(&store->shards[i].lock);
    pthread_mutex_unlock(&store->lock);
}

hf_status hf_close(hf_store *handle, uint64_t flags)
{
    struct orphans orphans = { NULL, NULL };
    struct hfi_store *store;
    hf_status status = hfi_store_find(handle, &store, NULL);

    if (status != HF_OK)
        return status;
    if (flags & ~HF_CLOSE_FLAG_RELEASE)
        return HF_INVALID;
    for (const struct hfi_calling *calling = hfi_self.calling; calling; calling = calling->outer)
        if (calling->store == store)
            return HF_IN_USE; /* called from one of its callbacks, for which it would wait */

    lock_all(store);
    if (!hfi_slot_is(&store->slot, handle))
        status = HF_INVALID;
    else if (!(flags & HF_CLOSE_FLAG_RELEASE) && in_use(store))
        status = HF_IN_USE;
    else {
        hfi_slot_retire(&store->slot);
        store->closing.thread = pthread_self();
        atomic_store(&store->closing.on, true);
    }
    unlock_all(store);
    if (status != HF_OK)
        return status;

    end_all(store, &orphans);
    hfi_store_engine(store)->close(store->opened);
    hfi_free(store->opened);
    hfi_conf_free(store->conf);
    forget(orphans.alone); /* the engine has forgotten them */
    hfi_settle_forget(store);
    free_store(store);
    return HF_OK;
}

/* ---- looking ------------------------------------------------------------------------ */

/* May the store be closed although this lease is held? */
static bool lets_close(const struct hfi_lease *lease)
{
    int phase = atomic_load(&lease->phase);

    return phase == HFI_IDLE || (phase == HFI_HELD && (lease->exported || hfi_lease_lost(lease)));
}

/* With all locks: is there anything that keeps the store open? */
static bool in_use(struct hfi_store *store)
{
    uint64_t slots = 0, closable = 0;
    bool pending;

    pthread_mutex_lock(&store->loop.lock);
    pending = store->loop.pending > 0;
    pthread_mutex_unlock(&store->loop.lock);
    if (store->calls > 0 || pending)
        return true;

    for (int i = 0; i < HFI_SHARDS; i++) {
        struct hfi_shard *shard = &store->shards[i];

        slots += shard->entered - atomic_load(&shard->left);
        for (uint32_t b = 0; b < shard->bucket_count; b++)
            for (struct hfi_lease *lease = shard->buckets[b]; lease; lease = lease->next)
                closable += lets_close(lease);
    }
    return slots > closable;
}

/* ---- ending -------------------------------------------------------------------------- */

/* Stop every wait in the store, and every asynchronous call. */
static void stop_waits(struct hfi_store *store)
{
    pthread_mutex_lock(&store->lock);
    for (struct hfi_list *node = store->waits.next; node != &store->waits; node = node->next)
        hfi_wait_stop(hfi_container(node, struct hfi_wait, listed), HF_CANCELLED);
    pthread_mutex_unlock(&store->lock);
}

/* Stop the threads that wait in the queue of a lease. With the shard's lock. */
static void stop_queue(struct hfi_lease *lease)
{
    for (struct hfi_list *node = lease->queue.next; node != &lease->queue; node = node->next) {
        struct hfi_wait *wait = hfi_container(node, struct hfi_wait, queued);

        if (!wait->call)
            hfi_wait_stop(wait, HF_CANCELLED);
    }
}

/* Stop local waiters, and lose the held leases. true: done; false: call again. */
static bool lose_held(struct hfi_shard *shard)
{
    struct hfi_wait *next = NULL;

    pthread_mutex_lock(&shard->lock);
    for (uint32_t b = 0; b < shard->bucket_count && !next; b++)
        for (struct hfi_lease *lease = shard->buckets[b]; lease && !next; lease = lease->next) {
            stop_queue(lease);
            if (atomic_load(&lease->phase) == HFI_HELD && !lets_close(lease))
                next = hfi_lease_lose(lease, HF_LOSS_CLOSED, "its store was closed");
        }
    pthread_mutex_unlock(&shard->lock);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO); /* where it finds that it was stopped */
    return !next;
}

static bool called_back(struct hfi_store *store)
{
    bool done = true;

    pthread_mutex_lock(&store->notify.lock);
    for (int i = 0; i < HFI_WAYS; i++)
        done = done && hfi_list_empty(&store->notify.ways[i].queue) &&
               store->notify.ways[i].runner == 0;
    pthread_mutex_unlock(&store->notify.lock);
    return done;
}

static void end_all(struct hfi_store *store, struct orphans *orphans)
{
    uint32_t seen;
    bool done;

    for (;;) {
        seen = atomic_load(&store->closing.word);
        stop_waits(store);
        hfi_idle_end_all(store);
        for (int i = 0; i < HFI_SHARDS; i++)
            while (!lose_held(&store->shards[i]))
                ;
        hfi_drive_poll(store);
        hfi_notify_run(store, HFI_WAY_LOOP); /* hf_store_process() will not be called any more */
        hfi_loop_run(store);

        lock_all(store);
        done = !in_use(store) && called_back(store);
        if (done)
            orphan_all(store, orphans);
        unlock_all(store);
        if (done)
            break;
        hfi_drive_sleep(store, &store->closing.word, seen, HFI_NEVER);
    }
    hfi_detect_stop(store);
    give_back(orphans->lost);
    hfi_keeper_stop(store);
    hfi_notify_stop(store);
    hfi_pool_stop(&store->pool);
    pthread_mutex_lock(&store->closing.lock);
    atomic_store(&store->closing.on, false); /* nobody calls the engine to wake us from now on */
    pthread_mutex_unlock(&store->closing.lock);
}

void hfi_closing_wake(struct hfi_store *store)
{
    pthread_mutex_lock(&store->closing.lock);
    if (atomic_load(&store->closing.on)) {
        atomic_fetch_add(&store->closing.word, 1);
        hfi_futex_wake(&store->closing.word, 1, false);
        hfi_drive_wake(store); /* it may be driving */
    }
    pthread_mutex_unlock(&store->closing.lock);
}

/* With all locks. */
static void orphan_all(struct hfi_store *store, struct orphans *orphans)
{
    for (int i = 0; i < HFI_SHARDS; i++)
        for (uint32_t b = 0; b < store->shards[i].bucket_count; b++)
            while (store->shards[i].buckets[b]) {
                struct hfi_lease *lease = store->shards[i].buckets[b];

                hfi_table_unlink(&store->shards[i], lease);
                orphan(store, lease, orphans);
            }
}

static void orphan(struct hfi_store *store, struct hfi_lease *lease, struct orphans *orphans)
{
    struct hfi_lease **list = hfi_lease_lost(lease) ? &orphans->lost : &orphans->alone;

    if (lease->timed)
        hfi_keeper_forget(store, &lease->timer);
    lease->timed = false;
    lease->orphan = true;
    hfi_lease_deafen(lease);
    atomic_store(&lease->phase, HFI_ENDING);
    if (!hfi_lease_lost(lease)) {
        lease->events.fn = NULL; /* it is not lost: it stays in the store */
        (void)hfi_lease_lose(lease, HF_LOSS_CLOSED,
                             "its store was closed; it lives on by its handle");
        hfi_lease_uncount(lease);
    }
    lease->next = *list;
    *list = lease;
}

/* One after the other, until the store does not confirm one. Each of the rest would wait as long for its answer: they are settled
 * in the background, all at once. */
static void give_back(struct hfi_lease *lost)
{
    bool confirms = true;

    for (struct hfi_lease *next; lost; lost = next) {
        next = lost->next;
        if (confirms)
            confirms = hfi_release_lost_claim(lost);
        else
            hfi_release_lost_claim_later(lost);
    }
}

static void forget(struct hfi_lease *alone)
{
    for (struct hfi_lease *next; alone; alone = next) {
        struct hfi_shard *shard = atomic_load_explicit(&alone->shard, memory_order_relaxed);
        bool free;

        next = alone->next;
        pthread_mutex_lock(&shard->lock);
        free = hfi_lease_drop(alone, HFI_PART_CLAIM);
        pthread_mutex_unlock(&shard->lock);
        if (free)
            hfi_lease_free(alone);
    }
}

static void free_store(struct hfi_store *store)
{
    struct hfi_adapt *adapt = atomic_exchange(&store->adapt, NULL);

    hfi_scopes_done(&store->scopes);
    hfi_keeper_done(store);
    hfi_loop_done(&store->loop);
    hfi_drive_done(store);
    for (int i = 0; i < HFI_SHARDS; i++) {
        struct hfi_shard *shard = &store->shards[i];

        pthread_mutex_lock(&shard->lock);
        if (shard->buckets != shard->first)
            hfi_free(shard->buckets);
        shard->buckets = shard->first;
        shard->bucket_count = HFI_BUCKETS_FIRST;
        pthread_mutex_unlock(&shard->lock);
    }
    hfi_free(adapt); /* a request that comes too late has looked at it with the lock of a shard */
    hfi_slot_give(&hfi_stores, store);
}
