/* SPDX-License-Identifier: MIT */
/*
 * hf_acquire_async() and hf_release_async(): the same steps as hf_acquire() and
 * hf_release(), but nobody's thread waits. See call.h for who keeps a call alive.
 *
 * INLINE and EVENT engines finish the op on whatever thread; a BLOCKING engine's
 * submit() runs on the pool.
 */
#include "core/acquire.h"
#include "core/call.h"
#include "core/op.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/process.h"

struct hfi_table hfi_calls = { .slot_size = (sizeof(struct hfi_call) + 63) / 64 * 64,
                               .kind = HFI_KIND_OP };

static struct hfi_call *call_new(struct hfi_store *store, hf_done_fn *done, void *arg);
static void call_drop(struct hfi_call *call);
static void unref(struct hfi_call *call);
static void set_result(struct hfi_call *call, hf_status status, hf_lease *handle, const char *verb,
                       const struct hfi_name *name, const hf_error *inner);
static void end_call(struct hfi_call *call);
static hf_status begin_acquire(hf_store *handle, struct hfi_call *call, const struct hfi_want *want,
                               hf_error *err);
static void go(struct hfi_call *call);
static void acquired(struct hfi_call *call, hf_status status, const hf_error *inner);
static void release_in_store(struct hfi_call *call);
static void release_done(struct hfi_op *op);
static void release_run(struct hfi_task *task);

/* ---- acquire ------------------------------------------------------------------------ */

hf_status hf_acquire_async(hf_store *handle, const hf_request *request, hf_done_fn *done, void *arg,
                           hf_op **ret_op, hf_error *err)
{
    struct hfi_store *store;
    struct hfi_want want;
    struct hfi_call *call;
    hf_request whole;
    bool queue;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    /* In a BLOCKING engine a waiting request takes a worker: a crowd for one name queues here, in
     * its order, and takes one, whether leases can be passed on or not. */
    queue = store->cohort > 0 ||
            (store->drive == HFI_BLOCKING && !(hfi_store_engine(store)->info.caps & HF_CAP_PASS));
    status = hfi_request_check(hfi_store_engine(store), queue, request, &whole, &want, err);
    if (status == HF_OK && !done)
        status = hfi_error_set(err, HF_INVALID, 0, "done: NULL");
    if (status == HF_OK && want.request->cancel) {
        status = hfi_cancel_look(want.request->cancel);
        if (status != HF_OK)
            hfi_error_set(err, status, 0, "cancel: %s", hf_status_text(status));
    }
    if (status == HF_OK) {
        call = call_new(store, done, arg);
        status = call ? HF_OK : hfi_error_memory(err);
    }
    if (status == HF_OK) {
        status = hfi_session_ask(store, &want, true, &call->tag, err);
        want.tag = &call->tag;
        call->scope = hfi_session_counts(want.request) ? want.request->scope : 0;
        if (status == HF_OK)
            status = begin_acquire(handle, call, &want, err);
        if (status == HF_OK) {
            if (ret_op)
                *ret_op = (hf_op *)(uintptr_t)atomic_load(&call->slot.handle); /* NOLINT */
            hfi_ok(err);
            unref(call);
        } else {
            call_drop(call);
        }
    }
    hfi_store_leave(store);
    return status;
}

/* Threads, memory and a place for the deadline: after this nothing fails for want of them. */
static hf_status get_ready(struct hfi_call *call, const struct hfi_want *want)
{
    struct hfi_store *store = call->store;
    unsigned threads = hfi_acquire_threads(store, want, true);

    if (call->deadline_ms != HFI_NEVER)
        threads |= HFI_STARTED_KEEPER & ~atomic_load(&store->started);
    if (threads && !hfi_store_start(store, threads))
        return HF_NO_MEMORY;
    if (store->drive == HFI_BLOCKING && !hfi_pool_start(&store->pool, HFI_LANE_LONG))
        return HF_NO_MEMORY;

    call->lease = hfi_lease_new(store, want);
    if (!call->lease)
        return HF_NO_MEMORY;
    call->lease->in_loop = true;
    if (call->deadline_ms == HFI_NEVER)
        return HF_OK;
    call->timed = hfi_keeper_reserve(store);
    return call->timed ? HF_OK : HF_NO_MEMORY;
}

