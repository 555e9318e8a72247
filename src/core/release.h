/* SPDX-License-Identifier: MIT */
/* The steps of a release that hf_release(), hf_release_async() and hf_close() share. */
#ifndef HFI_RELEASE_H
#define HFI_RELEASE_H

#include "core/cohort.h"

enum hfi_ending {
    HFI_ENDING_NONE, /* other holds remain, or it was passed on: nothing to do */
    HFI_ENDING_LOST, /* it was lost before */
    HFI_ENDING_STORE /* the store must be told */
};

struct hfi_end {
    enum hfi_ending what;
    hf_status status;        /* what the caller will hear, if all goes well */
    struct hfi_lease *lease; /* without a handle, and in no table; not with NONE */
    struct hfi_wait *next;   /* the local waiter to tell GO once the release is on its way */
    bool sole;               /* nobody else has a part in the slot */
};

/* End one hold. HF_INVALID, HF_FORKED: nothing was done. */
hf_status hfi_release_begin(hf_lease *handle, struct hfi_end *ret_end);

/* Of a lost lease: wait for its callback, and let go of its claim. */
void hfi_release_lost(struct hfi_lease *lease);

/* The second half of it: the claim. */
void hfi_release_lost_claim(struct hfi_lease *lease, bool sole);
/* Whether the claim of a lost lease may be given back now. false: it will be, later and by itself. */
bool hfi_release_lost_now(struct hfi_lease *lease, bool *ret_sole);

/* Tell the store, and wait for its answer; if there is none, go on in the background. The slot is
 * counted in its shard, and gone afterwards. */
hf_status hfi_release_claim(struct hfi_lease *lease, bool sole, struct hfi_wait *next,
                            hf_error *err);

/* The store has answered `status` to the release of the claim: the slot's end, or not yet. */
void hfi_release_answered(struct hfi_lease *lease, bool sole, bool counted, hf_status status);

/*
 * hf_release() in two halves, so that many are under way at once. *ret_event set: the answer is heard by
 * hfi_release_hear(), which must follow. NULL: this is the answer.
 */
struct hfi_release_job;
hf_status hfi_release_send(hf_lease *handle, struct hfi_release_job **ret_event, hf_error *err);
hf_status hfi_release_hear(struct hfi_release_job *event, hf_error *err);

static inline bool hfi_release_settled(hf_status status)
{
    return status == HF_OK || status == HF_LOST || status == HF_NOT_FOUND;
}

#endif
