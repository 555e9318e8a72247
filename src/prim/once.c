/* SPDX-License-Identifier: MIT */
/*
 * hf_once_*(): work that is to be done only once, across machines and crashes. The lock keeps
 * others out while the work is being done, and a mark in the cell of the same name says that it has
 * been done.
 *
 * The cell is "O0" while a holder does the work (or did, and crashed) and "O1" when it is done;
 * then follow the token, how long the mark stays, when it was written (by the writer's clock, for
 * people) and a label. "O0" is a claim: from then on a holder of an earlier lease, however late it
 * comes, cannot set the mark, since the record is not its own any more. For the same reason a
 * holder that has lost its lease may still set the mark if nobody came after it: the work has been
 * done, and by nobody else.
 */
#include "core/lack.h"
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/lease_cell.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/error.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

struct record {
    bool there, done;
    uint64_t token, for_ms, at_ms;
    char label[HF_LABEL_MAX + 1];
};

static int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the record ---------------------------------------------------------------------------------- */

static bool get(const struct hfi_cell *cell, struct record *ret_record)
{
    struct hfi_reader from = { cell->bytes, cell->len };
    const unsigned char *head;

    *ret_record = (struct record){ .there = cell->version != 0 };
    if (cell->version == 0)
        return true;
    if (!hfi_get_bytes(&from, 2, &head) || head[0] != 'O' || (head[1] != '0' && head[1] != '1') ||
        !hfi_get_number(&from, &ret_record->token) || !hfi_get_number(&from, &ret_record->for_ms) ||
        !hfi_get_number(&from, &ret_record->at_ms) ||
        !hfi_get_text(&from, ret_record->label, sizeof ret_record->label) || from.left != 0)
        return false;
    ret_record->done = head[1] == '1';
    return true;
}

static enum hfi_verdict put(struct hfi_cell_run *run, const struct record *record)
{
    struct hfi_buffer *to = hfi_run_buffer(run);

    if (!hfi_put_bytes(to, record->done ? "O1" : "O0", 2) || !hfi_put_number(to, record->token) ||
        !hfi_put_number(to, record->for_ms) || !hfi_put_number(to, record->at_ms) ||
        !hfi_put_text(to, record->label))
        return hfi_run_memory(run);
    return hfi_run_write(run, record->done ? (int64_t)record->for_ms : 0);
}

static hf_once_mark mark_of(const struct record *record, const struct hfi_cell *cell)
{
    hf_once_mark mark = { .token = record->token,
                          .at_ms = (int64_t)record->at_ms,
                          .ttl_ms = cell->ttl_ms };

    memcpy(mark.label, record->label, sizeof mark.label);
    return mark;
}

/* ---- decisions ------------------------------------------------------------------------------------ */

struct once_call {
    struct hfi_prim_task task;
    struct hfi_lease_cell lease_cell;
    hf_acquire_request request; /* hf_once_begin(): in full size */
    hf_lease *lease;            /* likewise */
    int64_t for_ms;
    bool done; /* it has been done, and `mark` says by whom */
    hf_once_mark mark;
    hf_status result; /* the status for the caller, after the lease is released */
};

static enum hfi_verdict later(struct hfi_cell_run *run, const struct record *record)
{
    return hfi_run_fail(run, HF_FENCED, "a later lease (token %" PRIu64 ") has begun it",
                        record->token);
}

static enum hfi_verdict lost(struct hfi_cell_run *run)
{
    return hfi_run_fail(run, HF_LOST, "%s", hf_status_text(HF_LOST));
}

static enum hfi_verdict decide_get(struct hfi_cell_run *run, void *arg)
{
    struct once_call *call = arg;
    struct record record;

    if (!get(&run->found, &record))
        return hfi_run_mismatch(run);
    call->done = record.done;
    if (record.done)
        call->mark = mark_of(&record, &run->found);
    return HFI_END;
}

static enum hfi_verdict decide_claim(struct hfi_cell_run *run, void *arg)
{
    struct once_call *call = arg;
    struct record record;

    if (run->wrote)
        return HFI_END;
    if (!get(&run->found, &record))
        return hfi_run_mismatch(run);
    call->done = record.done;
    if (record.done) {
        call->mark = mark_of(&record, &run->found);
        return HFI_END;
    }
    if (record.there && record.token > call->lease_cell.token)
        return later(run, &record);
    if (!hfi_lease_cell_valid(&call->lease_cell)) /* after the reading: see lease_cell.h */
        return lost(run);
    record = (struct record){ .token = call->lease_cell.token,
                              .for_ms = (uint64_t)call->for_ms,
                              .at_ms = (uint64_t)wall_ms() };
    memcpy(record.label, call->lease_cell.label, sizeof record.label);
    return put(run, &record);
}

