/* SPDX-License-Identifier: MIT */
/* Durations, numbers, globs, quoting, hex. */
#include "unit.h"

#include "holdfast/holdfast.h"
#include "util/json.h"
#include "util/text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------ */

static void json_shows_nothing_unseen(void **state)
{
    static const struct {
        const char *text, *escaped;
    } cases[] = {
        { "\"plain \xe9\x94\x81\"", NULL },
        { "\"x\xe2\x80\xae\xe2\x81\xa6y\"", "\"x\\u202e\\u2066y\"" },
        { "\"\xc2\x9b\"", "\"\\u009b\"" },
        { "\"\xe2\x80\xa8\xc2\xad\"", "\"\\u2028\\u00ad\"" },
        { "\"\xf3\xa0\x81\x81\xf0\x9f\x98\x80\"", "\"\\udb40\\udc41\xf0\x9f\x98\x80\"" },
        { "\xff\xe2\x80", NULL }, /* no UTF-8: stays */
        { "", NULL },
    };

    (void)state;
    assert_null(hfi_json_escape(NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = hfi_json_escape(strdup(cases[i].text));

        assert_string_equal(text, cases[i].escaped ? cases[i].escaped : cases[i].text);
        free(text);
    }
}

/* ---- durations and numbers ----------------------------------------------- */

static void good_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        { "0ms", 0 },
        { "0s", 0 },
        { "1ms", 1 },
        { "500ms", 500 },
        { "10s", 10000 },
        { "2m", 120000 },
        { "1h", 3600000 },
        { "3d", 259200000 },
        { "007s", 7000 },
        { "3650d", HF_DURATION_MAX_MS },
        { "315360000000ms", HF_DURATION_MAX_MS },
        { "87600h", HF_DURATION_MAX_MS },
        { "0000000000000000000000000000001s", 1000 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        int64_t ms = -1;
        const char *wrong = hfi_parse_duration(good[i].text, &ms);

        if (wrong)
            print_error("'%s' %s\n", good[i].text, wrong);
        assert_null(wrong);
        assert_int_equal(ms, good[i].ms);
    }
}

static void bad_durations(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "empty" },
        { "10", "needs a unit" },
        { "0", "needs a unit" },
        { "-1s", "negative" },
        { "-", "negative" },
        { "+1s", "not a duration" },
        { " 1s", "not a duration" },
        { "s", "not a duration" },
        { "ms", "not a duration" },
        { "abc", "not a duration" },
        { "1 s", "an unknown unit" },
        { "1s ", "an unknown unit" },
        { "1.5s", "an unknown unit" },
        { "1S", "an unknown unit" },
        { "1sec", "an unknown unit" },
        { "1m30s", "an unknown unit" },
        { "1us", "an unknown unit" },
        { "1e3s", "an unknown unit" },
        { "0x10s", "an unknown unit" },
        { "3651d", "too long" },
        { "315360000001ms", "too long" },
        { "9223372036854775807ms", "too long" },
        { "9223372036854775808s", "too long" },
        { "18446744073709551616s", "too long" },
        { "18446744073709551617ms", "too long" },
        { "106751991168d", "too long" },
        { "99999999999999999999999999999999999999999999d", "too long" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        int64_t ms = -77;
        const char *wrong = hfi_parse_duration(bad[i].text, &ms);

        if (!wrong || !strstr(wrong, bad[i].says))
            print_error("'%s' %s\n", bad[i].text, wrong ? wrong : "was taken");
        assert_non_null(wrong);
        assert_non_null(strstr(wrong, bad[i].says));
        assert_int_equal(ms, -77);
    }
}

static void formatted_durations(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        { 0, "0ms" },
        { 1, "1ms" },
        { 500, "500ms" },
        { 999, "999ms" },
        { 1000, "1s" },
        { 1099, "1s" },
        { 1500, "1.5s" },
        { 9999, "9.9s" },
        { 10000, "10s" },
        { 10999, "10s" },
        { 59999, "59s" },
        { 60000, "1m" },
        { 90000, "1m30s" },
        { 3599999, "59m59s" },
        { 3600000, "1h" },
        { 7200000, "2h" },
        { 7260000, "2h1m" },
        { 86400000, "1d" },
        { 90000000, "1d1h" },
        { -500, "-500ms" },
        { -90000, "-1m30s" },
        { INT64_MAX, "106751991167d7h" },
        { INT64_MIN, "-106751991167d7h" },
    };
    char buf[32], tiny[4];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(hfi_format_duration(cases[i].ms, buf, sizeof buf), cases[i].text);

    assert_string_equal(hfi_format_duration(90000, tiny, sizeof tiny), "1m3");
    assert_ptr_equal(hfi_format_duration(90000, NULL, 0), NULL);
}

