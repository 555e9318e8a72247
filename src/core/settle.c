/* SPDX-License-Identifier: MIT */
/*
 * Settling: claims whose outcome is unknown, or whose release failed, are released by owner id
 * until the store says that they are gone. Each attempt is an op of its own; the pause between
 * attempts doubles. Without memory they are made one at a time, with the keeper's reserve, so that
 * each claim gets its turn.
 *
 * The list is the keeper's. A claim is either in the list or in an attempt.
 */
#include "core/op.h"
#include "core/release.h"
#include "util/alloc.h"
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
    if (keeper->closed) {
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
        atomic_fetch_add_explicit(&shard->left, 1, memory_order_release);
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
static struct hfi_settle *attempt_new(struct hfi_keeper *keeper)
{
    struct hfi_settle *attempt = hfi_malloc(sizeof *attempt);

    if (attempt)
        return attempt;
    pthread_mutex_lock(&keeper->lock);
    if (!keeper->reserve_used)
        attempt = &keeper->reserve;
    keeper->reserve_used = true;
    pthread_mutex_unlock(&keeper->lock);
    return attempt;
}

static void attempt_free(struct hfi_keeper *keeper, struct hfi_settle *attempt)
{
    if (attempt != &keeper->reserve) {
        hfi_free(attempt);
        return;
    }
    pthread_mutex_lock(&keeper->lock);
    keeper->reserve_used = false;
    pthread_mutex_unlock(&keeper->lock);
}

/* On the thread that drives, or on the pool. */
static void attempt_done(struct hfi_op *op)
{
    struct hfi_settle *attempt =
        hfi_container(hfi_container(op, struct hfi_job, op), struct hfi_settle, job);
    struct hfi_store *store = attempt->job.store;
    struct hfi_lease *lease = attempt->lease;
    hf_status status = hfi_op_status(op);

    attempt_free(&store->keeper, attempt);
    end(store, lease, status);
}

static void attempt_run(struct hfi_pool_task *task)
{
    struct hfi_settle *attempt = hfi_container(task, struct hfi_settle, task);

    hfi_job_submit(&attempt->job);
    attempt_done(&attempt->job.op);
}

static void begin(struct hfi_store *store, struct hfi_lease *lease)
{
    struct hfi_settle *attempt = attempt_new(&store->keeper);

    if (!attempt) {
        end(store, lease, HF_NO_MEMORY);
        return;
    }
    hfi_job_init(&attempt->job, store, HFI_OP_RELEASE);
    attempt->lease = lease;
    attempt->task.run = attempt_run;
    attempt->job.op.claim = &lease->claim;
    attempt->job.op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
    if (store->drive == HFI_EVENT) {
        attempt->job.op.done = attempt_done;
        hfi_job_submit(&attempt->job);
    } else if (hfi_pool_start(&store->pool, HFI_LANE_SHORT)) {
        hfi_pool_add(&store->pool, HFI_LANE_SHORT, &attempt->task);
    } else {
        attempt_run(&attempt->task); /* no thread could be started: run it here */
    }
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
