/* SPDX-License-Identifier: MIT */
/* Calls, from their slot to their answer: see call.h. */
#include "core/call.h"

#include "core/task.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/process.h"

struct hfi_table hfi_calls = { .slot_size = (sizeof(struct hfi_call) + 63) / 64 * 64,
                               .kind = HFI_KIND_OP };

/* ---- the deadline, where no thread watches it ---------------------------------------------------- */

static void deadline_grab(struct hfi_timer *timer)
{
    atomic_fetch_add(&hfi_container(timer, struct hfi_call, timer)->refs, 1);
}

static void stop_late(struct hfi_call *call)
{
    hfi_wait_stop(&call->wait, HF_TIMEOUT);
    hfi_call_unref(call);
}

static void stop_run(struct hfi_pool_task *task)
{
    stop_late(hfi_container(task, struct hfi_call, stop_task));
}

static void deadline_fire(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms)
{
    struct hfi_call *call = hfi_container(timer, struct hfi_call, timer);

    (void)now_ms;
    if (store->drive !=
        HFI_BLOCKING) { /* cancel() does not block, or is left to a worker: hfi_workers_cancel() */
        stop_late(call);
        return;
    }
    call->stop_task.run = stop_run;
    hfi_pool_add(&store->pool, HFI_LANE_SHORT, &call->stop_task); /* cancel() may block */
}

/* ---- from the beginning to the end ------------------------------------------------------------------ */

void hfi_call_make_async(struct hfi_call *call)
{
    if (!hfi_slot_ours(&call->slot, hfi_process_id())) {
        pthread_mutex_init(&call->lock, NULL); /* see hf_cancel_open() */
        hfi_slot_own(&call->slot, hfi_process_id());
    }
    call->err = &call->error;
    call->timer = (struct hfi_timer){ .grab = deadline_grab, .fire = deadline_fire };
    hfi_list_init(&call->due);
    atomic_store(&call->stopping, false);
    atomic_store(&call->refs, 2);
}

void hfi_call_callback(struct hfi_call *call, hf_done_fn *done, void *arg)
{
    struct hfi_loop *loop = &call->store->loop;

    call->done = done;
    call->arg = arg;
    pthread_mutex_lock(&loop->lock);
    loop->pending++;
    pthread_mutex_unlock(&loop->lock);
}

void hfi_call_retire(struct hfi_call *call)
{
    pthread_mutex_lock(&call->lock);
    hfi_slot_retire(&call->slot);
    pthread_mutex_unlock(&call->lock);
}

void hfi_call_unlisten(struct hfi_call *call)
{
    if (!call->waits)
        return;
    hfi_wait_leave(&call->wait);
    hfi_free(call->wait.words);
    call->waits = false;
}

/* The last step of a call of LOOP: the store may be closed as soon as this is done. */
static void uncount(struct hfi_store *store)
{
    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending--;
    hfi_closing_tell(store);
    pthread_mutex_unlock(&store->loop.lock);
}

void hfi_call_drop(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    hfi_call_unlisten(call);
    if (call->timed)
        hfi_keeper_forget(store, &call->timer);
    if (call->lease)
        hfi_lease_free(call->lease);
    hfi_call_retire(call);
    hfi_call_free(call);
    uncount(store);
}

bool hfi_call_ref(struct hfi_call *call)
{
    int refs = atomic_load(&call->refs);

    while (refs > 0 && !atomic_compare_exchange_weak(&call->refs, &refs, refs + 1))
        ;
    return refs > 0;
}

/* Until the last reference is gone, the thread that begins the call may still write to it. */
void hfi_call_unref(struct hfi_call *call)
{
    if (atomic_fetch_sub(&call->refs, 1) != 1)
        return;
    if (call->receiver == HFI_TO_TASK)
        hfi_task_child_ended(call);
    else if (call->task && call->task->awaited)
        hfi_task_tell(call->task, HFI_TASK_OVER);
    else
        hfi_loop_add(call->store, &call->due);
}

