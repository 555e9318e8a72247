/* SPDX-License-Identifier: MIT */
/*
 * hf_acquire(): from the caller's request to a lease, on the caller's thread.
 *
 *   check the request -> a slot -> the local queue -> the store -> a lease
 *
 * The straight line through an INLINE engine, nobody else wanting the name, takes
 * one lock, no allocation and no look at the clock.
 */
#include "core/acquire.h"

#include "core/cohort.h"
#include "core/op.h"
#include "core/release.h"
#include "core/table.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

static hf_status check(hf_store *handle, const hf_acquire_request *request, struct hfi_attempt *a,
                       hf_lease **ret_lease, hf_error *err);
static hf_status acquire(hf_store *handle, struct hfi_attempt *a, hf_lease **ret_lease,
                         hf_error *err);
static hf_status wait_here(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err);
static hf_status go(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err);
static hf_status go_event(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err);
static hf_status event_begin(struct hfi_attempt *a);
static hf_status event_end(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err);
static void wait_in_store(struct hfi_attempt *a, struct hfi_op *op);
static void step_down(struct hfi_lease *lease);
static hf_status finish(struct hfi_attempt *a, hf_status status, const hf_error *inner,
                        hf_lease **ret_lease, hf_error *err);
static hf_status fail(struct hfi_attempt *a, hf_status status, const hf_error *inner,
                      hf_error *err);

hf_status hf_acquire(hf_store *handle, const hf_acquire_request *request, hf_lease **ret_lease,
                     hf_error *err)
{
    struct hfi_attempt a;
    hf_status status = check(handle, request, &a, ret_lease, err);

    if (status != HF_OK)
        return status;
    status = acquire(handle, &a, ret_lease, err);
    if (a.waits)
        hfi_free(a.wait.words);
    return status;
}

/* ---- before the store ------------------------------------------------------------- */

static hf_status check(hf_store *handle, const hf_acquire_request *request, struct hfi_attempt *a,
                       hf_lease **ret_lease, hf_error *err)
{
    hf_status status = hfi_store_find(handle, &a->store, err);

    if (status != HF_OK)
        return status;
    status = hfi_request_check(hfi_store_engine(a->store), a->store->cohort > 0, request, &a->whole,
                               &a->own_want, err);
    if (status != HF_OK)
        return status;
    if (!ret_lease)
        return hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");

    a->want = &a->own_want;
    a->waits = false;
    a->waited = false;
    a->event = NULL;
    status = hfi_session_ask(a->store, a->want, false, &a->tag, err);
    a->own_want.tag = &a->tag;
    return status;
}

unsigned hfi_acquire_threads(struct hfi_store *store, const struct hfi_want *want, bool in_loop)
{
    unsigned threads = 0;

    if (want->ttl_ms > 0 || store->drive == HFI_EVENT)
        threads |= HFI_STARTED_KEEPER;
    if (want->request->on_lost && !in_loop)
        threads |= HFI_STARTED_NOTIFY;
    return threads & ~atomic_load_explicit(&store->started, memory_order_relaxed);
}

/* What only some requests need: threads, and a canceller that has not been fired. */
static hf_status get_ready(hf_store *handle, struct hfi_attempt *a, hf_error *err)
{
    unsigned threads = hfi_acquire_threads(a->store, a->want, false);
    hf_status status = HF_OK;
    struct hfi_store *store;
    bool ok;

    if (a->want->request->cancel)
        status = hfi_cancel_look(a->want->request->cancel);
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "%s", hf_status_text(status));
    if (!threads)
        return HF_OK;

    status = hfi_store_enter(handle, &store, err);
    if (status != HF_OK)
        return status;
    ok = hfi_store_start(store, threads);
    hfi_store_leave(store);
    return ok ? HF_OK : hfi_error_memory(err);
}

/* Up to the decision whether to ask the store. Not HF_OK: nothing is left of it. */
static hf_status enter(hf_store *handle, struct hfi_attempt *a, hf_lease **ret_lease,
                       enum hfi_entry *ret_entry, hf_error *err)
{
    const hf_acquire_request *request = a->want->request;
    hf_status status;

    if (request->cancel || request->on_lost || a->want->ttl_ms > 0 ||
        a->store->drive == HFI_EVENT) {
        status = get_ready(handle, a, err);
        if (status != HF_OK)
            return status;
    }

    a->deadline_ms = HFI_NEVER;
    if (request->wait_ms > 0)
        a->deadline_ms = hfi_now_ms() + request->wait_ms;
    a->lease = hfi_lease_new(a->store, a->want);
    if (!a->lease)
        return hfi_error_memory(err);

