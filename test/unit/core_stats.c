/* SPDX-License-Identifier: MIT */
/* Histograms of durations: buckets, bounds, shares. */
#include "unit.h"

#include "core/stats.h"

#include <math.h>
#include <string.h>

static void buckets(void **state)
{
    (void)state;
    assert_int_equal(hfi_histogram_bucket(INT64_MIN), 0);
    assert_int_equal(hfi_histogram_bucket(-1), 0);
    assert_int_equal(hfi_histogram_bucket(0), 0);
    assert_int_equal(hfi_histogram_bucket(INT64_MAX), HF_HISTOGRAM_BUCKETS - 1);
    for (unsigned i = 0; i + 1 < HF_HISTOGRAM_BUCKETS; i++) {
        int64_t bound_ms = hf_histogram_bound_ms(i);

        assert_int_equal(bound_ms, INT64_C(1) << i);
        assert_int_equal(hfi_histogram_bucket(bound_ms - 1), i); /* each bound is exclusive */
        assert_int_equal(hfi_histogram_bucket(bound_ms), i + 1);
    }
    assert_true(hf_histogram_bound_ms(HF_HISTOGRAM_BUCKETS - 1) == INT64_MAX);
    assert_true(hf_histogram_bound_ms(SIZE_MAX) == INT64_MAX);
}

static void sums(void **state)
{
    struct hfi_histogram histogram;

    (void)state;
    memset(&histogram, 0, sizeof histogram);
    hfi_histogram_add(&histogram, -5); /* a clock that was read earlier is no time at all */
    hfi_histogram_add(&histogram, 0);
    hfi_histogram_add(&histogram, 3);
    hfi_histogram_add(&histogram, 1000);
    assert_int_equal(histogram.sum_ms, 1003);
    assert_int_equal(histogram.buckets[0], 2);
    assert_int_equal(histogram.buckets[2], 1);
    assert_int_equal(histogram.buckets[10], 1);
}

static void shares(void **state)
{
    hf_histogram histogram = { .count = 100 };

    (void)state;
    histogram.buckets[0] = 50;
    histogram.buckets[4] = 49;
    histogram.buckets[HF_HISTOGRAM_BUCKETS - 1] = 1;
    assert_int_equal(hf_histogram_quantile_ms(&histogram, 0), 1);
    assert_int_equal(hf_histogram_quantile_ms(&histogram, 0.5), 1);
    assert_int_equal(hf_histogram_quantile_ms(&histogram, 0.51), 16);
    assert_int_equal(hf_histogram_quantile_ms(&histogram, 0.99), 16);
    assert_true(hf_histogram_quantile_ms(&histogram, 1) == INT64_MAX);
    assert_true(hf_histogram_quantile_ms(&histogram, 7) == INT64_MAX);
    assert_int_equal(hf_histogram_quantile_ms(&histogram, -7), 1);
    assert_int_equal(hf_histogram_quantile_ms(&histogram, NAN), 1);
    assert_int_equal(hf_histogram_quantile_ms(NULL, 0.5), 0);
    histogram.count = 0;
    assert_int_equal(hf_histogram_quantile_ms(&histogram, 0.5), 0);
}

static void waits_fit(void **state)
{
    (void)state;
    assert_int_equal(hfi_stats_waited(10, 15), 5);
    assert_int_equal(hfi_stats_waited(15, 10), 0);
    assert_int_equal(hfi_stats_waited(0, INT64_MAX), UINT32_MAX);
}

static void losses(void **state)
{
    (void)state;
    assert_string_equal(hf_loss_name(HF_LOSS_BROKEN), "broken");
    assert_string_equal(hf_loss_name((hf_loss)99), "unknown");
    assert_string_equal(hf_loss_name((hf_loss)-1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets),   cmocka_unit_test(sums),   cmocka_unit_test(shares),
        cmocka_unit_test(waits_fit), cmocka_unit_test(losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
