/* SPDX-License-Identifier: MIT */
/*
 * hf_deadlocks: the circles of a graph as one block of memory, which needs neither the graph nor its view: the list, the
 * deadlocks, all their waiters, the names and labels.
 */
#include "deadlock/graph.h"

#include "util/alloc.h"

#include <string.h>

struct deadlock {
    hf_deadlock deadlock; /* first: callers hold a pointer to it */
    hf_deadlock_waiter *waiters;
};

struct hf_deadlocks {
    size_t count;
    struct deadlock *items;
};

/* First counts what the block needs, then says where its next piece goes. */
struct room {
    size_t deadlocks, waiters, texts;
    hf_deadlock_waiter *waiter;
    char *text;
};

static char *keep(struct room *room, const void *bytes, size_t len)
{
    char *to = room->text;

    memcpy(to, bytes, len);
    to[len] = 0;
    room->text += len + 1;
    return to;
}

static void copy_circle(struct deadlock *to, const hf_deadlock_waiter *circle, size_t count,
                        struct room *room)
{
    to->deadlock.waiter_count = count;
    to->waiters = room->waiter;
    room->waiter += count;
    for (size_t i = 0; i < count; i++) {
        to->waiters[i] = circle[i];
        to->waiters[i].name = (unsigned char *)keep(room, circle[i].name, circle[i].name_len);
        to->waiters[i].label = keep(room, circle[i].label, strlen(circle[i].label));
    }
}

static void measure(const hf_deadlock_waiter *circle, size_t count, struct room *room)
{
    room->waiters += count;
    for (size_t i = 0; i < count; i++)
        room->texts += circle[i].name_len + strlen(circle[i].label) + 2;
}

/* Every circle: measure it (`list` NULL) or copy it. false: out of memory. */
static bool walk(const struct hfi_graph *graph, hf_deadlocks *list, struct room *room)
{
    for (size_t i = 0; i < room->deadlocks; i++) {
        size_t count;
        hf_deadlock_waiter *circle = hfi_graph_circle(graph, i, &count);

        if (!circle)
            return false;
        if (list)
            copy_circle(&list->items[i], circle, count, room);
        else
            measure(circle, count, room);
        hfi_free(circle);
    }
    return true;
}

bool hfi_deadlocks_new(const struct hfi_graph *graph, hf_deadlocks **ret_deadlocks)
{
    struct room room = { .deadlocks = graph ? hfi_graph_cycles(graph) : 0 };
    hf_deadlocks *list;

    if (!walk(graph, NULL, &room))
        return false;
    list = hfi_malloc(sizeof *list + room.deadlocks * sizeof *list->items +
                      room.waiters * sizeof *room.waiter + room.texts);
    if (!list)
        return false;
    list->count = room.deadlocks;
    list->items = (void *)(list + 1);
    room.waiter = (void *)(list->items + room.deadlocks);
    room.text = (void *)(room.waiter + room.waiters);
    if (!walk(graph, list, &room)) {
        hfi_free(list);
        return false;
    }
    *ret_deadlocks = list;
    return true;
}

size_t hf_deadlock_count(const hf_deadlocks *deadlocks)
{
    return deadlocks ? deadlocks->count : 0;
}

const hf_deadlock *hf_deadlock_item(const hf_deadlocks *deadlocks, size_t index)
{
    return deadlocks && index < deadlocks->count ? &deadlocks->items[index].deadlock : NULL;
}

const hf_deadlock_waiter *hf_deadlock_get_waiter(const hf_deadlock *deadlock, size_t index)
{
    const struct deadlock *whole = (const void *)deadlock;

    return deadlock && index < deadlock->waiter_count ? &whole->waiters[index] : NULL;
}
