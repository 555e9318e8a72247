/* SPDX-License-Identifier: MIT */
/*
 * Any one of several names: hf_acquire_any() and its asynchronous form.
 *
 * First each name is tried, in the order of the caller: a free one costs what a plain acquire costs, and no other name is
 * touched. If all are busy, one request waits in the queue of every name, each in its turn there. The first grant wins. The
 * others leave their queues; one that was granted in the meantime is released before the call returns, and one whose outcome
 * is unknown is settled in the background, as for every cancelled acquire.
 *
 *   TRYING --> QUEUEING --> one is granted, and all others have ended
 *      |           |
 *      +-----------+------> none is granted: the status of the first that failed
 *
 * All these waits have one tag (deadlock/session.h): the request is stuck only if every one of them is.
 *
 * The blocking form tries on its own thread, and then waits for the same task (hfi_task_await()).
 */
#include "core/task.h"
#include "prim/requests.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <limits.h>

enum { TRYING, QUEUEING };

#define RELEASING UINT_MAX /* the mark of a release */

struct any_call {
    struct hfi_task task;
    struct hfi_request_item *items; /* in the order of the caller */
    size_t count;
    int64_t wait_ms, deadline_ms;
    size_t next;      /* TRYING: the one that is tried */
    size_t under_way; /* QUEUEING: children that have not ended */
    size_t won;       /* the item with the lease; `count`: none yet */
    hf_status status; /* QUEUEING: of the first that failed; HF_OK: none has */
    struct hfi_tag tag;
    char *texts; /* asynchronous form: what the requests point to */
};

static hf_status queue_all(struct any_call *call);
static hf_status queued(struct any_call *call, hf_status got);

/* Not granted, but another name may be. */
static bool go_on(hf_status status)
{
    return status == HF_BUSY || status == HF_TOO_SHORT;
}

static void explain(const struct any_call *call, hf_error *err)
{
    if (call->count > 1)
        hfi_error_wrap(err, "any of %zu names", call->count);
}

/* ---- trying ---------------------------------------------------------------------------------------------- */

static hf_status try_next(struct any_call *call)
{
    struct hfi_request_item *item = &call->items[call->next];

    item->request.wait_ms = 0;
    return hfi_task_acquire(&call->task, &item->request);
}

static hf_status tried(struct any_call *call, hf_status got)
{
    if (got == HF_OK) {
        call->won = call->next;
        call->items[call->won].lease = call->task.child.lease;
        return hfi_ok(&call->task.error);
    }
    call->task.error = call->task.child.error;
    if (go_on(got) && ++call->next < call->count)
        return try_next(call);
    if (go_on(got) && call->wait_ms != 0)
        return queue_all(call);
    explain(call, &call->task.error);
    return got;
}

/* Likewise, on the thread of the caller. */
static hf_status try_here(struct any_call *call, hf_error *err)
{
    hf_status status = HF_BUSY;

    for (size_t i = 0; i < call->count && go_on(status); i++) {
        hf_acquire_request request = call->items[i].request;

        request.wait_ms = 0;
        status = hf_acquire(call->task.handle, &request, &call->items[i].lease, err);
        if (status == HF_OK)
            call->won = i;
    }
    if (status != HF_OK && err)
        explain(call, err);
    return status;
}

/* ---- in all queues ------------------------------------------------------------------------------------------ */

static hf_status queue_all(struct any_call *call)
{
    const struct hfi_drive *drive = hfi_store_engine(call->task.store)->drive;
    int64_t left_ms = call->wait_ms;

    if (call->deadline_ms != HFI_NEVER) {
        left_ms = call->deadline_ms - hfi_now_ms();
        if (left_ms < 1)
            left_ms = 1;
    }
    call->task.state = QUEUEING;
    call->under_way = call->count;
    if (drive->cork)
        drive->cork(call->task.store->opened, true);
    for (unsigned i = 0; i < call->count; i++) {
        call->task.mark = i;
        call->items[i].request.wait_ms = left_ms;
        (void)hfi_task_acquire(&call->task, &call->items[i].request);
    }
    if (drive->cork)
        drive->cork(call->task.store->opened, false);
    return HFI_BEGUN;
}

/* A second grant, or one that is not worth having. */
static void give_back(struct any_call *call, hf_lease *lease)
{
    call->task.mark = RELEASING;
    call->under_way++;
    (void)hfi_task_release(&call->task, lease);
}

/* While the others left their queues, the lease may have expired. */
static hf_status check_winner(struct any_call *call)
{
    struct hfi_request_item *item = &call->items[call->won];
    struct hfi_name name = hfi_requests_name(item);
    hf_status status = HF_OK;

    if (hf_lease_state(item->lease) == HF_STATE_LOST)
        status = HF_LOST;
    else if (hf_lease_remaining_ms(item->lease) < item->request.min_valid_ms)
        status = HF_TOO_SHORT;
    if (status == HF_OK)
        return hfi_ok(&call->task.error);
    call->status =
        hfi_store_error(call->task.store, "acquire", &name, status, NULL, &call->task.error);
    give_back(call, item->lease);
    item->lease = NULL;
    call->won = call->count;
    return HFI_BEGUN;
}