static enum hfi_verdict decide_finish(struct hfi_cell_run *run, void *arg)
{
    struct once_call *call = arg;
    uint64_t token = call->lease_cell.token;
    bool fenced = token != 0, valid;
    struct record record;

    if (run->wrote)
        return HFI_END;
    if (!get(&run->found, &record))
        return hfi_run_mismatch(run);
    valid = hfi_lease_cell_valid(&call->lease_cell);
    if (fenced && record.there && record.token > token)
        return later(run, &record);
    if (fenced && record.there && record.token < token)
        return hfi_run_fail(run, HF_INVALID, "it was not begun under this lease");
    if (run->doubt && !record.there)
        return hfi_run_fail(run, HF_UNKNOWN, "it may have been marked, and the mark removed since");
    if (!valid && (!fenced || !record.there))
        return lost(run); /* no token shows whether another holder came after us */
    if (!record.there)
        return hfi_run_fail(run, HF_INVALID, "it was not begun under this lease");
    if (record.done)
        return HFI_END; /* by us, in an earlier attempt */
    record.done = true;
    record.at_ms = (uint64_t)wall_ms();
    return put(run, &record);
}

static enum hfi_verdict decide_delete(struct hfi_cell_run *run, void *arg)
{
    struct once_call *call = arg;
    struct record record;

    if (!get(&run->found, &record))
        return hfi_run_mismatch(run);
    if (!record.done) /* call->done: it was, and we removed it */
        return call->done ? HFI_END : hfi_run_fail(run, HF_NOT_FOUND, "it is not done");
    call->done = true;
    return HFI_DELETE;
}

/* ---- what callers give us --------------------------------------------------------------------------- */

static hf_status check_mark(const hf_once_mark *mark, hf_error *err)
{
    if (mark && (mark->size < offsetof(hf_once_mark, at_ms) || mark->size > HFI_STRUCT_MAX))
        return hfi_error_set(err, HF_INVALID, 0,
                             "ret_mark: its size is not set; use HF_ONCE_MARK_INIT");
    return HF_OK;
}

/* Fill in the caller's mark, up to its size. */
static void give_mark(struct once_call *call, hf_once_mark *ret_mark)
{
    hf_once_mark *mark = &call->mark;

    if (!ret_mark || !call->done)
        return;
    mark->size = ret_mark->size;
    memcpy(ret_mark, mark, mark->size < sizeof *mark ? mark->size : sizeof *mark);
}

static hf_status check_for(const struct hfi_promises *promises, int64_t for_ms, hf_error *err)
{
    if (for_ms != 0 && (for_ms < HF_TTL_MIN_MS || for_ms > HF_DURATION_MAX_MS))
        return hfi_error_set(err, HF_INVALID, 0, "for_ms: 0, or from a second to ten years");
    if (for_ms > 0 && !(promises->caps & HF_CAP_CELL_TTL))
        return hfi_unsupported(promises, HF_CAP_CELL_TTL, "for_ms", err);
    return HF_OK;
}

/* ---- the calls -------------------------------------------------------------------------------------- */

static void once_call_init(struct once_call *call, hfi_decide_fn *decide, int64_t for_ms)
{
    hfi_prim_task_init_run(&call->task, decide, call);
    call->task.run.look_again = true;
    call->for_ms = for_ms;
    call->lease = NULL;
    call->done = false;
}

/* The error text of HF_DONE: not a failure of the store, so nothing is put before it. */
static hf_status tell_done(struct once_call *call, hf_status got, hf_status done,
                           hf_status not_done)
{
    struct hfi_prim_task *task = &call->task;
    hf_status status = call->done ? done : not_done;

    if (got != HF_OK || status == HF_OK)
        return got;
    task->whole = true;
    return hfi_error_set(&task->error, status, 0, "%s",
                         status == HF_NOT_FOUND ? "it is not done" : hf_status_text(status));
}

static void finish(struct hfi_prim_task *task, hf_result *result)
{
    struct once_call *call = hfi_container(task, struct once_call, task);

    if (result->status == HF_OK)
        result->lease = call->lease;
    if (!call->done || (result->status != HF_OK && result->status != HF_DONE))
        return;
    call->mark.size = sizeof call->mark;
    result->mark = &call->mark;
}

