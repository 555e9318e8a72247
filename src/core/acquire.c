/* SPDX-License-Identifier: MIT */
/*
 * hf_acquire(), and the steps that every acquire takes: from the caller's request to a lease.
 *
 *   check the request -> a call and a slot -> the local queue -> submit -> answered -> a lease
 *
 * Both forms take the same steps. A blocking call takes them on its own thread, which sleeps in between; an asynchronous
 * call (acquire_async.c) takes them on the thread that brings the event it waits for. acquire_queue.c has the wait in the local queue.
 *
 * The shortest path, an INLINE engine and a name that nobody else wants, takes one lock, allocates
 * nothing and does not read the clock.
 */
#include "core/acquire.h"

#include "core/count.h"
#include "core/idle.h"
#include "core/local_queue.h"
#include "core/observer.h"
#include "core/owner.h"
#include "core/table.h"
#include "core/task.h"
#include "util/clock.h"
#include "util/error.h"

static hf_status check(struct hfi_store *store, enum hfi_receiver receiver,
                       const hf_acquire_request *request, hf_acquire_request *whole,
                       struct hfi_checked_request *ret_checked, hf_error *err);
static hf_status begin(hf_store *handle, struct hfi_call *call, struct hfi_checked_request *checked,
                       hf_error *err);
static void enter(hf_store *handle, struct hfi_call *call);
static void step_down(struct hfi_lease *lease);

/* ---- the blocking form, and what both share ------------------------------------------ */

/* The request is checked all the same: its errors come first. */
static hf_status no_ret_lease(struct hfi_store *store, const hf_acquire_request *request,
                              hf_error *err)
{
    struct hfi_checked_request checked;
    hf_acquire_request whole;
    hf_status status = check(store, HFI_TO_THREAD, request, &whole, &checked, err);

    return status == HF_OK ? hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL") : status;
}

/* Is there an idle lease for this request? Whatever is wrong with it comes to light on the usual way. */
static bool take_idle(hf_store *handle, struct hfi_store *store, const hf_acquire_request *request,
                      hf_lease **ret_lease)
{
    struct hfi_checked_request checked;
    hf_acquire_request whole;

    return check(store, HFI_TO_THREAD, request, &whole, &checked, NULL) == HF_OK &&
           checked.linger_ms > 0 && hfi_idle_acquire(handle, store, &checked, ret_lease);
}

hf_status hf_acquire(hf_store *handle, const hf_acquire_request *request, hf_lease **ret_lease,
                     hf_error *err)
{
    struct hfi_store *store;
    struct hfi_call *call;
    hf_status status = hfi_store_find(handle, &store, err);

    if (status != HF_OK)
        return status;
    if (!ret_lease)
        return no_ret_lease(store, request, err);
    if (__builtin_expect(hfi_idle_maybe(store, request), 0) &&
        take_idle(handle, store, request, ret_lease))
        return hfi_ok(err);
    call = hfi_call_new(store, HFI_TO_THREAD);
    if (!call)
        return hfi_error_memory(err);
    call->err = err;
    status = hfi_acquire_to(call, handle, request, err);
    if (status == HF_OK) {
        if (!call->answered && !hfi_acquire_await(call))
            return HF_UNKNOWN; /* the call goes on without us */
        status = call->status;
        if (status == HF_OK)
            *ret_lease = call->handle;
    }
    hfi_call_free(call);
    return status;
}

hf_status hfi_acquire_to(struct hfi_call *call, hf_store *handle, const hf_acquire_request *request,
                         hf_error *err)
{
    struct hfi_checked_request checked;
    hf_acquire_request whole;
    hf_status status = check(call->store, call->receiver, request, &whole, &checked, err);

    checked.any = call->parent ? call->parent->any : NULL;
    return status == HF_OK ? begin(handle, call, &checked, err) : status;
}

/* In a BLOCKING engine that suspends none, an asynchronous request that waits occupies a worker. So
 * requests for one name queue here, in their order, and occupy only one, whether leases can be
 * passed on or not. */
