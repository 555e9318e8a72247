/* SPDX-License-Identifier: MIT */
/* Acquiring: the call, and the steps that others use. */
#ifndef HFI_ACQUIRE_H
#define HFI_ACQUIRE_H

#include "core/call.h"
#include "core/request.h"

/* Begin an acquire for the receiver of `call`. HF_OK: it is under way, or has its answer. Else nothing began; a lease slot that it
 * may have is the caller's to free. */
hf_status hfi_acquire_to(struct hfi_call *call, hf_store *handle, const hf_acquire_request *request,
                         hf_error *err);
/* Of a thread: until it has its answer. false: given up with HF_UNKNOWN, and the call is not ours any more. */
bool hfi_acquire_await(struct hfi_call *call);

/* Before the claim is submitted. HF_NO_MEMORY: it must not be. */
hf_status hfi_acquire_prepare(struct hfi_lease *lease);

/* The store granted it. HF_OK: *ret_handle is the lease. HF_TOO_SHORT: it is not worth having, and
 * the caller gives it back. `waited`: it did not come at once. */
hf_status hfi_acquire_granted(struct hfi_lease *lease, int64_t min_valid_ms, bool waited,
                              hf_lease **ret_handle);

/* It was not granted, or never submitted, or it is unknown whether it was (HF_UNKNOWN: given back in
 * the background). Ends the slot and sends the next local waiter to the store. */
void hfi_acquire_failed(struct hfi_lease *lease, hf_status status);

#endif
