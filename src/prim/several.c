/* SPDX-License-Identifier: MIT */
/*
 * Several names at once: hf_acquire_all() and hf_release_all(), and their asynchronous forms. Each is one task (core/task.h).
 *
 * Names are acquired in one order, that of their bytes. Of all callers that hold some names and wait for more, the one that
 * waits for the highest name waits for none of the others. So they never form a circle.
 *
 * If the engine can have many requests under way, all names are tried at once first. What was granted before the first busy
 * name is kept: it is a beginning in order. What was granted after it is released, since keeping it while waiting for a
 * lower name would be out of order. Then the rest is acquired one by one.
 *
 *   TRYING --> TRIMMING --> ACQUIRING --> all are held
 *      |                        |
 *      +------------------------+-------> FAILING: what is held goes back
 *
 * Releases are sent together, the last name first: so a waiter that wants them all does not get one
 * only to wait for the next.
 */
#include "core/task.h"
#include "prim/requests.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- releases -------------------------------------------------------------------------------- */

/* What is still to be released, and what is under way. */
struct releases {
    hf_lease *const *leases;
    size_t count;     /* the number of leases that are to be sent */
    size_t under_way; /* releases that have not been answered */
};

/* Send the next ones, as many as were ever acquired together. HF_OK: none is left. */
static hf_status release_some(struct hfi_task *task, struct releases *releases)
{
    size_t some = releases->count < HF_ACQUIRE_ALL_MAX ? releases->count : HF_ACQUIRE_ALL_MAX;

    for (size_t i = 0; i < some; i++)
        (void)hfi_task_release(task, releases->leases[--releases->count]);
    releases->under_way = some;
    return some > 0 ? HFI_BEGUN : HF_OK;
}

/* One has been answered. HF_OK: it was the last. */
static hf_status release_more(struct hfi_task *task, struct releases *releases)
{
    return --releases->under_way > 0 ? HFI_BEGUN : release_some(task, releases);
}

struct release_call {
    struct hfi_task task;
    struct releases releases;
    hf_status status;        /* the first that was not HF_OK */
    struct hfi_shard *shard; /* asynchronous form: it keeps the store open */
    hf_lease *leases[HF_ACQUIRE_ALL_MAX];
};

static hf_status release_step(struct hfi_task *task, hf_status got)
{
    struct release_call *call = hfi_container(task, struct release_call, task);
    bool first = task->state++ == 0;
    hf_status status;

    if (got != HF_OK && call->status == HF_OK) {
        call->status = got;
        task->error = task->child.error;
    }
    status = first ? release_some(task, &call->releases) : release_more(task, &call->releases);
    return status == HF_OK ? call->status : status;
}

hf_status hf_release_all(hf_lease *const *leases, size_t count, hf_error *err)
{
    struct release_call call;
    hf_status status;

    if (!leases && count > 0)
        return hfi_error_set(err, HF_INVALID, 0, "leases: NULL");
    hfi_task_init(&call.task, NULL, release_step); /* each lease keeps its own store open */
    call.releases = (struct releases){ .leases = leases, .count = count };
    call.status = HF_OK;
    status = hfi_task_run(&call.task);
    if (err)
        *err = call.task.error;
    return status;
}

static void release_free(struct hfi_task *task)
{
    struct release_call *call = hfi_container(task, struct release_call, task);

    hfi_shard_leave(call->shard);
    hfi_free(call);
}

hf_status hf_release_all_async(hf_lease *const *leases, size_t count, hf_done_fn *done, void *arg,
                               hf_op **ret_op, hf_error *err)
{
    struct release_call *call;
    struct hfi_store *store;
    hf_status status = HF_INVALID;

    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    if (!leases)
        return hfi_error_set(err, HF_INVALID, 0, "leases: NULL");
    call = hfi_calloc(1, sizeof *call);
    if (!call)
        return hfi_error_memory(err);
    /* Leases that have ended already do not prevent the release of the others. */
    for (size_t i = 0; i < count && status != HF_OK; i++)
        status = hfi_lease_enter_store(leases[i], &store, &call->shard, err);
    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    hfi_task_init(&call->task, store, release_step);
    call->task.free = release_free;
    memcpy(call->leases, leases, count * sizeof *leases);
    call->releases = (struct releases){ .leases = call->leases, .count = count };
    status = hfi_task_begin(&call->task, done, arg, ret_op, err);
    if (status != HF_OK)
        release_free(&call->task);
    return status;
}