    *ret_entry = hfi_cohort_enter(handle, a->lease, request->wait_ms != 0 ? &a->wait : NULL, true,
                                  request->min_valid_ms, ret_lease);
    switch (*ret_entry) {
    case HFI_ENTRY_GO:
    case HFI_ENTRY_QUEUED:
        return HF_OK;
    case HFI_ENTRY_AGAIN:
        status = hfi_ok(err);
        break;
    case HFI_ENTRY_BUSY:
        status = fail(a, HF_BUSY, NULL, err);
        break;
    case HFI_ENTRY_MISMATCH:
        status = fail(a, HF_MISMATCH, NULL, err);
        break;
    default:
        status = hfi_error_set(err, HF_INVALID, 0, "store: it was closed");
        break;
    }
    hfi_lease_free(a->lease);
    return status;
}

static hf_status acquire(hf_store *handle, struct hfi_attempt *a, hf_lease **ret_lease,
                         hf_error *err)
{
    enum hfi_entry entry = HFI_ENTRY_CLOSED;
    hf_status status = enter(handle, a, ret_lease, &entry, err);

    if (status != HF_OK || entry == HFI_ENTRY_AGAIN)
        return status;
    if (entry == HFI_ENTRY_GO)
        return go(a, ret_lease, err);
    a->waits = true;
    return wait_here(a, ret_lease, err);
}

/* ---- several at once: tries that are under way together ------------------------------ */

hf_status hfi_attempt_begin(hf_store *handle, const hf_acquire_request *request,
                            struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err)
{
    enum hfi_entry entry = HFI_ENTRY_CLOSED;
    hf_status status = check(handle, request, a, ret_lease, err);

    if (status == HF_OK)
        status = enter(handle, a, ret_lease, &entry, err);
    if (status != HF_OK || entry == HFI_ENTRY_AGAIN)
        return status;

    status = hfi_acquire_prepare(a->lease);
    if (status == HF_OK)
        status = event_begin(a);
    return status == HF_OK ? HF_OK : finish(a, status, NULL, ret_lease, err);
}

hf_status hfi_attempt_end(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err)
{
    return event_end(a, ret_lease, err);
}

/* ---- in the local queue -------------------------------------------------------------- */

/* Sleep until told what to do. HF_OK: told; else we have left the queue, and why. */
static hf_status sleep_here(struct hfi_attempt *a)
{
    struct hfi_wait *wait = &a->wait;
    int64_t until_ms = a->deadline_ms;
    uint32_t word;

    while ((word = atomic_load_explicit(&wait->word, memory_order_acquire)) < HFI_WAIT_PASSED) {
        bool late = until_ms != HFI_NEVER && hfi_now_ms() >= until_ms;

        if (word == HFI_WAIT_STOPPED || late) {
            if (hfi_cohort_leave(wait))
                return word == HFI_WAIT_STOPPED ? (hf_status)atomic_load(&wait->stop) : HF_TIMEOUT;
            /* Somebody has taken us out and is about to tell us. */
            until_ms = HFI_NEVER;
            word = atomic_load_explicit(&wait->word, memory_order_acquire);
            if (word >= HFI_WAIT_PASSED)
                break;
        }
        hfi_futex_wait(&wait->word, word, until_ms, false);
    }
    return HF_OK;
}

/* It is ours: what we wait for later on, we wait for with this in our hands. */
static void note(struct hfi_attempt *a, hf_lease *handle)
{
    const hf_acquire_request *request = a->want->request;

    if (a->store->detector.able && hfi_session_counts(request))
        hfi_session_holds(a->store, request->scope, handle);
}

static hf_status wait_here(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err)
{
    hf_cancel *cancel = a->want->request->cancel;
    hf_status status;

    if (a->tag.count > 0)
        hfi_detect_watch(&a->wait, &a->tag);
    if (cancel && hfi_wait_follow(&a->wait, cancel) != HF_OK)
        hfi_wait_stop(&a->wait, HF_CANCELLED);
    status = sleep_here(a);
    a->waited = true;

    if (status == HF_OK && atomic_load(&a->wait.word) == HFI_WAIT_GO)
        return go(a, ret_lease, err);

    hfi_wait_leave(&a->wait);
    if (status == HF_OK) {
        *ret_lease = a->wait.passed;
        note(a, *ret_lease);
        hfi_ok(err);
    } else {
        status = fail(a, status, NULL, err);
    }
    hfi_lease_leave(a->lease);
    return status;
}

/* ---- in the store --------------------------------------------------------------------- */

