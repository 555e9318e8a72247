/* SPDX-License-Identifier: MIT */
/*
 * Slot tables: chunks that double in size and are never freed, and a lock-free
 * stack of free slots. A large chunk costs memory only as its slots are used.
 */
#include "core/handle.h"

#include "util/alloc.h"
#include "util/process.h"

#include <assert.h>

_Static_assert(sizeof(void *) == 8, "handles are numbers of 64 bits");
_Static_assert(HFI_CHUNK_FIRST == 1u << 6, "hfi_slot_find() counts on it");

#define CACHE_LINE 64

static struct hfi_slot *pop(struct hfi_table *table);
static struct hfi_slot *slot_at(struct hfi_table *table, uint32_t index);
static char *get_chunk(struct hfi_table *table, uint32_t chunk);

void *hfi_slot_take(struct hfi_table *table)
{
    struct hfi_slot *slot = pop(table);
    uint32_t index = atomic_load(&table->used);

    if (slot)
        return slot;

    /* The chunk comes first, so that out of memory wastes no index. */
    do {
        if (index >= HFI_SLOTS_MAX - HFI_CHUNK_FIRST)
            return NULL;
        slot = slot_at(table, index);
        if (!slot)
            return NULL;
    } while (!atomic_compare_exchange_weak(&table->used, &index, index + 1));

    slot->index = index;
    return slot;
}

void hfi_slot_give(struct hfi_table *table, void *memory)
{
    struct hfi_slot *slot = memory;
    uint64_t head = atomic_load(&table->free);
    uint64_t next;

    /* Revoked by whoever gives it back. */
    assert(atomic_load(&slot->handle) == 0);
    if (hfi_slot_worn(table, slot))
        return;
    do {
        atomic_store_explicit(&slot->next_free, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | (slot->index + 1);
    } while (!atomic_compare_exchange_weak(&table->free, &head, next));
}

static struct hfi_slot *pop(struct hfi_table *table)
{
    uint64_t head = atomic_load(&table->free);
    uint64_t next;
    struct hfi_slot *slot;

    /* Another thread may take the slot while we read it. That does no harm: it stays a slot, and
     * the count in the upper half has changed then. */
    do {
        if ((uint32_t)head == 0)
            return NULL;
        slot = slot_at(table, (uint32_t)head - 1);
        next =
            ((head >> 32) + 1) << 32 | atomic_load_explicit(&slot->next_free, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&table->free, &head, next));
    return slot;
}

static struct hfi_slot *slot_at(struct hfi_table *table, uint32_t index)
{
    uint32_t n = index + HFI_CHUNK_FIRST;
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(n) - 6u;
    char *memory = get_chunk(table, chunk);

    return memory ? (void *)(memory + (size_t)(n - (HFI_CHUNK_FIRST << chunk)) * table->slot_size)
                  : NULL;
}

static char *get_chunk(struct hfi_table *table, uint32_t chunk)
{
    char *memory = atomic_load_explicit(&table->chunks[chunk], memory_order_acquire);
    size_t size = ((size_t)HFI_CHUNK_FIRST << chunk) * table->slot_size;
    char *fresh, *expected = NULL;

    if (memory)
        return memory;

    /* A constant. */
    assert(table->slot_size % CACHE_LINE == 0);
    fresh = hfi_calloc(1, size + CACHE_LINE);
    if (!fresh)
        return NULL;

    memory = fresh + (CACHE_LINE - (uintptr_t)fresh % CACHE_LINE) % CACHE_LINE;
    if (atomic_compare_exchange_strong(&table->chunks[chunk], &expected, memory)) {
        table->blocks[chunk] = fresh;
        return memory;
    }
    hfi_free(fresh); /* another thread was faster */
    return expected;
}
