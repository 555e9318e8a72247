/* SPDX-License-Identifier: MIT */
/* The text format of Prometheus: families, samples, histograms, and labels with anything in them. */
#include "unit.h"

#include "util/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    FILE *out;
    char *bytes;
    size_t len;
};

static void begin(struct text *text)
{
    text->out = open_memstream(&text->bytes, &text->len);
    assert_non_null(text->out);
}

static void expect(struct text *text, const char *expected)
{
    fclose(text->out);
    assert_string_equal(text->bytes, expected);
    free(text->bytes);
}

static void families(void **state)
{
    struct text text;

    (void)state;
    begin(&text);
    hfi_metric_family(text.out, "holdfast_x_total", "counter", "One\\two\nthree.");
    hfi_metric_sample(text.out, "holdfast_x_total", NULL, 0, 3);
    expect(&text, "# HELP holdfast_x_total One\\\\two\\nthree.\n# TYPE holdfast_x_total counter\n"
                  "holdfast_x_total 3\n");
}

static void numbers(void **state)
{
    static const struct {
        double value;
        const char *expected;
    } cases[] = { { 0, "x 0\n" },
                  { 1.5, "x 1.5\n" },
                  { 0.001, "x 0.001\n" },
                  { -2, "x -2\n" },
                  { 1e15, "x 1000000000000000\n" },
                  { 1e300, "x 1e+300\n" },
                  { INFINITY, "x +Inf\n" },
                  { -INFINITY, "x -Inf\n" },
                  { NAN, "x NaN\n" } };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct text text;

        begin(&text);
        hfi_metric_sample(text.out, "x", NULL, 0, cases[i].value);
        expect(&text, cases[i].expected);
    }
}

/* A name is any bytes: no label ends early, begins another one, or has bytes that are not UTF-8. */
static void hostile_labels(void **state)
{
    static const char hostile[] = "a\"} 1\nb\\n\xff\0z\xc3\xa9";
    const struct hfi_metric_label labels[] = { { "name", hostile, sizeof hostile - 1 },
                                               { "kind", "mutex", 5 },
                                               { "none", "", 0 } };
    struct text text;

    (void)state;
    begin(&text);
    hfi_metric_sample(text.out, "x", labels, 3, 1);
    expect(
        &text,
        "x{name=\"a\\\"} 1\\\\x0ab\\\\x5cn\\\\xff\\\\x00z\xc3\xa9\",kind=\"mutex\",none=\"\"} 1\n");
}

static void histograms(void **state)
{
    static const double bounds[] = { 0.001, 0.002 };
    static const uint64_t counts[] = { 5, 0, 2 };
    const struct hfi_metric_label label = { "store", "s", 1 };
    struct text text;

    (void)state;
    begin(&text);
    hfi_metric_histogram(text.out, "w", &label, 1, bounds, counts, 3, 0.25);
    expect(&text, "w_bucket{store=\"s\",le=\"0.001\"} 5\nw_bucket{store=\"s\",le=\"0.002\"} 5\n"
                  "w_bucket{store=\"s\",le=\"+Inf\"} 7\nw_sum{store=\"s\"} 0.25\n"
                  "w_count{store=\"s\"} 7\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(numbers),
        cmocka_unit_test(hostile_labels),
        cmocka_unit_test(histograms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