static void numbers(void **state)
{
    static const char *const bad[] = { "",
                                       " 1",
                                       "1 ",
                                       "+1",
                                       "-1",
                                       "0x1",
                                       "1a",
                                       "a",
                                       "1.",
                                       "½",
                                       "1e1",
                                       "18446744073709551616",
                                       "99999999999999999999",
                                       "184467440737095516150" };
    uint64_t value = 77;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_non_null(hfi_parse_u64(bad[i], 0, UINT64_MAX, &value));
        assert_int_equal(value, 77);
    }
    assert_non_null(hfi_parse_u64("4", 5, 9, &value));
    assert_non_null(hfi_parse_u64("10", 5, 9, &value));
    assert_int_equal(value, 77);

    assert_null(hfi_parse_u64("5", 5, 9, &value));
    assert_int_equal(value, 5);
    assert_null(hfi_parse_u64("009", 5, 9, &value));
    assert_int_equal(value, 9);
    assert_null(hfi_parse_u64("18446744073709551615", 0, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
}

/* ---- globs ---------------------------------------------------------------- */

static bool match(const char *pattern, const char *text)
{
    return hfi_glob_match((const unsigned char *)pattern, strlen(pattern),
                          (const unsigned char *)text, strlen(text));
}

static void globs(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        { "", "", true },
        { "", "a", false },
        { "*", "", true },
        { "*", "any/thing.x", true },
        { "**", "", true },
        { "?", "", false },
        { "?", "a", true },
        { "?", "ab", false },
        { "a*", "a", true },
        { "a*b", "ab", true },
        { "a*b", "axxb", true },
        { "a*b", "axxbc", false },
        { "*.log", ".log", true },
        { "*.log", "x.log", true },
        { "*.log", "x.logs", false },
        { "a*b*c", "aXbYbZc", true },
        { "[abc]", "b", true },
        { "[abc]", "d", false },
        { "[a-c]x", "bx", true },
        { "[!a-c]", "b", false },
        { "[!a-c]", "d", true },
        { "[^a-c]", "d", true },
        { "[]]", "]", true },
        { "[!]]", "]", false },
        { "[!]]", "x", true },
        { "[a-]", "-", true },
        { "[-a]", "-", true },
        { "[a-]", "b", false },
        { "[c-a]", "b", false },
        { "[\\]]", "]", true },
        { "[\\]]", "\\", false },
        { "[a\\-z]", "m", false },
        { "[a\\-z]", "-", true },
        { "[", "[", true },
        { "[a", "[a", true },
        { "[a", "a", false },
        { "[!", "[!", true },
        { "x[", "x[", true },
        { "[]", "[]", true },
        { "\\*", "*", true },
        { "\\*", "a", false },
        { "\\", "\\", true },
        { "\\\\", "\\", true },
        { "\\a", "a", true },
        { "a\\?", "a?", true },
        { "a\\?", "ab", false },
        { "A", "a", false },
        { "[\x80-\xff]", "\xe9", true },
        { "?", "\xff", true },
        { "*[0-9]", "abc1", true },
        { "*[0-9]", "abc1x", false },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (match(cases[i].pattern, cases[i].text) != cases[i].matches)
            print_error("pattern '%s' text '%s'\n", cases[i].pattern, cases[i].text);
        assert_int_equal(match(cases[i].pattern, cases[i].text), cases[i].matches);
    }
    assert_true(
        hfi_glob_match((const unsigned char *)"a*\0b", 4, (const unsigned char *)"axx\0b", 5));
    assert_false(
        hfi_glob_match((const unsigned char *)"a\0b", 3, (const unsigned char *)"a\0c", 3));
}