/* ---- acquires ------------------------------------------------------------------------------------------ */

enum { BEGINNING, TRYING, TRIMMING, ACQUIRING, FAILING };

struct acquire_call {
    struct hfi_task task;
    struct hfi_request_item *items; /* in the order of acquisition */
    size_t count;
    int64_t wait_ms, deadline_ms;
    size_t next;      /* the one that is being acquired; TRYING: how many were not answered */
    size_t refused;   /* TRYING: the first that failed and was not busy; `count`: none */
    hf_status status; /* FAILING: why; TRYING: of `refused` */
    struct releases releases; /* TRIMMING, FAILING */
    char *texts;              /* asynchronous form: what the requests point to */
    hf_lease *leases[HF_ACQUIRE_ALL_MAX];
};

static int by_name(const void *left, const void *right)
{
    return hfi_requests_compare(left, right);
}

/* ---- all of them ------------------------------------------------------------------------------------ */

/* Release what is held from `from` on. HF_OK: nothing is held. */
static hf_status give_back(struct acquire_call *call, size_t from)
{
    call->releases = (struct releases){ .leases = call->leases };
    for (size_t i = from; i < call->count; i++) {
        if (call->items[i].lease)
            call->leases[call->releases.count++] = call->items[i].lease;
        call->items[i].lease = NULL;
    }
    return release_some(&call->task, &call->releases);
}

/* One name cannot be acquired: release those that are held. */
static hf_status fail(struct acquire_call *call, hf_status why)
{
    hf_status status;

    call->task.state = FAILING;
    call->status = why;
    status = give_back(call, 0);
    return status == HF_OK ? why : status;
}

/* While we waited for the last lease, the first may have expired. */
static hf_status all_good(struct acquire_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        const struct hfi_request_item *item = &call->items[i];
        struct hfi_name name = hfi_requests_name(item);
        hf_status status = HF_OK;

        if (hf_lease_state(item->lease) == HF_STATE_LOST)
            status = HF_LOST;
        else if (hf_lease_remaining_ms(item->lease) < item->request.min_valid_ms)
            status = HF_TOO_SHORT;
        if (status != HF_OK)
            return fail(call, hfi_store_error(call->task.store, "acquire", &name, status, NULL,
                                              &call->task.error));
    }
    return hfi_ok(&call->task.error);
}

static hf_status acquire_next(struct acquire_call *call)
{
    struct hfi_request_item *item = &call->items[call->next];

    call->task.state = ACQUIRING;
    if (call->next == call->count)
        return all_good(call);
    item->request.wait_ms = call->wait_ms;
    if (call->deadline_ms != HFI_NEVER) {
        int64_t left_ms = call->deadline_ms - hfi_now_ms();

        item->request.wait_ms = left_ms > 0 ? left_ms : 0; /* too late to wait, not to try */
    }
    return hfi_task_acquire(&call->task, &item->request);
}

static hf_status acquired(struct acquire_call *call, hf_status got)
{
    struct hfi_request_item *item = &call->items[call->next];
    struct hfi_name name = hfi_requests_name(item);

    if (got == HF_BUSY && call->wait_ms > 0)
        got = hfi_store_error(call->task.store, "acquire", &name, HF_TIMEOUT, NULL,
                              &call->task.error);
    else if (got != HF_OK)
        call->task.error = call->task.child.error;
    if (got != HF_OK)
        return fail(call, got);
    item->lease = call->task.child.lease;
    call->next++;
    return acquire_next(call);
}

static hf_status try_all(struct acquire_call *call)
{
    const struct hfi_drive *drive = hfi_store_engine(call->task.store)->drive;

    call->task.state = TRYING;
    call->next = call->refused = call->count;
    if (drive->cork)
        drive->cork(call->task.store->opened, true);
    for (unsigned i = 0; i < call->count; i++) {
        call->task.mark = i;
        call->items[i].request.wait_ms = 0;
        (void)hfi_task_acquire(&call->task, &call->items[i].request);
    }
    if (drive->cork)
        drive->cork(call->task.store->opened, false);
    return HFI_BEGUN;
}

