/* SPDX-License-Identifier: MIT */
/*
 * The children of tasks: how each kind begins, waits and ends. See task.h. In the blocking form a
 * child is begun and waited for by the thread that runs the task; in the asynchronous form any
 * thread ends it.
 */
#include "core/acquire.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

static void begin_pause(struct hfi_call *child);
static void begin_op(struct hfi_call *child);
static void submit_event(struct hfi_call *child);

/* ---- from the beginning to the end ----------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct hfi_call *child_new(struct hfi_task *task, enum hfi_child_kind kind, unsigned flags)
{
    struct hfi_call *child = hfi_call_new(task->store, task->call ? HFI_TO_TASK : HFI_TO_THREAD);

    if (!child)
        return NULL;
    child->parent = task;
    child->child = kind;
    child->cleanup = flags & HFI_CHILD_CLEANUP;
    child->memory = NULL;
    child->mark = task->mark;
    child->err = &child->error;
    child->cancel = child->cleanup ? NULL : task->cancel;
    return child;
}

void hfi_child_free(struct hfi_call *child)
{
    if (child->op.kind == HFI_OP_CELL_READ && child->child == HFI_CHILD_OP)
        hfi_free(child->op.u.cell.ret_bytes);
    if (child->memory)
        child->forget(child->memory, &child->op);
    child->memory = NULL;
    hfi_call_free(child);
}

/* Blocking form: the thread that runs the task waits for it later. */
static hf_status await_later(struct hfi_task *task, struct hfi_call *child)
{
    hfi_list_append(&task->children, &child->due);
    return HFI_BEGUN;
}

/* The child has ended, with the text of `inner` or that of its status. */
static void end_child(struct hfi_call *child, hf_status status, const hf_error *inner)
{
    child->status = status;
    if (status != HF_OK && inner && inner->text[0])
        child->error = *inner;
    else if (status != HF_OK)
        hfi_error_set(&child->error, status, 0, "%s", hf_status_text(status));
    hfi_call_end(child);
}

/* Out of memory: there is no child, and the next step gets HF_NO_MEMORY at once. */
static hf_status no_memory(struct hfi_task *task)
{
    task->without++;
    return HFI_BEGUN;
}

struct hfi_op *hfi_task_op(struct hfi_task *task, enum hfi_op_kind kind)
{
    struct hfi_call *child = child_new(task, HFI_CHILD_OP, 0);

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
    else if (store->drive != HFI_INLINE && op->kind != HFI_OP_SCRIPT) /* which may be slow */
        op->deadline_ms = until_ms != HFI_NEVER ? until_ms : hfi_now_ms() + HFI_CALL_LIMIT_MS;
    task->prepared = NULL;
    if (task->call) {
        begin_op(child);
        return HFI_BEGUN;
    }
    if (store->drive == HFI_EVENT && !child->may_wait)
        submit_event(child); /* several are under way together */
    return await_later(task, child);
}

hf_status hfi_task_acquire(struct hfi_task *task, const hf_acquire_request *request)
{
    struct hfi_call *child = child_new(task, HFI_CHILD_ACQUIRE, 0);
    hf_acquire_request whole = *request;
    hf_status status;

    if (!child)
        return no_memory(task);
    whole.cancel = task->call ? NULL : task->cancel;
    status = hfi_acquire_to(child, task->handle, &whole, &child->error);
    if (status != HF_OK) {
        if (child->lease)
            hfi_lease_free(child->lease);
        end_child(child, status, &child->error);
    }
    if (!task->call)
        return await_later(task, child);
    hfi_call_unref(child);
    return HFI_BEGUN;
}

hf_status hfi_task_release(struct hfi_task *task, hf_lease *lease)
{
    struct hfi_call *child = child_new(task, HFI_CHILD_RELEASE, HFI_CHILD_CLEANUP);
    hf_status status;

    if (!child) {
        (void)hfi_release_without(lease, NULL);
        return no_memory(task);
    }
    status = hfi_release_to(child, lease, &child->error);
    if (status != HF_OK)
        end_child(child, status, &child->error);
    if (!task->call)
        return await_later(task, child);
    hfi_call_unref(child);
    return HFI_BEGUN;
}

