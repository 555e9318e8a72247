/* SPDX-License-Identifier: MIT */
/*
 * Spare slots: a thread keeps a few that it has freed, so that an uncontended acquire and release
 * share no memory with other threads. They go back to their tables when the thread ends.
 */
#ifndef HFI_SPARE_H
#define HFI_SPARE_H

#include "core/handle.h"
#include "core/thread.h"

/* Return the slots of this thread when it ends. false: it must not keep any. */
bool hfi_spare_watch(void);

/* As hfi_slot_take() and hfi_slot_give(). */
static inline void *hfi_spare_take(struct hfi_table *table, struct hfi_spares *spares)
{
    return spares->count > 0 ? spares->slots[--spares->count] : hfi_slot_take(table);
}

static inline void hfi_spare_give(struct hfi_table *table, struct hfi_spares *spares, void *slot)
{
    if (spares->count < HFI_SPARE_MAX && !hfi_slot_worn(table, slot) &&
        (hfi_self.watched || hfi_spare_watch()))
        spares->slots[spares->count++] = slot;
    else
        hfi_slot_give(table, slot);
}

#endif
