/* SPDX-License-Identifier: MIT */
/*
 * hf_release(): the lease ends for the caller at once, whatever the store says.
 * It is passed on here, or given back to the store; what the store does not
 * confirm is settled in the background.
 */
#include "core/release.h"

#include "core/op.h"
#include "core/table.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

/* How long after its end by our clock a lost lease with a lock_delay is still left alone. */
#define UNCLEAN_MS 1000

static hf_status claim_event(struct hfi_lease *lease, bool sole, struct hfi_wait *next,
                             hf_error *err);
static hf_status answer(struct hfi_lease *lease, hf_status status, const hf_error *inner,
                        hf_error *err);
static hf_status no_lease(hf_status status, hf_error *err);
static inline hf_status release_here(struct hfi_end *end, hf_error *err);

hf_status hf_release(hf_lease *handle, hf_error *err)
{
    struct hfi_end end;
    hf_status status = hfi_release_begin(handle, &end);

    if (__builtin_expect(status != HF_OK, 0))
        return no_lease(status, err);
    return release_here(&end, err);
}

static hf_status no_lease(hf_status status, hf_error *err)
{
    return hfi_error_set(err, status, 0, "lease: %s",
                         status == HF_INVALID ? "no such handle, or it has ended"
                                              : hf_status_text(status));
}

/* What hfi_release_begin() left to do. */
static inline hf_status release_here(struct hfi_end *end, hf_error *err)
{
    if (__builtin_expect(end->what == HFI_ENDING_STORE, 1))
        return hfi_release_claim(end->lease, end->sole, end->next, err);

    if (end->what == HFI_ENDING_NONE)
        return end->status == HF_OK
                   ? hfi_ok(err)
                   : hfi_error_set(err, end->status, 0, "%s", hf_status_text(end->status));
    answer(end->lease, HF_LOST, NULL, err);
    hfi_release_lost(end->lease);
    return HF_LOST;
}

/* ---- here ------------------------------------------------------------------------- */

/* The handle ends, and the slot leaves the table. With the lock. */
static void take_out(struct hfi_lease *lease, struct hfi_end *end)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    hfi_slot_retire(&lease->slot);
    atomic_store_explicit(&lease->phase, HFI_ENDING, memory_order_relaxed);
    hfi_table_unlink(shard, lease);
    if (lease->timed)
        hfi_keeper_forget(lease->store, &lease->timer);
    lease->timed = false;
    (void)hfi_lease_drop(lease, HFI_PART_HANDLE);
    end->sole = lease->parts == HFI_PART_CLAIM;
    end->lease = lease;
}

hf_status hfi_release_begin(hf_lease *handle, struct hfi_end *ret_end)
{
    struct hfi_lease *lease;
    struct hfi_wait *next, *heir;
    hf_status status = hfi_lease_lock(handle, &lease, &next);
    bool free;

    if (status != HF_OK)
        return status;

    ret_end->what = HFI_ENDING_NONE;
    ret_end->status = hfi_lease_lost(lease) ? HF_LOST : HF_OK;
    ret_end->next = NULL;
    if (lease->holds > 1) {
        lease->holds--;
    } else if (lease->orphan) {
        hfi_slot_retire(&lease->slot);
        free = hfi_lease_drop(lease, HFI_PART_HANDLE);
        hfi_lease_unlock(lease, NULL);
        if (free)
            hfi_lease_free(lease);
        return HF_OK;
    } else if (hfi_lease_lost(lease)) {
        ret_end->what = HFI_ENDING_LOST;
        take_out(lease, ret_end);
    } else if ((heir = hfi_cohort_pass(lease))) {
        hfi_lease_unlock(lease, NULL);
        hfi_wait_tell(heir, HFI_WAIT_PASSED);
        return HF_OK;
    } else {
        ret_end->what = HFI_ENDING_STORE;
        take_out(lease, ret_end);
        ret_end->next = hfi_cohort_hand_on(lease);
    }
    hfi_lease_unlock(lease, next);
    return HF_OK;
}

/*
 * A lease that our clock ended is still there in the store for a moment. If it has
 * a lock_delay that must run: a release now would look like a clean end and open
 * the name at once. The store began to count when it got the request, which we do not know: so
 * a while later than it can have been on a slow line.
 */
static int64_t not_before(const struct hfi_lease *lease)
{
    if (atomic_load(&lease->gone) || lease->claim.lock_delay_ms == 0)
        return 0;
    return hfi_after_ms(lease->term.sent_ms + lease->term.granted_ms, UNCLEAN_MS);
}

void hfi_release_lost_claim(struct hfi_lease *lease, bool sole)
{
    int64_t start_ms = not_before(lease);

    if (start_ms > hfi_now_ms())
        hfi_keeper_settle(lease, start_ms, true);
    else
        (void)hfi_release_claim(lease, sole, NULL, NULL);
}

bool hfi_release_lost_now(struct hfi_lease *lease, bool *ret_sole)
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