static hf_status begin_acquire(hf_store *handle, struct hfi_call *call, const struct hfi_want *want,
                               hf_error *err)
{
    const hf_request *request = want->request;
    const char *verb = "acquire";
    hf_lease *again;
    hf_status status;

    call->may_wait = request->wait_ms != 0;
    call->deadline_ms = request->wait_ms > 0 ? hfi_now_ms() + request->wait_ms : HFI_NEVER;
    status = get_ready(call, want);
    if (status != HF_OK)
        return hfi_error_memory(err);

    hfi_wait_init(&call->wait, call->store, call->lease, request->min_valid_ms);
    call->wait.call = call;
    call->wait.tid = 0;
    if (call->tag.count > 0)
        hfi_detect_watch(&call->wait, &call->tag);
    (void)hfi_slot_publish(&call->slot, HFI_KIND_OP);
    hfi_wait_list(&call->wait);
    if (request->cancel && hfi_wait_follow(&call->wait, request->cancel) != HF_OK)
        hfi_wait_stop(&call->wait, HF_CANCELLED);
    if (call->timed)
        hfi_keeper_arm(call->store, &call->timer, call->deadline_ms);

    switch (hfi_cohort_enter(handle, call->lease, call->may_wait ? &call->wait : NULL, false, 0,
                             &again)) {
    case HFI_ENTRY_GO:
        go(call);
        return HF_OK;
    case HFI_ENTRY_QUEUED:
        /* It may have been stopped before it was in the queue. */
        if (atomic_load(&call->wait.stop) != HF_OK)
            hfi_call_stop_local(call);
        return HF_OK;
    case HFI_ENTRY_AGAIN:
        set_result(call, HF_OK, again, verb, NULL, NULL);
        break;
    case HFI_ENTRY_BUSY:
        set_result(call, HF_BUSY, NULL, verb, &call->lease->claim.name, NULL);
        break;
    case HFI_ENTRY_MISMATCH:
        set_result(call, HF_MISMATCH, NULL, verb, &call->lease->claim.name, NULL);
        break;
    case HFI_ENTRY_CLOSED:
        set_result(call, HF_CANCELLED, NULL, verb, &call->lease->claim.name, NULL);
        break;
    }
    hfi_lease_free(call->lease);
    end_call(call);
    return HF_OK;
}

/* ---- in the local queue ---------------------------------------------------------------- */

void hfi_call_told(struct hfi_call *call, uint32_t word)
{
    struct hfi_lease *lease = call->lease;

    if (word == HFI_WAIT_GO) {
        go(call);
        return;
    }
    /* The lease that was passed is another slot; ours is not needed. */
    if (call->scope)
        hfi_session_holds(call->store, call->scope, call->wait.passed);
    set_result(call, HF_OK, call->wait.passed, "acquire", NULL, NULL);
    hfi_lease_leave(lease);
    end_call(call);
}

void hfi_call_stop_local(struct hfi_call *call)
{
    struct hfi_lease *lease = call->wait.lease;

    if (!hfi_cohort_leave(&call->wait))
        return; /* not there yet, or not any more: go() looks at `stop` */
    set_result(call, (hf_status)atomic_load(&call->wait.stop), NULL, "acquire", &lease->claim.name,
               NULL);
    hfi_lease_leave(lease);
    end_call(call);
}

/* ---- in the store ------------------------------------------------------------------------ */

static void acquire_done(struct hfi_op *op)
{
    struct hfi_call *call = hfi_container(op, struct hfi_call, op);

    acquired(call, hfi_op_status(op), &op->error);
}

/* On the pool: the engine blocks. */
static void acquire_run(struct hfi_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, task);
    struct hfi_store *store = call->store;
    int stop;

    hfi_wait_in_store(&call->wait, &call->op);
    stop = atomic_load(&call->wait.stop);
    if (stop != HF_OK) {
        acquired(call, (hf_status)stop, NULL);
        return;
    }
    hfi_store_engine(store)->submit(store->conn, &call->op);
    acquired(call, hfi_op_status(&call->op), &call->op.error);
}

static void submit(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    int stop = atomic_load(&call->wait.stop);
    hf_status status = hfi_acquire_prepare(call->lease);

    if (status == HF_OK && stop != HF_OK)
        status = (hf_status)stop;
    if (status != HF_OK) {
        acquired(call, status, NULL);
        return;
    }

    hfi_op_init(&call->op, HFI_OP_ACQUIRE, &call->lease->claim, call->deadline_ms);
    call->op.may_wait = call->may_wait;
    if (store->drive == HFI_BLOCKING) {
        if (!call->may_wait)
            call->op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
        call->task.run = acquire_run;
        hfi_pool_add(&store->pool, HFI_LANE_LONG, &call->task);
        return;
    }
    call->op.done = acquire_done;
    atomic_fetch_add(&call->refs, 1); /* it may be done before submit() returns */
    hfi_store_engine(store)->submit(store->conn, &call->op);
    hfi_wait_in_store(&call->wait, &call->op);
    unref(call);
}

/*
 * A call whose acquire fails sends the next local waiter to the store, which may be
 * a call too, and fail too. So that a long queue does not become a deep stack, the
 * outermost go() of a thread works through them one after the other.
 */