static bool queues_here(struct hfi_store *store, enum hfi_receiver receiver)
{
    return store->pass_limit > 0 || (receiver != HFI_TO_THREAD && store->drive == HFI_BLOCKING &&
                                     !(hfi_store_promises(store)->caps & HF_CAP_PASS));
}

/* Where no ttl lasts longer, the store would open the name too early. */
static hf_status check_longest(struct hfi_store *store, int64_t min_hold_ms, hf_error *err)
{
    int64_t most_ms = atomic_load(&store->host.max_ttl_ms);

    if (most_ms == 0 || min_hold_ms <= most_ms)
        return HF_OK;
    return hfi_error_set(err, HF_INVALID, 0,
                         "min_hold_ms: %lld, the longest ttl of this store is %lld",
                         (long long)min_hold_ms, (long long)most_ms);
}

static hf_status check(struct hfi_store *store, enum hfi_receiver receiver,
                       const hf_acquire_request *request, hf_acquire_request *whole,
                       struct hfi_checked_request *ret_checked, hf_error *err)
{
    hf_status status = hfi_request_check(hfi_store_promises(store), queues_here(store, receiver),
                                         request, whole, ret_checked, err);

    if (status == HF_OK && store->linger_ms > 0)
        hfi_idle_choose(store, ret_checked);
    if (status == HF_OK && ret_checked->request->min_hold_ms > 0)
        status = check_longest(store, ret_checked->request->min_hold_ms, err);
    return status;
}

/* ---- before the store ------------------------------------------------------------- */

/* The threads of the store that it needs and that do not run yet: HFI_STARTED_*. */
static unsigned missing_threads(const struct hfi_call *call,
                                const struct hfi_checked_request *checked)
{
    struct hfi_store *store = call->store;
    unsigned threads = 0;

    if (checked->ttl_ms > 0 || store->drive == HFI_EVENT ||
        (!hfi_call_has_thread(call) && checked->request->wait_ms > 0))
        threads |= HFI_STARTED_KEEPER;
    if (checked->request->on_event && !hfi_call_in_loop(call))
        threads |= HFI_STARTED_NOTIFY;
    return threads & ~atomic_load_explicit(&store->started, memory_order_relaxed);
}

static hf_status start_threads(hf_store *handle, struct hfi_store *store, unsigned threads,
                               hf_error *err)
{
    hf_status status = hfi_store_enter(handle, &store, err);
    bool ok;

    if (status != HF_OK)
        return status;
    ok = hfi_store_start(store, threads);
    hfi_store_leave(store);
    return ok ? HF_OK : hfi_error_memory(err);
}

/* HF_OK: the call is under way, or has its answer already. Otherwise nothing began. */
static hf_status begin(hf_store *handle, struct hfi_call *call, struct hfi_checked_request *checked,
                       hf_error *err)
{
    const hf_acquire_request *request = checked->request;
    bool async = !hfi_call_has_thread(call);
    hf_status status = HF_OK;
    unsigned threads;

    checked->replaced = call->replaced;
    if (request->wait_ms != 0)
        status = hfi_session_ask(call->store, checked, hfi_call_in_loop(call), &call->tag, err);
    if (status != HF_OK)
        return status;
    checked->tag = &call->tag;
    call->cancel = request->cancel;
    call->may_wait = request->wait_ms != 0;
    call->min_valid_ms = request->min_valid_ms;
    call->held_by_session = call->store->detector.able && hfi_session_counts(request);
    call->scope = request->scope;

    if (request->cancel)
        status = hfi_cancel_check(request->cancel, err);
    if (status == HF_OK && (threads = missing_threads(call, checked)))
        status = start_threads(handle, call->store, threads, err);
    if (status != HF_OK)
        return status;
    if (request->wait_ms > 0)
        call->deadline_ms = hfi_wait_end_ms(request->wait_ms);
    call->lease = hfi_lease_new(call->store, checked);
    if (!call->lease)
        return hfi_error_memory(err);
    if (async)
        status = hfi_acquire_prepare_async(call, err);
    if (call->replaced)
        call->lease->in_loop = call->replaced->in_loop;
    if (status == HF_OK && hfi_observed())
        hfi_observe_begin(call->lease);
    if (status == HF_OK)
        enter(handle, call);
    return status;
}

