/* SPDX-License-Identifier: MIT */
/*
 * hf_release() and hf_release_async(): the lease ends for the caller at once, whatever the store
 * says. The lease is passed on locally, or released in the store; a release that the store does not
 * confirm is settled in the background.
 *
 *   end one hold (a plan) -> lost: see its callback through -> submit -> answered
 *
 * As for an acquire, both forms take the same steps, on the caller's thread or on the thread that
 * brings the answer.
 */
#include "core/release.h"

#include "core/call.h"
#include "core/count.h"
#include "core/idle.h"
#include "core/table.h"
#include "util/clock.h"
#include "util/error.h"

/* How long after its end by our clock a lost lease with a lock_delay is not released. */
#define UNCLEAN_MS 1000

/* What remains to be done when one hold has ended. */
struct hfi_release_plan {
    enum {
        HFI_ENDING_NONE,  /* other holds remain, or it was passed on: nothing to do */
        HFI_ENDING_COUNT, /* other holds remain, and the store counts them */
        HFI_ENDING_LOST,  /* it was lost before */
        HFI_ENDING_STORE  /* the store must be told */
    } what;
    hf_status status;        /* the status for the caller, if the store confirms */
    struct hfi_lease *lease; /* it has no handle and is in no table; not set with NONE and COUNT */
    struct hfi_shard *shard; /* COUNT: this keeps the store open */
    struct hfi_wait *next;   /* the local waiter to tell GO after the release is submitted */
    bool sole;               /* no other part of the slot is left */
    /* a callback of it runs on another thread: this keeps the store open; NULL: none does */
    struct hfi_shard *told;
};

static hf_status end_hold(hf_lease *handle, struct hfi_release_plan *ret_plan);
static void begin(struct hfi_call *call, hf_lease *handle, struct hfi_release_plan *plan);
static hf_status end_call(struct hfi_call *call);
static int64_t not_before(const struct hfi_lease *lease);
static bool begins_now(struct hfi_lease *lease, bool *ret_sole);
static void submit(struct hfi_call *call, struct hfi_wait *next);
static void answered(struct hfi_call *call, hf_status status, const hf_error *inner);
static void lease_error(struct hfi_call *call, hf_status status, const hf_error *inner);
static void end_claim(struct hfi_lease *lease, bool sole, bool counted, hf_status status);

/* ---- the two forms ----------------------------------------------------------------- */

hf_status hf_release(hf_lease *handle, hf_error *err)
{
    struct hfi_call *call = hfi_call_new(NULL, HFI_TO_THREAD);
    hf_status status;

    if (!call)
        return hfi_release_without(handle, err);
    call->err = err;
    status = hfi_release_to(call, handle, err);
    if (status == HF_OK)
        return end_call(call);
    hfi_call_free(call);
    return status;
}

/* Wait for the answer, and end the call. */
static hf_status end_call(struct hfi_call *call)
{
    hf_status status = call->lost ? HF_LOST : HF_UNKNOWN;

    if (!hfi_release_await(call))
        return status; /* the call goes on without us */
    status = call->status;
    hfi_call_free(call);
    return status;
}

hf_status hf_release_async(hf_lease *handle, hf_done_fn *done, void *arg, hf_op **ret_op,
                           hf_error *err)
{
    struct hfi_lease *lease = NULL;
    struct hfi_wait *next = NULL;
    struct hfi_call *call;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    if (!done || lease->orphan) {
        hfi_lease_unlock(lease, next);
        return hfi_error_set(err, HF_INVALID, 0, "%s",
                             done ? "lease: its store was closed; use hf_release()" : "done: NULL");
    }
    /* The lease keeps the store open until the call does. */
    call = hfi_call_new(lease->store, HFI_TO_LOOP);
    if (call)
        hfi_call_callback(call, done, arg);
    hfi_lease_unlock(lease, next);
    if (!call)
        return hfi_error_memory(err);
    if (call->store->drive == HFI_BLOCKING && !hfi_pool_start(&call->store->pool, HFI_LANE_SHORT))
        status = hfi_error_memory(err);
    if (status == HF_OK) {
        hfi_call_listen(call, false);
        if (ret_op)
            *ret_op = hfi_slot_publish(&call->slot, HFI_KIND_OP);
        status = hfi_release_to(call, handle, err);
    }
    if (status != HF_OK) {
        hfi_call_drop(call);
        return status;
    }
    hfi_ok(err);
    hfi_call_unref(call);
    return HF_OK;
}

