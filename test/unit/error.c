/* SPDX-License-Identifier: MIT */
/* hf_error: set, wrap, cut. */
#include "unit.h"

#include "util/error.h"

#include <string.h>

static void sets_everything(void **state)
{
    hf_error err;

    (void)state;
    memset(&err, 'x', sizeof err);
    assert_int_equal(hfi_error_set(&err, HF_DENIED, 13, "open '%s': %d", "x", 7), HF_DENIED);
    assert_int_equal(err.status, HF_DENIED);
    assert_int_equal(err.native, 13);
    assert_string_equal(err.text, "open 'x': 7");

    hfi_error_clear(&err);
    assert_int_equal(err.status, HF_OK);
    assert_int_equal(err.native, 0);
    assert_string_equal(err.text, "");

    assert_int_equal(hfi_error_memory(&err), HF_NO_MEMORY);
    assert_int_equal(err.status, HF_NO_MEMORY);
    assert_string_equal(err.text, "out of memory");
}

static void wraps_outer_to_inner(void **state)
{
    hf_error err;

    (void)state;
    hfi_error_set(&err, HF_FULL, 28, "no space");
    assert_int_equal(hfi_error_wrap(&err, "acquire '%s'", "job"), HF_FULL);
    assert_int_equal(hfi_error_wrap(&err, "file:%s", "/x"), HF_FULL);
    assert_string_equal(err.text, "file:/x: acquire 'job': no space");
    assert_int_equal(err.native, 28);
}

static void null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(hfi_error_set(NULL, HF_LOST, 0, "%s", "x"), HF_LOST);
    assert_int_equal(hfi_error_memory(NULL), HF_NO_MEMORY);
    hfi_error_wrap(NULL, "x");
    hfi_error_clear(NULL);
}

static void an_argument_may_be_the_text_itself(void **state)
{
    hf_error err;

    (void)state;
    hfi_error_set(&err, HF_LOST, 0, "inner");
    hfi_error_set(&err, HF_UNKNOWN, 0, "outer: %s (%s)", err.text, err.text);
    assert_string_equal(err.text, "outer: inner (inner)");
    hfi_error_wrap(&err, "[%s]", err.text);
    assert_string_equal(err.text, "[outer: inner (inner)]: outer: inner (inner)");
}

static void what_does_not_fit_is_cut(void **state)
{
    char longer[2 * HF_ERROR_TEXT_MAX];
    hf_error err;

    (void)state;
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;

    hfi_error_set(&err, HF_LOST, 0, "%.*s", HF_ERROR_TEXT_MAX - 1, longer);
    assert_int_equal(strlen(err.text), HF_ERROR_TEXT_MAX - 1);
    assert_null(strchr(err.text, '.'));

    hfi_error_set(&err, HF_LOST, 0, "%.*s", HF_ERROR_TEXT_MAX, longer);
    assert_int_equal(strlen(err.text), HF_ERROR_TEXT_MAX - 1);
    assert_string_equal(err.text + HF_ERROR_TEXT_MAX - 5, "a...");

    hfi_error_set(&err, HF_LOST, 0, "%s", longer);
    hfi_error_wrap(&err, "%s", longer);
    assert_int_equal(strlen(err.text), HF_ERROR_TEXT_MAX - 1);
}

static void never_half_a_character(void **state)
{
    char text[2 * HF_ERROR_TEXT_MAX];
    hf_error err;

    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        size_t len;

        memset(text, 'a', shift);
        for (len = shift; len + 3 < sizeof text; len += 3)
            memcpy(text + len, "\xe2\x82\xac", 3); /* the euro sign */
        text[len] = 0;

        hfi_error_set(&err, HF_LOST, 0, "%s", text);
        len = strlen(err.text) - 3;
        assert_string_equal(err.text + len, "...");
        assert_int_equal((len - shift) % 3, 0);
    }
}

/* Others' words go through here on their way to a terminal or a log. */
static void nothing_to_obey(void **state)
{
    char words[2 * HF_ERROR_TEXT_MAX];
    hf_error err;

    (void)state;
    hfi_error_set(&err, HF_DENIED, 0, "%s", "x\nholdfast: FORGED \x9b\xe2\x80\xae");
    assert_string_equal(err.text, "x holdfast: FORGED ????");
    hfi_error_wrap(&err, "open %s", "a\x1b[m\nb");
    assert_string_equal(err.text, "open a?[m b: x holdfast: FORGED ????");
    memset(words, '\n', sizeof words - 1);
    words[sizeof words - 1] = 0;
    hfi_error_set(&err, HF_DENIED, 0, "%s", words);
    assert_null(strchr(err.text, '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_everything),
        cmocka_unit_test(wraps_outer_to_inner),
        cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(an_argument_may_be_the_text_itself),
        cmocka_unit_test(what_does_not_fit_is_cut),
        cmocka_unit_test(never_half_a_character),
        cmocka_unit_test(nothing_to_obey),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
