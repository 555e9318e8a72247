/* SPDX-License-Identifier: MIT */
/* The life of an asynchronous call, from its slot to its callback: see call.h. */
#include "core/call.h"

#include "core/op.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/process.h"

struct hfi_table hfi_calls = { .slot_size = (sizeof(struct hfi_call) + 63) / 64 * 64,
                               .kind = HFI_KIND_OP };

/* ---- the deadline --------------------------------------------------------------------------------- */

static void deadline_grab(struct hfi_timer *timer)
{
    atomic_fetch_add(&hfi_container(timer, struct hfi_call, timer)->refs, 1);
}

static void stop_run(struct hfi_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, stop_task);

    hfi_wait_stop(&call->wait, HF_TIMEOUT);
    hfi_call_unref(call);
}

static void deadline_fire(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms)
{
    struct hfi_call *call = hfi_container(timer, struct hfi_call, timer);

    (void)now_ms;
    call->stop_task.run = stop_run;
    if (store->drive == HFI_EVENT)
        stop_run(&call->stop_task);
    else
        hfi_pool_add(&store->pool, HFI_LANE_SHORT, &call->stop_task); /* cancel() may block */
}

/* ---- from the beginning to the end ------------------------------------------------------------------ */

struct hfi_call *hfi_call_new(struct hfi_store *store, hf_done_fn *done, void *arg)
{
    struct hfi_call *call = hfi_slot_take(&hfi_calls);

    if (!call)
        return NULL;
    if (!hfi_slot_ours(&call->slot, hfi_process_id()))
        pthread_mutex_init(&call->lock, NULL); /* see hf_cancel_open() */
    hfi_slot_own(&call->slot, hfi_process_id());
    call->store = store;
    call->lease = NULL;
    call->done = done;
    call->arg = arg;
    call->timed = false;
    call->scope = 0;
    call->tag.count = 0;
    call->deadline_ms = HFI_NEVER;
    call->timer = (struct hfi_timer){ .grab = deadline_grab, .fire = deadline_fire };
    hfi_wait_init(&call->wait, store, NULL, 0);
    hfi_list_init(&call->due);
    atomic_store(&call->refs, 2);

    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending++;
    pthread_mutex_unlock(&store->loop.lock);
    return call;
}

void hfi_call_drop(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    hfi_wait_leave(&call->wait);
    hfi_free(call->wait.words);
    if (call->timed)
        hfi_keeper_forget(store, &call->timer);
    if (call->lease)
        hfi_lease_free(call->lease);
    pthread_mutex_lock(&call->lock);
    hfi_slot_retire(&call->slot);
    pthread_mutex_unlock(&call->lock);
    hfi_slot_give(&hfi_calls, call);
    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending--;
    pthread_mutex_unlock(&store->loop.lock);
}

void hfi_call_unref(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    if (atomic_fetch_sub(&call->refs, 1) != 1)
        return;
    hfi_loop_add(store, &call->due);
}

void hfi_call_result(struct hfi_call *call, hf_status status, hf_lease *handle, const char *verb,
                     const struct hfi_name *name, const hf_error *inner)
{
    hf_error words;

    call->status = status;
    call->handle = handle;
    if (status == HF_DEADLOCK)
        inner = hfi_detect_error(&call->wait, &words);
    if (status == HF_OK)
        hfi_ok(&call->error);
    else if (name)
        hfi_store_error(call->store, verb, name, status, inner, &call->error);
    else
        hfi_error_set(&call->error, status, 0, "%s: %s", verb, hf_status_text(status));
}

void hfi_call_end(struct hfi_call *call)
{
    if (call->timed)
        hfi_keeper_forget(call->store, &call->timer);
    call->timed = false;
    hfi_call_unref(call);
}

void hfi_call_deliver(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    const struct hfi_store *outer = hfi_self.calling;

    hfi_wait_leave(&call->wait);
    hfi_free(call->wait.words);
    pthread_mutex_lock(&call->lock);
    hfi_slot_retire(&call->slot);
    pthread_mutex_unlock(&call->lock);

    hfi_self.calling = store;
    call->done(call->status, call->handle, &call->error, call->arg);
    hfi_self.calling = outer;

    hfi_slot_give(&hfi_calls, call);
    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending--;
    pthread_mutex_unlock(&store->loop.lock);
}
