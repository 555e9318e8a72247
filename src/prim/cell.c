/* SPDX-License-Identifier: MIT */
/*
 * hf_cell_*(): versioned cells for the caller's own bytes.
 *
 * The bytes in the store begin with "C1", so that the caller's cells and those of other primitives
 * (a guarded value is "G...") are never confused. That is checked whenever one is read.
 * hf_cell_swap() and hf_cell_delete() need not check it: a version that was read from one of the
 * caller's cells is never that of another kind.
 *
 * A swap whose outcome is unknown is never sent again. If it arrives late and finds the version
 * that it expects, it does what the caller asked for; if it finds another version, it does nothing.
 */
#include "core/lack.h"
#include "core/request.h"
#include "core/thread.h"
#include "core/wait.h"
#include "holdfast/primitives.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

/* One call. */
struct cell_call {
    struct hfi_prim_task task;
    const void *bytes;
    size_t len;
    int64_t ttl_ms;
    uint64_t version;
    hf_cell_fn *fn;
    void *arg;
};

static hf_status enter(struct cell_call *call, hf_store *store, const char *verb, const void *name,
                       size_t name_len, hf_error *err)
{
    return hfi_prim_enter(&call->task.prim, store, verb, name, name_len, HF_CAP_CELLS, err);
}

/* Copy a request. The caller's struct may have another size than ours. */
static hf_status take_request(struct cell_call *call, const hf_cell_request *given,
                              hf_cell_request *whole, hf_error *err)
{
    hf_status status = hfi_request_copy(
        whole, sizeof *whole, given, offsetof(hf_cell_request, bytes), "HF_CELL_REQUEST_INIT", err);

    if (status != HF_OK)
        return status;
    call->bytes = whole->bytes;
    call->len = whole->len;
    call->ttl_ms = whole->ttl_ms;
    call->version = whole->version;
    call->fn = whole->fn;
    call->arg = whole->fn_arg;
    return HF_OK;
}

static hf_status refuse(struct cell_call *call, hf_status status)
{
    hfi_prim_leave(&call->task.prim);
    return status;
}

/* ---- what callers give us ----------------------------------------------------------------------- */

/* Every refusal names the field. */
static hf_status check_bytes(const struct cell_call *call, hf_error *err)
{
    if (!call->bytes && call->len > 0)
        return hfi_error_set(err, HF_INVALID, 0, "bytes: NULL");
    if (call->len > HF_CELL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_CELL_MAX);
    if (call->ttl_ms == 0)
        return HF_OK;
    if (call->ttl_ms < HF_TTL_MIN_MS || call->ttl_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0,
                             "ttl_ms: less than a second, or more than ten years");
    if (!(hfi_prim_caps(&call->task.prim) & HF_CAP_CELL_TTL))
        return hfi_unsupported(hfi_store_promises(call->task.prim.store), HF_CAP_CELL_TTL, "ttl_ms",
                               err);
    return HF_OK;
}

static hf_status check_wait(struct cell_call *call, int64_t wait_ms, hf_cancel *cancel,
                            hf_error *err)
{
    hf_status status = cancel ? hfi_cancel_look(cancel) : HF_OK;

    if (wait_ms < HF_FOREVER || wait_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0,
                             "wait_ms: negative and not HF_FOREVER, or more than ten years");
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    if (status != HF_OK)
        return hfi_prim_error(&call->task.prim, status, NULL, err);
    (void)hfi_until(wait_ms, &call->task.until_ms);
    call->task.core.cancel = cancel;
    return HF_OK;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static bool is_ours(const struct hfi_cell *found)
{
    return found->version == 0 || hfi_is_callers_cell(found->bytes, found->len);
}

static enum hfi_verdict not_ours(struct hfi_cell_run *run)
{
    return hfi_run_fail(run, HF_MISMATCH, "the cell of that name belongs to another primitive");
}

/* What was read, as callers see it: the bytes move over the head, which leaves room for a NUL. */
static hf_cell show(struct hfi_cell *found)
{
    hf_cell cell = { .size = sizeof cell, .ttl_ms = -1 };

    if (found->version == 0)
        return cell;
    cell.bytes = found->bytes;
    cell.len = found->len - HFI_CELL_HEAD_LEN;
    cell.version = found->version;
    cell.ttl_ms = found->ttl_ms;
    memmove(found->bytes, found->bytes + HFI_CELL_HEAD_LEN, cell.len);
    found->bytes[cell.len] = 0;
    return cell;
}

static enum hfi_verdict decide_get(struct hfi_cell_run *run, void *arg)
{
    (void)arg;
    if (!is_ours(&run->found))
        return not_ours(run);
    if (run->found.version == 0)
        return hfi_run_fail(run, HF_NOT_FOUND, "no such cell");
    return HFI_END;
}

hf_status hf_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                      hf_error *err)
{
    size_t size = ret_cell ? ret_cell->size : 0;
    struct cell_call call;
    hf_cell cell;
    hf_status status;

    hfi_prim_task_init_run(&call.task, decide_get, NULL);
    status = enter(&call, store, "read cell", name, name_len, err);
    if (status != HF_OK)
        return status;
    if (size < offsetof(hf_cell, ttl_ms) || size > HFI_STRUCT_MAX)
        return refuse(&call,
                      hfi_error_set(err, HF_INVALID, 0,
                                    ret_cell ? "size: not that of an hf_cell; use HF_CELL_INIT"
                                             : "ret_cell: NULL"));
    status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK) {
        cell = show(&call.task.run.found);
        call.task.run.owned = NULL; /* the caller owns it now */
        cell.size = size;
        memset(ret_cell, 0, size);
        memcpy(ret_cell, &cell, size < sizeof cell ? size : sizeof cell);
    }
    hfi_prim_task_done(&call.task);
    return status;
}

