/* SPDX-License-Identifier: MIT */
/*
 * Settling: claims whose outcome is unknown, or whose release failed, are released by owner id
 * until the store says that they are gone. Each attempt is a call of its own; the pause between
 * attempts doubles. Without memory they are made one at a time, with the keeper's reserve, so that
 * each claim gets its turn.
 *
 * The list is the keeper's. A claim is either in the list or in an attempt.
 */
#include "core/call.h"
#include "util/clock.h"

static void begin(struct hfi_store *store, struct hfi_lease *lease);
static void end(struct hfi_store *store, struct hfi_lease *lease, hf_status status);

int64_t hfi_settle_pause(uint32_t tries)
{
    int64_t pause_ms = HFI_SETTLE_FIRST_MS;

    while (tries-- > 0 && pause_ms < HFI_SETTLE_LAST_MS)
        pause_ms *= 2;
    return pause_ms < HFI_SETTLE_LAST_MS ? pause_ms : HFI_SETTLE_LAST_MS;
}

void hfi_keeper_settle(struct hfi_lease *lease, int64_t not_before_ms, bool counted)
{
    struct hfi_store *store = lease->store;
    struct hfi_keeper *keeper = &store->keeper;
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    lease->settle_ms = not_before_ms;
    lease->settle_tries = 0;
    pthread_mutex_lock(&keeper->lock);
    if (atomic_load(&store->closing.on) && hfi_lease_stays(lease, hfi_now_ms())) {
        hfi_list_append(&keeper->left, &lease->settling);
        pthread_mutex_unlock(&keeper->lock);
    } else if (keeper->closed) {
        keeper->busy++;
        pthread_mutex_unlock(&keeper->lock);
        end(store, lease, HF_LOST); /* too late for anything else */
    } else {
        hfi_list_append(&keeper->settling, &lease->settling);
        if (not_before_ms < keeper->wakes_ms)
            hfi_keeper_ring(store);
        pthread_mutex_unlock(&keeper->lock);
        (void)hfi_keeper_start(store); /* if that fails, hf_close() settles it */
    }
    if (counted)
        hfi_shard_leave(shard);
}

void hfi_settle_now(struct hfi_lease *lease)
{
    struct hfi_store *store = lease->store;
    struct hfi_keeper *keeper = &store->keeper;
    bool closed;

    lease->settle_tries = 0;
    pthread_mutex_lock(&keeper->lock);
    closed = keeper->closed;
    pthread_mutex_unlock(&keeper->lock);
    if (closed)
        end(store, lease, HF_LOST);
    else
        begin(store, lease);
}

int64_t hfi_settle_round(struct hfi_store *store, int64_t now_ms)
{
    struct hfi_keeper *keeper = &store->keeper;
    int64_t next_ms = INT64_MAX;
    struct hfi_list due, *node, *after;

    hfi_list_init(&due);
    for (node = keeper->settling.next; node != &keeper->settling; node = after) {
        struct hfi_lease *lease = hfi_container(node, struct hfi_lease, settling);

        after = node->next;
        if (lease->settle_ms > now_ms) {
            next_ms = lease->settle_ms < next_ms ? lease->settle_ms : next_ms;
            continue;
        }
        hfi_list_remove(node);
        hfi_list_append(&due, node);
        keeper->busy++;
    }
    if (hfi_list_empty(&due))
        return next_ms;

    pthread_mutex_unlock(&keeper->lock);
    while ((node = hfi_list_pop(&due)))
        begin(store, hfi_container(node, struct hfi_lease, settling));
    pthread_mutex_lock(&keeper->lock);
    return now_ms; /* an attempt that failed at once is in the list again */
}

/* NULL: out of memory, and the reserve is in use. */
static struct hfi_call *attempt_new(struct hfi_store *store)
{
    struct hfi_keeper *keeper = &store->keeper;
    struct hfi_call *call = hfi_call_new(store, HFI_TO_KEEPER);

