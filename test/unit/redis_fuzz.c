/* SPDX-License-Identifier: MIT */
/*
 * Random input to the two parsers that read what others wrote: the reader of replies, and the URL.
 * HOLDFAST_FUZZ_COUNT (30,000) rounds from HOLDFAST_SEED (1). Inputs are put together from pieces
 * that mean something, with bytes changed at random; each has its own allocation of its exact size,
 * so that AddressSanitizer sees a read past its end.
 *
 * Built with -DHOLDFAST_LIBFUZZER and -fsanitize=fuzzer, LLVMFuzzerTestOneInput() is driven by
 * libFuzzer instead; its first byte chooses the parser.
 */
#include "unit.h"

#include "core/url.h"
#include "engine/redis/conf.h"
#include "engine/redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands where secrets stand; must never be shown. libFuzzer would put it elsewhere too. */
#ifdef HOLDFAST_LIBFUZZER
#define MARK "\001"
#else
#define MARK "S3KR3T"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* ---- one input ----------------------------------------------------------------------------------- */

static size_t count_items(const struct hfi_reply *reply, int depth)
{
    size_t count = 1;

    assert_true(depth <= 8);
    if (reply->type == HFI_REPLY_TEXT || reply->type == HFI_REPLY_STATE ||
        reply->type == HFI_REPLY_ERROR) {
        assert_non_null(reply->text);
        assert_int_equal(reply->text[reply->len], 0);
        (void)hfi_reply_status(reply, NULL);
    }
    for (size_t i = 0; i < reply->count; i++)
        count += count_items(&reply->items[i], depth + 1);
    return count;
}

/* Feed it in pieces of `step`; how many items came in all, and how it ended. */
static size_t read_in_steps(const uint8_t *data, size_t len, size_t step, hf_status *ret_status)
{
    struct hfi_reader *reader = hfi_reader_new();
    hf_status status = HF_OK;
    size_t items = 0;

    assert_non_null(reader);
    for (size_t at = 0; at < len && status == HF_OK; at += step) {
        const struct hfi_reply *reply = NULL;

        assert_true(hfi_reader_feed(reader, data + at, len - at < step ? len - at : step));
        do {
            reply = NULL;
            status = hfi_reader_next(reader, &reply);
            if (status == HF_OK && reply)
                items += count_items(reply, 0);
        } while (status == HF_OK && reply);
    }
    hfi_reader_free(reader);
    *ret_status = status;
    return items;
}

/* However it comes in pieces, it means the same. */
static void try_reader(const uint8_t *data, size_t len)
{
    hf_status whole, pieces;
    size_t items = read_in_steps(data, len, len ? len : 1, &whole);

    assert_true(whole == HF_OK || whole == HF_CORRUPT);
    for (size_t step = 1; step <= 7; step += 3) {
        size_t again = read_in_steps(data, len, step, &pieces);

        assert_int_equal(pieces, whole);
        assert_int_equal(again, items);
    }
}