hf_status hfi_task_pause(struct hfi_task *task, int64_t until_ms, unsigned flags)
{
    struct hfi_call *child = child_new(task, HFI_CHILD_PAUSE, flags);

    if (!child)
        return no_memory(task);
    child->deadline_ms = until_ms;
    if (!task->call)
        return await_later(task, child);
    begin_pause(child);
    return HFI_BEGUN;
}

static void work_here(struct hfi_call *child)
{
    struct hfi_task *task = child->parent;

    hfi_ok(&task->child.error);
    end_child(child, child->do_work(task), &task->child.error);
}

static void work_run(struct hfi_pool_task *work)
{
    work_here(hfi_container(work, struct hfi_call, work));
}

/* On a worker, as soon as one is free. */
static void begin_work(struct hfi_call *child)
{
    struct hfi_pool *pool = &child->store->pool;

    if (hfi_pool_start(pool, HFI_LANE_LONG))
        hfi_pool_add(pool, HFI_LANE_LONG, &child->work);
    else
        end_child(child, HF_NO_MEMORY, NULL);
    hfi_call_unref(child);
}

hf_status hfi_task_work(struct hfi_task *task, hfi_work_fn *work)
{
    struct hfi_call *child = child_new(task, HFI_CHILD_WORK, HFI_CHILD_CLEANUP);

    if (!child)
        return no_memory(task);
    child->do_work = work;
    child->work.run = work_run;
    if (!task->call)
        return await_later(task, child);
    begin_work(child);
    return HFI_BEGUN;
}

hf_status hfi_task_turn(struct hfi_task *task)
{
    struct hfi_call *child = child_new(task, HFI_CHILD_TURN, HFI_CHILD_CLEANUP);

    if (!child)
        return no_memory(task);
    child->status = HF_OK;
    if (!task->call)
        return await_later(task, child);
    task->turn = child;
    return HFI_BEGUN;
}

/* ---- a pause ------------------------------------------------------------------------------------------ */

static void end_pause(struct hfi_call *child, hf_status status)
{
    if (atomic_exchange(&child->pausing, 0))
        end_child(child, status, NULL);
}

static void pause_run(struct hfi_pool_task *work)
{
    struct hfi_call *child = hfi_container(work, struct hfi_call, stop_task);

    end_pause(child, HF_OK);
    hfi_call_unref(child);
}

/* On the keeper's thread, which must not call an engine that may block. */
static void pause_fire(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms)
{
    struct hfi_call *child = hfi_container(timer, struct hfi_call, timer);

    (void)now_ms;
    child->stop_task.run = pause_run;
    if (store->drive == HFI_EVENT)
        pause_run(&child->stop_task);
    else
        hfi_pool_add(&store->pool, HFI_LANE_SHORT, &child->stop_task);
}

static void begin_pause(struct hfi_call *child)
{
    atomic_store(&child->pausing, 1);
    child->timer.fire = pause_fire;
    child->timed = hfi_keeper_reserve(child->store);
    if (!child->timed) {
        end_pause(child, HF_NO_MEMORY);
    } else {
        hfi_call_arm(child); /* first: whatever stops it takes the timer back */
        hfi_call_listen(child, !child->cleanup);
    }
    hfi_call_unref(child);
}

void hfi_task_stop_pause(struct hfi_call *child)
{
    end_pause(child, (hf_status)atomic_load(&child->wait.stop));
}

static hf_status await_pause(struct hfi_call *child)
{
    struct hfi_wait *wait = &child->wait;

    hfi_call_listen(child, !child->cleanup);
    while (atomic_load(&wait->word) == HFI_WAIT_SLEEPING && hfi_now_ms() < child->deadline_ms)
        hfi_futex_wait(&wait->word, HFI_WAIT_SLEEPING, child->deadline_ms, false);
    hfi_wait_leave(wait);
    return (hf_status)atomic_load(&wait->stop);
}