/* One of them was answered. After the last: those up to the first that is busy are kept. */
static hf_status tried(struct acquire_call *call, hf_status got)
{
    size_t at = got == HF_NO_MEMORY ? 0 : call->task.child.mark; /* it may not have begun */
    hf_status status;

    if (got == HF_OK) {
        call->items[at].lease = call->task.child.lease;
    } else if (got != HF_BUSY && got != HF_TOO_SHORT && at < call->refused) {
        call->refused = at;
        call->status = got;
        call->task.error = call->task.child.error;
    }
    if (--call->next > 0)
        return HFI_BEGUN;
    if (call->refused < call->count)
        return fail(call, call->status);
    while (call->next < call->count && call->items[call->next].lease)
        call->next++;
    call->task.state = TRIMMING;
    status = give_back(call, call->next);
    return status == HF_OK ? acquire_next(call) : status;
}

static hf_status acquire_step(struct hfi_task *task, hf_status got)
{
    struct acquire_call *call = hfi_container(task, struct acquire_call, task);
    hf_status status;

    switch (task->state) {
    case BEGINNING:
        return call->count > 1 && task->store->drive == HFI_EVENT ? try_all(call)
                                                                  : acquire_next(call);
    case TRYING:
        return tried(call, got);
    case TRIMMING:
        status = release_more(task, &call->releases);
        return status == HF_OK ? acquire_next(call) : status;
    case ACQUIRING:
        return acquired(call, got);
    default:
        status = release_more(task, &call->releases);
        return status == HF_OK ? call->status : status;
    }
}

/* ---- the two forms ------------------------------------------------------------------------------------ */

/* HF_OK: the store was entered, and the task can run. Else nothing is left. */
static hf_status acquire_init(struct acquire_call *call, hf_store *handle,
                              const hf_acquire_request *requests, size_t count, hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, acquire_step);
    call->task.handle = handle;
    call->task.state = BEGINNING;
    call->count = count;
    call->next = 0;
    call->texts = NULL;
    status = hfi_requests_read(store, requests, count, &call->items, err);
    if (status == HF_OK) {
        call->task.cancel = call->items[0].request.cancel;
        call->wait_ms = call->items[0].request.wait_ms;
        call->deadline_ms = call->wait_ms > 0 ? hfi_wait_end_ms(call->wait_ms) : HFI_NEVER;
        qsort(call->items, count, sizeof *call->items, by_name);
        return HF_OK;
    }
    hfi_store_leave(store);
    return status;
}

/* In the order of the caller. */
static void sort_back(const struct acquire_call *call, hf_lease **ret_leases)
{
    for (size_t i = 0; i < call->count; i++)
        ret_leases[call->items[i].index] = call->items[i].lease;
}

hf_status hf_acquire_all(hf_store *handle, const hf_acquire_request *requests, size_t count,
                         hf_lease **ret_leases, hf_error *err)
{
    struct acquire_call call;
    hf_status status;

    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    if (!requests || !ret_leases)
        return hfi_error_set(err, HF_INVALID, 0, "%s: NULL", requests ? "ret_leases" : "requests");
    status = acquire_init(&call, handle, requests, count, err);
    if (status != HF_OK)
        return status;
    status = hfi_task_run_entered(&call.task, err);
    if (status == HF_OK)
        sort_back(&call, ret_leases);
    hfi_free(call.items);
    return status;
}

static void acquire_finish(struct hfi_task *task, hf_result *result)
{
    struct acquire_call *call = hfi_container(task, struct acquire_call, task);

    if (result->status != HF_OK)
        return;
    sort_back(call, call->leases);
    result->leases = call->leases;
    result->count = call->count;
}

static void acquire_free(struct hfi_task *task)
{
    struct acquire_call *call = hfi_container(task, struct acquire_call, task);

    hfi_free(call->texts);
    hfi_free(call->items);
    hfi_task_free_entered(task);
}

hf_status hf_acquire_all_async(hf_store *handle, const hf_acquire_request *requests, size_t count,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct acquire_call *call;
    hf_status status;

    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    if (!requests)
        return hfi_error_set(err, HF_INVALID, 0, "requests: NULL");
    call = hfi_malloc(sizeof *call);
    if (!call)
        return hfi_error_memory(err);
    status = acquire_init(call, handle, requests, count, err);
    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    call->task.finish = acquire_finish;
    call->task.free = acquire_free;
    call->texts = hfi_requests_copy_texts(call->items, count);
    status =
        call->texts ? hfi_task_begin(&call->task, done, arg, ret_op, err) : hfi_error_memory(err);
    if (status != HF_OK)
        acquire_free(&call->task);
    return status;
}