static void try_conf(const char *text)
{
    struct hfi_redis_conf *conf = NULL;
    struct hfi_url url;
    hf_error err;
    hf_status status;

    if (hfi_url_parse(text, &url, &err) != HF_OK)
        return;
    memset(&err, 'x', sizeof err);
    status = hfi_conf_parse(&url, "fuzz", &conf, &err);
    if (status == HF_OK) {
        assert_true(conf->address_count > 0 && conf->address_count <= HFI_HOSTS_MAX);
        if (!conf->addresses[0].path) /* in a path it is no secret */
            assert_null(strstr(conf->location, MARK));
        for (size_t i = 0; i < conf->address_count; i++) {
            assert_non_null(conf->addresses[i].shown);
            assert_true(conf->addresses[i].path || conf->addresses[i].port > 0);
        }
        hfi_conf_free(conf);
    } else {
        assert_true(status == HF_CONFIG || status == HF_DENIED);
        assert_non_null(memchr(err.text, 0, sizeof err.text));
        assert_null(strstr(err.text, MARK));
    }
    hfi_url_done(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text;

    if (len == 0)
        return 0;
    if (data[0] & 1) {
        try_reader(data + 1, len - 1);
        return 0;
    }
    text = malloc(len); /* strndup() would read on to a NUL, as AddressSanitizer sees it */
    if (!text)
        return 0;
    memcpy(text, data + 1, len - 1);
    text[len - 1] = 0;
    try_conf(text);
    free(text);
    return 0;
}

/* ---- many inputs --------------------------------------------------------------------------------- */

#ifndef HOLDFAST_LIBFUZZER

static uint64_t seed, start;
static bool finished;

static size_t pick(size_t below)
{
    return unit_random(&seed) % below;
}

static size_t append(char *to, size_t size, const char *piece)
{
    size_t len = strlen(to);

    snprintf(to + len, size - len, "%s", piece);
    return strlen(to);
}

static void make_replies(char *to, size_t size)
{
    static const char *const pieces[] = {
        ":1\r\n",
        ":-5\r\n",
        "+OK\r\n",
        "-ERR x\r\n",
        "$3\r\nabc\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "*0\r\n",
        "*1\r\n",
        "*2\r\n",
        "*3\r\n",
        "*-1\r\n",
        "*-2\r\n",
        "*1048577\r\n",
        "*99999999\r\n",
        "$67108865\r\n",
        "$99\r\n",
        "$",
        "*",
        ":",
        "\r\n",
        "\n",
        "\r",
        "9",
        "-",
        "x",
        "*10485\r\n",
        "*9999999999999999999\r\n",
        "-OOM \r\n",
        "-ERR Error running script @user_script:1: OOM x\r\n",
        "%2\r\n",
        ">1\r\n",
    };

    /* The longest list that is allowed takes all the memory one may: not often. */
    snprintf(to, size, "%s", pick(500) ? "" : "*1048576\r\n");
    for (size_t n = 1 + pick(20); n > 0; n--)
        append(to, size, pieces[pick(COUNT(pieces) - (pick(4) ? 20 : 0))]);
}

static void make_url(char *to, size_t size)
{
    static const char *const pieces[] = {
        "h",
        "localhost",
        "10.0.0.1",
        "[::1]",
        ":6379",
        ":0",
        ":99999",
        ",",
        ",b",
        "/",
        "/1",
        "/m",
        "/m/2",
        "@",
        "u:" MARK "@",
        ":" MARK "@",
        "%41",
        "%",
        "%00",
        "[",
        "]",
        ":",
        "?",
        "&",
        "=",
        "db=1",
        "?db=2",
        "tls=on",
        "?tls=on",
        "&verify=off",
        "&sni=x",
        "&wire=plain",
        "&repair_expiry=1s",
        "&prefix=a",
        "&prefix={",
        "&sync=1",
        "&op_timeout=1s",
        "&connect_timeout=x",
        "?password_env=" MARK,
        "&password_file=/" MARK,
        "&user=u",
        "&sentinel_user=x",
        "&ca=/nonexistent",
    };
    static const char *const schemes[] = {
        "redis://",         "rediss://",  "redis+unix://", "redis+sentinel://",
        "redis+cluster://", "redlock://", "redis:"
    };

    to[0] = 0;
    append(to, size, schemes[pick(COUNT(schemes))]);
    for (size_t n = pick(10); n > 0; n--)
        append(to, size, pieces[pick(COUNT(pieces))]);
}

static void one_round(void)
{
    char made[1024];
    size_t len;
    uint8_t *exact;
    bool replies = pick(2);

    if (replies)
        make_replies(made + 1, sizeof made - 1);
    else
        make_url(made + 1, sizeof made - 1);
    made[0] = (char)replies;
    len = 1 + strlen(made + 1);
    for (size_t n = pick(3) == 0 ? pick(4) : 0; n > 0 && len > 1; n--)
        made[1 + pick(len - 1)] = (char)pick(256);
    if (pick(5) == 0)
        len -= pick(len);

    exact = malloc(len);
    memcpy(exact, made, len);
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static void many_rounds(void **state)
{
    const char *count_text = getenv("HOLDFAST_FUZZ_COUNT"), *seed_text = getenv("HOLDFAST_SEED");
    unsigned long count = count_text ? strtoul(count_text, NULL, 10) : UNIT_ROUNDS(30000);
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
        print_error("HOLDFAST_SEED=%llu HOLDFAST_FUZZ_COUNT=1\n", (unsigned long long)start);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(many_rounds, tell_seed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
