/* SPDX-License-Identifier: MIT */
/* How long names linger: levels rise with early recalls, and fall with late ones and with time. */
#include "unit.h"

#include "core/adapt.h"

#define T0 INT64_C(1000000)

static void rises_and_falls(void **state)
{
    struct hfi_adapt entry = { 0 };

    (void)state;
    assert_int_equal(hfi_adapt_level(&entry, T0), 0);
    for (int i = 1; i <= 20; i++) {
        hfi_adapt_note(&entry, false, T0);
        assert_int_equal(hfi_adapt_level(&entry, T0), i < HFI_ADAPT_MAX ? i : HFI_ADAPT_MAX);
    }
    assert_int_equal(hfi_adapt_level(&entry, T0 + HFI_ADAPT_CALM_MS - 1), HFI_ADAPT_MAX);
    assert_int_equal(hfi_adapt_level(&entry, T0 + HFI_ADAPT_CALM_MS), HFI_ADAPT_MAX - 1);
    assert_int_equal(hfi_adapt_level(&entry, T0 + 100 * HFI_ADAPT_CALM_MS), 0);
}

static void pays_off(void **state)
{
    struct hfi_adapt entry = { .level = 5, .at_ms = T0 };

    (void)state;
    hfi_adapt_note(&entry, true, T0);
    assert_int_equal(entry.level, 3);
    hfi_adapt_note(&entry, false, T0);
    assert_int_equal(entry.level, 4);
    for (int i = 0; i < 5; i++)
        hfi_adapt_note(&entry, true, T0);
    assert_int_equal(entry.level, 0);
}

/* It must have been used, and have been here for longer than it took to get it. */
static void what_pays_off(void **state)
{
    const int64_t waited = 200000;
    static const struct {
        uint32_t takes;
        int64_t stayed;
        bool paid;
    } cases[] = {
        { HFI_ADAPT_FEW, HFI_ADAPT_TIMES * 200000, true },
        { HFI_ADAPT_FEW - 1, HFI_ADAPT_TIMES * 200000, false },
        { 1000000, HFI_ADAPT_TIMES * 200000 - 1, false },
        { 1, INT64_C(3600000000000), false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(
            hfi_adapt_paid(&(struct hfi_adapt_use){ cases[i].takes, waited, cases[i].stayed }),
            cases[i].paid);
    /* A long wait, for somebody's long work, asks for no more than that. */
    assert_true(
        hfi_adapt_paid(&(struct hfi_adapt_use){ 8, INT64_C(3600000000000), HFI_ADAPT_LONG_NS }));
    assert_false(hfi_adapt_paid(
        &(struct hfi_adapt_use){ 8, INT64_C(3600000000000), HFI_ADAPT_LONG_NS - 1 }));
}

/* A recall after a calm time counts from the level that was left. */
static void time_and_recalls(void **state)
{
    struct hfi_adapt entry = { .level = 8, .at_ms = T0 };

    (void)state;
    hfi_adapt_note(&entry, false, T0 + 3 * HFI_ADAPT_CALM_MS);
    assert_int_equal(entry.level, 6);
    assert_int_equal(entry.at_ms, T0 + 3 * HFI_ADAPT_CALM_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rises_and_falls),
        cmocka_unit_test(pays_off),
        cmocka_unit_test(what_pays_off),
        cmocka_unit_test(time_and_recalls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
