/* SPDX-License-Identifier: MIT */
/* Acquiring: the call, and the steps that others use. */
#ifndef HFI_ACQUIRE_H
#define HFI_ACQUIRE_H

#include "core/call.h"
#include "core/request.h"

/* Begin an acquire for the receiver of `call`. HF_OK: it is under way, or has its answer. Otherwise
 * nothing began; the caller frees the lease slot, if there is one. */
hf_status hfi_acquire_to(struct hfi_call *call, hf_store *handle, const hf_acquire_request *request,
                         hf_error *err);
/* For a blocking call: wait until it has its answer. false: given up with HF_UNKNOWN; the caller
 * must not use the call any more. */
bool hfi_acquire_await(struct hfi_call *call);

/* Ask the store: the slot is in the table, and others may queue behind it. */
void hfi_acquire_submit(struct hfi_call *call);
/* The store has answered, or was not asked. A blocking call runs this on its own thread; otherwise
 * any thread does. */
hfi_answered_fn hfi_acquire_answered;

/* The store granted it. HF_OK: *ret_handle is the lease. HF_TOO_SHORT: too little validity is left,
 * and the caller releases it. `waited`: the grant did not come at once. */
hf_status hfi_acquire_granted(struct hfi_lease *lease, int64_t min_valid_ms, bool waited,
                              hf_lease **ret_handle);

/* The claim was not granted, or never submitted, or its outcome is unknown (HF_UNKNOWN: it is
 * released in the background). Ends the slot and sends the next local waiter to the store. */
void hfi_acquire_failed(struct hfi_lease *lease, hf_status status);

/* Note the lease for deadlock detection: later requests of this session wait while they hold it. */
static inline void hfi_acquire_note_held(const struct hfi_call *call, hf_lease *handle)
{
    if (call->held_by_session && (call->scope || hfi_call_has_thread(call)))
        hfi_session_holds(call->store, call->scope, handle);
}

/* A try has met a lease that lingers. From now on it is a waiter with a short time limit, and HF_TIMEOUT is HF_BUSY. false: it
 * waits already, may not wait, or is out of memory. */
bool hfi_acquire_wait_a_little(struct hfi_call *call, int64_t wait_ms);

/* ---- acquire_queue.c --------------------------------------------------------------------- */

/* Of a thread: until it has its answer, or has submitted. */
void hfi_acquire_wait_queue(struct hfi_call *call);

/* ---- acquire_async.c --------------------------------------------------------------------- */

/* Reserve what an asynchronous call needs: a worker, a place for its deadline, a handle. After this
 * it cannot fail for lack of them. */
hf_status hfi_acquire_prepare_async(struct hfi_call *call, hf_error *err);
/* The store has been told of a reentry (count.h), and the shard is still entered. HF_OK: `handle` has one hold more. HF_LOST: begin
 * anew. */
void hfi_acquire_reentered(struct hfi_call *call, hf_status status, hf_lease *handle,
                           const hf_error *inner);
/* hfi_acquire_submit() of a call without a thread. */
void hfi_acquire_go(struct hfi_call *call);
/* Submit its op. */
void hfi_acquire_send(struct hfi_call *call);

#endif
