/* SPDX-License-Identifier: MIT */
/*
 * The children of tasks: how each kind begins, waits and ends. See task.h; child_op.c has the raw ops. In the blocking form a
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

/* ---- from the beginning to the end ----------------------------------------------------------------------- */

struct hfi_call *hfi_child_new(struct hfi_task *task, enum hfi_child_kind kind, unsigned flags)
{
    struct hfi_call *child = hfi_call_new(task->store, task->call ? HFI_TO_TASK : HFI_TO_THREAD);

    if (!child)
        return NULL;
    child->parent = task;
    child->awaited = task->awaited;
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

hf_status hfi_child_await_later(struct hfi_task *task, struct hfi_call *child)
{
    hfi_list_append(&task->children, &child->due);
    return HFI_BEGUN;
}

void hfi_child_end(struct hfi_call *child, hf_status status, const hf_error *inner)
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

hf_status hfi_task_acquire(struct hfi_task *task, const hf_acquire_request *request)
{
    return hfi_task_replace(task, request, NULL);
}

hf_status hfi_task_replace(struct hfi_task *task, const hf_acquire_request *request,
                           const struct hfi_replaced *replaced)
{
    struct hfi_call *child = hfi_child_new(task, HFI_CHILD_ACQUIRE, 0);
    hf_acquire_request whole = *request;
    hf_status status;

    if (!child)
        return no_memory(task);
    whole.cancel = task->call ? NULL : task->cancel;
    child->replaced = replaced;
    status = hfi_acquire_to(child, task->handle, &whole, &child->error);
    if (status != HF_OK) {
        if (child->lease)
            hfi_lease_free(child->lease);
        hfi_child_end(child, status, &child->error);
    }
    if (!task->call)
        return hfi_child_await_later(task, child);
    hfi_call_unref(child);
    return HFI_BEGUN;
}

hf_status hfi_task_release(struct hfi_task *task, hf_lease *lease)
{
    struct hfi_call *child = hfi_child_new(task, HFI_CHILD_RELEASE, HFI_CHILD_CLEANUP);
    hf_status status;

    if (!child) {
        (void)hfi_release_without(lease, NULL);
        return no_memory(task);
    }
    status = hfi_release_to(child, lease, &child->error);
    if (status != HF_OK)
        hfi_child_end(child, status, &child->error);
    if (!task->call)
        return hfi_child_await_later(task, child);
    hfi_call_unref(child);
    return HFI_BEGUN;
}

hf_status hfi_task_pause(struct hfi_task *task, int64_t until_ms, unsigned flags)
{
    struct hfi_call *child = hfi_child_new(task, HFI_CHILD_PAUSE, flags);

    if (!child)
        return no_memory(task);
    child->deadline_ms = until_ms;
    if (!task->call)
        return hfi_child_await_later(task, child);
    begin_pause(child);
    return HFI_BEGUN;
}

static void work_here(struct hfi_call *child)
{
    struct hfi_task *task = child->parent;

    hfi_ok(&task->child.error);
    hfi_child_end(child, child->do_work(task), &task->child.error);
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
        hfi_child_end(child, HF_NO_MEMORY, NULL);
    hfi_call_unref(child);
}

hf_status hfi_task_work(struct hfi_task *task, hfi_work_fn *work)
{
    struct hfi_call *child = hfi_child_new(task, HFI_CHILD_WORK, HFI_CHILD_CLEANUP);

    if (!child)
        return no_memory(task);
    child->do_work = work;
    child->work.run = work_run;
    if (!task->call)
        return hfi_child_await_later(task, child);
    begin_work(child);
    return HFI_BEGUN;
}

hf_status hfi_task_turn(struct hfi_task *task)
{
    struct hfi_call *child = hfi_child_new(task, HFI_CHILD_TURN, HFI_CHILD_CLEANUP);

    if (!child)
        return no_memory(task);
    child->status = HF_OK;
    if (!task->call)
        return hfi_child_await_later(task, child);
    task->turn = child;
    return HFI_BEGUN;
}

/* ---- a pause ------------------------------------------------------------------------------------------ */

static void end_pause(struct hfi_call *child, hf_status status)
{
    if (atomic_exchange(&child->pausing, 0))
        hfi_child_end(child, status, NULL);
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

/* ---- waiting for a child, on this thread ---------------------------------------------------------------- */

/* An acquire or a release. false: given up. */
static bool await_lease(struct hfi_call *child)
{
    struct hfi_task *task = child->parent;
    bool acquire = child->child == HFI_CHILD_ACQUIRE;

    if (child->answered && !child->told)
        return true;
    if (child->lost)
        task->child.error = child->error; /* its text was set when it began */
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
        if (!hfi_child_await_op(child)) {
            hfi_error_set(&task->child.error, HF_UNKNOWN, 0, "%s", hf_status_text(HF_UNKNOWN));
            return false;
        }
        hfi_child_end(child, child->status, hfi_op_finished(op) ? &op->error : NULL);
        return true;
    case HFI_CHILD_PAUSE:
        hfi_child_end(child, await_pause(child), NULL);
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
