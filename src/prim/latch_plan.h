/* SPDX-License-Identifier: MIT */
/*
 * A latch and its transitions: pure functions of the contents of its cell.
 *
 *                     `count` have counted down
 *   CLOSED -------------------------------------> OPEN      for ever
 *      |       a participant is gone
 *      +----------------------------------------> BROKEN    for ever
 *
 * Both ends last until the latch is removed.
 */
#ifndef HFI_LATCH_PLAN_H
#define HFI_LATCH_PLAN_H

#include "prim/participants.h"

#define HFI_JOINED 'j' /* has a lease, and has not counted down */
#define HFI_DOWN   'd' /* has counted down */

struct hfi_latch {
    uint32_t count;
    char broken[HF_PARTICIPANT_MAX + 1]; /* the participant that is gone; "": none */
    struct hfi_participants participants;
};

bool hfi_latch_get(struct hfi_latch *latch, const void *bytes, size_t len); /* false: not a latch */
bool hfi_latch_put(const struct hfi_latch *latch, struct hfi_buffer *to);   /* false: no memory */

uint32_t hfi_latch_left(const struct hfi_latch *latch); /* 0: open */

/* Each returns the status for the caller; *ret_changed says whether the latch has changed.
 * HF_BROKEN: the latch is broken. HF_FULL: more than HF_PARTICIPANTS_MAX take part. */
hf_status hfi_latch_down(struct hfi_latch *latch, const char *who, bool *ret_changed);
hf_status hfi_latch_join(struct hfi_latch *latch, const char *who, uint64_t token,
                         bool *ret_changed);
/* The lease of `who` with `token` is gone. */
void hfi_latch_break(struct hfi_latch *latch, const char *who, uint64_t token, bool *ret_changed);

#endif
