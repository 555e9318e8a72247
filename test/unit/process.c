/* SPDX-License-Identifier: MIT */
/*
 * Which process is this: the id, the mutex, the slot and random numbers after
 * fork, raw clone and vfork, with and without other threads. process_plain.c
 * runs the same with a kernel that cannot wipe pages.
 */
#include "process_cases.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_agree_from_the_first_call),
        cmocka_unit_test(same_in_one_process),
        cmocka_unit_test(another_after_fork),
        cmocka_unit_test(another_after_raw_clone),
        cmocka_unit_test(another_in_a_grandchild),
        cmocka_unit_test(same_in_a_vfork_child),
        cmocka_unit_test(mutex_is_free_in_a_child),
        cmocka_unit_test(slot_is_empty_in_a_child),
        cmocka_unit_test(random_differs_after_fork),
        cmocka_unit_test(random_differs_after_raw_clone),
        cmocka_unit_test(random_never_repeats),
        cmocka_unit_test(random_fills_exactly),
        cmocka_unit_test(a_fresh_mutex_is_all_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
