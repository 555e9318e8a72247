/* SPDX-License-Identifier: MIT */
/* Why not: every engine of the build, in each of its modes, says it for what it cannot do, and for nothing else. */
#include "unit.h"

#include "core/lack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* All that hfi_lacks_are_whole() knows: what one without any capability and reason lacks, one after the other. */
static uint64_t all_caps(void)
{
    struct hfi_promises promises = { .name = "none" };
    const char *wrong;
    uint64_t cap;

    while (!hfi_lacks_are_whole(&promises, &cap, &wrong))
        promises.caps |= cap;
    return promises.caps;
}

/* A reason is a part of a sentence: one line, no full stop, and short enough for the text of an error. */
static void check_words(const hf_engine_info *info)
{
    for (const hf_engine_lack *lack = info->lacks; lack->why; lack++) {
        size_t len = strlen(lack->why);

        if (lack->caps == 0)
            continue;
        assert_true(len > 0 && len < 160);
        assert_null(strchr(lack->why, '\n'));
        assert_int_not_equal(lack->why[len - 1], '.');
    }
}

static void every_engine_says_why_not(void **state)
{
    const hf_engine_info *info;
    size_t engines = 0, wrong_ones = 0;

    (void)state;
    for (; (info = hf_engine_get(engines)); engines++) {
        assert_true(info->available);
        for (size_t mode = 0; (info = hf_engine_get_mode(engines, mode)); mode++) {
            const struct hfi_promises told = { .caps = info->caps, .lacks = info->lacks };
            const char *wrong;
            uint64_t cap;

            assert_int_equal(*info->choice == 0, mode == 0);
            check_words(info);
            if (hfi_lacks_are_whole(&told, &cap, &wrong))
                continue;
            fprintf(stderr, "engine %s %s: HF_CAP_* 0x%" PRIx64 " %s\n", info->name, info->choice,
                    cap, wrong);
            wrong_ones++;
        }
    }
    assert_true(engines > 0);
    assert_int_equal(wrong_ones, 0);
    assert_null(hf_engine_get_mode(0, HFI_MODES_MAX));
    assert_null(hf_engine_get_mode(0, SIZE_MAX));
    assert_null(hf_engine_get_mode(engines, 0));
}

static void wrong_lists_are_found(void **state)
{
    static const hf_engine_lack two[] = { { HF_CAP_BARGE, "a" },
                                          { HF_CAP_BARGE, "b" },
                                          { 0, NULL } };
    static const hf_engine_lack one[] = { { 0, "nothing" }, { HF_CAP_BARGE, "a" }, { 0, NULL } };
    struct hfi_promises promises = { .caps = all_caps() & ~HF_CAP_BARGE, .lacks = one };
    const char *wrong = "";
    uint64_t cap = 0;

    (void)state;
    assert_true(hfi_lacks_are_whole(&promises, &cap, &wrong));
    promises.caps |= HF_CAP_BARGE;
    assert_false(hfi_lacks_are_whole(&promises, &cap, &wrong));
    assert_int_equal(cap, HF_CAP_BARGE);
    assert_non_null(strstr(wrong, "is declared"));
    promises.caps &= ~HF_CAP_BARGE;
    promises.lacks = two;
    assert_false(hfi_lacks_are_whole(&promises, &cap, &wrong));
    assert_non_null(strstr(wrong, "more than one"));
    promises.lacks = NULL;
    assert_false(hfi_lacks_are_whole(&promises, &cap, &wrong));
    assert_int_equal(cap, HF_CAP_BARGE);
}

static void the_text_has_the_reason(void **state)
{
    static const hf_engine_lack lacks[] = { { HF_CAP_CLOCK | HF_CAP_LINGER, "it is made of stone" },
                                            { 0, NULL } };
    const struct hfi_promises promises = { .name = "rock", .caps = HF_CAP_CELLS, .lacks = lacks };
    hf_error err;

    (void)state;
    assert_int_equal(hfi_unsupported(&promises, HF_CAP_LINGER, "linger_ms", &err), HF_UNSUPPORTED);
    assert_string_equal(err.text, "linger_ms: engine rock has no lingering leases: "
                                  "it is made of stone");
    assert_int_equal(hfi_unsupported(&promises, HF_CAP_CELLS | HF_CAP_CLOCK, NULL, &err),
                     HF_UNSUPPORTED);
    assert_string_equal(err.text,
                        "engine rock has no clock that all clients share: it is made of stone");
    assert_int_equal(hfi_unsupported(&promises, HF_CAP_BARGE, "flags", &err), HF_UNSUPPORTED);
    assert_string_equal(err.text,
                        "flags: engine rock lets no request pass the waiters (HF_FLAG_BARGE)");
}

/* Cells are recommended only where there are some. */
static void no_scripts(void **state)
{
    struct hfi_promises promises = { .name = "rock", .caps = HF_CAP_CELLS };
    hf_error err;

    (void)state;
    assert_int_equal(hfi_unsupported(&promises, HF_CAP_SCRIPTS, NULL, &err), HF_UNSUPPORTED);
    assert_string_equal(err.text, "engine rock runs no scripts (for one name, use cells)");
    promises.caps = 0;
    assert_int_equal(hfi_unsupported(&promises, HF_CAP_SCRIPTS, NULL, &err), HF_UNSUPPORTED);
    assert_string_equal(err.text, "engine rock runs no scripts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_says_why_not),
        cmocka_unit_test(wrong_lists_are_found),
        cmocka_unit_test(the_text_has_the_reason),
        cmocka_unit_test(no_scripts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