static void finish_get(struct hfi_prim_task *task, hf_result *result)
{
    hf_cell cell;

    if (result->status != HF_OK)
        return;
    cell = show(&task->run.found);
    task->run.owned = NULL; /* the callback owns it now */
    result->bytes = cell.bytes;
    result->len = cell.len;
    result->version = cell.version;
    result->number = cell.ttl_ms;
}

hf_status hf_cell_get_async(hf_store *store, const void *name, size_t name_len, hf_done_fn *done,
                            void *arg, hf_op **ret_op, hf_error *err)
{
    struct cell_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    hfi_prim_task_init_run(&call->task, decide_get, NULL);
    return hfi_prim_task_begin(&call->task, enter(call, store, "read cell", name, name_len, err),
                               finish_get, done, arg, ret_op, err);
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* The bytes of the call with their head, in the run's buffer. */
static bool put_bytes(struct hfi_cell_run *run, const struct cell_call *call)
{
    struct hfi_buffer *to = hfi_run_buffer(run);

    return hfi_put_bytes(to, HFI_CELL_HEAD, HFI_CELL_HEAD_LEN) &&
           hfi_put_bytes(to, call->bytes, call->len);
}

static enum hfi_verdict decide_set(struct hfi_cell_run *run, void *arg)
{
    struct cell_call *call = arg;

    if (run->wrote)
        return HFI_END;
    if (!is_ours(&run->found))
        return not_ours(run);
    return put_bytes(run, call) ? hfi_run_write(run, call->ttl_ms) : hfi_run_memory(run);
}

/* After HF_OK the store is entered. */
static hf_status prepare_set(struct cell_call *call, hf_store *store, const hf_cell_request *given,
                             hf_error *err)
{
    struct hfi_cell_run *run = &call->task.run;
    hf_cell_request request;
    hf_status status;

    hfi_prim_task_init_run(&call->task, decide_set, call);
    status = take_request(call, given, &request, err);
    if (status == HF_OK)
        status = enter(call, store, "write cell", request.name, request.name_len, err);
    if (status != HF_OK)
        return status;
    status = check_bytes(call, err);
    if (status != HF_OK)
        return refuse(call, status);
    run->stoppable = true;
    run->late = HF_BUSY;
    run->late_text = "other clients kept changing it";
    return HF_OK;
}

static void finish_version(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->version = task->run.found.version;
}

hf_status hf_cell_set(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                      hf_error *err)
{
    struct cell_call call;
    hf_status status = prepare_set(&call, store, request, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK && ret_version)
        *ret_version = call.task.run.found.version;
    hfi_prim_task_done(&call.task);
    return status;
}

/* After HF_OK the bytes are the task's own. */
static hf_status keep_bytes(struct cell_call *call, hf_error *err)
{
    call->bytes = hfi_prim_keep(&call->task, call->bytes, call->len);
    return call->bytes ? HF_OK : refuse(call, hfi_error_memory(err));
}

hf_status hf_cell_set_async(hf_store *store, const hf_cell_request *request, hf_done_fn *done,
                            void *arg, hf_op **ret_op, hf_error *err)
{
    struct cell_call *call = hfi_prim_call_new(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = prepare_set(call, store, request, err);
    if (status == HF_OK)
        status = keep_bytes(call, err);
    return hfi_prim_task_begin(&call->task, status, finish_version, done, arg, ret_op, err);
}

enum { SWAP_BEGIN, SWAP_DONE };

/* At a version that the caller knows: nothing is read. */
static hf_status step_swap(struct hfi_prim_task *task, hf_status got)
{
    struct cell_call *call = hfi_container(task, struct cell_call, task);

    if (task->state == SWAP_BEGIN) {
        task->action.version = call->version;
        task->action.bytes = task->run.buffer.bytes; /* NULL: delete it */
        task->action.len = task->run.buffer.len;
        task->action.ttl_ms = call->ttl_ms;
        return hfi_begin_act(task, SWAP_DONE, HFI_ACT_SWAP);
    }
    if (got != HF_BUSY)
        return got;
    if (call->version == 0)
        return hfi_error_set(&task->error, HF_CHANGED, 0, "it exists already");
    return hfi_error_set(&task->error, HF_CHANGED, 0, "its version is not %" PRIu64 " any more",
                         call->version);
}

/* The rest of the call is set. After HF_OK the store is entered. */
static hf_status prepare_swap(struct cell_call *call, hf_store *store, const hf_cell_request *given,
                              hf_error *err)
{
    hf_cell_request request;
    hf_status status;

    hfi_prim_task_init(&call->task, step_swap);
    status = take_request(call, given, &request, err);
    if (status == HF_OK)
        status = enter(call, store, "swap cell", request.name, request.name_len, err);
    if (status != HF_OK)
        return status;
    status = check_bytes(call, err);
    if (status == HF_OK && !put_bytes(&call->task.run, call))
        status = hfi_error_memory(err);
    return status == HF_OK ? HF_OK : refuse(call, status);
}

static void finish_swap(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->version = task->action.version;
}

hf_status hf_cell_swap(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                       hf_error *err)
{
    struct cell_call call;
    hf_status status = prepare_swap(&call, store, request, err);

    if (status == HF_OK)
        status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK && ret_version)
        *ret_version = call.task.action.version;
    hfi_prim_task_done(&call.task);
    return status;
}

hf_status hf_cell_swap_async(hf_store *store, const hf_cell_request *request, hf_done_fn *done,
                             void *arg, hf_op **ret_op, hf_error *err)
{
    struct cell_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_swap(call, store, request, err), finish_swap,
                               done, arg, ret_op, err);
}