static hf_status queued(struct any_call *call, hf_status got)
{
    struct hfi_task *task = &call->task;
    bool first = call->won == call->count && call->status == HF_OK;

    call->under_way--;
    if (got == HF_OK && task->child.lease && call->won == call->count) {
        call->won = task->child.mark;
        call->items[call->won].lease = task->child.lease;
    } else if (got == HF_OK && task->child.lease) {
        give_back(call, task->child.lease);
    } else if (got != HF_OK && first) {
        call->status = got;
        task->error = task->child.error;
        explain(call, &task->error);
    }
    if (first && call->under_way > 0)
        hfi_task_stop_children(task, HF_CANCELLED);
    if (call->under_way > 0)
        return HFI_BEGUN;
    return call->won < call->count ? check_winner(call) : call->status;
}

static hf_status any_step(struct hfi_task *task, hf_status got)
{
    struct any_call *call = hfi_container(task, struct any_call, task);

    if (task->state == QUEUEING)
        return call->under_way == 0 ? queue_all(call) : queued(call, got);
    if (call->next == call->count) { /* the first step */
        call->next = 0;
        return try_next(call);
    }
    return tried(call, got);
}

/* ---- the two forms ------------------------------------------------------------------------------------ */

static hf_status check_input(const hf_acquire_request *requests, size_t count, hf_error *err)
{
    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    return requests ? HF_OK : hfi_error_set(err, HF_INVALID, 0, "requests: NULL");
}

/* HF_OK: the store was entered, and the task can run. Else nothing is left. */
static hf_status any_init(struct any_call *call, hf_store *handle,
                          const hf_acquire_request *requests, size_t count, hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, any_step);
    call->task.handle = handle;
    call->task.any = count > 1 ? &call->tag : NULL;
    call->tag = (struct hfi_tag){ .any = (uint32_t)count };
    call->count = call->won = call->next = count;
    call->under_way = 0;
    call->status = HF_OK;
    call->texts = NULL;
    status = hfi_requests_read(store, requests, count, &call->items, err);
    if (status != HF_OK) {
        hfi_store_leave(store);
        return status;
    }
    call->task.cancel = call->items[0].request.cancel;
    call->wait_ms = call->items[0].request.wait_ms;
    call->deadline_ms = call->wait_ms > 0 ? hfi_wait_end_ms(call->wait_ms) : HFI_NEVER;
    return HF_OK;
}

/* Wait in all queues. What is granted belongs to the session of this thread, as after hf_acquire(). */
static hf_status await_any(struct any_call *call, hf_error *err)
{
    struct hfi_store *store = call->task.store;
    hf_status status;

    call->task.state = QUEUEING;
    status = hfi_task_await(&call->task);
    if (status == HF_OK) {
        const struct hfi_request_item *item = &call->items[call->won];

        if (store->detector.able && hfi_session_counts(&item->request) && !item->request.scope)
            hfi_session_holds(store, 0, item->lease);
    }
    if (err)
        *err = call->task.error;
    return status;
}

hf_status hf_acquire_any(hf_store *handle, const hf_acquire_request *requests, size_t count,
                         size_t *ret_index, hf_lease **ret_lease, hf_error *err)
{
    struct any_call call;
    hf_status status = check_input(requests, count, err);

    if (status == HF_OK && (!ret_index || !ret_lease))
        status =
            hfi_error_set(err, HF_INVALID, 0, "%s: NULL", ret_index ? "ret_lease" : "ret_index");
    if (status == HF_OK)
        status = any_init(&call, handle, requests, count, err);
    if (status != HF_OK)
        return status;
    status = try_here(&call, err);
    if (go_on(status) && call.wait_ms != 0)
        status = await_any(&call, err);
    if (status == HF_OK) {
        *ret_index = call.won;
        *ret_lease = call.items[call.won].lease;
    }
    hfi_free(call.items);
    hfi_store_leave(call.task.store);
    return status;
}

static void any_finish(struct hfi_task *task, hf_result *result)
{
    struct any_call *call = hfi_container(task, struct any_call, task);

    if (result->status != HF_OK)
        return;
    result->lease = call->items[call->won].lease;
    result->number = (int64_t)call->won;
}

static void any_free(struct hfi_task *task)
{
    struct any_call *call = hfi_container(task, struct any_call, task);

    hfi_free(call->texts);
    hfi_free(call->items);
    hfi_task_free_entered(task);
}

hf_status hf_acquire_any_async(hf_store *handle, const hf_acquire_request *requests, size_t count,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct any_call *call;
    hf_status status = check_input(requests, count, err);

    if (status != HF_OK)
        return status;
    call = hfi_malloc(sizeof *call);
    if (!call)
        return hfi_error_memory(err);
    status = any_init(call, handle, requests, count, err);
    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    call->task.finish = any_finish;
    call->task.free = any_free;
    call->texts = hfi_requests_copy_texts(call->items, count);
    status =
        call->texts ? hfi_task_begin(&call->task, done, arg, ret_op, err) : hfi_error_memory(err);
    if (status != HF_OK)
        any_free(&call->task);
    return status;
}
