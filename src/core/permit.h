/* SPDX-License-Identifier: MIT */
/* The permit model's arithmetic. Pure. */
#ifndef HFI_PERMIT_H
#define HFI_PERMIT_H
#include "engine/engine.h"
/* Does a claim of `mode`/`capacity` agree with what the name is in use as? */
static inline bool hfi_permit_agrees(enum hfi_mode mode, uint32_t capacity, enum hfi_mode want,
                                     uint32_t want_capacity)
{
    return mode == want && capacity == want_capacity;
}
/* Is there room for `permits` more? */
static inline bool hfi_permit_fits(uint32_t capacity, uint32_t taken, uint32_t permits)
{
    return taken <= capacity && permits <= capacity - taken;
}
#endif