static hf_status prepare_delete(struct cell_call *call, hf_store *store, const void *name,
                                size_t name_len, uint64_t version, hf_error *err)
{
    hf_status status;

    hfi_prim_task_init(&call->task, step_swap);
    call->version = version;
    call->ttl_ms = 0;
    status = enter(call, store, "delete cell", name, name_len, err);
    if (status == HF_OK && version == 0)
        status = refuse(call, hfi_error_set(err, HF_INVALID, 0, "version: no cell has version 0"));
    return status;
}

hf_status hf_cell_delete(hf_store *store, const void *name, size_t name_len, uint64_t version,
                         hf_error *err)
{
    struct cell_call call;
    hf_status status = prepare_delete(&call, store, name, name_len, version, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    hfi_prim_task_done(&call.task);
    return status;
}

hf_status hf_cell_delete_async(hf_store *store, const void *name, size_t name_len, uint64_t version,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct cell_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task,
                               prepare_delete(call, store, name, name_len, version, err), NULL,
                               done, arg, ret_op, err);
}

/* ---- updating ----------------------------------------------------------------------------------- */

static hf_status ask_caller(struct cell_call *call, struct hfi_cell *found,
                            hf_cell_change *ret_change)
{
    struct hfi_calling calling = { call->task.prim.store, hfi_self.calling };
    hf_cell old = show(found);
    hf_status status;

    *ret_change = (hf_cell_change){ .size = sizeof *ret_change };
    hfi_self.calling = &calling;
    status = call->fn(&old, ret_change, call->arg);
    hfi_self.calling = calling.outer;
    return status;
}

static enum hfi_verdict write_change(struct hfi_cell_run *run, struct cell_call *call,
                                     const hf_cell_change *change)
{
    call->bytes = change->bytes;
    call->len = change->len;
    call->ttl_ms = change->ttl_ms;
    run->status = check_bytes(call, &call->task.error);
    if (run->status != HF_OK) {
        call->task.whole = true;
        return HFI_FAIL;
    }
    return put_bytes(run, call) ? hfi_run_write(run, call->ttl_ms) : hfi_run_memory(run);
}

