/* SPDX-License-Identifier: MIT */
/*
 * Waiting for what a cell will say, and whether those whom it names still live: the cell's change wakes
 * (by an event where the engine can), and the leases of the living are looked at besides, soon at first
 * and once a second in the end.
 * There is no event for "one of these leases has ended" that would not be a place in its queue.
 */
#ifndef HFI_VIGIL_H
#define HFI_VIGIL_H

#include "prim/cell_op.h"

#define HFI_LOOK_FIRST_MS 125 /* each pause is twice the last */
#define HFI_LOOK_LAST_MS  1000

struct hfi_vigil {
    const struct hfi_prim *prim;
    int64_t until_ms;
    hf_cancel *cancel; /* may be NULL */
    int64_t next_ms;   /* when leases are to be looked at; 0: at once */
    int64_t pause_ms;  /* the last one between two looks at them */
    bool due;          /* for look to read: they are */
    bool living;       /* set by look: it depends on leases, so look again in a while */
};

/* What does the cell say? HF_OK: what we wait for. HF_TIMEOUT: not yet. Anything else ends it too, with
 * the text in `inner`; but an absent store is waited for, and after HF_UNKNOWN and HF_BUSY it is looked at
 * again. */
typedef hf_status hfi_look_fn(struct hfi_vigil *vigil, const struct hfi_cell *cell, void *arg,
                              hf_error *inner);

/* Until look() says so; the error is wrapped. HF_TIMEOUT, HF_CANCELLED, HF_UNAVAILABLE: its time is up
 * and the store is away. */
hf_status hfi_vigil(struct hfi_vigil *vigil, hfi_look_fn *look, void *arg, hf_error *err);

/* wait_ms of a caller as a moment; false: no such wait. */
bool hfi_until(int64_t wait_ms, int64_t *ret_until_ms);

/* Does the lease with this token (0, or no tokens here: whichever) hold `name`? Always true where nobody can look. */
hf_status hfi_lives(const struct hfi_prim *prim, const void *name, size_t len, uint64_t token,
                    bool *ret_lives, hf_error *inner);

#endif