static void go(struct hfi_call *call)
{
    static _Thread_local struct hfi_call *waiting, **end;

    call->after = NULL;
    if (end) {
        *end = call;
        end = &call->after;
        return;
    }
    end = &waiting;
    while (call) {
        submit(call);
        call = waiting;
        waiting = call ? call->after : NULL;
        if (!waiting)
            end = &waiting;
    }
    end = NULL;
}

/* The store has answered, or was not asked. Any thread. */
static void acquired(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_lease *lease = call->lease;
    hf_lease *handle = NULL;
    bool granted = status == HF_OK;

    if (granted)
        status = hfi_acquire_granted(lease, call->wait.min_valid_ms, call->may_wait, &handle);
    if (granted && status != HF_OK)
        inner = NULL;
    if (status == HF_OK && call->scope)
        hfi_session_holds(call->store, call->scope, handle);
    set_result(call, status, handle, "acquire", &lease->claim.name, inner);
    if (status != HF_OK)
        hfi_acquire_failed(lease, granted ? HF_UNKNOWN : status);
    end_call(call);
}

/* ---- deadlines and cancels ----------------------------------------------------------------- */

static void deadline_grab(struct hfi_timer *timer)
{
    atomic_fetch_add(&hfi_container(timer, struct hfi_call, timer)->refs, 1);
}

static void stop_run(struct hfi_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, stop_task);

    hfi_wait_stop(&call->wait, HF_TIMEOUT);
    unref(call);
}

static void deadline_fire(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms)
{
    struct hfi_call *call = hfi_container(timer, struct hfi_call, timer);

    (void)now_ms;
    call->stop_task.run = stop_run;
    if (store->drive == HFI_EVENT)
        stop_run(&call->stop_task);
    else
        hfi_pool_add(&store->pool, HFI_LANE_SHORT, &call->stop_task); /* cancel() may block */
}

hf_status hf_op_cancel(hf_op *handle)
{
    struct hfi_call *call = hfi_slot_find(&hfi_calls, handle);
    int refs;

    if (!call)
        return HF_INVALID;
    if (!hfi_slot_ours(&call->slot, hfi_process_id()))
        return HF_FORKED;

    pthread_mutex_lock(&call->lock);
    if (!hfi_slot_is(&call->slot, handle)) {
        pthread_mutex_unlock(&call->lock);
        return HF_INVALID;
    }
    refs = atomic_load(&call->refs);
    while (refs > 0 && !atomic_compare_exchange_weak(&call->refs, &refs, refs + 1))
        ;
    pthread_mutex_unlock(&call->lock);
    if (refs == 0)
        return HF_OK; /* too late: its callback is due */

    hfi_wait_stop(&call->wait, HF_CANCELLED);
    unref(call);
    return HF_OK;
}

/* ---- release ---------------------------------------------------------------------------------- */

hf_status hf_release_async(hf_lease *handle, hf_done_fn *done, void *arg, hf_error *err)
{
    struct hfi_lease *lease = NULL;
    struct hfi_wait *next = NULL;
    struct hfi_call *call;
    struct hfi_end end;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "lease: %s", hf_status_text(status));
    if (!done || lease->orphan) {
        hfi_lease_unlock(lease, next);
        return hfi_error_set(err, HF_INVALID, 0, "%s",
                             done ? "lease: its store was closed; use hf_release()" : "done: NULL");
    }
    /* The lease keeps the store open until the call does. */
    call = call_new(lease->store, done, arg);
    hfi_lease_unlock(lease, next);
    if (!call)
        return hfi_error_memory(err);
    if (call->store->drive == HFI_BLOCKING && !hfi_pool_start(&call->store->pool, HFI_LANE_SHORT)) {
        call_drop(call);
        return hfi_error_memory(err);
    }

    status = hfi_release_begin(handle, &end);
    if (status != HF_OK) {
        call_drop(call);
        return hfi_error_set(err, status, 0, "lease: %s", hf_status_text(status));
    }
    call->lost = end.what == HFI_ENDING_LOST;
    if (end.what == HFI_ENDING_STORE) {
        call->lease = end.lease;
        call->sole = end.sole;
        release_in_store(call);
        if (end.next)
            hfi_wait_tell(end.next, HFI_WAIT_GO);
    } else if (call->lost) {
        call->lease = end.lease;
        set_result(call, HF_LOST, NULL, "release", &end.lease->claim.name, NULL);
        if (hfi_notify_leave(end.lease, call))
            hfi_call_lost(call);
    } else {
        set_result(call, end.status, NULL, "release", NULL, NULL);
        end_call(call);
    }
    hfi_ok(err);
    unref(call);
    return HF_OK;
}

