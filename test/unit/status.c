/* SPDX-License-Identifier: MIT */
/* Statuses: numbers are a promise, names and texts are never NULL. */
#include "unit.h"

#include "holdfast/holdfast.h"

#include <stdio.h>
#include <string.h>

static void numbers_never_change(void **state)
{
    (void)state;
    assert_int_equal(HF_OK, 0);
    assert_int_equal(HF_BUSY, 1);
    assert_int_equal(HF_TIMEOUT, 2);
    assert_int_equal(HF_CANCELLED, 3);
    assert_int_equal(HF_MISMATCH, 4);
    assert_int_equal(HF_LOST, 5);
    assert_int_equal(HF_NOT_FOUND, 6);
    assert_int_equal(HF_INVALID, 7);
    assert_int_equal(HF_CONFIG, 8);
    assert_int_equal(HF_UNSUPPORTED, 9);
    assert_int_equal(HF_UNAVAILABLE, 10);
    assert_int_equal(HF_DENIED, 11);
    assert_int_equal(HF_UNKNOWN, 12);
    assert_int_equal(HF_CORRUPT, 13);
    assert_int_equal(HF_NO_MEMORY, 14);
    assert_int_equal(HF_FORKED, 15);
    assert_int_equal(HF_IN_USE, 16);
    assert_int_equal(HF_TOO_SHORT, 17);
    assert_int_equal(HF_FULL, 18);
    assert_int_equal(HF_VERSION, 19);
    assert_int_equal(HF_INTERNAL, 20);
    assert_int_equal(HF_FENCED, 21);
}

static void names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(hf_status_name(HF_OK), "OK");
    assert_string_equal(hf_status_name(HF_NO_MEMORY), "NO_MEMORY");
    assert_string_equal(hf_status_text(HF_BUSY), "busy: another holder has it");

    for (int i = -2; i < 300; i++) {
        assert_true(strlen(hf_status_name((hf_status)i)) > 0);
        assert_true(strlen(hf_status_text((hf_status)i)) > 0);
    }
    assert_string_equal(hf_status_name((hf_status)-1), "?");
    assert_string_equal(hf_status_name((hf_status)255), "?");
}

static void version_is_that_of_the_header(void **state)
{
    char expected[32];

    (void)state;
    snprintf(expected, sizeof expected, "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    assert_string_equal(hf_version(), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_never_change),
        cmocka_unit_test(names_and_texts),
        cmocka_unit_test(version_is_that_of_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
