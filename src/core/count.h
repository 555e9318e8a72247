/* SPDX-License-Identifier: MIT */
/*
 * Reentry on a store that counts holds itself (struct hfi_promises, `counts`), so that other clients see the number: one more hold,
 * or one of several less, is one HFI_OP_COUNT. The number is claim->holds, and not a difference: so an op whose answer is lost
 * leaves nothing behind that would have to be given back. The next op, or the next renewal, says the right number, and the last
 * release ends the claim whatever its number is.
 *
 * A hold that the store has not confirmed is not given to the caller. A hold that was released has ended here, whatever the store
 * says.
 */
#ifndef HFI_COUNT_H
#define HFI_COUNT_H

#include "core/call.h"

/* The number of holds of `handle` has changed: tell the store. `shard` has been entered, and is left when the call has its answer.
 * UP: of hf_acquire(), call->lease is its own slot, which is not needed. DOWN: of hf_release(). */
void hfi_count(struct hfi_call *call, enum hfi_counting counts, hf_lease *handle,
               struct hfi_shard *shard);
/* For a blocking call: wait for the answer, and act on it. false: given up; the caller must not use the call any more. */
bool hfi_count_await(struct hfi_call *call);

#endif