/* ---- a raw op -------------------------------------------------------------------------------------------- */

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

/* Until it is finished, on this thread: INLINE and BLOCKING engines. */
static hf_status do_op(struct hfi_call *child)
{
    struct hfi_store *store = child->store;
    struct hfi_op *op = &child->op;
    hf_status stop;

    if (child->may_wait && store->drive == HFI_BLOCKING)
        hfi_wait_in_store(&child->wait, op); /* it must be possible to stop it from here on */
    stop = child->may_wait ? (hf_status)atomic_load(&child->wait.stop) : HF_OK;
    if (stop != HF_OK && (stop != HF_TIMEOUT || op->kind != HFI_OP_CHANGE_WAIT))
        return stop; /* a wait for a change is a question, too: its answer may be there already */
    hfi_call_submit(child);
    return hfi_op_finished(op) ? hfi_op_status(op) : wait_inline(child);
}

static void op_run(struct hfi_pool_task *work)
{
    struct hfi_call *child = hfi_container(work, struct hfi_call, work);

    end_child(child, do_op(child), &child->op.error);
}

static void wait_run(struct hfi_pool_task *work)
{
    struct hfi_call *child = hfi_container(work, struct hfi_call, work);

    end_child(child, wait_inline(child), &child->op.error);
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
            end_child(child, HF_NO_MEMORY, NULL);
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
        if (hfi_op_finished(op)) /* what is answered at once needs no worker */
            end_child(child, hfi_op_status(op), &op->error);
        else
            on_worker(child, wait_run);
    } else {
        op->blocking = false;
        if (store->drive == HFI_BLOCKING) {
            hfi_workers_submit(child, end_child);
        } else {
            hfi_call_send(child, end_child, false);
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
        /* As long as an op may take that does not wait: CHANGE_WAIT may have to ask its question yet. */
        done = hfi_call_wait(child, hfi_after_ms(op->deadline_ms, HFI_CALL_LIMIT_MS));
    }
    hfi_call_unlisten(child);
    if (!done && hfi_call_abandon(child, op_late))
        return false;
    hfi_keeper_idle(child->store);
    return true;
}

/* Blocking. false: given up. */
static bool await_op(struct hfi_call *child)
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

/* ---- waiting for a child, on this thread ---------------------------------------------------------------- */

/* An acquire or a release. false: given up. */
static bool await_lease(struct hfi_call *child)
{
    struct hfi_task *task = child->parent;
    bool acquire = child->child == HFI_CHILD_ACQUIRE;

    if (child->answered)
        return true;
    child->err = &task->child.error; /* a child that is given up must not use the task's error any
                                      * more */
    if (!(acquire ? hfi_acquire_await(child) : hfi_release_await(child)))
        return false;
    child->error = task->child.error;
    return true;
}

bool hfi_child_await(struct hfi_call *child)
{
    struct hfi_task *task = child->parent;
    struct hfi_op *op = &child->op;

    switch (child->child) {
    case HFI_CHILD_NONE:
    case HFI_CHILD_OP:
        if (!await_op(child)) {
            hfi_error_set(&task->child.error, HF_UNKNOWN, 0, "%s", hf_status_text(HF_UNKNOWN));
            return false;
        }
        end_child(child, child->status, hfi_op_finished(op) ? &op->error : NULL);
        return true;
    case HFI_CHILD_PAUSE:
        end_child(child, await_pause(child), NULL);
        return true;
    case HFI_CHILD_WORK:
        work_here(child);
        return true;
    case HFI_CHILD_TURN:
        return true;
    case HFI_CHILD_ACQUIRE:
    case HFI_CHILD_RELEASE:
        break;
    }
    return await_lease(child);
}
