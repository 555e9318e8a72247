/* SPDX-License-Identifier: MIT */
/*
 * The keeper thread: fires timers when they are due, has claims settled, and
 * drives an EVENT engine when nobody else does. See keeper.h.
 *
 * A timer fires with no lock held, so just before that it may have been stopped, or its slot may
 * have begun another lease. Slots are type-stable, and every timer checks again what it is for, so
 * firing once too often does no harm.
 */
#include "core/call.h"
#include "core/thread.h"
#include "util/clock.h"
#include "util/futex.h"
#include "util/thread.h"

#define FIRE_MAX 512 /* timers taken out of the heap at a time: as many as a batch has room for */

static void *keeper_thread(void *arg);
static unsigned take_due(struct hfi_keeper *keeper, int64_t now_ms,
                         struct hfi_timer *due[FIRE_MAX]);
static void sleep_until(struct hfi_store *store, int64_t until_ms, uint64_t *used);

void hfi_keeper_init(struct hfi_keeper *keeper)
{
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_cond_init(&keeper->ended, NULL);
    keeper->rounds = 0;
    keeper->reserve = NULL;
    keeper->reserve_used = false;
    keeper->heap = (struct hfi_heap){ 0 };
    hfi_list_init(&keeper->settling);
    hfi_list_init(&keeper->left);
    keeper->reserved = keeper->busy = 0;
    keeper->running = keeper->stop = keeper->closed = keeper->armed = false;
    keeper->wakes_ms = INT64_MIN;
    keeper->renewal = NULL;
    atomic_store(&keeper->bell, 0);
}

bool hfi_keeper_start(struct hfi_store *store)
{
    struct hfi_keeper *keeper = &store->keeper;
    bool ok;

    /* Work that may block goes to the pool. */
    if (store->drive != HFI_EVENT && !hfi_pool_start(&store->pool, HFI_LANE_SHORT))
        return false;

    pthread_mutex_lock(&keeper->lock);
    if (!keeper->running && !keeper->stop)
        keeper->running = hfi_thread_start(&keeper->thread, "hf-keeper", keeper_thread, store) == 0;
    ok = keeper->running;
    pthread_mutex_unlock(&keeper->lock);
    if (ok)
        atomic_fetch_or(&store->started, HFI_STARTED_KEEPER);
    return ok;
}

bool hfi_keeper_reserve(struct hfi_store *store)
{
    struct hfi_keeper *keeper = &store->keeper;
    bool ok;

    pthread_mutex_lock(&keeper->lock);
    ok = hfi_heap_reserve(&keeper->heap, keeper->reserved + 1);
    if (ok)
        keeper->reserved++;
    pthread_mutex_unlock(&keeper->lock);
    return ok;
}

void hfi_keeper_arm(struct hfi_store *store, struct hfi_timer *timer, int64_t due_ms)
{
    struct hfi_keeper *keeper = &store->keeper;

    pthread_mutex_lock(&keeper->lock);
    hfi_heap_set(&keeper->heap, timer, due_ms);
    keeper->armed = true;
    if (due_ms < keeper->wakes_ms)
        hfi_keeper_ring(store);
    pthread_mutex_unlock(&keeper->lock);
}

void hfi_keeper_forget(struct hfi_store *store, struct hfi_timer *timer)
{
    struct hfi_keeper *keeper = &store->keeper;

    pthread_mutex_lock(&keeper->lock);
    hfi_heap_remove(&keeper->heap, timer);
    keeper->reserved--;
    pthread_mutex_unlock(&keeper->lock);
}

void hfi_keeper_ring(struct hfi_store *store)
{
    store->keeper.wakes_ms = INT64_MIN; /* once is enough */
    atomic_fetch_add(&store->keeper.bell, 1);
    hfi_futex_wake(&store->keeper.bell, 1, false);
    hfi_drive_wake(store); /* it may be driving */
}

void hfi_keeper_busy(struct hfi_store *store)
{
    pthread_mutex_lock(&store->keeper.lock);
    store->keeper.busy++;
    pthread_mutex_unlock(&store->keeper.lock);
}

void hfi_keeper_idle(struct hfi_store *store)
{
    pthread_mutex_lock(&store->keeper.lock);
    store->keeper.busy--;
    hfi_closing_tell(store);
    pthread_mutex_unlock(&store->keeper.lock);
}

/*
 * The time limit for settling. For a claim that may not begin yet (a lost lease whose lock_delay
 * must run) the time counts from its begin: so each claim is tried before it is given up.
 */
static int64_t settle_until(const struct hfi_keeper *keeper, int64_t begin_ms)
{
    int64_t until_ms = begin_ms + HFI_CLOSE_WAIT_MS;

    for (struct hfi_list *node = keeper->settling.next; node != &keeper->settling;
         node = node->next) {
        const struct hfi_lease *lease = hfi_container(node, struct hfi_lease, settling);

        if (lease->settle_tries == 0 && lease->settle_ms + HFI_CLOSE_WAIT_MS > until_ms)
            until_ms = lease->settle_ms + HFI_CLOSE_WAIT_MS;
    }
    return until_ms;
}

/* Until when may what is under way still end? 0: nothing is. With the lock. */
static int64_t ends_by(const struct hfi_keeper *keeper, int64_t settle_ms, int64_t busy_ms,
                       int64_t now_ms)
{
    bool settling = !hfi_list_empty(&keeper->settling) && now_ms < settle_ms;
    bool busy = keeper->busy > 0 && now_ms < busy_ms;

    if (settling && busy)
        return settle_ms < busy_ms ? settle_ms : busy_ms;
    return settling ? settle_ms : busy ? busy_ms : 0;
}