hf_status hfi_acquire_prepare(struct hfi_lease *lease)
{
    struct hfi_store *store = lease->store;

    /* A block of tokens only where local waiting has been seen. */
    lease->claim.tokens_wanted = lease->pass && lease->hot ? store->cohort + 1 : 1;
    if (lease->claim.ttl_ms == 0)
        return HF_OK;

    if (!hfi_keeper_reserve(store))
        return HF_NO_MEMORY;
    hfi_lease_timed(lease);
    return HF_OK;
}

/* Our turn to ask the store: the slot is in the table, others may queue behind it. */
static hf_status go(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err)
{
    struct hfi_store *store = a->store;
    const struct hfi_engine *engine = hfi_store_engine(store);
    const hf_acquire_request *request = a->want->request;
    hf_status status = hfi_acquire_prepare(a->lease);
    struct hfi_op op;

    /* After waiting here there may be no time left, or no wish. */
    if (status == HF_OK && a->waits && atomic_load(&a->wait.stop) != HF_OK)
        status = (hf_status)atomic_load(&a->wait.stop);
    else if (status == HF_OK && a->waits && a->deadline_ms != HFI_NEVER &&
             hfi_now_ms() >= a->deadline_ms)
        status = HF_TIMEOUT;
    if (status != HF_OK)
        return finish(a, status, NULL, ret_lease, err);
    if (store->drive == HFI_EVENT)
        return go_event(a, ret_lease, err);

    hfi_op_init(&op, engine, HFI_OP_ACQUIRE, &a->lease->claim, a->deadline_ms);
    op.may_wait = op.blocking = request->wait_ms != 0;
    if (store->drive == HFI_BLOCKING) {
        if (!op.may_wait)
            op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
        wait_in_store(a, &op); /* it waits in submit(), and must be stoppable from here on */
        if (atomic_load(&a->wait.stop) != HF_OK)
            return finish(a, (hf_status)atomic_load(&a->wait.stop), NULL, ret_lease, err);
    }

    engine->submit(store->conn, &op);
    if (!hfi_op_finished(&op)) {
        wait_in_store(a, &op);
        while (!hfi_op_finished(&op)) {
            if (a->deadline_ms != HFI_NEVER && hfi_now_ms() >= a->deadline_ms)
                engine->cancel(store->conn, &op, HF_TIMEOUT);
            else
                engine->wait(store->conn, &op, a->deadline_ms);
        }
        a->waited = true;
    }
    return finish(a, hfi_op_status(&op), &op.error, ret_lease, err);
}

/* From now on hf_close() and the canceller can end it. */
static void wait_in_store(struct hfi_attempt *a, struct hfi_op *op)
{
    struct hfi_wait *wait = &a->wait;
    hf_cancel *cancel = a->want->request->cancel;

    if (!a->waits)
        hfi_wait_init(wait, a->store, a->lease, a->want->request->min_valid_ms);
    a->waits = true;
    if (a->tag.count > 0)
        hfi_detect_watch(wait, &a->tag);
    hfi_wait_list(wait);
    if (cancel && !wait->cancel && hfi_wait_follow(wait, cancel) != HF_OK)
        hfi_wait_stop(wait, HF_CANCELLED);
    hfi_wait_in_store(wait, op);
}

/* What an abandoned acquire needs to be ended well. */
struct hfi_acquire_job {
    struct hfi_job job;
    struct hfi_lease *lease;
};

/* On a driver's thread: the store answered, long after the caller had gone. */
static void late_acquire(struct hfi_job *job)
{
    struct hfi_acquire_job *late = hfi_container(job, struct hfi_acquire_job, job);
    struct hfi_lease *lease = late->lease;
    struct hfi_store *store = lease->store;
    hf_status status = hfi_op_status(&job->op);

    hfi_free(late);
    if (status == HF_OK || status == HF_UNKNOWN)
        hfi_keeper_settle(lease, 0, false);
    else
        hfi_lease_free(lease);
    hfi_keeper_idle(store);
}

/* The store does not answer, not even to being cancelled. The op goes on without us. */
static hf_status give_up(struct hfi_attempt *a, struct hfi_acquire_job *event, hf_error *err)
{
    hf_status status = fail(a, HF_UNKNOWN, NULL, err);

    step_down(a->lease);
    hfi_keeper_busy(a->store);
    hfi_lease_uncount(a->lease);
    if (!hfi_job_abandon(&event->job))
        late_acquire(&event->job); /* it has answered just now */
    return status;
}

