/* SPDX-License-Identifier: MIT */
/* Timers in a binary heap, the earliest on top. Not locked: the keeper does that. */
#ifndef HFI_HEAP_H
#define HFI_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct hfi_store;

struct hfi_timer {
    int64_t due_ms;
    uint32_t place; /* in the heap, from 1; 0: not in it */
    bool early;     /* no harm if it fires somewhat early, together with others */
    void (*grab)(
        struct hfi_timer *timer); /* called before it fires, with the keeper's lock; NULL */
    void (*fire)(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms);
};

struct hfi_heap {
    struct hfi_timer **items;
    uint32_t count, room;
};

/* Make room for `count` timers in all. false: out of memory. */
bool hfi_heap_reserve(struct hfi_heap *heap, uint32_t count);
void hfi_heap_done(struct hfi_heap *heap);

/* Put it in, or move it. There must be room. */
void hfi_heap_set(struct hfi_heap *heap, struct hfi_timer *timer, int64_t due_ms);
/* Take it out, if it is in. */
void hfi_heap_remove(struct hfi_heap *heap, struct hfi_timer *timer);
/* The earliest, or NULL. */
struct hfi_timer *hfi_heap_top(const struct hfi_heap *heap);

#endif