void hfi_release_lost(struct hfi_lease *lease)
{
    bool sole;

    hfi_notify_end(lease);
    if (hfi_release_lost_now(lease, &sole))
        (void)hfi_release_claim(lease, sole, NULL, NULL);
}

/* ---- in the store -------------------------------------------------------------------- */

hf_status hfi_release_claim(struct hfi_lease *lease, bool sole, struct hfi_wait *next,
                            hf_error *err)
{
    struct hfi_store *store = lease->store;
    hf_status status;
    struct hfi_op op;

    if (store->drive == HFI_EVENT)
        return claim_event(lease, sole, next, err);

    hfi_op_init(&op, hfi_store_engine(store), HFI_OP_RELEASE, &lease->claim, HFI_NEVER);
    if (store->drive == HFI_BLOCKING)
        op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
    hfi_store_engine(store)->submit(store->conn, &op);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);

    status = hfi_op_status(&op);
    if (__builtin_expect(status == HF_OK && sole, 1)) {
        hfi_lease_leave(lease);
        return hfi_ok(err);
    }
    status = answer(lease, status, &op.error, err);
    hfi_release_answered(lease, sole, true, status);
    return status;
}

static hf_status answer(struct hfi_lease *lease, hf_status status, const hf_error *inner,
                        hf_error *err)
{
    hf_error lost;

    if (status == HF_OK)
        return hfi_ok(err);
    if (status == HF_NOT_FOUND)
        status = HF_LOST;
    if (status == HF_LOST && err && hfi_lease_lost(lease)) {
        hfi_error_set(&lost, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
        inner = &lost;
    }
    return hfi_store_error(lease->store, "release", &lease->claim.name, status, inner, err);
}

void hfi_release_answered(struct hfi_lease *lease, bool sole, bool counted, hf_status status)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    bool free = sole;

    if (!hfi_release_settled(status)) {
        hfi_keeper_settle(lease, 0, counted);
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
        atomic_fetch_add_explicit(&shard->left, 1, memory_order_release);
}

struct hfi_release_job {
    struct hfi_job job;
    struct hfi_lease *lease;
    bool sole;
};

/* On a driver's thread: the caller has gone with HF_UNKNOWN, and this is the answer. */
static void late_release(struct hfi_job *job)
{
    struct hfi_release_job *event = hfi_container(job, struct hfi_release_job, job);
    struct hfi_store *store = job->store;

    hfi_release_answered(event->lease, event->sole, false, hfi_op_status(&job->op));
    hfi_free(event);
    hfi_keeper_idle(store);
}

/* Send it. NULL: out of memory; it goes on in the background. */
static struct hfi_release_job *claim_begin(struct hfi_lease *lease, bool sole,
                                           struct hfi_wait *next)
{
    struct hfi_store *store = lease->store;
    struct hfi_release_job *event = hfi_malloc(sizeof *event);

    if (!event) {
        hfi_keeper_settle(lease, 0, true);
        if (next)
            hfi_wait_tell(next, HFI_WAIT_GO);
        return NULL;
    }
    event->lease = lease;
    event->sole = sole;
    hfi_job_init(&event->job, store, HFI_OP_RELEASE);
    event->job.late = late_release;
    event->job.op.claim = &lease->claim;
    event->job.op.deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
    hfi_job_submit(&event->job);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
    return event;
}

/* Wait for the answer. */
static hf_status claim_end(struct hfi_release_job *event, hf_error *err)
{
    struct hfi_lease *lease = event->lease;
    struct hfi_store *store = event->job.store;
    hf_status status;

    if (!hfi_job_wait(&event->job, event->job.op.deadline_ms)) {
        status = answer(lease, HF_UNKNOWN, NULL, err);
        hfi_keeper_busy(store);
        hfi_lease_uncount(lease);
        if (!hfi_job_abandon(&event->job))
            late_release(&event->job);
        return status;
    }
    status = answer(lease, hfi_op_status(&event->job.op), &event->job.op.error, err);
    hfi_release_answered(lease, event->sole, true, status);
    hfi_free(event);
    return status;
}

static hf_status claim_event(struct hfi_lease *lease, bool sole, struct hfi_wait *next,
                             hf_error *err)
{
    struct hfi_release_job *event = claim_begin(lease, sole, next);

    return event ? claim_end(event, err) : hfi_error_memory(err);
}

/* ---- in two halves ------------------------------------------------------------------------ */

hf_status hfi_release_send(hf_lease *handle, struct hfi_release_job **ret_event, hf_error *err)
{
    struct hfi_end end;
    hf_status status = hfi_release_begin(handle, &end);

    *ret_event = NULL;
    if (status != HF_OK)
        return no_lease(status, err);
    if (end.what != HFI_ENDING_STORE || end.lease->store->drive != HFI_EVENT)
        return release_here(&end, err);
    *ret_event = claim_begin(end.lease, end.sole, end.next);
    return *ret_event ? HF_OK : hfi_error_memory(err);
}

hf_status hfi_release_hear(struct hfi_release_job *event, hf_error *err)
{
    return claim_end(event, err);
}
