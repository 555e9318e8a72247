/* SPDX-License-Identifier: MIT */
/*
 * hf_convert(): a lease of a read-write lock becomes one of another kind. It is an acquire of a new claim that takes the place of the old
 * one in the store (HFI_CLAIM_REPLACES), in one step there, so nobody can come between. Any thread.
 *
 * Until the answer is here, the old lease is held and renewed as before. From the grant on the store does not know it any more, and says so
 * to a renewal that crosses the answer: while `converting` is set, such an answer counts as none (renew.c), and the validity
 * that was confirmed before goes on: the new holder's term in the store is never shorter. If the answer does not come, the old lease is lost
 * before the new claim is released (hfi_lease_lose_replaced()).
 */
#include "core/acquire.h"
#include "core/again.h"
#include "core/lack.h"
#include "core/table.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

struct convert_call {
    struct hfi_task task;
    hf_lease *handle;        /* the old one; in the end the one that counts */
    struct hfi_shard *shard; /* which keeps the store open */
    bool nothing;            /* it has this kind */
    hf_status status;        /* of the whole, while the new lease is given back */
    struct hfi_replaced replaced;
    struct hfi_again again;
};

enum { BEGIN, ACQUIRED, GIVEN_BACK };

/* ---- the beginning --------------------------------------------------------------------------- */

/* May it become this kind? With the lock. */
static hf_status check(const struct hfi_lease *lease, hf_kind kind, hf_error *err)
{
    const struct hfi_claim *claim = &lease->claim;

    if (kind != HF_KIND_SHARED && kind != HF_KIND_EXCLUSIVE && kind != HF_KIND_UPGRADEABLE)
        return hfi_error_set(err, HF_INVALID, 0, "kind: not that of a read-write lock");
    if (!(hfi_store_promises(lease->store)->caps & HF_CAP_CONVERT))
        return hfi_unsupported(hfi_store_promises(lease->store), HF_CAP_CONVERT, "kind", err);
    if (claim->mode != HFI_MODE_RW)
        return hfi_error_set(err, HF_INVALID, 0, "lease: not of a read-write lock");
    if (claim->permits == 1 && kind != HF_KIND_SHARED)
        return hfi_error_set(err, HF_INVALID, 0,
                             "kind: a shared reader cannot become the writer; acquire it as "
                             "HF_KIND_UPGRADEABLE");
    if (hfi_lease_lost(lease))
        return hfi_error_set(err, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
    if (lease->holds > 1)
        return hfi_error_set(err, HF_IN_USE, 0,
                             "lease: it has %u holds, and an outer one relies on it", lease->holds);
    if (lease->converting)
        return hfi_error_set(err, HF_IN_USE, 0, "lease: it is being converted");
    return HF_OK;
}

/* What is left of max_hold: a conversion does not begin it anew. */
static int64_t hold_left(const struct hfi_term *term)
{
    int64_t left_ms = term->max_hold_ms ? term->hold_end_ms - hfi_now_ms() : 0;

    return term->max_hold_ms && left_ms < 1 ? 1 : left_ms;
}

static hf_status convert_step(struct hfi_task *task, hf_status got);
static void convert_finish(struct hfi_task *task, hf_result *result);
static void convert_free(struct hfi_task *task);

/* With the lock. */
static void init_task(struct convert_call *call, struct hfi_lease *lease, hf_kind kind,
                      int64_t wait_ms)
{
    hfi_task_init(&call->task, lease->store, convert_step);
    call->task.handle = (hf_store *)(uintptr_t)atomic_load(&lease->store->slot.handle); /* NOLINT */
    call->task.finish = convert_finish;
    call->task.free = convert_free;
    call->replaced.handle = call->handle;
    memcpy(call->replaced.owner, lease->claim.owner, HFI_OWNER_LEN);
    call->replaced.in_loop = lease->in_loop;
    hfi_again_set(&call->again, lease, wait_ms);
    call->nothing = call->again.request.kind == kind;
    call->again.request.kind = kind;
    call->again.request.max_hold_ms = hold_left(&lease->term);
    call->again.request.min_valid_ms = 0; /* one that was granted cannot be given back */
    call->again.request.linger_ms = HF_LINGER_NEVER;
    lease->converting = !call->nothing;
}

/* HF_OK: the store is entered. */
static hf_status init(struct convert_call *call, hf_lease *handle, hf_kind kind, int64_t wait_ms,
                      hf_error *err)
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
        status = check(lease, kind, err);
    if (status == HF_OK) {
        call->handle = handle;
        call->shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
        call->shard->entered++;
        init_task(call, lease, kind, wait_ms);
    }
    hfi_lease_unlock(lease, next);
    return status;
}

