/* SPDX-License-Identifier: MIT */
/* The shared log; see history.h. */
#include "history.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct history *history_new(void)
{
    int fd = memfd_create("torture", MFD_CLOEXEC);
    void *map;

    if (fd < 0 || ftruncate(fd, sizeof(struct history)) != 0)
        return NULL;
    map = mmap(NULL, sizeof(struct history), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

bool history_add(struct history *history, uint32_t lane, struct event event)
{
    struct lane *l = &history->lane[lane];
    uint32_t count = atomic_load_explicit(&l->count, memory_order_relaxed);

    if (count >= LANE_EVENTS)
        return false;
    l->events[count] = event;
    atomic_store_explicit(&l->count, count + 1, memory_order_release);
    return true;
}

int64_t history_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
