/* SPDX-License-Identifier: MIT */
/* The request for a lease that is held, once more: what hf_yield() and hf_convert() acquire. */
#ifndef HFI_AGAIN_H
#define HFI_AGAIN_H

#include "core/lease.h"

struct hfi_again {
    hf_acquire_request request; /* points into the rest */
    unsigned char name[HF_NAME_MAX];
    char label[HF_LABEL_MAX + 1];
};

/* With the lock of the lease. Without HF_FLAG_BARGE and `session`. */
void hfi_again_set(struct hfi_again *again, const struct hfi_lease *lease, int64_t wait_ms);

#endif
