/* SPDX-License-Identifier: MIT */
/*
 * Raw ops as the children of tasks: preparing one, submitting it, and waiting for it. See task.h. An op that a blocking task
 * has given up lives on with its child, and ends on any thread.
 */
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"

static void begin_op(struct hfi_call *child);
static void submit_event(struct hfi_call *child);

/* ---- preparing ------------------------------------------------------------------------------------------- */

struct hfi_op *hfi_task_op(struct hfi_task *task, enum hfi_op_kind kind)
{
    struct hfi_call *child = hfi_child_new(task, HFI_CHILD_OP, 0);

    if (!child)
        return NULL;
    task->prepared = child;
    memset(&child->op.u, 0, sizeof child->op.u);
    return hfi_call_op(child, kind);
}

struct hfi_name hfi_task_name(struct hfi_task *task, const struct hfi_name *name)
{
    struct hfi_name copy = *name;

    if (name->len > 0)
        memcpy(task->prepared->name, name->bytes, name->len);
    copy.bytes = task->prepared->name;
    return copy;
}

static void free_memory(void *memory, struct hfi_op *op)
{
    (void)op;
    hfi_free(memory);
}

void hfi_task_keep(struct hfi_task *task, void *memory, hfi_forget_fn *forget)
{
    task->prepared->memory = memory;
    task->prepared->forget = forget ? forget : free_memory;
}

void *hfi_task_take(struct hfi_task *task)
{
    void *memory = task->ending->memory;

    task->ending->memory = NULL;
    return memory;
}

void hfi_task_forget_op(struct hfi_task *task)
{
    hfi_child_free(task->prepared);
    task->prepared = NULL;
}

hf_status hfi_task_submit(struct hfi_task *task, int64_t until_ms, unsigned flags)
{
    struct hfi_call *child = task->prepared;
    struct hfi_op *op = &child->op;
    struct hfi_store *store = task->store;

    child->cleanup = flags & HFI_CHILD_CLEANUP;
    if (child->cleanup)
        child->cancel = NULL;
    child->may_wait = op->may_wait = op->blocking =
        op->kind == HFI_OP_CELL_WAIT || op->kind == HFI_OP_CHANGE_WAIT;
    if (child->may_wait)
        child->deadline_ms = op->deadline_ms = until_ms;
    else if (store->drive != HFI_INLINE && op->kind != HFI_OP_SCRIPT) /* a script may be slow */
        op->deadline_ms = until_ms != HFI_NEVER ? until_ms : hfi_now_ms() + HFI_CALL_LIMIT_MS;
    task->prepared = NULL;
    if (task->call) {
        begin_op(child);
        return HFI_BEGUN;
    }
    if (store->drive == HFI_EVENT && !child->may_wait)
        submit_event(child); /* several are under way together */
    return hfi_child_await_later(task, child);
}

/* ---- in the store ---------------------------------------------------------------------------------------- */

/* INLINE: it was submitted, and waits on this thread until it is finished. */
static hf_status wait_inline(struct hfi_call *child)
{
    struct hfi_store *store = child->store;
    const struct hfi_engine *engine = hfi_store_engine(store);
    struct hfi_op *op = &child->op;

    hfi_wait_in_store(&child->wait, op);
    while (!hfi_op_finished(op)) {
        if (op->deadline_ms != HFI_NEVER && hfi_now_ms() >= op->deadline_ms)
            engine->cancel(store->opened, op, HF_TIMEOUT);
        else
            engine->drive->wait(store->opened, op, op->deadline_ms);
    }
    return hfi_op_status(op);
}

/* Run the op to its end on this thread: INLINE and BLOCKING engines. */
static hf_status do_op(struct hfi_call *child)
{
    struct hfi_store *store = child->store;
    struct hfi_op *op = &child->op;
    hf_status stop;

    if (child->may_wait && store->drive == HFI_BLOCKING)
        hfi_wait_in_store(&child->wait, op); /* it must be possible to stop it from here on */
    stop = child->may_wait ? (hf_status)atomic_load(&child->wait.stop) : HF_OK;
    if (hfi_call_ends_unasked(child, stop))
        return stop;
    hfi_call_submit(child);
    return hfi_op_finished(op) ? hfi_op_status(op) : wait_inline(child);
}

