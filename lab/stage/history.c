/* SPDX-License-Identifier: MIT */
/* A list of events in shared memory; see history.h. An event counts once it is ready: a process may be killed while it writes one. */
#include "history.h"

#include "util/futex.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int64_t history_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct history *history_new(void)
{
    struct history *history =
        mmap(NULL, sizeof *history, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (history == MAP_FAILED)
        return NULL;
    history_clear(history);
    return history;
}

void history_free(struct history *history)
{
    if (history)
        munmap(history, sizeof *history);
}

void history_clear(struct history *history)
{
    memset(history, 0, sizeof *history);
    history->begin_ns = history_now_ns();
}

void history_add(struct history *history, struct event event)
{
    uint32_t index = atomic_fetch_add(&history->count, 1);
    struct event *slot = &history->events[index];

    if (index >= HISTORY_EVENTS)
        return;
    event.at_ns = history_now_ns();
    event.ready = false;
    *slot = event;
    atomic_store(&slot->ready, true);
    /* The number again: whoever counted between our two steps has missed us. */
    atomic_fetch_add(&history->told, 1);
    hfi_futex_wake(&history->told, INT32_MAX, true);
}

static size_t filled(const struct history *history)
{
    uint32_t count = atomic_load(&history->count);

    return count < HISTORY_EVENTS ? count : HISTORY_EVENTS;
}

static bool fits(const struct event *event, int lane, enum event_kind kind)
{
    return atomic_load(&event->ready) && event->kind == kind && (lane < 0 || event->lane == lane);
}

unsigned history_count(const struct history *history, int lane, enum event_kind kind)
{
    unsigned found = 0;

    for (size_t i = 0; i < filled(history); i++)
        found += fits(&history->events[i], lane, kind);
    return found;
}

int64_t history_first_ms(const struct history *history, int lane, enum event_kind kind)
{
    int64_t first_ns = INT64_MAX;

    for (size_t i = 0; i < filled(history); i++)
        if (fits(&history->events[i], lane, kind) && history->events[i].at_ns < first_ns)
            first_ns = history->events[i].at_ns;
    return first_ns == INT64_MAX ? -1 : (first_ns - history->begin_ns) / 1000000;
}

static unsigned count_signals(const struct history *history, int64_t value)
{
    unsigned found = 0;

    for (size_t i = 0; i < filled(history); i++)
        found += fits(&history->events[i], -1, EV_SIGNAL) && history->events[i].value == value;
    return found;
}

/* `signal`: wait for that signal instead. */
static bool await_event(struct history *history, int lane, enum event_kind kind, unsigned count,
                        const int64_t *signal, int64_t limit_ms)
{
    int64_t end_ns = history_now_ns() + limit_ms * 1000000;

    for (;;) {
        uint32_t told = atomic_load(&history->told);
        int64_t left_ns = end_ns - history_now_ns();

        if (signal ? count_signals(history, *signal) > 0
                   : history_count(history, lane, kind) >= count)
            return true;
        if (left_ns <= 0 || atomic_load(&history->stopped))
            return false;
        hfi_futex_wait(&history->told, told, end_ns / 1000000 + 1, true);
    }
}

bool history_await(struct history *history, int lane, enum event_kind kind, unsigned count,
                   int64_t limit_ms)
{
    return await_event(history, lane, kind, count, NULL, limit_ms);
}

bool history_await_signal(struct history *history, int64_t value, int64_t limit_ms)
{
    return await_event(history, -1, EV_SIGNAL, 1, &value, limit_ms);
}

void history_stop(struct history *history)
{
    atomic_store(&history->stopped, true);
    atomic_fetch_add(&history->told, 1);
    hfi_futex_wake(&history->told, INT32_MAX, true);
}

/* ---- reading ------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct event *x = *(const struct event *const *)a, *y = *(const struct event *const *)b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x < y ? -1 : 1; /* as they were appended */
}

const struct event **history_sorted(const struct history *history, size_t *ret_count)
{
    size_t count = 0, all = filled(history);
    const struct event **list = calloc(all + 1, sizeof(struct event *));

    for (size_t i = 0; list && i < all; i++)
        if (atomic_load(&history->events[i].ready))
            list[count++] = &history->events[i];
    if (list)
        qsort(list, count, sizeof(struct event *), by_time);
    *ret_count = count;
    return list;
}

int64_t history_last_value(const struct history *history, int lane, int64_t none)
{
    size_t count;
    const struct event **list = history_sorted(history, &count);
    int64_t value = none;

    for (size_t i = 0; list && i < count; i++) {
        const struct event *event = list[i];
        bool seen = event->kind == EV_VALUE && event->lane == lane;
        bool touched = (event->kind == EV_WRITE || event->kind == EV_READ) && event->other == lane;

        if (seen || touched)
            value = event->value;
    }
    free(list);
    return value;
}

/* +1: begins to believe, -1: ends, 0: neither. A client that is told twice that it has it (reentry) believes once. */
static int belief_change(const struct event *event, bool *believes)
{
    bool ends = event->kind == EV_LET || event->kind == EV_LOST || event->kind == EV_KILLED;

    if (event->lane < 0 || event->lane >= HISTORY_LANES)
        return 0;
    if (event->kind == EV_GOT && !believes[event->lane]) {
        believes[event->lane] = true;
        return 1;
    }
    if (ends && believes[event->lane]) { /* with several locks: when it lets the first one go */
        believes[event->lane] = false;
        return -1;
    }
    return 0;
}

static void walk_beliefs(const struct history *history, unsigned capacity, unsigned *ret_most,
                         int64_t *ret_over_ns)
{
    bool believes[HISTORY_LANES] = { false };
    size_t count;
    const struct event **list = history_sorted(history, &count);
    int64_t since_ns = 0;
    unsigned holders = 0;

    *ret_most = 0;
    *ret_over_ns = 0;
    for (size_t i = 0; list && i < count; i++) {
        int change = belief_change(list[i], believes);

        if (change == 0)
            continue;
        if (holders > capacity)
            *ret_over_ns += list[i]->at_ns - since_ns;
        since_ns = list[i]->at_ns;
        holders = (unsigned)((int)holders + change);
        if (holders > *ret_most)
            *ret_most = holders;
    }
    free(list);
}

unsigned history_holders(const struct history *history)
{
    unsigned most;
    int64_t over_ns;

    walk_beliefs(history, 0, &most, &over_ns);
    return most;
}

int64_t history_overlap_ms(const struct history *history, unsigned capacity)
{
    unsigned most;
    int64_t over_ns;

    walk_beliefs(history, capacity, &most, &over_ns);
    return most > capacity ? (over_ns + 999999) / 1000000 : 0;
}
