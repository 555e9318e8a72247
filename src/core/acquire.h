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

/* Call before the claim is submitted. HF_NO_MEMORY: do not submit it. */
hf_status hfi_acquire_prepare(struct hfi_lease *lease);

/* The store granted it. HF_OK: *ret_handle is the lease. HF_TOO_SHORT: too little validity is left,
 * and the caller releases it. `waited`: the grant did not come at once. */
hf_status hfi_acquire_granted(struct hfi_lease *lease, int64_t min_valid_ms, bool waited,
                              hf_lease **ret_handle);

/* The claim was not granted, or never submitted, or its outcome is unknown (HF_UNKNOWN: it is
 * released in the background). Ends the slot and sends the next local waiter to the store. */
void hfi_acquire_failed(struct hfi_lease *lease, hf_status status);

#endif