enum { RUN_BEGIN, RUN_ENDED };

static hf_status step_get(struct hfi_prim_task *task, hf_status got)
{
    struct once_call *call = hfi_container(task, struct once_call, task);

    if (task->state == RUN_BEGIN)
        return hfi_begin_cell(task, RUN_ENDED, decide_get, call);
    return tell_done(call, got, HF_OK, HF_NOT_FOUND);
}

static hf_status step_claim(struct hfi_prim_task *task, hf_status got)
{
    struct once_call *call = hfi_container(task, struct once_call, task);

    if (task->state == RUN_BEGIN)
        return hfi_begin_cell(task, RUN_ENDED, decide_claim, call);
    return tell_done(call, got, HF_DONE, HF_OK);
}

static hf_status prepare_by_name(struct once_call *call, hfi_decide_fn *decide, hf_store *store,
                                 const void *name, size_t name_len, hf_error *err)
{
    once_call_init(call, decide, 0);
    return hfi_prim_enter(&call->task.prim, store, "once", name, name_len, HF_CAP_CELLS, err);
}

static hf_status prepare_by_lease(struct once_call *call, hfi_decide_fn *decide, hf_lease *lease,
                                  int64_t for_ms, hf_error *err)
{
    struct hfi_prim *prim = &call->task.prim;
    hf_status status;

    once_call_init(call, decide, for_ms);
    status = hfi_lease_cell_enter(&call->lease_cell, prim, lease, "once", HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    status = check_for(hfi_store_promises(prim->store), for_ms, err);
    if (status != HF_OK)
        hfi_prim_leave(prim);
    return status;
}

static hf_status prepare_get(struct once_call *call, hf_store *store, const void *name,
                             size_t name_len, hf_error *err)
{
    hf_status status = prepare_by_name(call, decide_get, store, name, name_len, err);

    call->task.step = step_get;
    return status;
}

/* On this thread; what has been done goes to *ret_mark. */
static hf_status run(struct once_call *call, hf_once_mark *ret_mark, hf_error *err)
{
    hf_status status = hfi_prim_task_run(&call->task, err);

    hfi_prim_task_done(&call->task);
    if (status == HF_OK || status == HF_DONE)
        give_mark(call, ret_mark);
    return status;
}

hf_status hf_once_get(hf_store *store, const void *name, size_t name_len, hf_once_mark *ret_mark,
                      hf_error *err)
{
    struct once_call call;
    hf_status status = check_mark(ret_mark, err);

    if (status == HF_OK)
        status = prepare_get(&call, store, name, name_len, err);
    return status == HF_OK ? run(&call, ret_mark, err) : status;
}

hf_status hf_once_get_async(hf_store *store, const void *name, size_t name_len, hf_done_fn *done,
                            void *arg, hf_op **ret_op, hf_error *err)
{
    struct once_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_get(call, store, name, name_len, err), finish,
                               done, arg, ret_op, err);
}

static hf_status prepare_claim(struct once_call *call, hf_lease *lease, int64_t for_ms,
                               hf_error *err)
{
    hf_status status = prepare_by_lease(call, decide_claim, lease, for_ms, err);

    call->task.step = step_claim;
    return status;
}

hf_status hf_once_claim(hf_lease *lease, int64_t for_ms, hf_once_mark *ret_mark, hf_error *err)
{
    struct once_call call;
    hf_status status = check_mark(ret_mark, err);

    if (status == HF_OK)
        status = prepare_claim(&call, lease, for_ms, err);
    return status == HF_OK ? run(&call, ret_mark, err) : status;
}

hf_status hf_once_claim_async(hf_lease *lease, int64_t for_ms, hf_done_fn *done, void *arg,
                              hf_op **ret_op, hf_error *err)
{
    struct once_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_claim(call, lease, for_ms, err), finish, done,
                               arg, ret_op, err);
}

hf_status hf_once_finish(hf_lease *lease, hf_error *err)
{
    struct once_call call;
    hf_status status = prepare_by_lease(&call, decide_finish, lease, 0, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    hfi_prim_task_done(&call.task);
    return status;
}

hf_status hf_once_finish_async(hf_lease *lease, hf_done_fn *done, void *arg, hf_op **ret_op,
                               hf_error *err)
{
    struct once_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_by_lease(call, decide_finish, lease, 0, err),
                               NULL, done, arg, ret_op, err);
}

