/* SPDX-License-Identifier: MIT */
/* The layout of an hf_view. Callers of the library see one entry, holder or waiter at a time, by
 * pointer. */
#ifndef HFI_VIEW_H
#define HFI_VIEW_H

#include "holdfast/holdfast.h"

struct hfi_entry {
    hf_entry entry; /* first: callers hold a pointer to it */
    hf_holder *holders;
    hf_waiter *waiters;
};

/* One block holds all of it. */
struct hf_view {
    size_t count;
    struct hfi_entry *entries;
    bool waiters_tracked;
};

#endif