/* The C library agrees, over what both understand. */
static void globs_like_fnmatch(void **state)
{
    static const char *const elements[] = { "a",    "b",     "*",     "*",   "?",
                                            "[ab]", "[!ab]", "[a-c]", "\\*", "c" };
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        char pattern[64] = "", text[16] = "";
        size_t count = unit_random(&seed) % 7, len = unit_random(&seed) % 9;

        for (size_t i = 0; i < count; i++)
            strcat(pattern, elements[unit_random(&seed) % COUNT(elements)]);
        for (size_t i = 0; i < len; i++)
            text[i] = "abcd*"[unit_random(&seed) % 5];

        if (match(pattern, text) != (fnmatch(pattern, text, 0) == 0))
            print_error("pattern '%s' text '%s'\n", pattern, text);
        assert_int_equal(match(pattern, text), fnmatch(pattern, text, 0) == 0);
    }
}

/* A backtracking matcher would need longer than the universe for this. */
static void globs_take_no_time(void **state)
{
    char pattern[512], text[512];

    (void)state;
    for (size_t i = 0; i + 1 < sizeof pattern; i++)
        pattern[i] = i % 2 ? '*' : 'a';
    pattern[sizeof pattern - 2] = 'b';
    pattern[sizeof pattern - 1] = 0;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_false(match(pattern, text));
}

/* ---- names for people ------------------------------------------------------ */

