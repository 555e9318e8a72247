/* SPDX-License-Identifier: MIT */
/* Hold counts that the store keeps: see count.h. Runs on the threads of callers; an asynchronous call is answered on the thread that
 * brings the answer. */
#include "core/count.h"

#include "core/acquire.h"
#include "util/clock.h"
#include "util/error.h"

static void counted(struct hfi_call *call, hf_status status, const hf_error *inner);

/* Fill in the op, with copies: while it is under way, other threads may release all holds. false: they have done so. */
static bool prepare(struct hfi_call *call, hf_lease *handle)
{
    int64_t now_ms = hfi_now_ms();
    struct hfi_op *op = hfi_call_op(call, HFI_OP_COUNT);
    struct hfi_lease *lease;
    struct hfi_wait *next;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return false;
    op->u.count.name = lease->claim.name;
    memcpy(call->name, lease->claim.name.bytes, lease->claim.name.len);
    op->u.count.name.bytes = call->name;
    memcpy(op->u.count.owner, lease->claim.owner, HFI_OWNER_LEN);
    op->u.count.holds = &lease->claim.holds;
    op->u.count.ttl_ms =
        lease->term.granted_ms ? hfi_term_ask(&lease->term, lease->term.ttl_ms, now_ms) : 0;
    op->deadline_ms = now_ms + HFI_CALL_LIMIT_MS;
    hfi_lease_unlock(lease, next);
    return true;
}

void hfi_count(struct hfi_call *call, enum hfi_counting counts, hf_lease *handle,
               struct hfi_shard *shard)
{
    call->counts = counts;
    call->old = handle;
    call->shard = shard;
    if (!prepare(call, handle))
        counted(call, HF_OK, NULL);
    else if (hfi_call_has_thread(call))
        hfi_call_submit(call);
    else
        hfi_call_send(call, counted, false);
}

/* The store does not have it any more. */
static void lose(hf_lease *handle)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return;
    if (!next && !hfi_lease_lost(lease)) {
        atomic_store(&lease->gone, 1);
        next = hfi_lease_lose(lease, HF_LOSS_FORGOTTEN,
                              "the store no longer had it when its holds were counted");
    }
    hfi_lease_unlock(lease, next);
}

static void counted(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    bool up = call->counts == HFI_COUNTS_UP;
    struct hfi_shard *shard = call->shard;
    hf_lease *handle = call->old;

    call->counts = HFI_COUNTS_NOT;
    if (status == HF_LOST)
        lose(handle);
    if (up && status != HF_OK)
        (void)hfi_release_without(handle, NULL); /* the hold that the caller does not get */
    if (up) {
        hfi_acquire_reentered(call, status, handle, inner);
    } else {
        hfi_call_result(call, status, NULL, "release", &call->op.u.count.name, inner);
        hfi_call_end(call);
    }
    hfi_shard_leave(shard);
}

/* On a driver's thread: the answer, after the caller has returned with HF_UNKNOWN. */
static void counted_late(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_store *store = call->store;

    (void)status, (void)inner;
    hfi_call_free(call);
    hfi_keeper_idle(store);
}

bool hfi_count_await(struct hfi_call *call)
{
    struct hfi_shard *shard = call->shard;
    bool up = call->counts == HFI_COUNTS_UP;

    if (hfi_call_wait(call, call->op.deadline_ms)) {
        counted(call, hfi_op_status(&call->op), &call->op.error);
        return true;
    }
    hfi_call_result(call, HF_UNKNOWN, NULL, up ? "acquire" : "release", &call->op.u.count.name,
                    NULL);
    if (up) {
        hfi_stats_failed(call->lease, HF_UNKNOWN);
        (void)hfi_release_without(call->old, NULL);
        hfi_lease_free(call->lease);
    }
    hfi_keeper_busy(call->store);
    hfi_shard_leave(shard);
    if (!hfi_call_abandon(call, counted_late))
        counted_late(call, HF_OK, NULL); /* it has answered just now */
    return false;
}