hf_status hfi_release_to(struct hfi_call *call, hf_lease *handle, hf_error *err)
{
    struct hfi_release_plan plan;
    hf_status status = end_hold(handle, &plan);

    if (__builtin_expect(status != HF_OK, 0))
        return hfi_lease_refuse(status, err);
    if (__builtin_expect(!plan.told, 1)) {
        begin(call, handle, &plan);
        return HF_OK;
    }
    if (hfi_call_has_thread(call)) { /* it waits when it has given the lease back */
        call->told = true;
        call->old = handle;
        call->shard = plan.told;
        begin(call, handle, &plan);
    } else {
        hfi_notify_follow(plan.told->store, handle, call);
        begin(call, handle, &plan);
        hfi_shard_leave(plan.told);
    }
    return HF_OK;
}

static void begin(struct hfi_call *call, hf_lease *handle, struct hfi_release_plan *plan)
{
    if (plan->what == HFI_ENDING_NONE) {
        call->status = plan->status;
        if (plan->status != HF_OK)
            hfi_error_set(call->err, plan->status, 0, "%s", hf_status_text(plan->status));
        else
            hfi_ok(call->err);
        hfi_call_end(call);
        return;
    }
    if (plan->what == HFI_ENDING_COUNT) {
        call->store = plan->shard->store;
        hfi_count(call, HFI_COUNTS_DOWN, handle, plan->shard);
        return;
    }
    call->store = plan->lease->store;
    call->lease = plan->lease;
    call->sole = plan->sole;
    if (__builtin_expect(plan->what == HFI_ENDING_STORE, 1)) {
        submit(call, plan->next);
        return;
    }
    call->lost = true;
    lease_error(call, HF_LOST, NULL);
    if (hfi_call_has_thread(call))
        hfi_notify_end(plan->lease, handle);
    else if (!hfi_notify_leave(plan->lease, handle, call))
        return; /* its callback runs, and hfi_call_lost() follows */
    hfi_call_lost(call);
}

hf_status hfi_release_without(hf_lease *handle, hf_error *err)
{
    struct hfi_release_plan plan;
    hf_status status = end_hold(handle, &plan);

    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    if (plan.what == HFI_ENDING_LOST)
        hfi_notify_end(plan.lease, handle);
    if (plan.what == HFI_ENDING_COUNT)
        hfi_shard_leave(plan.shard); /* the next renewal says the number */
    else if (plan.what != HFI_ENDING_NONE)
        hfi_keeper_settle(
            plan.lease, plan.what == HFI_ENDING_LOST ? not_before(plan.lease) : plan.lease->stay_ms,
            true);
    if (plan.next)
        hfi_wait_tell(plan.next, HFI_WAIT_GO);
    if (plan.told) {
        hfi_notify_await(plan.told->store, handle);
        hfi_shard_leave(plan.told);
    }
    return hfi_error_memory(err);
}

/* ---- here ------------------------------------------------------------------------- */

/* The handle ends, and the slot leaves the table. With the lock. */
static inline void take_out(struct hfi_lease *lease, struct hfi_release_plan *plan)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    if (__builtin_expect(!hfi_lease_lost(lease), 1)) {
        hfi_stats_hold_released(lease, lease->term.valid_until_ms != HFI_NEVER ? lease->looked_ms
                                       : hfi_observed()                        ? hfi_now_ms()
                                                        : hfi_stats_now(lease->since_ms));
    }

    hfi_slot_retire(&lease->slot);
    atomic_store_explicit(&lease->phase, HFI_ENDING, memory_order_relaxed);
    hfi_table_unlink(shard, lease);
    if (lease->timed)
        hfi_keeper_forget(lease->store, &lease->timer);
    lease->timed = false;
    (void)hfi_lease_drop(lease, HFI_PART_HANDLE);
    plan->sole = lease->parts == HFI_PART_CLAIM;
    plan->lease = lease;
}

