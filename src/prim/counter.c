/* SPDX-License-Identifier: MIT */
/*
 * hf_counter_add() and the others: a 64-bit number under a name.
 *
 * An engine with HFI_NATIVE_COUNTER does each of them in one step of its own (Redis: INCRBY). Elsewhere a counter is a
 * cell: its bytes are "N" and the number in decimal digits, written in one way only. Each call that
 * changes it reads, computes, and swaps at the version that was read; if the version has moved, it
 * begins again. A swap whose outcome is unknown is not sent again: it could count twice.
 */
#include "holdfast/primitives.h"
#include "prim/task.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 22 /* "N-9223372036854775808" and a NUL */

struct counter_call {
    struct hfi_prim_task task;
    struct hfi_counter_op op;
    char bytes[BYTES_MAX]; /* what is to be written */
};

static hf_status step_native(struct hfi_prim_task *task, hf_status got);
static enum hfi_verdict decide_counter(struct hfi_cell_run *run, void *arg);

/* ---- the calls ---------------------------------------------------------------------------- */

/* The op of the call is set. After HF_OK the store is entered. */
static hf_status prepare(struct counter_call *call, hf_store *at, const void *name, size_t name_len,
                         const char *verb, hf_error *err)
{
    struct hfi_prim_task *task = &call->task;
    hf_status status;

    hfi_prim_task_init_run(task, decide_counter, call);
    status = hfi_prim_enter(&task->prim, at, verb, name, name_len, HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    if (hfi_store_promises(task->prim.store)->native & HFI_NATIVE_COUNTER)
        task->step = step_native;
    task->run.late = HF_BUSY;
    task->run.late_text = "other clients keep changing it";
    return HF_OK;
}

static hf_status run(hf_store *at, const void *name, size_t name_len, const char *verb,
                     struct hfi_counter_op *op, hf_error *err)
{
    struct counter_call call = { .op = *op };
    hf_status status = prepare(&call, at, name, name_len, verb, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    hfi_prim_task_done(&call.task);
    op->ret_value = call.op.ret_value;
    return status;
}

hf_status hf_counter_add(hf_store *store, const void *name, size_t name_len, int64_t delta,
                         int64_t *ret_value, hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_ADD, .value = delta };
    hf_status status = run(store, name, name_len, "count", &op, err);

    if (status == HF_OK && ret_value)
        *ret_value = op.ret_value;
    return status;
}

hf_status hf_counter_get(hf_store *store, const void *name, size_t name_len, int64_t *ret_value,
                         hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_GET };
    hf_status status;

    if (!ret_value)
        return hfi_error_set(err, HF_INVALID, 0, "ret_value: NULL");
    status = run(store, name, name_len, "read counter", &op, err);
    if (status == HF_OK)
        *ret_value = op.ret_value;
    return status;
}

hf_status hf_counter_set(hf_store *store, const void *name, size_t name_len, int64_t value,
                         hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_SET, .value = value };

    return run(store, name, name_len, "set counter", &op, err);
}

hf_status hf_counter_swap(hf_store *store, const void *name, size_t name_len, int64_t expected,
                          int64_t value, int64_t *ret_current, hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_SET_IF, .value = value, .expected = expected };
    hf_status status = run(store, name, name_len, "set counter", &op, err);

    if (ret_current && (status == HF_OK || status == HF_CHANGED))
        *ret_current = status == HF_OK ? value : op.ret_value;
    return status;
}

hf_status hf_counter_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_DELETE };

    return run(store, name, name_len, "delete counter", &op, err);
}

/* ---- without a thread --------------------------------------------------------------------- */

static void finish(struct hfi_prim_task *task, hf_result *result)
{
    const struct counter_call *call = hfi_container(task, struct counter_call, task);

    if (result->status == HF_OK || result->status == HF_CHANGED)
        result->number = call->op.ret_value;
}

/* The caller's callback. */
struct listener {
    hf_done_fn *done;
    void *arg;
    hf_op **ret_op;
};

static hf_status begin(hf_store *at, const void *name, size_t name_len, const char *verb,
                       struct hfi_counter_op op, struct listener to, hf_error *err)
{
    struct counter_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    call->op = op;
    return hfi_prim_task_begin(&call->task, prepare(call, at, name, name_len, verb, err), finish,
                               to.done, to.arg, to.ret_op, err);
}

hf_status hf_counter_add_async(hf_store *store, const void *name, size_t name_len, int64_t delta,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, name, name_len, "count",
                 (struct hfi_counter_op){ .verb = HFI_COUNTER_ADD, .value = delta },
                 (struct listener){ done, arg, ret_op }, err);
}

hf_status hf_counter_get_async(hf_store *store, const void *name, size_t name_len, hf_done_fn *done,
                               void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, name, name_len, "read counter",
                 (struct hfi_counter_op){ .verb = HFI_COUNTER_GET },
                 (struct listener){ done, arg, ret_op }, err);
}