/* The caller's function decides. */
static enum hfi_verdict decide_update(struct hfi_cell_run *run, void *arg)
{
    struct cell_call *call = arg;
    hf_cell_change change;
    hf_status status;

    if (run->wrote)
        return HFI_END;
    if (!is_ours(&run->found))
        return not_ours(run);
    status = ask_caller(call, &run->found, &change);
    if (status != HF_OK)
        return hfi_run_fail(run, status, "the callback refused: %s", hf_status_text(status));
    switch (change.action) {
    case HF_CELL_ACTION_LEAVE:
        return HFI_END;
    case HF_CELL_ACTION_WRITE:
        return write_change(run, call, &change);
    case HF_CELL_ACTION_DELETE:
        return run->found.version == 0 ? HFI_END : HFI_DELETE;
    }
    call->task.whole = true;
    return hfi_run_fail(run, HF_INVALID, "action: not an hf_cell_action");
}

static hf_status prepare_update(struct cell_call *call, hf_store *store,
                                const hf_cell_request *given, hf_error *err)
{
    struct hfi_cell_run *run = &call->task.run;
    hf_cell_request request;
    hf_status status;

    hfi_prim_task_init_run(&call->task, decide_update, call);
    status = take_request(call, given, &request, err);
    if (status == HF_OK)
        status = enter(call, store, "update cell", request.name, request.name_len, err);
    if (status != HF_OK)
        return status;
    status = call->fn ? check_wait(call, request.wait_ms, request.cancel, err)
                      : hfi_error_set(err, HF_INVALID, 0, "fn: NULL");
    if (status != HF_OK)
        return refuse(call, status);
    run->stoppable = run->asks_user = true;
    run->race_until_ms = call->task.until_ms;
    run->late = request.wait_ms == 0 ? HF_BUSY : HF_TIMEOUT;
    run->late_text = "other clients kept changing it";
    return HF_OK;
}

hf_status hf_cell_update(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                         hf_error *err)
{
    struct cell_call call;
    hf_status status = prepare_update(&call, store, request, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK && ret_version)
        *ret_version = call.task.run.found.version;
    hfi_prim_task_done(&call.task);
    return status;
}

hf_status hf_cell_update_async(hf_store *store, const hf_cell_request *request, hf_done_fn *done,
                               void *arg, hf_op **ret_op, hf_error *err)
{
    struct cell_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_update(call, store, request, err),
                               finish_version, done, arg, ret_op, err);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

static enum hfi_verdict decide_wait(struct hfi_cell_run *run, void *arg)
{
    const struct cell_call *call = arg;

    return run->found.version == call->version ? HFI_WAIT : HFI_END;
}

enum { WAIT_BEGIN, WAIT_DONE };

static hf_status step_wait(struct hfi_prim_task *task, hf_status got)
{
    if (task->state == WAIT_BEGIN) {
        hfi_begin_cell(task, WAIT_DONE, decide_wait, task->run.arg);
        task->run.patient = task->run.version_only = true;
        return HFI_BEGUN;
    }
    return got == HF_TIMEOUT ? hfi_error_set(&task->error, got, 0, "nothing changed") : got;
}

static hf_status prepare_wait(struct cell_call *call, hf_store *store, const hf_cell_request *given,
                              hf_error *err)
{
    hf_cell_request request;
    hf_status status;

    hfi_prim_task_init(&call->task, step_wait);
    status = take_request(call, given, &request, err);
    if (status == HF_OK)
        status = enter(call, store, "wait for cell", request.name, request.name_len, err);
    if (status != HF_OK)
        return status;
    call->task.run.arg = call;
    call->task.run.found.version = call->version;
    status = check_wait(call, request.wait_ms, request.cancel, err);
    return status == HF_OK ? HF_OK : refuse(call, status);
}

hf_status hf_cell_wait(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                       hf_error *err)
{
    struct cell_call call;
    hf_status status = prepare_wait(&call, store, request, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK && ret_version)
        *ret_version = call.task.run.found.version;
    hfi_prim_task_done(&call.task);
    return status;
}

hf_status hf_cell_wait_async(hf_store *store, const hf_cell_request *request, hf_done_fn *done,
                             void *arg, hf_op **ret_op, hf_error *err)
{
    struct cell_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_wait(call, store, request, err), finish_version,
                               done, arg, ret_op, err);
}