void hfi_call_lost(struct hfi_call *call)
{
    if (hfi_release_lost_now(call->lease, &call->sole))
        release_in_store(call);
    else
        end_call(call);
}

/* Nobody waits for the answer: release_done() gets it. */
static void release_in_store(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    hfi_op_init(&call->op, HFI_OP_RELEASE, &call->lease->claim, HFI_NEVER);
    if (store->drive == HFI_BLOCKING) {
        call->op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
        call->task.run = release_run;
        hfi_pool_add(&store->pool, HFI_LANE_SHORT, &call->task);
    } else {
        call->op.done = release_done;
        hfi_store_engine(store)->submit(store->conn, &call->op);
    }
}

static void release_done(struct hfi_op *op)
{
    struct hfi_call *call = hfi_container(op, struct hfi_call, op);
    struct hfi_lease *lease = call->lease;
    hf_status status = hfi_op_status(op);
    bool sole = call->sole;

    if (!call->lost)
        set_result(call, status == HF_NOT_FOUND ? HF_LOST : status, NULL, "release",
                   &lease->claim.name, &op->error);
    hfi_release_answered(lease, sole, true, status);
    end_call(call);
}

static void release_run(struct hfi_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, task);

    hfi_store_engine(call->store)->submit(call->store->conn, &call->op);
    release_done(&call->op);
}

/* ---- the life of a call ------------------------------------------------------------------------ */

/* With two references, for the beginner and for what it waits for. */
static struct hfi_call *call_new(struct hfi_store *store, hf_done_fn *done, void *arg)
{
    struct hfi_call *call = hfi_slot_take(&hfi_calls);

    if (!call)
        return NULL;
    if (!hfi_slot_ours(&call->slot, hfi_process_id()))
        pthread_mutex_init(&call->lock, NULL); /* see hf_cancel_new() */
    hfi_slot_own(&call->slot, hfi_process_id());
    call->store = store;
    call->lease = NULL;
    call->done = done;
    call->arg = arg;
    call->timed = false;
    call->scope = 0;
    call->tag.count = 0;
    call->deadline_ms = HFI_NEVER;
    call->timer = (struct hfi_timer){ .grab = deadline_grab, .fire = deadline_fire };
    hfi_wait_init(&call->wait, store, NULL, 0);
    hfi_list_init(&call->due);
    atomic_store(&call->refs, 2);

    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending++;
    pthread_mutex_unlock(&store->loop.lock);
    return call;
}

/* It never began: nobody is called back. */
static void call_drop(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    hfi_wait_leave(&call->wait);
    hfi_free(call->wait.words);
    if (call->timed)
        hfi_keeper_forget(store, &call->timer);
    if (call->lease)
        hfi_lease_free(call->lease);
    pthread_mutex_lock(&call->lock);
    hfi_slot_retire(&call->slot);
    pthread_mutex_unlock(&call->lock);
    hfi_slot_give(&hfi_calls, call);
    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending--;
    pthread_mutex_unlock(&store->loop.lock);
}

static void unref(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    if (atomic_fetch_sub(&call->refs, 1) != 1)
        return;
    hfi_loop_add(store, &call->due);
}

/* What the caller will hear. `name` is looked at only to tell what failed. */
static void set_result(struct hfi_call *call, hf_status status, hf_lease *handle, const char *verb,
                       const struct hfi_name *name, const hf_error *inner)
{
    hf_error words;

    call->status = status;
    call->handle = handle;
    if (status == HF_DEADLOCK)
        inner = hfi_detect_error(&call->wait, &words);
    if (status == HF_OK)
        hfi_ok(&call->error);
    else if (name)
        hfi_store_error(call->store, verb, name, status, inner, &call->error);
    else
        hfi_error_set(&call->error, status, 0, "%s: %s", verb, hf_status_text(status));
}

/* What it waited for has come to an end, and so has everything about it but the callback. Drops a
 * reference: only who has another may go on with the call. */
static void end_call(struct hfi_call *call)
{
    if (call->timed)
        hfi_keeper_forget(call->store, &call->timer);
    call->timed = false;
    unref(call);
}

void hfi_call_deliver(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    const struct hfi_store *outer = hfi_self.calling;

    hfi_wait_leave(&call->wait);
    hfi_free(call->wait.words);
    pthread_mutex_lock(&call->lock);
    hfi_slot_retire(&call->slot);
    pthread_mutex_unlock(&call->lock);

    hfi_self.calling = store;
    call->done(call->status, call->handle, &call->error, call->arg);
    hfi_self.calling = outer;

    hfi_slot_give(&hfi_calls, call);
    pthread_mutex_lock(&store->loop.lock);
    store->loop.pending--;
    pthread_mutex_unlock(&store->loop.lock);
}