hf_status hf_once_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct once_call call;
    hf_status status = prepare_by_name(&call, decide_delete, store, name, name_len, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    hfi_prim_task_done(&call.task);
    return status;
}

hf_status hf_once_delete_async(hf_store *store, const void *name, size_t name_len, hf_done_fn *done,
                               void *arg, hf_op **ret_op, hf_error *err)
{
    struct once_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task,
                               prepare_by_name(call, decide_delete, store, name, name_len, err),
                               NULL, done, arg, ret_op, err);
}

/* ---- beginning ---------------------------------------------------------------------------------------- */

enum begin_state { BEGIN_NEW, BEGIN_SEEN, BEGIN_ACQUIRED, BEGIN_CLAIMED, BEGIN_RELEASED };

static hf_status step_begin(struct hfi_prim_task *task, hf_status got)
{
    struct once_call *call = hfi_container(task, struct once_call, task);

    switch ((enum begin_state)task->state) {
    case BEGIN_NEW:
        return hfi_begin_cell(task, BEGIN_SEEN, decide_get, call);
    case BEGIN_SEEN:
        if (got != HF_OK || call->done)
            return tell_done(call, got, HF_DONE, HF_OK);
        return hfi_begin_acquire(task, BEGIN_ACQUIRED, &call->request);
    case BEGIN_ACQUIRED:
        task->whole = true;
        if (got != HF_OK)
            return got;
        call->lease = task->action.lease;
        call->result =
            hfi_lease_cell_take(&call->lease_cell, &task->prim, call->lease, &task->error);
        if (call->result != HF_OK)
            return hfi_begin_release(task, BEGIN_RELEASED, call->lease);
        task->whole = false;
        return hfi_begin_cell(task, BEGIN_CLAIMED, decide_claim, call);
    case BEGIN_CLAIMED: /* the holder before us may have done the work */
        call->result = got;
        if (got == HF_OK && !call->done)
            return HF_OK;
        return hfi_begin_release(task, BEGIN_RELEASED, call->lease);
    case BEGIN_RELEASED:
        break;
    }
    call->lease = NULL;
    return tell_done(call, call->result, HF_DONE, HF_OK);
}

static hf_status check_begin(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                             hf_error *err)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_status status = hf_store_get(store, &info);

    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "store: %s", hf_status_text(status));
    if (!request || request->size < offsetof(hf_acquire_request, capacity))
        return hfi_error_set(err, HF_INVALID, 0, "request: NULL, or its size is unknown");
    if (request->kind != HF_KIND_MUTEX && request->kind != HF_KIND_EXCLUSIVE)
        return hfi_error_set(err, HF_INVALID, 0,
                             "kind: run-once needs a mutex or an exclusive lock");
    return check_for(
        &(const struct hfi_promises){ .name = info.engine, .caps = info.caps, .lacks = info.lacks },
        for_ms, err);
}

static hf_status prepare_begin(struct once_call *call, hf_store *store,
                               const hf_acquire_request *request, int64_t for_ms, hf_error *err)
{
    hf_status status = check_begin(store, request, for_ms, err);

    once_call_init(call, NULL, for_ms);
    call->task.step = step_begin;
    if (status == HF_OK)
        status = hfi_prim_copy_request(&call->request, request, err);
    if (status != HF_OK)
        return status;
    call->task.core.cancel = call->request.cancel;
    return hfi_prim_enter(&call->task.prim, store, "once", request->name, request->name_len,
                          HF_CAP_CELLS, err);
}

hf_status hf_once_begin(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                        hf_lease **ret_lease, hf_once_mark *ret_mark, hf_error *err)
{
    struct once_call call;
    hf_status status;

    if (!ret_lease)
        return hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");
    status = check_mark(ret_mark, err);
    if (status == HF_OK)
        status = prepare_begin(&call, store, request, for_ms, err);
    if (status != HF_OK)
        return status;
    status = run(&call, ret_mark, err);
    if (status == HF_OK)
        *ret_lease = call.lease;
    return status;
}

hf_status hf_once_begin_async(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                              hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct once_call *call = hfi_prim_call_new(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = prepare_begin(call, store, request, for_ms, err);
    if (status == HF_OK && !hfi_prim_keep_request(&call->task, &call->request)) {
        hfi_prim_leave(&call->task.prim);
        status = hfi_error_memory(err);
    }
    return hfi_prim_task_begin(&call->task, status, finish, done, arg, ret_op, err);
}
