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
#include "core/owner.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/process.h"

static hf_status begin_acquire(hf_store *handle, struct hfi_call *call, const struct hfi_want *want,
                               hf_error *err);
static void go(struct hfi_call *call);
static void hurry(struct hfi_call *call);
static void acquired(struct hfi_call *call, hf_status status, const hf_error *inner);
static void release_in_store(struct hfi_call *call);
static void release_done(struct hfi_op *op);
static void release_run(struct hfi_task *task);

/* ---- acquire ------------------------------------------------------------------------ */

hf_status hf_acquire_async(hf_store *handle, const hf_acquire_request *request, hf_done_fn *done,
                           void *arg, hf_op **ret_op, hf_error *err)
{
    struct hfi_store *store;
    struct hfi_want want;
    struct hfi_call *call;
    hf_acquire_request whole;
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
        call = hfi_call_new(store, done, arg);
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
            hfi_call_unref(call);
        } else {
            hfi_call_drop(call);
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
    const hf_acquire_request *request = want->request;
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
        hfi_call_result(call, HF_OK, again, verb, NULL, NULL);
        break;
    case HFI_ENTRY_BUSY:
        hfi_call_result(call, HF_BUSY, NULL, verb, &call->lease->claim.name, NULL);
        break;
    case HFI_ENTRY_MISMATCH:
        hfi_call_result(call, HF_MISMATCH, NULL, verb, &call->lease->claim.name, NULL);
        break;
    case HFI_ENTRY_CLOSED:
        hfi_call_result(call, HF_CANCELLED, NULL, verb, &call->lease->claim.name, NULL);
        break;
    }
    hfi_lease_free(call->lease);
    hfi_call_end(call);
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
    hfi_call_result(call, HF_OK, call->wait.passed, "acquire", NULL, NULL);
    hfi_lease_leave(lease);
    hfi_call_end(call);
}

void hfi_call_stop_local(struct hfi_call *call)
{
    struct hfi_lease *lease = call->wait.lease;

    if (!hfi_cohort_leave(&call->wait)) {
        hurry(call); /* or it is not there yet: go() looks at `stop` */
        return;
    }
    hfi_call_result(call, (hf_status)atomic_load(&call->wait.stop), NULL, "acquire",
                    &lease->claim.name, NULL);
    hfi_lease_leave(lease);
    hfi_call_end(call);
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

/* It is to end early, but waits for a thread to wait with: any other will do for that. Under any lock. */
static void hurry(struct hfi_call *call)
{
    struct hfi_pool *pool = &call->store->pool;

    if (call->store->drive == HFI_BLOCKING &&
        hfi_pool_take_back(pool, HFI_LANE_LONG, &call->task) &&
        !hfi_pool_offer(pool, HFI_LANE_TRY, &call->task))
        hfi_pool_add(pool, HFI_LANE_SHORT, &call->task);
}

/* Behind all that wait for a thread. It may be told to end early at any moment: before this, or after it. */
static void wait_for_thread(struct hfi_call *call)
{
    call->task.run = acquire_run;
    atomic_fetch_add(&call->refs, 1); /* it may be done before we are through here */
    hfi_pool_add(&call->store->pool, HFI_LANE_LONG, &call->task);
    if (atomic_load(&call->wait.stop) != HF_OK)
        hurry(call);
    hfi_call_unref(call);
}

/* An acquisition has an owner id of its own: the store takes what comes again for a late copy. */
static void again(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    pthread_mutex_lock(&shard->lock);
    hfi_owner_new(lease->claim.owner, true);
    pthread_mutex_unlock(&shard->lock);
}

/* On the pool: all threads for waiting are taken. Perhaps it need not wait. */
static void try_run(struct hfi_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, task);
    hf_status status;

    hfi_store_engine(call->store)->submit(call->store->conn, &call->op);
    status = hfi_op_status(&call->op);
    if (status != HF_BUSY || !call->may_wait) {
        acquired(call, status, &call->op.error);
        return;
    }
    again(call->lease);
    hfi_op_init(&call->op, hfi_store_engine(call->store), HFI_OP_ACQUIRE, &call->lease->claim,
                call->deadline_ms);
    call->op.may_wait = true;
    wait_for_thread(call);
}

static void submit_blocking(struct hfi_call *call)
{
    struct hfi_pool *pool = &call->store->pool;
    int64_t limit_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;

    if (!call->may_wait)
        call->op.deadline_ms = limit_ms;
    call->task.run = acquire_run;
    if (hfi_pool_offer(pool, HFI_LANE_LONG, &call->task))
        return;
    if (!hfi_pool_start(pool, HFI_LANE_TRY)) {
        wait_for_thread(call);
        return;
    }
    call->op.may_wait = false;
    call->op.deadline_ms = limit_ms;
    call->task.run = try_run;
    hfi_pool_add(pool, HFI_LANE_TRY, &call->task);
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

    hfi_op_init(&call->op, hfi_store_engine(call->store), HFI_OP_ACQUIRE, &call->lease->claim,
                call->deadline_ms);
    call->op.may_wait = call->may_wait;
    if (store->drive == HFI_BLOCKING) {
        submit_blocking(call);
        return;
    }
    call->op.done = acquire_done;
    atomic_fetch_add(&call->refs, 1); /* it may be done before submit() returns */
    hfi_store_engine(store)->submit(store->conn, &call->op);
    hfi_wait_in_store(&call->wait, &call->op);
    hfi_call_unref(call);
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
    hfi_call_result(call, status, handle, "acquire", &lease->claim.name, inner);
    if (status != HF_OK)
        hfi_acquire_failed(lease, granted ? HF_UNKNOWN : status);
    hfi_call_end(call);
}

/* ---- cancels ----------------------------------------------------------------- */

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
    hfi_call_unref(call);
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
    call = hfi_call_new(lease->store, done, arg);
    hfi_lease_unlock(lease, next);
    if (!call)
        return hfi_error_memory(err);
    if (call->store->drive == HFI_BLOCKING && !hfi_pool_start(&call->store->pool, HFI_LANE_SHORT)) {
        hfi_call_drop(call);
        return hfi_error_memory(err);
    }

    status = hfi_release_begin(handle, &end);
    if (status != HF_OK) {
        hfi_call_drop(call);
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
        hfi_call_result(call, HF_LOST, NULL, "release", &end.lease->claim.name, NULL);
        if (hfi_notify_leave(end.lease, call))
            hfi_call_lost(call);
    } else {
        hfi_call_result(call, end.status, NULL, "release", NULL, NULL);
        hfi_call_end(call);
    }
    hfi_ok(err);
    hfi_call_unref(call);
    return HF_OK;
}

void hfi_call_lost(struct hfi_call *call)
{
    if (hfi_release_lost_now(call->lease, &call->sole))
        release_in_store(call);
    else
        hfi_call_end(call);
}

/* Nobody waits for the answer: release_done() gets it. */
static void release_in_store(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    hfi_op_init(&call->op, hfi_store_engine(call->store), HFI_OP_RELEASE, &call->lease->claim,
                HFI_NEVER);
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
        hfi_call_result(call, status == HF_NOT_FOUND ? HF_LOST : status, NULL, "release",
                        &lease->claim.name, &op->error);
    hfi_release_answered(lease, sole, true, status);
    hfi_call_end(call);
}

static void release_run(struct hfi_task *task)
{
    struct hfi_call *call = hfi_container(task, struct hfi_call, task);

    hfi_store_engine(call->store)->submit(call->store->conn, &call->op);
    release_done(&call->op);
}