hf_status hf_counter_set_async(hf_store *store, const void *name, size_t name_len, int64_t value,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, name, name_len, "set counter",
                 (struct hfi_counter_op){ .verb = HFI_COUNTER_SET, .value = value },
                 (struct listener){ done, arg, ret_op }, err);
}

hf_status hf_counter_swap_async(hf_store *store, const void *name, size_t name_len,
                                int64_t expected, int64_t value, hf_done_fn *done, void *arg,
                                hf_op **ret_op, hf_error *err)
{
    return begin(
        store, name, name_len, "set counter",
        (struct hfi_counter_op){ .verb = HFI_COUNTER_SET_IF, .value = value, .expected = expected },
        (struct listener){ done, arg, ret_op }, err);
}

hf_status hf_counter_delete_async(hf_store *store, const void *name, size_t name_len,
                                  hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, name, name_len, "delete counter",
                 (struct hfi_counter_op){ .verb = HFI_COUNTER_DELETE },
                 (struct listener){ done, arg, ret_op }, err);
}

static hf_status changed(const struct hfi_counter_op *op, hf_error *error)
{
    return hfi_error_set(error, HF_CHANGED, 0, "it is %" PRId64 ", and not %" PRId64, op->ret_value,
                         op->expected);
}

/* ---- by the engine itself ------------------------------------------------------------------ */

enum { NATIVE_BEGIN, NATIVE_DONE };

static hf_status step_native(struct hfi_prim_task *task, hf_status got)
{
    struct counter_call *call = hfi_container(task, struct counter_call, task);

    if (task->state == NATIVE_BEGIN) {
        task->action.native.counter = call->op;
        return hfi_begin_act(task, NATIVE_DONE, HFI_ACT_COUNTER);
    }
    call->op.ret_value = task->action.native.counter.ret_value;
    if (got == HF_OK && (call->op.verb == HFI_COUNTER_SET || call->op.verb == HFI_COUNTER_SET_IF))
        call->op.ret_value = call->op.value;
    return got == HF_CHANGED ? changed(&call->op, &task->error) : got;
}

/* ---- on a cell ----------------------------------------------------------------------------- */

/* The number of a cell's bytes; false: it is not a counter. */
static bool parse(const struct hfi_cell *cell, int64_t *ret_value)
{
    char text[BYTES_MAX], again[BYTES_MAX];

    if (cell->len < 2 || cell->len >= sizeof text || cell->bytes[0] != 'N')
        return false;
    memcpy(text, cell->bytes, cell->len);
    text[cell->len] = 0;
    *ret_value = strtoll(text + 1, NULL, 10);
    /* Compare with the one way in which we write it: so "N007", numbers that are too large and
     * texts that are no number are refused. */
    snprintf(again, sizeof again, "N%" PRId64, *ret_value);
    return strlen(text) == cell->len && strcmp(again, text) == 0;
}

/* What the number would become. HF_OK, HF_OVERFLOW or HF_CHANGED. */
static hf_status compute(struct hfi_counter_op *op, int64_t now, int64_t *ret_next, hf_error *error)
{
    op->ret_value = now;
    *ret_next = op->value;
    switch (op->verb) {
    case HFI_COUNTER_ADD:
        if (__builtin_add_overflow(now, op->value, ret_next))
            return hfi_error_set(error, HF_OVERFLOW, 0, "%" PRId64 " and %" PRId64 ": %s", now,
                                 op->value, hf_status_text(HF_OVERFLOW));
        break;
    case HFI_COUNTER_SET_IF:
        if (now != op->expected)
            return changed(op, error);
        break;
    case HFI_COUNTER_GET:
    case HFI_COUNTER_SET:
    case HFI_COUNTER_DELETE:
        break;
    }
    return HF_OK;
}

static enum hfi_verdict decide_counter(struct hfi_cell_run *run, void *arg)
{
    struct counter_call *call = arg;
    bool there = run->found.version != 0;
    int64_t now = 0, next;

    if (there && !parse(&run->found, &now))
        return hfi_run_fail(run, HF_MISMATCH, "%s", hf_status_text(HF_MISMATCH));
    if (run->wrote) {
        call->op.ret_value = now;
        return HFI_END;
    }
    run->status = compute(&call->op, now, &next, hfi_run_error(run));
    if (run->status != HF_OK)
        return HFI_FAIL;
    if (call->op.verb == HFI_COUNTER_GET || (call->op.verb == HFI_COUNTER_DELETE && !there))
        return HFI_END;
    if (call->op.verb == HFI_COUNTER_DELETE)
        return HFI_DELETE;
    snprintf(call->bytes, sizeof call->bytes, "N%" PRId64, next);
    return hfi_run_write_bytes(run, call->bytes, strlen(call->bytes), 0);
}
