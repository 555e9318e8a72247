/* SPDX-License-Identifier: MIT */
/* hf_view_*(), hf_entry_*(): the parts of a view. */
#include "core/view.h"

size_t hf_view_count(const hf_view *view)
{
    return view ? view->count : 0;
}

const hf_entry *hf_view_entry(const hf_view *view, size_t index)
{
    return view && index < view->count ? &view->entries[index].entry : NULL;
}

bool hf_view_waiters_tracked(const hf_view *view)
{
    return view && view->waiters_tracked;
}

const hf_holder *hf_entry_holder(const hf_entry *entry, size_t index)
{
    const struct hfi_entry *whole = (const void *)entry;

    return entry && index < entry->holder_count ? &whole->holders[index] : NULL;
}

const hf_waiter *hf_entry_waiter(const hf_entry *entry, size_t index)
{
    const struct hfi_entry *whole = (const void *)entry;

    return entry && index < entry->waiter_count ? &whole->waiters[index] : NULL;
}