struct hfi_wait *hfi_release_take_out(struct hfi_lease *lease)
{
    struct hfi_release_plan plan;

    take_out(lease, &plan);
    return hfi_local_queue_hand_on(lease);
}

/* End one hold. HF_INVALID, HF_FORKED: nothing was done. */
static inline hf_status end_hold(hf_lease *handle, struct hfi_release_plan *ret_plan)
{
    struct hfi_lease *lease;
    struct hfi_wait *next, *passed;
    hf_status status = hfi_lease_lock(handle, &lease, &next);
    bool free;

    if (status != HF_OK)
        return status;

    ret_plan->what = HFI_ENDING_NONE;
    ret_plan->status = hfi_lease_lost(lease) ? HF_LOST : HF_OK;
    ret_plan->next = NULL;
    ret_plan->told = NULL;
    if (lease->events.fn && lease->holds == 1 && !hfi_lease_lost(lease) &&
        hfi_notify_drop(lease, handle)) {
        ret_plan->told = atomic_load_explicit(&lease->shard, memory_order_relaxed);
        ret_plan->told->entered++;
    }
    if (lease->holds > 1) {
        lease->holds--;
        atomic_store(&lease->claim.holds, lease->holds);
        if (!hfi_lease_lost(lease) && !lease->orphan && hfi_store_promises(lease->store)->counts) {
            ret_plan->what = HFI_ENDING_COUNT;
            ret_plan->shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
            ret_plan->shard->entered++;
        }
    } else if (lease->orphan) {
        hfi_slot_retire(&lease->slot);
        free = hfi_lease_drop(lease, HFI_PART_HANDLE);
        hfi_lease_unlock(lease, NULL);
        if (free)
            hfi_lease_free(lease);
        return HF_OK;
    } else if (hfi_lease_lost(lease)) {
        ret_plan->what = HFI_ENDING_LOST;
        take_out(lease, ret_plan);
    } else if (
        lease->converting) { /* another claim may have its place by now: it goes to nobody here */
        ret_plan->what = HFI_ENDING_STORE;
        take_out(lease, ret_plan);
        ret_plan->next = hfi_local_queue_hand_on(lease);
    } else if (!hfi_list_empty(&lease->queue) && (passed = hfi_local_queue_pass(lease, true))) {
        hfi_lease_unlock(lease, NULL);
        hfi_wait_tell(passed, HFI_WAIT_PASSED);
        return HF_OK;
    } else if (lease->linger.ms > 0 && hfi_idle_begin(lease)) {
        hfi_lease_unlock(lease, NULL); /* it stays with the process */
        return HF_OK;
    } else {
        if (lease->linger.ms > 0 && atomic_load(&lease->wanted))
            hfi_idle_recalled(lease);
        ret_plan->what = HFI_ENDING_STORE;
        take_out(lease, ret_plan);
        if (!hfi_list_empty(&lease->queue))
            ret_plan->next = hfi_local_queue_hand_on(lease);
    }
    hfi_lease_unlock(lease, next);
    return HF_OK;
}

/* ---- lost before --------------------------------------------------------------------- */

/*
 * A lease that our clock has ended still exists in the store for a moment. If it has a lock_delay,
 * that must run: a release now would look like a clean end and open the name at once. The store
 * counts from the arrival of the request, which we do not know: so we wait longer than a slow
 * connection can have taken.
 */
static int64_t not_before(const struct hfi_lease *lease)
{
    if (hfi_lease_stays(lease, hfi_now_ms()))
        return lease->stay_ms;
    if (atomic_load(&lease->gone) || lease->claim.lock_delay_ms == 0)
        return 0;
    return hfi_after_ms(lease->term.sent_ms + lease->term.granted_ms, UNCLEAN_MS);
}