void hfi_keeper_stop(struct hfi_store *store)
{
    struct hfi_keeper *keeper = &store->keeper;
    int64_t now_ms = hfi_now_ms(), settle_ms, until_ms;
    int64_t busy_ms = now_ms + HFI_CALL_LIMIT_MS + HFI_GRACE_MS;
    uint32_t seen;
    bool running;

    /* Ops that are under way must end before the engine is closed, and they do in bounded
     * time; new attempts at settling are made only for a while. */
    pthread_mutex_lock(&keeper->lock);
    hfi_settle_leave(store, now_ms);
    settle_ms = settle_until(keeper, now_ms);
    for (;;) {
        now_ms = hfi_now_ms();
        seen = atomic_load(&store->closing.word);
        until_ms = ends_by(keeper, settle_ms, busy_ms, now_ms);
        if (until_ms == 0)
            break;
        if (!keeper->running) {
            int64_t round_ms = hfi_settle_round(store, now_ms);

            until_ms = round_ms < until_ms ? round_ms : until_ms;
        }
        pthread_mutex_unlock(&keeper->lock);
        hfi_drive_sleep(store, &store->closing.word, seen, until_ms);
        pthread_mutex_lock(&keeper->lock);
    }
    keeper->stop = keeper->closed = true;
    running = keeper->running;
    hfi_keeper_ring(store);
    pthread_mutex_unlock(&keeper->lock);
    if (running)
        pthread_join(keeper->thread, NULL);
    keeper->running = false;
    hfi_settle_drop(store);
}

void hfi_keeper_done(struct hfi_store *store)
{
    hfi_heap_done(&store->keeper.heap);
    if (store->keeper.reserve)
        hfi_call_free(store->keeper.reserve);
    store->keeper.reserve = NULL;
}

/* ---- the thread ------------------------------------------------------------------- */

static void *keeper_thread(void *arg)
{
    struct hfi_store *store = arg;
    struct hfi_keeper *keeper = &store->keeper;
    struct hfi_timer *due[FIRE_MAX], *top;
    int64_t now_ms, next_ms;
    uint64_t used = 0;
    unsigned count;

    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stop) {
        now_ms = hfi_now_ms();
        while ((count = take_due(keeper, now_ms, due)) > 0) {
            pthread_mutex_unlock(&keeper->lock);
            for (unsigned i = 0; i < count; i++)
                due[i]->fire(store, due[i], now_ms);
            pthread_mutex_lock(&keeper->lock);
        }
        pthread_mutex_unlock(&keeper->lock);
        hfi_renew_flush(store);
        pthread_mutex_lock(&keeper->lock);

        next_ms = hfi_settle_round(store, now_ms);
        top = hfi_heap_top(&keeper->heap);
        if (top && top->due_ms < next_ms)
            next_ms = top->due_ms;
        /* The timers of short leases, one after the other, are gone before we look. They must not wake us for each: a timer for later
         * than our next look does not ring. */
        if (next_ms == HFI_NEVER && keeper->armed)
            next_ms = hfi_now_ms() + HFI_KEEPER_IDLE_MS;
        keeper->armed = false;
        if (!keeper->stop && next_ms > hfi_now_ms())
            sleep_until(store, next_ms, &used);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

/*
 * Take out the timers that are due. If there is one, also take those that would be due soon and may
 * fire early, so that renewals share an op. With the lock.
 */
static unsigned take_due(struct hfi_keeper *keeper, int64_t now_ms, struct hfi_timer *due[FIRE_MAX])
{
    struct hfi_timer *timer;
    unsigned count = 0;

    while (count < FIRE_MAX && (timer = hfi_heap_top(&keeper->heap))) {
        int64_t early_ms = count > 0 && timer->early ? HFI_BATCH_EARLY_MS : 0;

        if (timer->due_ms > now_ms + early_ms)
            break;
        hfi_heap_remove(&keeper->heap, timer);
        if (timer->grab)
            timer->grab(timer);
        due[count++] = timer;
    }
    return count;
}

/* With the lock, which is dropped. */
static void sleep_until(struct hfi_store *store, int64_t until_ms, uint64_t *used)
{
    struct hfi_keeper *keeper = &store->keeper;
    bool busy = keeper->busy > 0;
    uint32_t bell = atomic_load(&keeper->bell);
    bool may_drive, told = false;
    int64_t soon_ms;

    keeper->wakes_ms = until_ms;
    pthread_mutex_unlock(&keeper->lock);

    /* If the caller's loop drives, it may be slow; our own ops must not wait for it. */
    may_drive = store->drive == HFI_EVENT &&
                (busy || atomic_load(&store->listens) > 0 || !hfi_loop_drives(store));
    if (!may_drive || !hfi_drive_idle(store, used, until_ms, &keeper->bell, bell, &told)) {
        /* Another thread drives now and then, and will not tell us when it stops: check again soon.
         * A thread that arms a timer for later than that need not wake us. */
        soon_ms = hfi_now_ms() + HFI_KEEPER_IDLE_MS;
        if (may_drive && !told && soon_ms < until_ms) {
            until_ms = soon_ms;
            pthread_mutex_lock(&keeper->lock);
            if (keeper->wakes_ms > soon_ms)
                keeper->wakes_ms = soon_ms;
            pthread_mutex_unlock(&keeper->lock);
        }
        hfi_futex_wait(&keeper->bell, bell, until_ms, false);
    }

    pthread_mutex_lock(&keeper->lock);
    keeper->wakes_ms = INT64_MIN;
}