/* ---- in the local queue -------------------------------------------------------------- */

/* It cannot re-enter what we hold, which `held` describes. */
static void set_no_reentry(const struct hfi_claim *held, hf_error *ret_err)
{
    if (held->mode == HFI_MODE_SEMAPHORE)
        hfi_error_set(ret_err, HF_MISMATCH, 0,
                      "this process holds it already, as a semaphore of %u with %u permits%s",
                      held->capacity, held->permits,
                      held->flags & HFI_CLAIM_NUMBERED ? "" : " without numbers");
    else
        (void)hfi_mismatch_set(ret_err, held->mode, held->capacity);
}

/* The call has its answer without asking the store: its slot is not needed. */
static void answer_here(struct hfi_call *call, hf_status status, hf_lease *handle)
{
    hf_error other;

    if (status == HF_MISMATCH)
        set_no_reentry(&call->lease->claim, &other);
    if (status != HF_OK)
        hfi_stats_failed(call->lease, status);
    hfi_call_result(call, status, handle, "acquire", &call->lease->claim.name,
                    status == HF_MISMATCH ? &other : NULL);
    hfi_lease_free(call->lease);
    call->lease = NULL;
    hfi_call_end(call);
}

/* Likewise, with a refusal. A blocking call does not keep the store open at this point, and the
 * text names the store: so the store is entered for that, unless it has been closed. */
static void refuse_here(hf_store *handle, struct hfi_call *call, hf_status status)
{
    struct hfi_store *store;
    hf_error *err = call->err;

    if (!hfi_call_has_thread(call)) {
        answer_here(call, status, NULL);
    } else if (hfi_store_enter(handle, &store, NULL) == HF_OK) {
        answer_here(call, status, NULL);
        hfi_store_leave(store);
    } else {
        call->err = NULL;
        answer_here(call, HF_INVALID, NULL);
        hfi_error_set(err, HF_INVALID, 0, "store: it was closed");
    }
}

static void enter(hf_store *handle, struct hfi_call *call)
{
    bool thread = hfi_call_has_thread(call);
    hf_lease *again = NULL;
    enum hfi_entrance entry;

    do {
        entry = hfi_local_queue_enter(handle, call->lease, call->may_wait ? &call->wait : NULL,
                                      thread, call->min_valid_ms, &again);
        /* The tokens come with the next answer of the store, for which a try waits as for any. */
    } while (entry == HFI_ENTRY_SOON && hfi_acquire_wait_a_little(call, HFI_CALL_LIMIT_MS));
    switch (entry) {
    case HFI_ENTRY_GO:
        if (thread)
            hfi_acquire_submit(call);
        else
            hfi_acquire_go(call);
        break;
    case HFI_ENTRY_QUEUED:
        if (thread)
            call->queued = call->waits = true;
        else if (atomic_load(&call->wait.stop) != HF_OK)
            hfi_call_stop_local(call); /* it was stopped before it was in the queue */
        break;
    case HFI_ENTRY_TAKEN:
        hfi_acquire_note_held(call, again);
        answer_here(call, HF_OK, again);
        break;
    case HFI_ENTRY_AGAIN:
        hfi_stats_reentered(call->lease);
        answer_here(call, HF_OK, again);
        break;
    case HFI_ENTRY_COUNT:
        hfi_count(call, HFI_COUNTS_UP, again,
                  atomic_load_explicit(&call->lease->shard, memory_order_relaxed));
        break;
    case HFI_ENTRY_SOON:
    case HFI_ENTRY_BUSY:
        refuse_here(handle, call, HF_BUSY);
        break;
    case HFI_ENTRY_MISMATCH:
        refuse_here(handle, call, HF_MISMATCH);
        break;
    case HFI_ENTRY_CLOSED:
        refuse_here(handle, call, HF_CANCELLED);
        break;
    }
}