static void op_run(struct hfi_pool_task *work)
{
    struct hfi_call *child = hfi_container(work, struct hfi_call, work);

    hfi_child_end(child, do_op(child), &child->op.error);
}

static void wait_run(struct hfi_pool_task *work)
{
    struct hfi_call *child = hfi_container(work, struct hfi_call, work);

    hfi_child_end(child, wait_inline(child), &child->op.error);
}

static void on_worker(struct hfi_call *child, void (*run)(struct hfi_pool_task *work))
{
    child->work.run = run;
    hfi_pool_add(&child->store->pool, child->may_wait ? HFI_LANE_LONG : HFI_LANE_SHORT,
                 &child->work);
    if (child->may_wait && atomic_load(&child->wait.stop) != HF_OK)
        hfi_workers_hurry(child);
}

/* Asynchronous. */
static void begin_op(struct hfi_call *child)
{
    struct hfi_store *store = child->store;
    struct hfi_op *op = &child->op;

    if (child->may_wait) {
        if (child->deadline_ms != HFI_NEVER && !(child->timed = hfi_keeper_reserve(store))) {
            hfi_child_end(child, HF_NO_MEMORY, NULL);
            hfi_call_unref(child);
            return;
        }
        hfi_call_listen(child, true);
        hfi_call_arm(child);
    }
    if (store->drive == HFI_BLOCKING && !child->may_wait) {
        on_worker(child, op_run);
    } else if (store->drive == HFI_INLINE && child->may_wait) {
        hfi_call_submit(child);
        if (hfi_op_finished(op)) /* an op that is answered at once needs no worker */
            hfi_child_end(child, hfi_op_status(op), &op->error);
        else
            on_worker(child, wait_run);
    } else {
        op->blocking = false;
        if (store->drive == HFI_BLOCKING) {
            hfi_workers_submit(child, hfi_child_end);
        } else {
            hfi_call_send(child, hfi_child_end, false);
            if (child->may_wait)
                hfi_wait_in_store(&child->wait, op);
        }
    }
    hfi_call_unref(child);
}

/* The op was given up, and has ended now. Any thread. */
static void op_late(struct hfi_call *child, hf_status status, const hf_error *inner)
{
    struct hfi_store *store = child->store;

    (void)status, (void)inner;
    hfi_child_free(child);
    hfi_keeper_idle(store);
}

/* Blocking form. */
static void submit_event(struct hfi_call *child)
{
    hfi_keeper_busy(child->store); /* for op_late(), which may run at any time */
    hfi_call_submit(child);
}

/* false: the store does not answer. The child belongs to op_late() then. */
static bool await_event(struct hfi_call *child)
{
    struct hfi_op *op = &child->op;
    bool done;

    if (child->may_wait) {
        submit_event(child);
        hfi_wait_in_store(&child->wait, op);
    }
    done = hfi_call_wait(child, op->deadline_ms);
    if (!done && child->may_wait) {
        hfi_wait_stop(&child->wait, HF_TIMEOUT);
        /* Add the time limit of an op that does not wait: CHANGE_WAIT may still have to read the
         * number. */
        done = hfi_call_wait(child, hfi_after_ms(op->deadline_ms, HFI_CALL_LIMIT_MS));
    }
    hfi_call_unlisten(child);
    if (!done && hfi_call_abandon(child, op_late))
        return false;
    hfi_keeper_idle(child->store);
    return true;
}

bool hfi_child_await_op(struct hfi_call *child)
{
    child->status = HF_OK;
    if (child->may_wait) {
        hfi_call_listen(child, true);
        child->status = (hf_status)atomic_load(&child->wait.stop);
    }
    if (child->status != HF_OK)
        return true;
    if (child->store->drive != HFI_EVENT) {
        child->status = do_op(child);
        return true;
    }
    if (!await_event(child))
        return false;
    child->status = hfi_op_status(&child->op);
    return true;
}