static void quoted_names(void **state)
{
    static const struct {
        const char *name;
        size_t len;
        const char *quoted;
    } cases[] = {
        { "", 0, "" },
        { "job", 3, "job" },
        { "a b'c\"", 6, "a b'c\"" },
        { "a\\b", 3, "a\\x5cb" },
        { "a\nb\0c\x7f", 6, "a\\x0ab\\x00c\\x7f" },
        { "\x1b[31m", 5, "\\x1b[31m" },
        { "caf\xc3\xa9", 5, "caf\xc3\xa9" },
        { "\xe2\x82\xac", 3, "\xe2\x82\xac" },
        { "\xf0\x9f\x94\x92", 4, "\xf0\x9f\x94\x92" },
        { "\xff\xfe", 2, "\\xff\\xfe" },
        { "\xc3", 1, "\\xc3" },
        { "\xe2\x82", 2, "\\xe2\\x82" },
        { "\xe2\x82"
          "A",
          3, "\\xe2\\x82A" },
        { "\xc0\xaf", 2, "\\xc0\\xaf" }, /* too long a form of '/' */
        { "\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf" },
        { "\xed\xa0\x80", 3, "\\xed\\xa0\\x80" },          /* a surrogate */
        { "\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80" }, /* beyond the last */
        { "\xc2\x9b"
          "31m",
          5, "\\xc2\\x9b31m" }, /* CSI, as one character */
        { "a\xe2\x80\xae"
          "b",
          5,
          "a\\xe2\\x80\\xae"
          "b" }, /* right-to-left override */
        { "a\xe2\x80\x8b"
          "b",
          5,
          "a\\xe2\\x80\\x8b"
          "b" }, /* zero width */
        { "\x80", 1, "\\x80" },
    };
    char buf[HFI_QUOTED_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(hfi_quote_name(cases[i].name, cases[i].len, buf, sizeof buf),
                            cases[i].quoted);
}

static void the_longest_name_fits(void **state)
{
    unsigned char name[HF_NAME_MAX];
    char buf[HFI_QUOTED_MAX];

    (void)state;
    memset(name, 0xff, sizeof name);
    hfi_quote_name(name, sizeof name, buf, sizeof buf);
    assert_int_equal(strlen(buf), 4 * HF_NAME_MAX);
    assert_null(strstr(buf, "..."));
}

/* Whatever the buffer's size: it ends in NUL, in whole pieces, and says that it was cut. */
static void cut_names(void **state)
{
    static const char name[] = "ab\x01\xe2\x82\xac\xff"
                               "cd";
    char whole[64], buf[64];
    size_t whole_len;

    (void)state;
    hfi_quote_name(name, sizeof name - 1, whole, sizeof whole);
    whole_len = strlen(whole);
    assert_string_equal(whole, "ab\\x01\xe2\x82\xac\\xffcd");

    for (size_t size = 1; size < sizeof buf; size++) {
        size_t len;

        memset(buf, '#', sizeof buf);
        hfi_quote_name(name, sizeof name - 1, buf, size);
        len = strlen(buf);
        assert_true(len < size);
        assert_int_equal(buf[size], '#');
        if (size > whole_len) {
            assert_string_equal(buf, whole);
        } else if (size >= sizeof "...") {
            assert_string_equal(buf + len - 3, "...");
            assert_memory_equal(buf, whole, len - 3);
            assert_int_not_equal((unsigned char)whole[len - 3] & 0xc0, 0x80);
        }
    }
    assert_string_equal(hfi_quote_name(name, sizeof name - 1, buf, 8), "ab...");
    assert_string_equal(hfi_quote_name(name, sizeof name - 1, buf, 10), "ab\\x01...");
    buf[0] = '#';
    hfi_quote_name(name, 3, buf, 0);
    assert_int_equal(buf[0], '#');
}

/* What a server says may be meant for the terminal: escape sequences, also of one byte, lines of its own, text that runs the
 * other way. */
static void disarmed_words(void **state)
{
    static const struct {
        const char *words, *left;
    } cases[] = {
        { "", "" },
        { "as it is: \\x1b, \xe2\x82\xac", "as it is: \\x1b, \xe2\x82\xac" },
        { "a\x1b[2Jb\x7f\ac", "a?[2Jb??c" },
        { "x\nholdfast: FORGED\r\ty", "x holdfast: FORGED  y" },
        { "\x9b"
          "31m \x80\x9f",
          "?31m ??" }, /* C1, of an 8-bit terminal */
        { "\xc2\x9b|\xc2\x80|\xc2\xa0",
          "??|??|\xc2\xa0" },                     /* C1 in UTF-8; a no-break space is none */
        { "\xe2\x80\xaa\xe2\x80\xae", "??????" }, /* U+202A, U+202E */
        { "\xe2\x81\xa6\xe2\x81\xa9", "??????" }, /* U+2066, U+2069 */
        { "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "????????" }, /* U+200E, U+200F, U+061C */
        { "\xe2\x80\xa8", "???" },                          /* a line separator */
        { "\xff\xc2", "??" },
        { "\xe2\x82", "??" },               /* half a character */
        { "\xc0\x8a", "??" },               /* a line feed, in too many bytes */
        { "\xe9\x9b\xaa", "\xe9\x9b\xaa" }, /* a byte of a character is no control */
    };
    char buf[64];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        strcpy(buf, cases[i].words);
        hfi_disarm(buf, false);
        assert_string_equal(buf, cases[i].left);
    }
    strcpy(buf, "two\nlines\x1b\r");
    hfi_disarm(buf, true);
    assert_string_equal(buf, "two\nlines? ");
}

/* ---- hex -------------------------------------------------------------------- */

static void hex(void **state)
{
    unsigned char all[256], back[256], small[2] = { 7, 7 };
    char text[513];

    (void)state;
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)i;
    hfi_hex(all, sizeof all, text);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102", 6);
    assert_true(hfi_unhex(text, 512, back, sizeof back));
    assert_memory_equal(all, back, sizeof all);

    assert_true(hfi_unhex("", 0, small, 0));
    assert_true(hfi_unhex("AbcD", 4, small, 2));
    assert_int_equal(small[0], 0xab);
    assert_int_equal(small[1], 0xcd);
    assert_false(hfi_unhex("abc", 3, small, 1));
    assert_false(hfi_unhex("abc", 3, small, 2));
    assert_false(hfi_unhex("ab", 2, small, 2));
    assert_false(hfi_unhex("0g", 2, small, 1));
    assert_false(hfi_unhex("11 2", 4, small, 2));
    assert_false(hfi_unhex("0x", 2, small, 1));
    assert_int_equal(small[0], 0xab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_durations),
        cmocka_unit_test(bad_durations),
        cmocka_unit_test(formatted_durations),
        cmocka_unit_test(numbers),
        cmocka_unit_test(globs),
        cmocka_unit_test(globs_like_fnmatch),
        cmocka_unit_test(globs_take_no_time),
        cmocka_unit_test(quoted_names),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(cut_names),
        cmocka_unit_test(disarmed_words),
        cmocka_unit_test(hex),
        cmocka_unit_test(json_shows_nothing_unseen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