/* Ask. HF_NO_MEMORY: nothing was asked. */
static hf_status event_begin(struct hfi_attempt *a)
{
    struct hfi_acquire_job *event = hfi_malloc(sizeof *event);
    bool may_wait = a->want->request->wait_ms != 0;

    if (!event)
        return HF_NO_MEMORY;
    event->lease = a->lease;
    hfi_job_init(&event->job, a->store, HFI_OP_ACQUIRE);
    event->job.late = late_acquire;
    event->job.op.claim = &a->lease->claim;
    event->job.op.may_wait = may_wait;
    event->job.op.deadline_ms = may_wait ? a->deadline_ms : hfi_now_ms() + HFI_CALL_LIMIT_MS;
    a->event = event;

    hfi_job_submit(&event->job);
    wait_in_store(a, &event->job.op);
    return HF_OK;
}

static hf_status event_end(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err)
{
    struct hfi_acquire_job *event = a->event;
    int64_t until_ms = event->job.op.deadline_ms;
    hf_status status;

    if (!hfi_job_wait(&event->job, until_ms)) {
        hfi_wait_stop(&a->wait, HF_TIMEOUT);
        if (!hfi_job_wait(&event->job, hfi_after_ms(until_ms, HFI_GRACE_MS))) {
            hfi_wait_leave(&a->wait);
            return give_up(a, event, err);
        }
    }
    a->waited = event->job.op.may_wait;
    status = hfi_op_status(&event->job.op);
    if (status == HF_TIMEOUT && !event->job.op.may_wait)
        status = HF_UNAVAILABLE; /* it did not wait for anybody: the store took too long */
    status = finish(a, status, &event->job.op.error, ret_lease, err);
    hfi_free(event);
    return status;
}

static hf_status go_event(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err)
{
    hf_status status = event_begin(a);

    return status == HF_OK ? event_end(a, ret_lease, err) : finish(a, status, NULL, ret_lease, err);
}

/* ---- after the store --------------------------------------------------------------------- */

static hf_status finish(struct hfi_attempt *a, hf_status status, const hf_error *inner,
                        hf_lease **ret_lease, hf_error *err)
{
    hf_lease *handle = NULL;

    if (a->waits)
        hfi_wait_leave(&a->wait);
    if (__builtin_expect(status == HF_OK, 1)) {
        status = hfi_acquire_granted(a->lease, a->want->request->min_valid_ms, a->waited, &handle);
        if (__builtin_expect(status == HF_OK, 1)) {
            *ret_lease = handle;
            note(a, handle);
            return hfi_ok(err);
        }
        status = fail(a, status, NULL, err);
        step_down(a->lease);
        (void)hfi_release_claim(a->lease, true, NULL, NULL);
        return status;
    }

    status = fail(a, status, inner, err);
    hfi_acquire_failed(a->lease, status);
    return status;
}

static hf_status fail(struct hfi_attempt *a, hf_status status, const hf_error *inner, hf_error *err)
{
    hf_error words;

    if (status == HF_DEADLOCK && a->waits && err)
        inner = hfi_detect_error(&a->wait, &words);
    return hfi_store_error(a->store, "acquire", &a->lease->claim.name, status, inner, err);
}

hf_status hfi_acquire_granted(struct hfi_lease *lease, int64_t min_valid_ms, bool waited,
                              hf_lease **ret_handle)
{
    struct hfi_claim *claim = &lease->claim;
    struct hfi_term *term = &lease->term;
    int64_t now_ms = claim->sent_ms; /* good enough for what has no end */

    if (claim->granted_ttl_ms == 0 && term->max_hold_ms == 0)
        hfi_term_begin_endless(term, claim->sent_ms);
    else
        hfi_term_begin(term, claim->sent_ms, claim->granted_ttl_ms);
    if (waited || term->valid_until_ms != HFI_NEVER) {
        now_ms = hfi_now_ms();
        if (!hfi_term_worth(term, min_valid_ms, now_ms))
            return HF_TOO_SHORT;
    }

    /* The timer first: once begun, the lease may end before we come to it. */
    if (lease->timed)
        hfi_keeper_arm(lease->store, &lease->timer, hfi_term_next(term, now_ms).at_ms);
    *ret_handle = hfi_lease_begin(lease, now_ms);
    return HF_OK;
}

/* Out of the table, and the next local waiter instead of it. */
static void step_down(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    struct hfi_wait *next;

    pthread_mutex_lock(&shard->lock);
    atomic_store_explicit(&lease->phase, HFI_ENDING, memory_order_relaxed);
    hfi_table_unlink(shard, lease);
    next = hfi_cohort_hand_on(lease);
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
    step_down(lease);
    if (status == HF_UNKNOWN)
        hfi_keeper_settle(lease, 0, true);
    else
        hfi_lease_leave(lease);
}
