/* SPDX-License-Identifier: MIT */
/*
 * hf_yield(): give a lease that others wait for to them, and queue for it again. It is a release and an acquire of a new claim with the
 * same request, submitted together: one write where the engine sends many at once. Any thread.
 *
 * The release comes first, so a local waiter gets the lease before anybody else, and a waiter in the store stands before us in its
 * queue. From then on the old handle has ended, whatever becomes of the acquire.
 */
#include "core/acquire.h"
#include "core/again.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/process.h"

enum { MARK_NONE, MARK_RELEASE, MARK_ACQUIRE };

struct yield_call;
static void begin_task(struct yield_call *call, hf_lease *handle);

struct yield_call {
    struct hfi_task task;
    hf_lease *handle;        /* what is given away; then what we got instead; NULL: nothing */
    struct hfi_shard *shard; /* which keeps the store open */
    bool wanted;
    int under_way; /* children */
    hf_status status;
    struct hfi_again again;
};

/* ---- the beginning ----------------------------------------------------------------------------- */

/* May it be given away? With the lock. */
static hf_status check(const struct hfi_lease *lease, hf_error *err)
{
    if (!lease->watch)
        return hfi_error_set(err, HF_INVALID, 0, "lease: it was not requested with HF_FLAG_WATCH");
    if (hfi_lease_lost(lease))
        return hfi_error_set(err, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
    if (lease->holds > 1)
        return hfi_error_set(err, HF_IN_USE, 0,
                             "lease: it has %u holds, and an outer one relies on it", lease->holds);
    return HF_OK;
}

/* HF_OK: the store is entered. */
static hf_status init(struct yield_call *call, hf_lease *handle, int64_t wait_ms, hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    if (wait_ms < HF_FOREVER || wait_ms > HF_DURATION_MAX_MS)
        status = hfi_error_set(err, HF_INVALID, 0,
                               "wait_ms: negative and not HF_FOREVER, or more than ten years");
    else
        status = check(lease, err);
    if (status == HF_OK) {
        call->shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
        call->shard->entered++;
        begin_task(call, handle);
        call->wanted =
            atomic_load_explicit(&lease->level, memory_order_relaxed) == HFI_LEVEL_WANTED;
        hfi_again_set(&call->again, lease, wait_ms);
    }
    hfi_lease_unlock(lease, next);
    return status;
}

/* ---- the steps --------------------------------------------------------------------------------- */

static hf_status yield_begin(struct hfi_task *task, struct yield_call *call)
{
    const struct hfi_drive *drive = hfi_store_engine(task->store)->drive;
    hf_lease *old = call->handle;

    call->handle = NULL;
    call->status = HF_NO_MEMORY; /* until the acquire has ended */
    call->under_way = 2;
    if (drive->cork)
        drive->cork(task->store->opened, true);
    task->mark = MARK_RELEASE;
    (void)hfi_task_release(task, old);
    task->mark = MARK_ACQUIRE;
    (void)hfi_task_acquire(task, &call->again.request);
    if (drive->cork)
        drive->cork(task->store->opened, false);
    task->child.mark = MARK_NONE;
    return HFI_BEGUN;
}

static hf_status yield_step(struct hfi_task *task, hf_status got)
{
    struct yield_call *call = hfi_container(task, struct yield_call, task);

    if (!call->wanted)
        return hfi_ok(&task->error);
    if (task->state++ == 0)
        return yield_begin(task, call);
    if (task->child.mark == MARK_ACQUIRE) {
        call->status = got == HF_OK ? HF_YIELDED : got;
        call->handle = task->child.lease;
        task->error = task->child.error;
    }
    task->child.mark =
        MARK_NONE; /* so that one that had no memory to begin is not mistaken for it */
    if (--call->under_way > 0)
        return HFI_BEGUN;
    if (call->status == HF_YIELDED)
        hfi_error_set(&task->error, HF_YIELDED, 0, "%s", hf_status_text(HF_YIELDED));
    else if (call->status == HF_NO_MEMORY)
        hfi_error_memory(&task->error);
    return call->status;
}

static void yield_finish(struct hfi_task *task, hf_result *result)
{
    result->lease = hfi_container(task, struct yield_call, task)->handle;
}

static void yield_free(struct hfi_task *task)
{
    struct yield_call *call = hfi_container(task, struct yield_call, task);

    hfi_shard_leave(call->shard);
    hfi_free(call);
}

static void begin_task(struct yield_call *call, hf_lease *handle)
{
    struct hfi_store *store = call->shard->store;

    call->handle = handle;
    hfi_task_init(&call->task, store, yield_step);
    call->task.handle = (hf_store *)(uintptr_t)atomic_load(&store->slot.handle); /* NOLINT */
    call->task.finish = yield_finish;
    call->task.free = yield_free;
}

/* One load: it is watched, held as far as we know, and nobody waits for it. */
static bool stays(hf_lease *handle)
{
    struct hfi_lease *lease = hfi_slot_find(&hfi_leases, handle);

    return lease && atomic_load_explicit(&lease->level, memory_order_relaxed) == HFI_LEVEL_QUIET &&
           hfi_slot_is(&lease->slot, handle) && hfi_slot_ours(&lease->slot, hfi_process_id());
}

hf_status hf_yield(hf_lease **lease, int64_t wait_ms, hf_error *err)
{
    struct yield_call call;
    hf_status status;

    if (!lease)
        return hfi_error_set(err, HF_INVALID, 0, "lease: NULL");
    if (stays(*lease))
        return hfi_ok(err);
    status = init(&call, *lease, wait_ms, err);
    if (status != HF_OK)
        return status;
    status = hfi_task_run(&call.task);
    if (err)
        *err = call.task.error;
    *lease = call.handle;
    hfi_shard_leave(call.shard);
    return status;
}

hf_status hf_yield_async(hf_lease *lease, int64_t wait_ms, hf_done_fn *done, void *arg,
                         hf_op **ret_op, hf_error *err)
{
    struct yield_call *call = hfi_malloc(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = init(call, lease, wait_ms, err);
    if (status == HF_OK) {
        status = hfi_task_begin(&call->task, done, arg, ret_op, err);
        if (status == HF_OK)
            return HF_OK;
        hfi_shard_leave(call->shard);
    }
    hfi_free(call);
    return status;
}
