/* SPDX-License-Identifier: MIT */
/*
 * Handles. A handle is not a pointer: it is a number, made of a slot's index and of how often the
 * slot was used. Slots are type-stable: their memory is never freed and is always a slot of the
 * same table. So an old or invented handle can be looked up without harm, and a handle that has
 * ended never means another object.
 *
 * Nothing here takes a lock, so a forked child can use the tables, whenever the fork happened;
 * slots that threads of the parent were using are lost to it.
 */
#ifndef HFI_HANDLE_H
#define HFI_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hfi_handle_kind {
    HFI_KIND_STORE = 1,
    HFI_KIND_LEASE = 3,
    HFI_KIND_OP = 5,
    HFI_KIND_CANCEL = 7
};

/* kind, index, generation: 3, 24 and 37 bits. A slot whose generations are used up is never handed out again: at a million
 * uses a second that is one slot in a day and a half, of 2^24. */
#define HFI_KIND_BITS  3
#define HFI_INDEX_BITS 24
#define HFI_SLOTS_MAX  (1u << HFI_INDEX_BITS)
/* How often a slot is published before it is retired. The remaining generations are for leases that
 * are passed on while they are held: each pass is a new handle, and there are fewer than 2^32
 * passes. */
#define HFI_GENERATIONS \
    ((UINT64_C(1) << (64 - HFI_KIND_BITS - HFI_INDEX_BITS)) - (UINT64_C(1) << 32) - 1)
#define HFI_CHUNK_FIRST \
    64u /* slots in the first chunk; every chunk is twice as large as the one before */
#define HFI_CHUNKS (HFI_INDEX_BITS - 6 + 1)

/* The head of every struct that has handles. */
struct hfi_slot {
    _Atomic uint64_t handle;  /* the current one; 0: none */
    _Atomic uint64_t process; /* hfi_process_id() of the process that took it */
    uint64_t generation;      /* the owner's */
    uint32_t index;
    _Atomic uint32_t next_free; /* index + 1; 0: the last */
};

struct hfi_table {
    size_t slot_size;
    enum hfi_handle_kind kind;
    uint64_t generations;  /* 0: HFI_GENERATIONS; tests have fewer */
    _Atomic uint32_t used; /* slots that were ever taken */
    _Atomic uint64_t free; /* a stack: index + 1 of the first, and a count against ABA */
    _Atomic(char *) chunks[HFI_CHUNKS];
    void *blocks[HFI_CHUNKS]; /* their unaligned beginnings, or valgrind takes them for lost */
};

/* A slot of the table, without a handle yet; its `process` is still that of its last user (0: new
 * and all zero). NULL: out of memory. */
void *hfi_slot_take(struct hfi_table *table);
/* Return a slot, which has no handle any more. A worn one is never used again. */
void hfi_slot_give(struct hfi_table *table, void *slot);

/* Must it not be handed out again, because its next handle would be one that has been? */
static inline bool hfi_slot_worn(const struct hfi_table *table, const struct hfi_slot *slot)
{
    return slot->generation >= (table->generations ? table->generations : HFI_GENERATIONS);
}

/* The slot whose handle this is, or NULL. A caller that needs more than a glance locks it and
 * checks again with hfi_slot_is(). */
static inline void *hfi_slot_find(struct hfi_table *table, const void *handle)
{
    uint64_t value = (uintptr_t)handle;
    uint32_t n = (uint32_t)(value >> HFI_KIND_BITS & (HFI_SLOTS_MAX - 1)) + HFI_CHUNK_FIRST;
    int chunk = 31 - __builtin_clz(n) - 6;
    char *memory = atomic_load_explicit(&table->chunks[chunk], memory_order_acquire);
    struct hfi_slot *slot;

    if (!memory || (value & 7) != table->kind)
        return NULL;
    slot = (void *)(memory + (size_t)(n - (HFI_CHUNK_FIRST << chunk)) * table->slot_size);
    return atomic_load_explicit(&slot->handle, memory_order_acquire) == value ? slot : NULL;
}

static inline bool hfi_slot_is(const struct hfi_slot *slot, const void *handle)
{
    return atomic_load_explicit(&slot->handle, memory_order_relaxed) == (uintptr_t)handle;
}

/* Begin a new handle; a thread that finds the slot by it sees what was written to the slot
 * before. */
static inline void *hfi_slot_publish(struct hfi_slot *slot, enum hfi_handle_kind kind)
{
    uint64_t value = ++slot->generation << (HFI_KIND_BITS + HFI_INDEX_BITS) |
                     (uint64_t)slot->index << HFI_KIND_BITS | kind;

    atomic_store_explicit(&slot->handle, value, memory_order_release);
    return (void *)(uintptr_t)value; /* NOLINT: a number in disguise */
}

/* Was it taken by this process, whose hfi_process_id() is `process`, and not by a parent? */
static inline bool hfi_slot_ours(const struct hfi_slot *slot, uint64_t process)
{
    return atomic_load_explicit(&slot->process, memory_order_relaxed) == process;
}

static inline void hfi_slot_own(struct hfi_slot *slot, uint64_t process)
{
    atomic_store_explicit(&slot->process, process, memory_order_relaxed);
}

static inline void hfi_slot_retire(struct hfi_slot *slot)
{
    atomic_store_explicit(&slot->handle, 0, memory_order_relaxed);
}

#endif
