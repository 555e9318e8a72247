/* SPDX-License-Identifier: MIT */
/* The struct behind an hf_cancel handle. */
#ifndef HFI_CANCEL_H
#define HFI_CANCEL_H

#include "core/handle.h"
#include "util/list.h"

#include <pthread.h>

struct hfi_cancel {
    struct hfi_slot slot;
    pthread_mutex_t lock;
    struct hfi_list followers; /* struct hfi_wait, by `followed` */
    bool fired;
};

extern struct hfi_table hfi_cancels;

#endif
