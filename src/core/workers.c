/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous acquires of BLOCKING engines: submit() runs on a worker. If all workers of the long
 * lane are busy, a worker of another lane tries it once, and then it queues.
 */
#include "core/call.h"
#include "core/owner.h"
#include "util/clock.h"

static void wait_run(struct hfi_pool_task *task);
static void try_run(struct hfi_pool_task *task);

static void queue_for_worker(struct hfi_call *call);

void hfi_workers_acquire(struct hfi_call *call, hfi_answered_fn *answered)
{
    struct hfi_pool *pool = &call->store->pool;

    call->answered_by = answered;
    call->work.run = wait_run;
    if (hfi_pool_offer(pool, HFI_LANE_LONG, &call->work))
        return;
    if (!hfi_pool_start(pool, HFI_LANE_TRY)) {
        queue_for_worker(call);
        return;
    }
    call->op.may_wait = false;
    call->op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
    call->work.run = try_run;
    hfi_pool_add(pool, HFI_LANE_TRY, &call->work);
}

void hfi_workers_hurry(struct hfi_call *call)
{
    struct hfi_pool *pool = &call->store->pool;

    if (hfi_pool_take_back(pool, HFI_LANE_LONG, &call->work) &&
        !hfi_pool_offer(pool, HFI_LANE_TRY, &call->work))
        hfi_pool_add(pool, HFI_LANE_SHORT, &call->work);
}

/* Queue behind the others that wait for a worker. It may be stopped at any moment: before this, or
 * after it. */
static void queue_for_worker(struct hfi_call *call)
{
    call->work.run = wait_run;
    atomic_fetch_add(&call->refs, 1); /* it may be done before this function returns */
    hfi_pool_add(&call->store->pool, HFI_LANE_LONG, &call->work);
    if (atomic_load(&call->wait.stop) != HF_OK)
        hfi_workers_hurry(call);
    hfi_call_unref(call);
}

/* The engine blocks this worker. */
static void wait_run(struct hfi_pool_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, work);
    hf_status stop;

    hfi_wait_in_store(&call->wait, &call->op);
    stop = (hf_status)atomic_load(&call->wait.stop);
    if (stop != HF_OK) {
        call->answered_by(call, stop, NULL);
        return;
    }
    hfi_call_submit(call);
    call->answered_by(call, hfi_op_status(&call->op), &call->op.error);
}

/* A new attempt needs a new owner id: the store takes a repeated one for a late copy. */
static void change_owner(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    pthread_mutex_lock(&shard->lock);
    hfi_owner_new(lease->claim.owner, true);
    pthread_mutex_unlock(&shard->lock);
}

/* All workers of the long lane are busy: try once without waiting. */
static void try_run(struct hfi_pool_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, work);
    struct hfi_op *op = &call->op;

    hfi_call_submit(call);
    if (hfi_op_status(op) != HF_BUSY || !call->may_wait) {
        call->answered_by(call, hfi_op_status(op), &op->error);
        return;
    }
    change_owner(call->lease);
    op = hfi_call_op(call, HFI_OP_ACQUIRE);
    op->claim = &call->lease->claim;
    op->deadline_ms = call->deadline_ms;
    op->may_wait = true;
    queue_for_worker(call);
}
