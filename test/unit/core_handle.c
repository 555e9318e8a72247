/* SPDX-License-Identifier: MIT */
/* Handles: good ones are found, and nothing else ever is. */
#include "unit.h"

#include "core/handle.h"
#include "util/alloc.h"

#include <pthread.h>
#include <string.h>

#define MANY    5000
#define THREADS 4
#define TURNS   20000

struct thing {
    struct hfi_slot slot;
    _Atomic int holder; /* the thread that has it; 0: nobody */
    char rest[60];
};

static struct hfi_table things = { .slot_size = (sizeof(struct thing) + 63) / 64 * 64,
                                   .kind = HFI_KIND_LEASE };

static void found_until_retired(void **state)
{
    static struct thing *taken[MANY];
    static void *handles[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        taken[i] = hfi_slot_take(&things);
        assert_non_null(taken[i]);
        assert_int_equal((uintptr_t)taken[i] % 64, 0);
        handles[i] = hfi_slot_publish(&taken[i]->slot, HFI_KIND_LEASE);
    }
    for (int i = 0; i < MANY; i++)
        assert_ptr_equal(hfi_slot_find(&things, handles[i]), taken[i]);
    for (int i = 0; i < MANY; i++) {
        hfi_slot_retire(&taken[i]->slot);
        hfi_slot_give(&things, taken[i]);
        assert_null(hfi_slot_find(&things, handles[i]));
    }

    /* The same slots again: other handles. */
    for (int i = 0; i < MANY; i++) {
        taken[i] = hfi_slot_take(&things);
        (void)hfi_slot_publish(&taken[i]->slot, HFI_KIND_LEASE);
    }
    for (int i = 0; i < MANY; i++)
        assert_null(hfi_slot_find(&things, handles[i]));
    for (int i = 0; i < MANY; i++) {
        hfi_slot_retire(&taken[i]->slot);
        hfi_slot_give(&things, taken[i]);
    }
}

static void garbage_is_not_found(void **state)
{
    struct thing *thing = hfi_slot_take(&things);
    char *handle = hfi_slot_publish(&thing->slot, HFI_KIND_LEASE);
    uint64_t seed = 99;

    (void)state;
    assert_null(hfi_slot_find(&things, NULL));
    assert_null(hfi_slot_find(&things, &seed));
    assert_null(hfi_slot_find(&things, (void *)UINTPTR_MAX));
    for (int bit = 0; bit < 64; bit++)
        assert_null(hfi_slot_find(&things, (void *)((uintptr_t)handle ^ (uintptr_t)1 << bit)));
    for (int i = 0; i < 100000; i++)
        assert_null(hfi_slot_find(&things, (void *)(uintptr_t)unit_random(&seed)));
    assert_ptr_equal(hfi_slot_find(&things, handle), thing);
    hfi_slot_retire(&thing->slot);
    hfi_slot_give(&things, thing);
}

static void *take_and_give(void *arg)
{
    int self = (int)(intptr_t)arg;

    for (int i = 0; i < TURNS; i++) {
        struct thing *thing = hfi_slot_take(&things);
        int nobody = 0;

        if (!thing || !atomic_compare_exchange_strong(&thing->holder, &nobody, self))
            return "given out twice";
        (void)hfi_slot_publish(&thing->slot, HFI_KIND_LEASE);
        hfi_slot_retire(&thing->slot);
        atomic_store(&thing->holder, 0);
        hfi_slot_give(&things, thing);
    }
    return NULL;
}

static void no_slot_is_given_out_twice(void **state)
{
    pthread_t threads[THREADS];
    void *wrong;

    (void)state;
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* Every handle that a table ever gives out is another one, also after the generations of its slots have been used up. */
static void worn_slots_are_retired(void **state)
{
    static struct hfi_table few = { .slot_size = 128, .kind = HFI_KIND_LEASE, .generations = 3 };
    static void *handles[30];
    struct hfi_slot *slot, *first = NULL;

    (void)state;
    for (size_t i = 0; i < 30; i++) {
        slot = hfi_slot_take(&few);
        assert_non_null(slot);
        first = first ? first : slot;
        handles[i] = hfi_slot_publish(slot, HFI_KIND_LEASE);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(handles[k], handles[i]);
        hfi_slot_retire(slot);
        hfi_slot_give(&few, slot);
    }
    assert_int_equal(atomic_load(&few.used), 10); /* three lives each */
    assert_true(hfi_slot_worn(&few, first));
    assert_false(hfi_slot_worn(&things, first));
    first->generation = HFI_GENERATIONS;
    assert_true(hfi_slot_worn(&things, first));
    assert_int_equal(first->generation >> (64 - HFI_KIND_BITS - HFI_INDEX_BITS), 0);
}

static void out_of_memory_is_told(void **state)
{
    static struct hfi_table other = { .slot_size = 128, .kind = HFI_KIND_OP };

    (void)state;
    hfi_alloc_fail_at(1, 1);
    assert_null(hfi_slot_take(&other));
    hfi_alloc_fail_at(0, 0);
    assert_non_null(hfi_slot_take(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_until_retired),        cmocka_unit_test(garbage_is_not_found),
        cmocka_unit_test(no_slot_is_given_out_twice), cmocka_unit_test(worn_slots_are_retired),
        cmocka_unit_test(out_of_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
