/* SPDX-License-Identifier: MIT */
/* A binary heap whose items know their place, so that any of them can be moved or removed. */
#include "core/heap.h"

#include "util/alloc.h"

#include <assert.h>

static void put(struct hfi_heap *heap, uint32_t place, struct hfi_timer *timer)
{
    heap->items[place - 1] = timer;
    timer->place = place;
}

static struct hfi_timer *at(const struct hfi_heap *heap, uint32_t place)
{
    return heap->items[place - 1];
}

/* Move the timer towards the top, then towards the bottom, to where it belongs. */
static void settle(struct hfi_heap *heap, struct hfi_timer *timer)
{
    uint32_t place = timer->place, child;

    for (; place > 1 && at(heap, place / 2)->due_ms > timer->due_ms; place /= 2)
        put(heap, place, at(heap, place / 2));

    while ((child = place * 2) <= heap->count) {
        if (child < heap->count && at(heap, child + 1)->due_ms < at(heap, child)->due_ms)
            child++;
        if (at(heap, child)->due_ms >= timer->due_ms)
            break;
        put(heap, place, at(heap, child));
        place = child;
    }
    put(heap, place, timer);
}

bool hfi_heap_reserve(struct hfi_heap *heap, uint32_t count)
{
    uint32_t room = heap->room ? heap->room : 16;
    struct hfi_timer **items;

    if (count <= heap->room)
        return true;
    while (room < count)
        room *= 2;

    items = hfi_realloc(heap->items, room * sizeof *items);
    if (!items)
        return false;
    heap->items = items;
    heap->room = room;
    return true;
}

void hfi_heap_done(struct hfi_heap *heap)
{
    hfi_free(heap->items);
    *heap = (struct hfi_heap){ 0 };
}

void hfi_heap_set(struct hfi_heap *heap, struct hfi_timer *timer, int64_t due_ms)
{
    timer->due_ms = due_ms;
    if (timer->place == 0) {
        /* Reserved before the request was sent. */
        assert(heap->count < heap->room);
        heap->count++;
        put(heap, heap->count, timer);
    }
    settle(heap, timer);
}

void hfi_heap_remove(struct hfi_heap *heap, struct hfi_timer *timer)
{
    uint32_t place = timer->place;
    struct hfi_timer *last;

    if (place == 0)
        return;
    last = at(heap, heap->count);
    timer->place = 0;
    heap->count--;
    if (last == timer)
        return;
    put(heap, place, last);
    settle(heap, last);
}

struct hfi_timer *hfi_heap_top(const struct hfi_heap *heap)
{
    return heap->count ? heap->items[0] : NULL;
}
