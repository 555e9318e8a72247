/* SPDX-License-Identifier: MIT */
/* Releasing: the steps that hf_release(), hf_release_async() and hf_close() share. */
#ifndef HFI_RELEASE_H
#define HFI_RELEASE_H

#include "core/local_queue.h"

struct hfi_call;

/* There is no memory for a call: the lease ends all the same, and is released in the background.
 * HF_NO_MEMORY. */
hf_status hfi_release_without(hf_lease *handle, hf_error *err);

/* Begin a release for the receiver of `call`. HF_OK: it is under way, or has its answer. Else there is no such lease. */
hf_status hfi_release_to(struct hfi_call *call, hf_lease *handle, hf_error *err);
/* For a blocking call: wait until a callback of the lease that runs has ended, and then until the call has its answer. false: given up; the caller must not use the
 * call any more. */
bool hfi_release_await(struct hfi_call *call);

/* Release in the store, and wait for its answer; if there is none, continue in the background. The
 * slot is counted in its shard, and gone afterwards. */
hf_status hfi_release_claim(struct hfi_lease *lease, bool sole, struct hfi_wait *next,
                            hf_error *err);
/* Likewise the claim of a lost lease, whose callback has ended: at once, or later in the
 * background. false: the store has not confirmed it. */
bool hfi_release_lost_claim(struct hfi_lease *lease);
/* Likewise, without waiting: in the background. */
void hfi_release_lost_claim_later(struct hfi_lease *lease);

/* The handle of a lease ends, and its slot leaves the table; the claim is the caller's to release. With the lock. Returns the local
 * waiter to be told GO after the release is on its way, or NULL. */
struct hfi_wait *hfi_release_take_out(struct hfi_lease *lease);

static inline bool hfi_release_settled(hf_status status)
{
    return status == HF_OK || status == HF_LOST || status == HF_NOT_FOUND;
}

#endif