void hfi_call_explain(struct hfi_call *call, const char *verb, const struct hfi_name *name,
                      const hf_error *inner)
{
    hf_status status = call->status;
    hf_error words;

    if (!call->err)
        return;
    if (status == HF_DEADLOCK && call->waits)
        inner = hfi_detect_error(&call->wait, &words);
    if (name)
        hfi_store_error(call->store, verb, name, status, inner, call->err);
    else
        hfi_error_set(call->err, status, 0, "%s: %s", verb, hf_status_text(status));
}

void hfi_call_end_async(struct hfi_call *call)
{
    if (call->timed)
        hfi_keeper_forget(call->store, &call->timer);
    call->timed = false;
    hfi_call_unref(call);
}

/* ---- without a thread ------------------------------------------------------------------------------------- */

void hfi_call_sent_done(struct hfi_op *op)
{
    struct hfi_call *call = hfi_container(op, struct hfi_call, op);

    call->answered_by(call, hfi_op_status(op), &op->error);
}

static void sent_run(struct hfi_pool_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, work);

    hfi_call_submit(call);
    call->answered_by(call, hfi_op_status(&call->op), &call->op.error);
}

void hfi_call_send(struct hfi_call *call, hfi_answered_fn *answered, bool on_worker)
{
    call->answered_by = answered;
    if (on_worker) {
        call->work.run = sent_run;
        hfi_pool_add(&call->store->pool, HFI_LANE_SHORT, &call->work);
    } else {
        call->op.done = hfi_call_sent_done;
        if (call->store->drive == HFI_INLINE && call->receiver >= HFI_TO_LOOP)
            hfi_workers_hurried(call);
        else
            hfi_call_submit(call);
    }
}

void hfi_call_deliver(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    struct hfi_calling calling = { store, hfi_self.calling };
    struct hfi_task *task = call->task;
    hf_result result = {
        .size = sizeof result, .status = call->status, .error = &call->error, .lease = call->handle
    };

    hfi_call_unlisten(call);
    hfi_call_retire(call);

    hfi_self.calling = &calling;
    if (task && task->finish)
        task->finish(task, &result);
    call->done(&result, call->arg);
    if (task)
        task->free(task);
    hfi_self.calling = calling.outer;

    hfi_call_free(call);
    uncount(store);
}

/* ---- ending early --------------------------------------------------------------------------------------- */

void hfi_call_listen(struct hfi_call *call, bool listed)
{
    struct hfi_wait *wait = &call->wait;

    if (!call->waits) { /* else others may be reading it */
        hfi_wait_init(wait, call->store, call->lease, call->min_valid_ms);
        if (!hfi_call_has_thread(call)) {
            wait->call = call;
            wait->tid = 0;
        }
    }
    call->waits = true;
    if (call->tag.count > 0)
        hfi_detect_watch(wait, &call->tag);
    if (listed)
        hfi_wait_list(wait);
    if (call->receiver == HFI_TO_TASK && !call->cleanup && !wait->cancel &&
        !hfi_wait_follow_task(wait, &call->parent->stop))
        hfi_wait_stop(wait, hfi_task_stopped(call->parent));
    if (call->cancel && !wait->cancel && hfi_wait_follow(wait, call->cancel) != HF_OK)
        hfi_wait_stop(wait, HF_CANCELLED);
}

void hfi_call_arm(struct hfi_call *call)
{
    if (call->timed)
        hfi_keeper_arm(call->store, &call->timer, call->deadline_ms);
}

hf_status hf_op_cancel(hf_op *handle)
{
    struct hfi_call *call = hfi_slot_find(&hfi_calls, handle);
    bool alive;

    if (!call)
        return HF_INVALID;
    if (!hfi_slot_ours(&call->slot, hfi_process_id()))
        return HF_FORKED;

    pthread_mutex_lock(&call->lock);
    if (!hfi_slot_is(&call->slot, handle)) {
        pthread_mutex_unlock(&call->lock);
        return HF_INVALID;
    }
    alive = hfi_call_ref(call);
    pthread_mutex_unlock(&call->lock);
    if (!alive)
        return HF_OK; /* too late: its callback is due */

    hfi_wait_stop(&call->wait, HF_CANCELLED);
    hfi_call_unref(call);
    return HF_OK;
}
