/* SPDX-License-Identifier: MIT */
/* The keeper's heap, against a plain search for the earliest. */
#include "unit.h"

#include "core/heap.h"

#include <stdbool.h>
#include <stdio.h>

#define TIMERS 200

static struct hfi_timer *earliest(struct hfi_timer *timers)
{
    struct hfi_timer *best = NULL;

    for (int i = 0; i < TIMERS; i++)
        if (timers[i].place && (!best || timers[i].due_ms < best->due_ms))
            best = &timers[i];
    return best;
}

static void always_the_earliest_on_top(void **state)
{
    struct hfi_timer timers[TIMERS] = { { .due_ms = 0 } };
    struct hfi_heap heap = { 0 };
    uint64_t seed = 20260101;
    uint32_t in = 0;

    (void)state;
    assert_true(hfi_heap_reserve(&heap, TIMERS));
    for (int step = 0; step < 20000; step++) {
        struct hfi_timer *timer = &timers[unit_random(&seed) % TIMERS];
        struct hfi_timer *best;

        if (unit_random(&seed) % 3 == 0) {
            in -= timer->place != 0;
            hfi_heap_remove(&heap, timer);
            assert_int_equal(timer->place, 0);
        } else {
            in += timer->place == 0;
            hfi_heap_set(&heap, timer, (int64_t)(unit_random(&seed) % 1000));
        }
        best = earliest(timers);
        assert_int_equal(heap.count, in);
        assert_true(best ? hfi_heap_top(&heap)->due_ms == best->due_ms : !hfi_heap_top(&heap));
    }
    hfi_heap_done(&heap);
}

static void leaves_in_order(void **state)
{
    struct hfi_timer timers[TIMERS] = { { .due_ms = 0 } }, *top;
    struct hfi_heap heap = { 0 };
    uint64_t seed = 7;
    int64_t last_ms = INT64_MIN;
    int count = 0;

    (void)state;
    assert_null(hfi_heap_top(&heap));
    assert_true(hfi_heap_reserve(&heap, TIMERS));
    for (int i = 0; i < TIMERS; i++)
        hfi_heap_set(&heap, &timers[i], (int64_t)(unit_random(&seed) % 100));
    for (; (top = hfi_heap_top(&heap)); count++) {
        assert_true(top->due_ms >= last_ms);
        last_ms = top->due_ms;
        hfi_heap_remove(&heap, top);
        hfi_heap_remove(&heap, top); /* twice does no harm */
    }
    assert_int_equal(count, TIMERS);
    hfi_heap_done(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(always_the_earliest_on_top),
        cmocka_unit_test(leaves_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
