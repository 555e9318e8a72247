/* SPDX-License-Identifier: MIT */
/* Tasks: the steps of both forms. See task.h; child.c has what they begin. */
#include "core/task.h"

#include "core/thread.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/futex.h"

#include <assert.h>

static void take_steps(struct hfi_task *task, struct hfi_call *child);
static struct hfi_call *next_ended(struct hfi_task *task);

void hfi_task_init(struct hfi_task *task, struct hfi_store *store, hfi_step_fn *step)
{
    memset(task, 0, sizeof *task);
    task->store = store;
    task->step = step;
    hfi_list_init(&task->children);
    hfi_ok(&task->error);
    hfi_ok(&task->child.error);
}

/* ---- on the caller's thread ---------------------------------------------------------------------- */

/* Set what step() sees of an ended child. */
static hf_status show_child(struct hfi_task *task, struct hfi_call *child)
{
    bool is_op = child->child == HFI_CHILD_OP && hfi_op_finished(&child->op);

    task->ending = child;
    task->child.op = is_op ? &child->op : NULL;
    task->child.lease = child->status == HF_OK ? child->handle : NULL;
    task->child.mark = child->mark;
    task->child.given_up = false;
    if (child->status == HF_OK)
        return hfi_ok(&task->child.error);
    task->child.error = child->error;
    return child->status;
}

/* The child was given up and goes on: nothing of it may be read. `lost`: it was the release of a lost lease, whose answer
 * does not depend on the store. */
static hf_status show_given_up(struct hfi_task *task, unsigned mark, bool lost)
{
    task->ending = NULL;
    task->child.op = NULL;
    task->child.lease = NULL;
    task->child.mark = mark;
    task->child.given_up = true;
    return lost ? HF_LOST : HF_UNKNOWN;
}

/* There was no memory for a child: clear what an earlier one has left. */
static hf_status show_no_child(struct hfi_task *task)
{
    task->ending = NULL;
    task->child.op = NULL;
    task->child.lease = NULL;
    task->child.given_up = false;
    /* A step begins as many children as it says, each with memory or without. */
    assert(task->without > 0);
    task->without--;
    return hfi_error_memory(&task->child.error);
}

hf_status hfi_task_run(struct hfi_task *task)
{
    hf_status status = task->step(task, HF_OK);

    while (status == HFI_BEGUN) {
        struct hfi_list *node = hfi_list_pop(&task->children);
        struct hfi_call *child = node ? hfi_container(node, struct hfi_call, due) : NULL;
        unsigned mark = child ? child->mark : 0;
        bool lost = child && child->lost;

        if (!child) {
            status = task->step(task, show_no_child(task));
        } else if (!hfi_child_await(child)) {
            status = task->step(task, show_given_up(task, mark, lost));
        } else {
            status = task->step(task, show_child(task, child));
            hfi_child_free(child);
        }
    }
    /* Likewise: all were taken above. */
    assert(hfi_list_empty(&task->children) && task->without == 0);
    return status;
}

/* ---- without one ------------------------------------------------------------------------------------ */

/* Start what every asynchronous task needs, and give it a call. NULL: out of memory. */
static struct hfi_call *new_call(struct hfi_task *task)
{
    struct hfi_store *store = task->store;
    struct hfi_call *call;

    /* For timers, and for what an engine may block in. */
    if (!hfi_store_start(store, HFI_STARTED_KEEPER) ||
        (store->drive != HFI_EVENT && (!hfi_pool_start(&store->pool, HFI_LANE_SHORT) ||
                                       !hfi_pool_start(&store->pool, HFI_LANE_LONG))) ||
        (store->drive == HFI_BLOCKING && !hfi_pool_start(&store->pool, HFI_LANE_STEP)))
        return NULL;
    call = hfi_call_new(store, HFI_TO_LOOP);
    if (!call)
        return NULL;
    pthread_mutex_init(&task->lock, NULL);
    pthread_mutex_init(&task->stop.lock, NULL);
    hfi_list_init(&task->stop.followers);
    task->call = call;
    call->task = task;
    return call;
}

/* The first step is taken as if a child had ended: it may be the last at once. */
static void begin_steps(struct hfi_task *task)
{
    struct hfi_call *call = task->call;

    hfi_call_listen(call, true);
    task->running = true;
    take_steps(task, NULL);
    hfi_call_unref(call);
}

hf_status hfi_task_begin(struct hfi_task *task, hf_done_fn *done, void *arg, hf_op **ret_op,
                         hf_error *err)
{
    hf_status status = task->cancel ? hfi_cancel_check(task->cancel, err) : HF_OK;
    struct hfi_call *call;

    if (status != HF_OK)
        return status;
    if (!done)
        return hfi_error_set(err, HF_INVALID, 0, "done: NULL");
    call = new_call(task);
    if (!call)
        return hfi_error_memory(err);

    hfi_call_callback(call, done, arg);
    call->cancel = task->cancel;
    (void)hfi_slot_publish(&call->slot, HFI_KIND_OP);
    if (ret_op)
        *ret_op = (hf_op *)(uintptr_t)atomic_load(&call->slot.handle); /* NOLINT */
    hfi_ok(err);
    begin_steps(task);
    return HF_OK;
}

hf_status hfi_task_run_entered(struct hfi_task *task, hf_error *err)
{
    hf_status status = hfi_task_run(task);

    if (err)
        *err = task->error;
    hfi_store_leave(task->store);
    return status;
}

hf_status hfi_task_begin_entered(struct hfi_task *task, hf_done_fn *done, void *arg, hf_op **ret_op,
                                 hf_error *err)
{
    hf_status status = hfi_task_begin(task, done, arg, ret_op, err);

    if (status != HF_OK)
        hfi_task_free_entered(task);
    return status;
}