/* May the claim of a lost lease be released now? false: it will be, later in the background. */
static bool begins_now(struct hfi_lease *lease, bool *ret_sole)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    int64_t start_ms = not_before(lease);

    pthread_mutex_lock(&shard->lock);
    *ret_sole = lease->parts == HFI_PART_CLAIM;
    pthread_mutex_unlock(&shard->lock);
    if (start_ms <= hfi_now_ms())
        return true;
    hfi_keeper_settle(lease, start_ms, true);
    return false;
}

bool hfi_release_lost_claim(struct hfi_lease *lease)
{
    bool sole;

    if (!begins_now(lease, &sole))
        return true;
    return hfi_release_settled(hfi_release_claim(lease, sole, NULL, NULL));
}

void hfi_release_lost_claim_later(struct hfi_lease *lease)
{
    hfi_keeper_settle(lease, not_before(lease), true);
}

static hf_status lost_error(struct hfi_store *store, const struct hfi_lease *lease, hf_error *err)
{
    hf_error lost;

    if (!err)
        return HF_LOST;
    hfi_error_set(&lost, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
    return hfi_store_error(store, "release", &lease->claim.name, HF_LOST, &lost, err);
}

/* Has its ttl ended, as far as we know, or has the store said that it is gone? A lease that was held for as long as max_hold_ms allows
 * may have a longer ttl: then its name is still to be given back. */
static bool has_ended(const struct hfi_lease *lease)
{
    return atomic_load(&lease->gone) || !hfi_term_worth(&lease->term, 0, hfi_now_ms());
}

/*
 * What has ended is cleared away without its caller, who has nothing to wait for: most leases are lost because the store is silent.
 * It may still be there, by a renewal whose answer did not come: so it is released, as often as that takes. The first request
 * leaves here, before anything that this thread asks for next.
 */
static void clear_away(struct hfi_call *call)
{
    struct hfi_lease *lease = call->lease;
    struct hfi_store *store = call->store;

    call->lease = NULL;
    (void)hfi_keeper_start(store); /* if that fails, hf_close() does what is left */
    pthread_mutex_lock(&store->keeper.lock);
    store->keeper.busy++;   /* keeps the store open */
    hfi_keeper_ring(store); /* to drive, if nobody else does */
    pthread_mutex_unlock(&store->keeper.lock);
    hfi_lease_uncount(lease);
    hfi_settle_now(lease);
    hfi_call_end(call);
}

void hfi_call_lost(struct hfi_call *call)
{
    if (!begins_now(call->lease, &call->sole))
        hfi_call_end(call);
    else if (call->store->drive != HFI_INLINE && has_ended(call->lease))
        clear_away(call);
    else
        submit(call, NULL);
}

/* ---- in the store -------------------------------------------------------------------- */

/* The status of the release, whichever op it was. */
static hf_status status_of(const struct hfi_call *call, hf_status status)
{
    return call->op.kind == HFI_OP_RENEW && status == HF_OK ? call->stay.status : status;
}

/* Likewise, for the claim: one that stays is not released yet. */
static hf_status claim_status(const struct hfi_call *call, hf_status status)
{
    return call->op.kind == HFI_OP_RENEW && status == HF_OK ? HF_UNAVAILABLE : status;
}

/* On a driver's thread: the answer, after the caller has returned with HF_UNKNOWN. */
static void answered_late(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_store *store = call->store;

    (void)inner;
    end_claim(call->lease, call->sole, false, claim_status(call, status_of(call, status)));
    hfi_call_free(call);
    hfi_keeper_idle(store);
}

/*
 * min_hold_ms: the claim is not released yet, but left to the store. It is renewed for the rest of the time, so that it ends then
 * even if this process has ended; and if this process lives, it releases it then.
 */
static void stay_op(struct hfi_call *call, int64_t now_ms)
{
    struct hfi_lease *lease = call->lease;
    int64_t rest_ms = lease->stay_ms - now_ms;
    struct hfi_op *op = hfi_call_op(call, HFI_OP_RENEW);

    call->stay = (struct hfi_renewal){ .claim = &lease->claim, .status = HF_UNKNOWN };
    call->stay.ttl_ms = rest_ms > lease->term.min_ttl_ms ? rest_ms : lease->term.min_ttl_ms;
    op->u.renew.items = &call->stay;
    op->u.renew.count = 1;
    op->deadline_ms = now_ms + HFI_CALL_LIMIT_MS;
}

/* `next` is told to ask the store after the release is submitted. */
static void submit(struct hfi_call *call, struct hfi_wait *next)
{
    struct hfi_store *store = call->store;
    bool thread = hfi_call_has_thread(call);

    if (__builtin_expect(call->lease->stay_ms > 0, 0) && !call->lost &&
        hfi_lease_stays(call->lease, hfi_now_ms()))
        stay_op(call, hfi_now_ms());
    else
        hfi_call_release_op(call);
    if (thread)
        hfi_call_submit(call);
    else
        hfi_call_send(call, answered, store->drive == HFI_BLOCKING);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
    if (thread && store->drive != HFI_EVENT)
        answered(call, hfi_op_status(&call->op), &call->op.error);
}

bool hfi_release_await(struct hfi_call *call)
{
    struct hfi_store *store = call->store;

    if (call->told) {
        hfi_notify_await(call->shard->store, call->old);
        hfi_shard_leave(call->shard);
        call->told = false;
    }
    if (call->answered)
        return true;
    if (call->counts)
        return hfi_count_await(call);
    if (hfi_call_wait(call, call->op.deadline_ms)) {
        answered(call, hfi_op_status(&call->op), &call->op.error);
        return true;
    }
    if (!call->lost)
        lease_error(call, HF_UNKNOWN, NULL);
    hfi_keeper_busy(store);
    hfi_lease_uncount(call->lease);
    if (!hfi_call_abandon(call, answered_late))
        answered_late(call, hfi_op_status(&call->op), NULL); /* it has answered just now */
    return false;
}

hf_status hfi_release_claim(struct hfi_lease *lease, bool sole, struct hfi_wait *next,
                            hf_error *err)
{
    struct hfi_call *call = hfi_call_new(lease->store, HFI_TO_THREAD);

    if (!call) {
        hfi_keeper_settle(lease, 0, true);
        if (next)
            hfi_wait_tell(next, HFI_WAIT_GO);
        return hfi_error_memory(err);
    }
    call->err = err;
    call->lease = lease;
    call->sole = sole;
    submit(call, next);
    return end_call(call);
}

/* ---- after the store ----------------------------------------------------------------- */

static void lease_error(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    if (status == HF_LOST && hfi_lease_lost(call->lease)) {
        call->status = lost_error(call->store, call->lease, call->err);
        call->handle = NULL;
    } else {
        if (status == HF_UNKNOWN || status == HF_UNAVAILABLE)
            hfi_stats_release_unknown(call->lease);
        hfi_call_result(call, status, NULL, "release", &call->lease->claim.name, inner);
    }
}

/* The store has answered. A blocking call runs this on its own thread; otherwise any thread
 * does. */
static void answered(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_lease *lease = call->lease;
    bool stays = call->op.kind == HFI_OP_RENEW;

    status = status_of(call, status);
    if (!call->lost)
        lease_error(call, status == HF_NOT_FOUND ? HF_LOST : status, inner);
    if (__builtin_expect(status == HF_OK && call->sole && !stays, 1))
        hfi_lease_leave(lease);
    else
        end_claim(lease, call->sole, true, claim_status(call, status));
    hfi_call_end(call);
}

/* Free the slot if no part is left. */
static void end_claim(struct hfi_lease *lease, bool sole, bool counted, hf_status status)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    bool free = sole;

    if (!hfi_release_settled(status)) {
        hfi_keeper_settle(lease, lease->stay_ms, counted);
        return;
    }
    if (!sole) {
        pthread_mutex_lock(&shard->lock);
        free = hfi_lease_drop(lease, HFI_PART_CLAIM);
        pthread_mutex_unlock(&shard->lock);
    }
    if (free)
        hfi_lease_free(lease);
    if (counted)
        hfi_shard_leave(shard);
}