/* ---- the end of the old lease ---------------------------------------------------------------- */

/* Its place in the store is the new lease's. HF_LOST, HF_INVALID: it was lost, or released, while the new one was on its way. The
 * store is told by a release in the background that finds nothing there, so the engine forgets the claim too. */
static hf_status end_old(hf_lease *handle)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return status;
    lease->converting = false;
    if (hfi_lease_lost(lease)) {
        hfi_lease_unlock(lease, next);
        return HF_LOST;
    }
    if (lease->events.fn)
        (void)hfi_notify_drop(lease, handle); /* one that runs may go on: its `arg` lives on */
    next = hfi_release_take_out(lease);
    hfi_lease_unlock(lease, NULL);
    hfi_keeper_settle(lease, 0, true);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
    return HF_OK;
}

/* Does this status say that nothing was done in the store? */
static bool nothing_done(hf_status status)
{
    return status == HF_BUSY || status == HF_TIMEOUT || status == HF_CANCELLED ||
           status == HF_DEADLOCK || status == HF_UNAVAILABLE || status == HF_DENIED ||
           status == HF_FULL || status == HF_NO_MEMORY || status == HF_INVALID ||
           status == HF_UNSUPPORTED;
}

/* It was not converted. With the lock. Returns the local waiter to be told GO, or NULL. */
static struct hfi_wait *keep(struct hfi_lease *lease, hf_status status)
{
    lease->converting = false;
    if (nothing_done(status))
        return NULL;
    return hfi_lease_lose(lease, HF_LOSS_FORGOTTEN,
                          "the store no longer had it when it was converted");
}

static void keep_old(hf_lease *handle, hf_status status)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return;
    if (!next)
        next = keep(lease, status);
    else
        lease->converting = false;
    hfi_lease_unlock(lease, next);
}

/* ---- the steps ----------------------------------------------------------------------------------- */

static hf_status acquired(struct hfi_task *task, struct convert_call *call, hf_status got)
{
    hf_lease *fresh = task->child.lease;

    task->error = task->child.error;
    if (got != HF_OK) {
        keep_old(call->handle, got);
        return got;
    }
    call->status = end_old(call->handle);
    if (call->status != HF_OK) {
        hfi_error_set(&task->error, call->status, 0, "lease: %s while it was converted",
                      call->status == HF_LOST ? "it was lost" : "it was released");
        return hfi_task_release(task, fresh);
    }
    call->handle = fresh;
    return hfi_ok(&task->error);
}

static hf_status convert_step(struct hfi_task *task, hf_status got)
{
    struct convert_call *call = hfi_container(task, struct convert_call, task);

    if (call->nothing)
        return hfi_ok(&task->error);
    switch (task->state++) {
    case BEGIN:
        return hfi_task_replace(task, &call->again.request, &call->replaced);
    case ACQUIRED:
        return acquired(task, call, got);
    default:
        return call->status; /* the new lease was given back */
    }
}

static void convert_finish(struct hfi_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->lease = hfi_container(task, struct convert_call, task)->handle;
}

static void convert_free(struct hfi_task *task)
{
    struct convert_call *call = hfi_container(task, struct convert_call, task);

    hfi_shard_leave(call->shard);
    hfi_free(call);
}

hf_status hf_convert(hf_lease **lease, hf_kind kind, int64_t wait_ms, hf_error *err)
{
    struct convert_call call;
    hf_status status;

    if (!lease)
        return hfi_error_set(err, HF_INVALID, 0, "lease: NULL");
    status = init(&call, *lease, kind, wait_ms, err);
    if (status != HF_OK)
        return status;
    status = hfi_task_run(&call.task);
    if (err)
        *err = call.task.error;
    if (status == HF_OK)
        *lease = call.handle;
    hfi_shard_leave(call.shard);
    return status;
}

hf_status hf_convert_async(hf_lease *lease, hf_kind kind, int64_t wait_ms, hf_done_fn *done,
                           void *arg, hf_op **ret_op, hf_error *err)
{
    struct convert_call *call = hfi_malloc(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = init(call, lease, kind, wait_ms, err);
    if (status == HF_OK) {
        status = hfi_task_begin(&call->task, done, arg, ret_op, err);
        if (status == HF_OK)
            return HF_OK;
        keep_old(lease, status);
        hfi_shard_leave(call->shard);
    }
    hfi_free(call);
    return status;
}