    if (call)
        return call;
    pthread_mutex_lock(&keeper->lock);
    if (!keeper->reserve_used && keeper->reserve)
        call = keeper->reserve;
    keeper->reserve_used = true;
    pthread_mutex_unlock(&keeper->lock);
    if (call)
        hfi_call_init(call, store, HFI_TO_KEEPER);
    return call;
}

static void attempt_free(struct hfi_keeper *keeper, struct hfi_call *call)
{
    if (call != keeper->reserve) {
        hfi_call_free(call);
        return;
    }
    pthread_mutex_lock(&keeper->lock);
    keeper->reserve_used = false;
    pthread_mutex_unlock(&keeper->lock);
}

/* On the thread that drives, or on the pool. */
static void attempt_answered(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_store *store = call->store;
    struct hfi_lease *lease = call->lease;

    (void)inner;
    attempt_free(&store->keeper, call);
    end(store, lease, status);
}

static void begin(struct hfi_store *store, struct hfi_lease *lease)
{
    struct hfi_call *call = attempt_new(store);
    bool may_block = store->drive != HFI_EVENT;

    if (!call) {
        end(store, lease, HF_NO_MEMORY);
        return;
    }
    call->lease = lease;
    hfi_call_release_op(call);
    /* If no worker can be started, it is done here. */
    hfi_call_send(call, attempt_answered,
                  may_block && hfi_pool_start(&store->pool, HFI_LANE_SHORT));
}

static void end(struct hfi_store *store, struct hfi_lease *lease, hf_status status)
{
    struct hfi_keeper *keeper = &store->keeper;
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    bool free;

    pthread_mutex_lock(&keeper->lock);
    if (!hfi_release_settled(status) && !keeper->closed) {
        lease->settle_ms = hfi_now_ms() + hfi_settle_pause(lease->settle_tries++);
        hfi_list_append(&keeper->settling, &lease->settling);
        if (lease->settle_ms < keeper->wakes_ms)
            hfi_keeper_ring(store);
        keeper->busy--;
        hfi_closing_tell(store);
        pthread_mutex_unlock(&keeper->lock);
        return;
    }
    pthread_mutex_unlock(&keeper->lock);

    pthread_mutex_lock(&shard->lock);
    free = hfi_lease_drop(lease, HFI_PART_CLAIM);
    pthread_mutex_unlock(&shard->lock);
    if (free)
        hfi_lease_free(lease);
    hfi_keeper_idle(store);
}

void hfi_settle_leave(struct hfi_store *store, int64_t now_ms)
{
    struct hfi_keeper *keeper = &store->keeper;
    struct hfi_list *node, *after;

    for (node = keeper->settling.next; node != &keeper->settling; node = after) {
        after = node->next;
        if (hfi_lease_stays(hfi_container(node, struct hfi_lease, settling), now_ms)) {
            hfi_list_remove(node);
            hfi_list_append(&keeper->left, node);
        }
    }
}

void hfi_settle_forget(struct hfi_store *store)
{
    struct hfi_list *node;

    while ((node = hfi_list_pop(&store->keeper.left))) {
        struct hfi_lease *lease = hfi_container(node, struct hfi_lease, settling);
        struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
        bool free;

        pthread_mutex_lock(&shard->lock);
        free = hfi_lease_drop(lease, HFI_PART_CLAIM);
        pthread_mutex_unlock(&shard->lock);
        if (free)
            hfi_lease_free(lease);
    }
}

void hfi_settle_drop(struct hfi_store *store)
{
    struct hfi_list *node;

    pthread_mutex_lock(&store->keeper.lock);
    while ((node = hfi_list_pop(&store->keeper.settling))) {
        store->keeper.busy++;
        pthread_mutex_unlock(&store->keeper.lock);
        end(store, hfi_container(node, struct hfi_lease, settling), HF_LOST);
        pthread_mutex_lock(&store->keeper.lock);
    }
    pthread_mutex_unlock(&store->keeper.lock);
}
