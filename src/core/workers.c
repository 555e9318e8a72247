/* SPDX-License-Identifier: MIT */
/*
 * Work for an engine that may sleep, and that belongs to no thread of the caller.
 *
 * INLINE engines do an op where it is submitted, which may be the thread of an event loop. There it must not sleep: an op
 * that would have to is put off, to one worker that does all such ops in their order. While there are any, later
 * ops of event loops queue behind them: a release that was begun before an acquire is done before it.
 *
 * Asynchronous ops of BLOCKING engines that may wait, and acquires: submit() runs on a worker. An op
 * that the engine suspends leaves its worker, and core submits it again on any worker when the
 * engine resumes it. An acquire of an engine that suspends none occupies its worker while it waits.
 */
#include "core/call.h"

/* ---- INLINE ---------------------------------------------------------------------------------- */

/* What is asked of the engine is submitted by now, or will be: is it one that can be stopped, and is it to stop? */
static hf_status asked_to_stop(struct hfi_call *call)
{
    return call->waits && atomic_load(&call->wait.op) == &call->op
               ? (hf_status)atomic_load(&call->wait.stop)
               : HF_OK;
}

static void submit_put_off(struct hfi_call *call)
{
    hf_status stop = asked_to_stop(call);

    if (hfi_call_ends_unasked(call, stop)) {
        call->answered_by(call, stop, NULL);
        return;
    }
    hfi_call_submit(call);
    pthread_mutex_lock(&call->store->put_off.lock);
    call->store->put_off.now = NULL;
    pthread_mutex_unlock(&call->store->put_off.lock);
    /* Who stopped it until now has left that to us. */
    stop = asked_to_stop(call);
    if (stop != HF_OK)
        hfi_store_engine(call->store)->cancel(call->store->opened, &call->op, stop);
}

static void put_off_run(struct hfi_pool_task *task)
{
    struct hfi_put_off *list = hfi_container(task, struct hfi_put_off, task);
    struct hfi_list *node;

    pthread_mutex_lock(&list->lock);
    while ((node = hfi_list_pop(&list->calls))) {
        struct hfi_call *call =
            hfi_container(hfi_container(node, struct hfi_pool_task, node), struct hfi_call, work);

        list->now = call;
        pthread_mutex_unlock(&list->lock);
        submit_put_off(call);
        pthread_mutex_lock(&list->lock);
        list->now = NULL;
        pthread_mutex_unlock(&list->lock);
        hfi_call_unref(call);
        pthread_mutex_lock(&list->lock);
        atomic_fetch_sub(&list->count, 1);
    }
    list->runs = false;
    pthread_mutex_unlock(&list->lock);
}

void hfi_workers_init(struct hfi_store *store)
{
    struct hfi_put_off *list = &store->put_off;

    pthread_mutex_init(&list->lock, NULL);
    hfi_list_init(&list->calls);
    list->now = NULL;
    atomic_store(&list->count, 0);
    list->runs = false;
    list->task.run = put_off_run;
}

/* With the lock, which is dropped. It has a worker. */
static void append(struct hfi_call *call)
{
    struct hfi_put_off *list = &call->store->put_off;
    bool runs = list->runs;

    call->op.hurried = false;
    atomic_fetch_add(&call->refs, 1);
    hfi_list_append(&list->calls, &call->work.node);
    atomic_fetch_add(&list->count, 1);
    list->runs = true;
    pthread_mutex_unlock(&list->lock);
    if (!runs)
        hfi_pool_add(&call->store->pool, HFI_LANE_STEP, &list->task);
}

/* If no thread can be started, it sleeps here after all. */
static void put_off(struct hfi_call *call)
{
    if (!hfi_pool_start(&call->store->pool, HFI_LANE_STEP)) {
        call->op.hurried = false;
        hfi_call_submit(call);
        return;
    }
    pthread_mutex_lock(&call->store->put_off.lock);
    append(call);
}

void hfi_workers_hurried(struct hfi_call *call)
{
    struct hfi_put_off *list = &call->store->put_off;

    if (__builtin_expect(atomic_load_explicit(&list->count, memory_order_relaxed) > 0, 0)) {
        pthread_mutex_lock(&list->lock);
        if (atomic_load(&list->count) > 0) {
            append(call);
            return;
        }
        pthread_mutex_unlock(&list->lock);
    }
    call->op.hurried = true;
    hfi_call_submit(call);
}

/* Take it out of the list. false: it is not there. */
static bool take_back(struct hfi_call *call)
{
    struct hfi_put_off *list = &call->store->put_off;
    bool there = false;

    pthread_mutex_lock(&list->lock);
    for (struct hfi_list *node = list->calls.next; node != &list->calls && !there;
         node = node->next)
        there = node == &call->work.node;
    if (there) {
        hfi_list_remove(&call->work.node);
        atomic_fetch_sub(&list->count, 1);
    }
    pthread_mutex_unlock(&list->lock);
    return there;
}

/* The engine may not be asked to cancel an op that is on its way into it: submit_put_off() does that behind it. */
static bool is_on_its_way(struct hfi_call *call)
{
    struct hfi_put_off *list = &call->store->put_off;
    bool now;

    pthread_mutex_lock(&list->lock);
    now = list->now == call;
    pthread_mutex_unlock(&list->lock);
    return now;
}

static void cancel_run(struct hfi_pool_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, stop_task);
    struct hfi_op *op;
    hf_status stop;

    atomic_store(&call->stopping, false); /* from here on another op of the call may want it */
    op = atomic_load(&call->wait.op);
    stop = (hf_status)atomic_load(&call->wait.stop);
    if (op && hfi_call_ends_unasked(call, stop) && take_back(call)) {
        call->answered_by(call, stop, NULL);
        hfi_call_unref(call); /* the list's */
    } else if (op && !is_on_its_way(call)) {
        hfi_store_engine(call->store)->cancel(call->store->opened, op, stop);
    }
    hfi_call_unref(call);
}

bool hfi_workers_cancel(struct hfi_call *call)
{
    if (!hfi_pool_start(&call->store->pool, HFI_LANE_SHORT))
        return false;
    if (atomic_exchange(&call->stopping, true))
        return true;
    if (!hfi_call_ref(call)) {
        atomic_store(&call->stopping, false); /* it has ended */
        return true;
    }
    call->stop_task.run = cancel_run;
    hfi_pool_add(&call->store->pool, HFI_LANE_SHORT, &call->stop_task);
    return true;
}

/* ---- BLOCKING -------------------------------------------------------------------------------- */

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
    if (call->store->drive == HFI_INLINE) {
        put_off(call);
        return;
    }
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
