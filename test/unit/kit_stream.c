/* SPDX-License-Identifier: MIT */
/* What of a stream is pure: how long to wait before the next try. */
#include "unit.h"

#include "engine/kit/stream.h"

static void backoff(void **state)
{
    static const int64_t most[] = { 20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000 };
    uint64_t random = 1;

    (void)state;
    assert_int_equal(hfi_backoff_ms(0, 12345), 0);
    for (unsigned i = 0; i < COUNT(most); i++) {
        int64_t least = INT64_MAX, largest = 0;

        for (int n = 0; n < 100000; n++) {
            int64_t ms = hfi_backoff_ms(i + 1, (uint32_t)unit_random(&random));

            least = ms < least ? ms : least;
            largest = ms > largest ? ms : largest;
        }
        assert_int_equal(least, 1); /* full jitter: anything, but not at once */
        assert_int_equal(largest, most[i]);
    }
    assert_true(hfi_backoff_ms(UINT32_MAX, UINT32_MAX) <= 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(backoff) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