void hfi_acquire_reentered(struct hfi_call *call, hf_status status, hf_lease *handle,
                           const hf_error *inner)
{
    if (status == HF_LOST) { /* it is free, or another's: this is a request like any other */
        enter((hf_store *)(uintptr_t)atomic_load(&call->store->slot.handle), call); /* NOLINT */
        return;
    }
    if (status == HF_OK)
        hfi_stats_reentered(call->lease);
    else
        hfi_stats_failed(call->lease, status);
    hfi_call_result(call, status, status == HF_OK ? handle : NULL, "acquire",
                    &call->lease->claim.name, inner);
    hfi_lease_free(call->lease);
    call->lease = NULL;
    hfi_call_end(call);
}

/* ---- in the store --------------------------------------------------------------------- */

/* A place for the timer of a lease that has an end. HF_NO_MEMORY: the claim must not be submitted. */
static hf_status reserve_timer(struct hfi_lease *lease)
{
    if (!hfi_keeper_reserve(lease->store))
        return HF_NO_MEMORY;
    hfi_lease_timed(lease);
    return HF_OK;
}

/* After the local wait the deadline may have passed, or the call may have been cancelled. */
static hf_status is_wanted(const struct hfi_call *call)
{
    hf_status stop = (hf_status)atomic_load(&call->wait.stop);

    if (stop == HF_OK && hfi_call_has_thread(call) && call->deadline_ms != HFI_NEVER &&
        hfi_now_ms() >= call->deadline_ms)
        return HF_TIMEOUT;
    return stop;
}

/* On a driver's thread: the store has answered after the caller gave up. */
static void answered_late(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_lease *lease = call->lease;
    struct hfi_store *store = lease->store;

    (void)inner;
    hfi_call_free(call);
    if (status == HF_OK || status == HF_UNKNOWN)
        hfi_keeper_settle(lease, 0, false);
    else
        hfi_lease_free(lease);
    hfi_keeper_idle(store);
}

/* This thread will wait for it, in hfi_acquire_await(). */
static void submit_here(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    struct hfi_lease *lease = call->lease;
    struct hfi_op *op = &call->op;

    if (store->drive == HFI_BLOCKING) {
        hfi_call_listen(call, true); /* submit() waits: it must be possible to stop it from here
                                      * on */
        hfi_wait_in_store(&call->wait, op);
        if (atomic_load(&call->wait.stop) != HF_OK) {
            hfi_acquire_answered(call, (hf_status)atomic_load(&call->wait.stop), NULL);
            return;
        }
    }
    op->blocking = call->may_wait;
    hfi_call_submit(call);
    if (store->drive == HFI_BLOCKING)
        call->waited = op->blocking; /* so the clock is read at the grant */
    if (store->drive == HFI_INLINE && !hfi_op_finished(op) && lease->begun_ms == 0)
        lease->begun_ms = hfi_now_ms();
    if (store->drive == HFI_INLINE && hfi_op_finished(op)) {
        hfi_acquire_answered(call, hfi_op_status(op), &op->error);
    } else if (store->drive != HFI_BLOCKING) {
        hfi_call_listen(call, true);
        hfi_wait_in_store(&call->wait, op);
    }
}

void hfi_acquire_submit(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    struct hfi_lease *lease = call->lease;
    hf_status status = lease->claim.ttl_ms > 0 && !lease->timed ? reserve_timer(lease) : HF_OK;
    struct hfi_op *op;

    if (status == HF_OK && call->waits)
        status = is_wanted(call);
    if (status != HF_OK) {
        hfi_acquire_answered(call, status, NULL);
        return;
    }
    if (lease->hot && lease->pass && !(lease->claim.flags & HFI_CLAIM_LINGERS))
        lease->claim.tokens_wanted = store->pass_limit + 1; /* local waiting has been seen */
    if (lease->claim.flags & HFI_CLAIM_LINGERS)
        lease->linger.from_ns = hfi_now_ns();
    if (lease->begun_ms == 0 && (store->drive != HFI_INLINE || !hfi_call_has_thread(call)))
        lease->begun_ms = hfi_now_ms(); /* else it begins to wait after submit() */
    op = hfi_call_op(call, HFI_OP_ACQUIRE);
    op->claim = &lease->claim;
    op->may_wait = call->may_wait;
    op->deadline_ms = call->may_wait || store->drive == HFI_INLINE
                          ? call->deadline_ms
                          : hfi_now_ms() + HFI_CALL_LIMIT_MS;
    if (hfi_call_has_thread(call))
        submit_here(call);
    else
        hfi_acquire_send(call);
}

