/* SPDX-License-Identifier: MIT */
/*
 * Spare slots: a few that a thread has freed, so that a lone acquire and release touch nothing that other threads
 * touch. They go back to their tables when the thread ends.
 */
#ifndef HFI_SPARE_H
#define HFI_SPARE_H

#include "core/handle.h"
#include "core/thread.h"

/* Give the slots of a thread back when it ends. false: they must not be kept. */
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
