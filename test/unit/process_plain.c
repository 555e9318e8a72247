/* SPDX-License-Identifier: MIT */
/* As process.c, on a kernel without MADV_WIPEONFORK: fork() is still noticed; raw clone is not. */
#include "process_cases.h"

#include <errno.h>
#include <sys/mman.h>

static atomic_int refusals;

/* In the program, so it comes before the C library's. */
__attribute__((visibility("default"))) int madvise(void *address, size_t len, int advice)
{
    (void)address;
    (void)len;
    if (advice == MADV_WIPEONFORK)
        atomic_fetch_add(&refusals, 1);
    errno = EINVAL;
    return -1;
}

static void the_kernel_refused(void **state)
{
    (void)state;
    assert_true(atomic_load(&refusals) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_agree_from_the_first_call),
        cmocka_unit_test(the_kernel_refused),
        cmocka_unit_test(same_in_one_process),
        cmocka_unit_test(another_after_fork),
        cmocka_unit_test(another_in_a_grandchild),
        cmocka_unit_test(same_in_a_vfork_child),
        cmocka_unit_test(mutex_is_free_in_a_child),
        cmocka_unit_test(slot_is_empty_in_a_child),
        cmocka_unit_test(random_differs_after_fork),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