/* ---- waiting for the answer ---------------------------------------------------------------- */

/* The store does not even answer the cancel. The call goes on without us. */
static void give_up(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    hfi_call_unlisten(call);
    hfi_stats_failed(call->lease, HF_UNKNOWN);
    hfi_call_result(call, HF_UNKNOWN, NULL, "acquire", &call->lease->claim.name, NULL);
    hfi_lease_lose_replaced(call->lease);
    step_down(call->lease);
    hfi_keeper_busy(store);
    hfi_lease_uncount(call->lease);
    if (!hfi_call_abandon(call, answered_late))
        answered_late(call, hfi_op_status(&call->op), NULL); /* it has answered just now */
}

/* false: given up. */
static bool await_event(struct hfi_call *call)
{
    struct hfi_op *op = &call->op;
    int64_t until_ms = op->deadline_ms;

    if (!hfi_call_wait(call, until_ms)) {
        hfi_wait_stop(&call->wait, HF_TIMEOUT);
        if (!hfi_call_wait(call, hfi_after_ms(until_ms, HFI_GRACE_MS))) {
            give_up(call);
            return false;
        }
    }
    call->waited = op->may_wait;
    hfi_acquire_answered(call, hfi_op_status(op), &op->error);
    return true;
}

static void await_inline(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    const struct hfi_engine *engine = hfi_store_engine(store);
    struct hfi_op *op = &call->op;

    while (!hfi_op_finished(op)) {
        if (call->deadline_ms != HFI_NEVER && hfi_now_ms() >= call->deadline_ms)
            engine->cancel(store->opened, op, HF_TIMEOUT);
        else if (store->drive == HFI_INLINE)
            engine->drive->wait(store->opened, op, call->deadline_ms);
        call->waited = true;
    }
    hfi_acquire_answered(call, hfi_op_status(op), &op->error);
}

bool hfi_acquire_await(struct hfi_call *call)
{
    while (call->counts) /* what was lost in the store may be entered anew, and counted once more */
        if (!hfi_count_await(call))
            return false;
    if (call->queued)
        hfi_acquire_wait_queue(call);
    while (!call->answered) { /* a try may ask twice */
        if (call->store->drive != HFI_EVENT)
            await_inline(call);
        else if (!await_event(call))
            return false;
    }
    return true;
}

/* ---- after the store --------------------------------------------------------------------- */

bool hfi_acquire_wait_a_little(struct hfi_call *call, int64_t wait_ms)
{
    struct hfi_store *store = call->store;

    if (call->may_wait || wait_ms == 0)
        return false;
    if (!hfi_call_has_thread(call)) {
        if (store->drive == HFI_BLOCKING &&
            !hfi_pool_start(&store->pool, hfi_workers_lane(store, true)))
            return false;
        if (!call->timed && !(call->timed = hfi_keeper_reserve(store)))
            return false;
    }
    call->may_wait = call->tries = call->waited = true;
    call->deadline_ms = hfi_now_ms() + wait_ms;
    if (!hfi_call_has_thread(call))
        hfi_call_arm(call);
    return true;
}

/* The holder lingers and may not use it: ask once more, as a waiter, with a claim of its own. */
static bool ask_again(struct hfi_call *call)
{
    struct hfi_claim *claim = &call->lease->claim;

    if (call->waits) { /* nobody stops the op that has ended */
        hfi_wait_leave(&call->wait);
        atomic_store(&call->wait.op, NULL);
    }
    if (!hfi_acquire_wait_a_little(call, call->store->try_wait_ms))
        return false;
    hfi_owner_new(claim->owner, claim->flags & HFI_CLAIM_DETACHED);
    hfi_room_zero(claim->room, hfi_store_engine(call->store)->claim_size);
    if (hfi_call_has_thread(call)) {
        hfi_acquire_submit(call);
    } else {
        hfi_call_listen(call, true);
        hfi_acquire_go(call);
    }
    return true;
}