void hfi_task_free_entered(struct hfi_task *task)
{
    hfi_store_leave(task->store);
    hfi_free(task);
}

/* ---- with a thread that waits for whatever comes first --------------------------------------------------- */

/* Until something is told. The thread that tells it is through with the call then. */
static unsigned await_told(struct hfi_task *task)
{
    struct hfi_call *call = task->call;

    (void)hfi_call_wait(call, HFI_NEVER);
    if (call->store->drive !=
        HFI_EVENT) { /* others finish the ops, and there is nothing to drive */
        while (!atomic_load(&call->done_word))
            hfi_futex_wait(&call->done_word, 0, HFI_NEVER, false);
        pthread_mutex_lock(&call->store->driver.lock);
        pthread_mutex_unlock(&call->store->driver.lock);
    }
    atomic_store(&call->done_word, 0);
    return atomic_exchange(&task->told, 0);
}

hf_status hfi_task_await(struct hfi_task *task)
{
    hf_status status = task->cancel ? hfi_cancel_check(task->cancel, &task->error) : HF_OK;
    struct hfi_call *call;

    if (status != HF_OK)
        return status;
    task->awaited = true;
    call = new_call(task);
    if (!call)
        return hfi_error_memory(&task->error);
    call->cancel = task->cancel;
    atomic_store(&call->done_word, 0);
    call->drives = false;
    call->sleeper = NULL;
    begin_steps(task);
    while (await_told(task) != HFI_TASK_OVER)
        take_steps(task, next_ended(task));
    hfi_call_unlisten(call); /* what stops it has a lock, and is through with it then */
    status = call->status;
    hfi_call_retire(call);
    hfi_call_free(call);
    return status;
}

void hfi_task_tell(struct hfi_task *task, unsigned what)
{
    struct hfi_call *call = task->call;
    bool sleeps = call->store->drive != HFI_EVENT;

    /* One at a time: nobody takes a step, or ends the task, before that thread has seen this. Once it has, it may free both:
     * a futex is woken by its address only. */
    atomic_store(&task->told, what);
    (void)hfi_call_tell(call);
    if (sleeps)
        hfi_futex_wake(&call->done_word, 1, false);
}

hf_status hfi_task_stopped(struct hfi_task *task)
{
    return task->call ? (hf_status)atomic_load(&task->call->wait.stop) : HF_OK;
}

/* The final status: hf_store_process() does the rest. */
static void end_task(struct hfi_task *task, hf_status status)
{
    struct hfi_call *call = task->call;

    call->status = status;
    call->ended = true;
    hfi_call_end(call);
}

/* The next step is taken in hf_store_process(). Until then the task counts as running: no other
 * thread takes steps. */
static void leave_turn(struct hfi_task *task)
{
    pthread_mutex_lock(&task->lock);
    hfi_list_append(&task->children, &task->turn->due);
    task->turn = NULL;
    pthread_mutex_unlock(&task->lock);
    hfi_loop_add(task->store, &task->call->due);
}

/* Take steps while there are ended children. We have set `running`; the first time there is no
 * child. */
static void take_steps(struct hfi_task *task, struct hfi_call *child)
{
    hf_status got = HF_OK, status;

    for (;;) {
        if (child) {
            hfi_call_unlisten(child);
            got = show_child(task, child);
        }
        status = task->step(task, got);
        if (child)
            hfi_child_free(child);
        if (status != HFI_BEGUN) {
            end_task(task, status);
            return;
        }
        if (task->turn) {
            leave_turn(task);
            return;
        }
        child = NULL;
        if (task->without > 0)
            got = show_no_child(task);
        else if (!(child = next_ended(task)))
            return;
    }
}

/* NULL: none has ended, and nobody takes steps any more. */
static struct hfi_call *next_ended(struct hfi_task *task)
{
    struct hfi_list *node;

    pthread_mutex_lock(&task->lock);
    node = hfi_list_pop(&task->children);
    task->running = node != NULL;
    pthread_mutex_unlock(&task->lock);
    return node ? hfi_container(node, struct hfi_call, due) : NULL;
}

void hfi_task_child_ended(struct hfi_call *child)
{
    struct hfi_task *task = child->parent;
    bool ours;

    pthread_mutex_lock(&task->lock);
    hfi_list_append(&task->children, &child->due);
    ours = !task->running;
    task->running = true;
    pthread_mutex_unlock(&task->lock);
    if (!ours)
        return; /* the thread that takes steps finds it */
    if (hfi_self.stopping > 0 && task->awaited)
        hfi_task_tell(task, HFI_TASK_STEP);
    else if (hfi_self.stopping > 0)
        hfi_loop_add(task->store, &task->call->due); /* locks are held: hf_store_process() does
                                                      * it */
    else
        take_steps(task, next_ended(task));
}

void hfi_task_deliver(struct hfi_call *call)
{
    struct hfi_task *task = call->task;

    if (!call->ended) {
        take_steps(task, next_ended(task));
        return;
    }
    call->error = task->error;
    hfi_call_deliver(call);
}

void hfi_task_stop_children(struct hfi_task *task, hf_status why)
{
    struct hfi_cancel *stop = &task->stop;

    pthread_mutex_lock(&stop->lock);
    stop->fired = true;
    for (struct hfi_list *node = stop->followers.next; node != &stop->followers; node = node->next)
        hfi_wait_stop(hfi_container(node, struct hfi_wait, followed), why);
    pthread_mutex_unlock(&stop->lock);
}

/* The task's own canceller stops the children. */
void hfi_task_stop(struct hfi_call *call)
{
    hfi_task_stop_children(call->task, (hf_status)atomic_load(&call->wait.stop));
}
