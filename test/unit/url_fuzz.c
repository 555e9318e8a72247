/* SPDX-License-Identifier: MIT */
/*
 * Random URLs, for a bounded count: HOLDFAST_FUZZ_COUNT (500,000) from
 * HOLDFAST_SEED (1). Pieces that mean something to the parser are put together
 * at random, and bytes changed at random; every text has its own allocation of
 * its exact size, so that AddressSanitizer sees a read past its end.
 */
#include "unit.h"

#include "core/url.h"
#include "util/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "S3KR3T" /* stands where secrets stand; must never be shown */

static uint64_t seed;  /* the generator's state */
static uint64_t start; /* what to put into HOLDFAST_SEED, with a count of 1, to see it again */
static char made[HFI_URL_MAX + 200];
static bool finished;

static size_t pick(size_t below)
{
    return unit_random(&seed) % below;
}

static void append(char *text, size_t size, const char *piece)
{
    if (strlen(text) + strlen(piece) < size)
        strcat(text, piece);
}

static void make_text(char *text, size_t size)
{
    static const char *const pieces[] = {
        "file",
        "redis",
        "FILE",
        ":",
        ":",
        "//",
        "/",
        "/",
        "?",
        "?",
        "&",
        "&",
        "=",
        "=",
        "%",
        "%41",
        "%00",
        "%2",
        "%zz",
        "@",
        "a",
        "b",
        "ttl",
        "5s",
        "\x01",
        "\x7f",
        "\xc3\xa9",
        "\xff",
        "#",
        "+",
        "password=" MARK,
        "u:" MARK "@",
        " ",
        ".",
        "-",
        "x=1",
        "x=1&y=2",
        "0",
    };

    text[0] = 0;
    if (pick(4))
        append(text, size, pick(2) ? "file:" : "redis://");
    for (size_t n = pick(20); n > 0; n--)
        append(text, size, pieces[pick(COUNT(pieces))]);
    for (size_t n = pick(8) == 0 ? pick(4) : 0; n > 0 && *text; n--)
        text[pick(strlen(text))] = (char)(1 + pick(255));
    if (pick(500) == 0)
        for (size_t n = pick(1200); n > 0; n--)
            append(text, size, pieces[pick(COUNT(pieces))]);
}

static void check_parsed(struct hfi_url *url, const char *text)
{
    char *shown = hfi_url_redacted(url);
    struct hfi_url again;
    int64_t ms = 0;
    uint64_t n = 0;

    assert_string_equal(url->text, text);
    for (const char *c = url->scheme; *c; c++)
        assert_false(*c >= 'A' && *c <= 'Z');
    assert_null(strchr(url->rest, '?'));
    assert_true(url->param_count <= HFI_URL_PARAMS_MAX);

    for (size_t i = 0; i < url->param_count; i++) {
        assert_true(url->params[i].at < strlen(text));
        assert_true(strlen(url->params[i].key) > 0);
        assert_ptr_equal(hfi_url_take(url, url->params[i].key), url->params[i].value);
        (void)hfi_url_take_duration(url, url->params[i].key, 0, HF_MS_MAX, &ms, NULL);
        (void)hfi_url_take_number(url, url->params[i].key, 0, 100, &n, NULL);
    }
    assert_int_equal(hfi_url_all_taken(url, NULL), HF_OK);

    /* What is shown is a URL too, and tells no secret. */
    assert_non_null(shown);
    assert_int_equal(hfi_url_parse(shown, &again, NULL),
                     strlen(shown) > HFI_URL_MAX ? HF_CONFIG : HF_OK);
    if (strlen(shown) <= HFI_URL_MAX) {
        assert_string_equal(again.scheme, url->scheme);
        assert_int_equal(again.param_count, url->param_count);
        hfi_url_done(&again);
    }
    hfi_free(shown);
}

/* A secret in its place (a password parameter; user-info with an '@' behind it) is never shown. */
static void check_secret(const struct hfi_url *url)
{
    char *shown = hfi_url_redacted(url);
    const char *last = strrchr(url->rest, '@');
    const char *path = strncmp(url->rest, "//", 2) == 0 && url->rest[2] != '/' ? NULL : url->rest;

    if (strcmp(url->scheme, "file") != 0 && !path && last) {
        struct hfi_url again;

        assert_int_equal(hfi_url_parse(shown, &again, NULL), HF_OK);
        assert_non_null(strstr(again.rest, "***@"));
        assert_string_equal(strrchr(again.rest, '@'), last);
        hfi_url_done(&again);
    }
    if (strchr(shown, '?')) {
        assert_null(strstr(strchr(shown, '?'), "?password=" MARK));
        assert_null(strstr(strchr(shown, '?'), "&password=" MARK));
    }
    hfi_free(shown);
}

static void one_round(void)
{
    char *text;
    struct hfi_url url;
    hf_error err;
    hf_status status;

    make_text(made, sizeof made);
    text = strdup(made); /* exactly its size */
    assert_non_null(text);

    memset(&err, 'x', sizeof err);
    status = hfi_url_parse(text, &url, &err);
    if (status == HF_OK) {
        check_parsed(&url, text);
        check_secret(&url);
        hfi_url_done(&url);
    } else {
        assert_int_equal(status, HF_CONFIG);
        assert_int_equal(err.status, HF_CONFIG);
        assert_non_null(memchr(err.text, 0, sizeof err.text));
        assert_null(strstr(err.text, MARK));
    }

    (void)hfi_url_decode(text);
    free(text);
}

static void many_rounds(void **state)
{
    const char *count_text = getenv("HOLDFAST_FUZZ_COUNT"), *seed_text = getenv("HOLDFAST_SEED");
    unsigned long count = count_text ? strtoul(count_text, NULL, 10) : UNIT_ROUNDS(500000);
    uint64_t first = seed_text ? strtoull(seed_text, NULL, 10) : 1;

    (void)state;
    for (unsigned long i = 0; i < count; i++) {
        start = first + i;
        seed = start * UINT64_C(0x9e3779b97f4a7c15) | 1;
        one_round();
    }
    finished = true;
}

static int tell_seed(void **state)
{
    (void)state;
    if (!finished)
        print_error("HOLDFAST_SEED=%llu HOLDFAST_FUZZ_COUNT=1: '%s'\n", (unsigned long long)start,
                    made);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(many_rounds, tell_seed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