void hfi_acquire_answered(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_lease *lease = call->lease;
    bool granted = status == HF_OK, thread = hfi_call_has_thread(call);
    hf_lease *handle = NULL;

    if (__builtin_expect(status == HF_BUSY, 0) && call->op.ret_lingers && ask_again(call))
        return;
    if (thread && call->waits)
        hfi_wait_leave(&call->wait);
    if (__builtin_expect(granted, 1)) {
        lease->handed = call->op.ret_queued;
        status = hfi_acquire_granted(lease, call->min_valid_ms, call->waited, &handle);
        inner = NULL;
    } else if (status == HF_TIMEOUT && (!call->may_wait || call->tries)) {
        /* It did not queue, and the store took too long; or its holder keeps it. */
        status = call->tries ? HF_BUSY : HF_UNAVAILABLE;
        inner = NULL;
    }
    if (__builtin_expect(status == HF_OK, 1))
        hfi_acquire_note_held(call, handle);
    else
        hfi_stats_failed(lease, status);
    hfi_call_result(call, status, handle, "acquire", &lease->claim.name, inner);

    if (status != HF_OK && !granted) {
        hfi_acquire_failed(lease, status);
    } else if (status != HF_OK && thread) {
        hfi_lease_lose_replaced(lease);
        step_down(lease);
        (void)hfi_release_claim(lease, true, NULL, NULL);
    } else if (status != HF_OK) {
        hfi_acquire_failed(lease, HF_UNKNOWN); /* released in the background */
    }
    hfi_call_end(call);
}

hf_status hfi_acquire_granted(struct hfi_lease *lease, int64_t min_valid_ms, bool waited,
                              hf_lease **ret_handle)
{
    struct hfi_claim *claim = &lease->claim;
    struct hfi_term *term = &lease->term;
    int64_t now_ms = claim->sent_ms; /* precise enough for a lease without an end */

    if (claim->granted_ttl_ms == 0 && term->max_hold_ms == 0)
        hfi_term_begin_endless(term, claim->sent_ms);
    else
        hfi_term_begin(term, claim->sent_ms, claim->granted_ttl_ms);
    if (waited || term->valid_until_ms != HFI_NEVER) {
        now_ms = hfi_now_ms();
        if (!hfi_term_worth(term, min_valid_ms, now_ms))
            return HF_TOO_SHORT;
    }

    if (lease->min_hold_ms > 0)
        lease->stay_ms = hfi_after_ms(now_ms, lease->min_hold_ms);
    /* Set the timer first: once the lease has begun, it may end at any time. */
    if (lease->timed)
        hfi_keeper_arm(lease->store, &lease->timer, hfi_term_next(term, now_ms).at_ms);
    *ret_handle = hfi_lease_begin(lease, now_ms);
    return HF_OK;
}

/* Remove the slot from the table, and promote the next local waiter. */
static void step_down(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    struct hfi_wait *next;

    pthread_mutex_lock(&shard->lock);
    atomic_store_explicit(&lease->phase, HFI_ENDING, memory_order_relaxed);
    hfi_table_unlink(shard, lease);
    next = hfi_local_queue_hand_on(lease);
    if (lease->timed)
        hfi_keeper_forget(lease->store, &lease->timer);
    lease->timed = false;
    (void)hfi_lease_drop(lease, HFI_PART_HANDLE);
    pthread_mutex_unlock(&shard->lock);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
}

void hfi_acquire_failed(struct hfi_lease *lease, hf_status status)
{
    if (status == HF_UNKNOWN)
        hfi_lease_lose_replaced(lease);
    step_down(lease);
    if (status == HF_UNKNOWN)
        hfi_keeper_settle(lease, 0, true);
    else
        hfi_lease_leave(lease);
}
