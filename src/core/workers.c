/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous ops of BLOCKING engines that may wait, and acquires: submit() runs on a worker. An op
 * that the engine suspends leaves its worker, and core submits it again on any worker when the
 * engine resumes it. An acquire of an engine that suspends none occupies its worker while it waits.
 */
#include "core/call.h"

enum hfi_lane hfi_workers_lane(struct hfi_store *store, bool may_wait)
{
    return may_wait && !hfi_store_promises(store)->suspends ? HFI_LANE_LONG : HFI_LANE_STEP;
}

static void submit_run(struct hfi_pool_task *task)
{
    hfi_call_submit(hfi_container(task, struct hfi_call, work));
}

void hfi_workers_resume(struct hfi_host *host, struct hfi_op *op)
{
    struct hfi_call *call = hfi_container(op, struct hfi_call, op);

    (void)host;
    call->work.run = submit_run;
    hfi_pool_add(&call->store->pool, HFI_LANE_STEP, &call->work);
}

/* From here on cancel() finds the op. If the call was stopped before, the engine never sees it. */
static void begin_run(struct hfi_pool_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, work);
    hf_status stop;

    hfi_wait_in_store(&call->wait, &call->op);
    stop = (hf_status)atomic_load(&call->wait.stop);
    if (hfi_call_ends_unasked(call, stop))
        call->answered_by(call, stop, NULL);
    else
        hfi_call_submit(call);
}

void hfi_workers_submit(struct hfi_call *call, hfi_answered_fn *answered)
{
    call->answered_by = answered;
    call->op.done = hfi_call_sent_done;
    call->work.run = begin_run;
    atomic_fetch_add(&call->refs, 1); /* it may be done before this function returns */
    hfi_pool_add(&call->store->pool, hfi_workers_lane(call->store, call->may_wait), &call->work);
    if (atomic_load(&call->wait.stop) != HF_OK) /* it was stopped before this, or after it */
        hfi_workers_hurry(call);
    hfi_call_unref(call);
}

void hfi_workers_hurry(struct hfi_call *call)
{
    struct hfi_pool *pool = &call->store->pool;

    for (enum hfi_lane lane = HFI_LANE_LONG; lane != HFI_LANE_SHORT; lane--)
        if (hfi_pool_take_back(pool, lane, &call->work)) {
            if (!hfi_pool_offer(pool, HFI_LANE_STEP, &call->work))
                hfi_pool_add(pool, hfi_pool_start(pool, HFI_LANE_SHORT) ? HFI_LANE_SHORT : lane,
                             &call->work);
            return;
        }
}
