/* SPDX-License-Identifier: MIT */
/*
 * Owner ids: 128 bits, never the same for two acquisitions.
 *
 * A thread draws 128 random bits and counts up from there, because the kernel's
 * randomness costs as much as the rest of an acquire. So one id reveals its neighbours, which is
 * harmless as long as ids stay in the store. The id of a detached lease is exported by
 * hf_lease_export(), and is drawn separately.
 */
#ifndef HFI_OWNER_H
#define HFI_OWNER_H

#include "core/thread.h"
#include "engine/engine.h"
#include "util/process.h"
#include "util/random.h"

#include <string.h>

#define HFI_OWNER_DRAW_EVERY (1u << 16) /* ids from one draw */

static inline void hfi_owner_draw(uint64_t process)
{
    hfi_random_bytes(hfi_self.owner, sizeof hfi_self.owner);
    hfi_self.owners_left = HFI_OWNER_DRAW_EVERY;
    hfi_self.owner_process = process; /* a forked child must not continue the parent's sequence */
}

static inline void hfi_owner_new(unsigned char ret_owner[HFI_OWNER_LEN], bool detached)
{
    uint64_t process = hfi_process_id();

    if (detached) {
        hfi_random_bytes(ret_owner, HFI_OWNER_LEN);
        return;
    }
    if (__builtin_expect(hfi_self.owners_left == 0 || hfi_self.owner_process != process, 0))
        hfi_owner_draw(process);
    hfi_self.owners_left--;
    hfi_self.owner[0]++;
    memcpy(ret_owner, hfi_self.owner, HFI_OWNER_LEN);
}

#endif
