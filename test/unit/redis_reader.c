/* SPDX-License-Identifier: MIT */
/*
 * Bytes to replies: whole, in pieces at every place, several at once; what is not RESP, and what is
 * beyond a bound, before memory is spent on it.
 */
#include "unit.h"

#include "engine/redis/reply.h"
#include "util/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reply as text: i7 t"x" s"OK" e"ERR" n [..] */
static void show(const struct hfi_reply *reply, char *to, size_t size)
{
    size_t len = strlen(to);

    switch (reply->type) {
    case HFI_REPLY_NIL:
        snprintf(to + len, size - len, "n ");
        break;
    case HFI_REPLY_INTEGER:
        snprintf(to + len, size - len, "i%lld ", (long long)reply->integer);
        break;
    case HFI_REPLY_LIST:
        snprintf(to + len, size - len, "[ ");
        for (size_t i = 0; i < reply->count; i++)
            show(&reply->items[i], to, size);
        len = strlen(to);
        snprintf(to + len, size - len, "] ");
        break;
    default:
        assert_int_equal(reply->text[reply->len], 0);
        snprintf(to + len, size - len, "%c\"%s\"%zu ",
                 reply->type == HFI_REPLY_TEXT    ? 't'
                 : reply->type == HFI_REPLY_STATE ? 's'
                                                  : 'e',
                 reply->text, reply->len);
    }
}

/* All replies in `bytes`, fed in two pieces. */
static hf_status read_all(const char *bytes, size_t len, size_t split, char *to, size_t size)
{
    struct hfi_reader *reader = hfi_reader_new();
    hf_status status = HF_OK;

    assert_non_null(reader);
    to[0] = 0;
    for (int piece = 0; piece < 2 && status == HF_OK; piece++) {
        const struct hfi_reply *reply;

        assert_true(
            hfi_reader_feed(reader, piece ? bytes + split : bytes, piece ? len - split : split));
        do {
            reply = NULL;
            status = hfi_reader_next(reader, &reply);
            if (status == HF_OK && reply)
                show(reply, to, size);
        } while (status == HF_OK && reply);
    }
    if (status != HF_OK) { /* and so it stays */
        const struct hfi_reply *reply = NULL;

        (void)hfi_reader_feed(reader, ":1\r\n", 4);
        assert_int_equal(hfi_reader_next(reader, &reply), status);
        assert_null(reply);
    }
    hfi_reader_free(reader);
    return status;
}

static void good(void **state)
{
    static const struct {
        const char *bytes, *shown;
    } cases[] = {
        { ":7\r\n", "i7 " },
        { ":-7\r\n:0\r\n", "i-7 i0 " },
        { ":9223372036854775807\r\n", "i9223372036854775807 " },
        { ":-9223372036854775808\r\n", "i-9223372036854775808 " },
        { "+OK\r\n", "s\"OK\"2 " },
        { "+\r\n", "s\"\"0 " },
        { "-ERR no\r\n", "e\"ERR no\"6 " },
        { "$-1\r\n", "n " },
        { "$0\r\n\r\n", "t\"\"0 " },
        { "$5\r\na\r\nb\n\r\n", "t\"a\r\nb\n\"5 " },
        { "*-1\r\n", "n " },
        { "*0\r\n", "[ ] " },
        { "*3\r\n$1\r\nG\r\n:12\r\n:1\r\n", "[ t\"G\"1 i12 i1 ] " },
        { "*2\r\n*1\r\n*0\r\n*2\r\n$-1\r\n-E\r\n", "[ [ [ ] ] [ n e\"E\"1 ] ] " },
        { "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "[ [ [ [ [ [ [ i1 ] ] ] ] ] ] ] " },
        { "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
          "[ [ [ [ [ [ [ [ i1 ] ] ] ] ] ] ] ] " },
        { "*2\r\n*2\r\n:1\r\n*0\r\n*-1\r\n:2\r\n", "[ [ i1 [ ] ] n ] i2 " },
        { "+a\rb\nc\n\rd\r\n", "s\"a\rb\nc\n\rd\"8 " },
        { "-\n\r\r\n", "e\"\n\r\"2 " },
        { "+A\r\n*1\r\n+B\r\n:3\r\n", "s\"A\"1 [ s\"B\"1 ] i3 " },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t len = strlen(cases[i].bytes);

        for (size_t split = 0; split <= len; split++) {
            char shown[256];

            assert_int_equal(read_all(cases[i].bytes, len, split, shown, sizeof shown), HF_OK);
            assert_string_equal(shown, cases[i].shown);
        }
        for (size_t cut = 0; cut < len; cut++) { /* a part of it is never more than a part */
            char shown[256];

            assert_int_equal(read_all(cases[i].bytes, cut, cut, shown, sizeof shown), HF_OK);
            assert_true(strlen(shown) < strlen(cases[i].shown));
        }
    }
}

static void bad(void **state)
{
    static const char *const cases[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        "\r\n",
        "x",
        ":\r\n",
        ":x\r\n",
        ":1x\r\n",
        ":-\r\n",
        ":+1\r\n",
        ":01\r\n",
        ":-0\r\n",
        ": 1\r\n",
        ":1\n:2\r\n",
        ":18446744073709551617\r\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
        "$-2\r\n",
        "$\r\n\r\n",
        "*\r\n",
        "$x\r\nabc\r\n",
        "$3\r\nabcd\r\n", /* longer than it says */
        "$3\r\nabc\n\n",  /* does not end in CRLF */
        "$3\r\nabcXX:1\r\n",
        "$67108865\r\n", /* beyond the bound, before a byte of it has come */
        "$9223372036854775807\r\n",
        "$18446744073709551616\r\n",
        "$99999999999999999999999999999999",
        "*-2\r\n",
        "*x\r\n",
        "*1048577\r\n",
        "*2147483647\r\n",
        "*2147483648\r\n",
        "*4294967297\r\n",
        "*1152921504606846976\r\n", /* CVE-2021-32765: times the size of an item it is 0 */
        "*9223372036854775807\r\n",
        "*2\r\n*1048575\r\n", /* each is within the bound, both are not */
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", /* too deep */
        "%1\r\n+a\r\n:1\r\n", /* RESP3, which we did not ask for */
        "_\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t len = strlen(cases[i]);
        char *exact = malloc(len);

        memcpy(exact, cases[i], len);
        for (size_t split = 0; split <= len; split++) {
            char shown[256];

            if (read_all(exact, len, split, shown, sizeof shown) != HF_CORRUPT)
                fail_msg("accepted: %s (split at %zu)", cases[i], split);
        }
        free(exact);
    }
}

/* A line that does not end, and a text that comes without its end: they do not grow for ever. */
static void endless(void **state)
{
    static const char *const begin[] = { "+", "-", ":", "*", "$5" };
    char piece[1000];

    (void)state;
    memset(piece, 'x', sizeof piece);
    for (size_t i = 0; i < COUNT(begin); i++) {
        struct hfi_reader *reader = hfi_reader_new();
        const struct hfi_reply *reply = NULL;
        hf_status status = HF_OK;
        size_t fed = 0;

        assert_true(hfi_reader_feed(reader, begin[i], strlen(begin[i])));
        while (status == HF_OK && fed < 10 * HFI_REPLY_LINE_MAX) {
            assert_true(hfi_reader_feed(reader, piece, sizeof piece));
            fed += sizeof piece;
            status = hfi_reader_next(reader, &reply);
        }
        assert_int_equal(status, HF_CORRUPT);
        assert_true(fed <= HFI_REPLY_LINE_MAX + sizeof piece);
        hfi_reader_free(reader);
    }
}

/* The longest line, and one byte more; in one piece, and byte by byte at its end. */
static void long_lines(void **state)
{
    size_t room = 1 + HFI_REPLY_LINE_MAX + 1 + 2;
    char *line = malloc(room);

    (void)state;
    memset(line, 'x', room);
    line[0] = '-';
    for (size_t more = 0; more < 2; more++) {
        size_t len = 1 + HFI_REPLY_LINE_MAX + more + 2;

        memcpy(line + len - 2, "\r\n", 2);
        for (size_t first = len - 4; first <= len; first++) {
            struct hfi_reader *reader = hfi_reader_new();
            const struct hfi_reply *reply = NULL;
            hf_status status = HF_OK;

            assert_true(hfi_reader_feed(reader, line, first));
            status = hfi_reader_next(reader, &reply);
            for (size_t at = first; at < len && status == HF_OK; at++) {
                assert_null(reply);
                assert_true(hfi_reader_feed(reader, line + at, 1));
                status = hfi_reader_next(reader, &reply);
            }
            assert_int_equal(status, more ? HF_CORRUPT : HF_OK);
            if (!more)
                assert_int_equal(reply->len, HFI_REPLY_LINE_MAX);
            hfi_reader_free(reader);
        }
    }
    free(line);
}

/* Input that ends in the middle of an item again and again: what has come of it is kept, in memory
 * that does not grow with what went through. */
static void partial(void **state)
{
    static const char bytes[] = "*2\r\n$10\r\n0123456789\r\n:77\r\n";
    struct hfi_reader *reader = hfi_reader_new();
    size_t len = sizeof bytes - 1, replies = 0, at = 0;

    (void)state;
    hfi_alloc_fail_at(0, 0);
    for (int i = 0; i < 20000; i++) {
        const struct hfi_reply *reply = NULL;
        char piece[37];

        for (size_t j = 0; j < sizeof piece; j++)
            piece[j] = bytes[at++ % len];
        assert_true(hfi_reader_feed(reader, piece, sizeof piece));
        do {
            reply = NULL;
            assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
            if (reply) {
                replies++;
                assert_int_equal(reply->count, 2);
                assert_memory_equal(reply->items[0].text, "0123456789", 11);
                assert_int_equal(reply->items[1].integer, 77);
            }
        } while (reply);
    }
    assert_int_equal(replies, at / len);
    assert_true(hfi_alloc_fail_at(0, 0) <= 1); /* the memory for input */
    hfi_reader_free(reader);
}

/* The largest of what is allowed. */
static void at_the_bounds(void **state)
{
    struct hfi_reader *reader = hfi_reader_new();
    const struct hfi_reply *reply = NULL;
    char *text = malloc(HFI_REPLY_TEXT_MAX + 2);

    (void)state;
    assert_true(hfi_reader_feed(reader, "*1048576\r\n", 10));
    for (size_t i = 0; i < HFI_REPLY_ITEMS_MAX; i++) {
        assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
        assert_null(reply);
        assert_true(hfi_reader_feed(reader, ":5\r\n", 4));
    }
    assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
    assert_non_null(reply);
    assert_int_equal(reply->count, HFI_REPLY_ITEMS_MAX);
    assert_int_equal(reply->items[HFI_REPLY_ITEMS_MAX - 1].integer, 5);

    memset(text, 'x', HFI_REPLY_TEXT_MAX);
    memcpy(text + HFI_REPLY_TEXT_MAX, "\r\n", 2);
    assert_true(hfi_reader_feed(reader, "$67108864\r\n", 11));
    for (size_t at = 0, end = HFI_REPLY_TEXT_MAX + 2; at < end; at += 1 << 20) {
        size_t len = end - at < 1 << 20 ? end - at : 1 << 20;

        assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
        assert_null(reply);
        assert_true(hfi_reader_feed(reader, text + at, len));
    }
    assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
    assert_non_null(reply);
    assert_int_equal(reply->len, HFI_REPLY_TEXT_MAX);
    free(text);
    hfi_reader_free(reader);
}

/* Two texts in one reply that are each within the bound, and together are not. */
static void texts_add_up(void **state)
{
    struct hfi_reader *reader = hfi_reader_new();
    const struct hfi_reply *reply = NULL;
    size_t half = HFI_REPLY_TEXT_MAX / 2 + 1;
    char *text = malloc(half + 2);
    hf_status status = HF_OK;

    (void)state;
    memset(text, 'x', half);
    memcpy(text + half, "\r\n", 2);
    assert_true(hfi_reader_feed(reader, "*2\r\n", 4));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(status, HF_OK);
        assert_true(hfi_reader_feed(reader, "$33554433\r\n", 11));
        assert_true(hfi_reader_feed(reader, text, half + 2));
        status = hfi_reader_next(reader, &reply);
    }
    assert_int_equal(status, HF_CORRUPT);
    free(text);
    hfi_reader_free(reader);
}

/* After the first replies nothing is allocated any more. */
static void no_heap(void **state)
{
    static const char bytes[] =
        "*3\r\n$1\r\nG\r\n:12345678\r\n$32\r\n0123456789abcdef0123456789abcdef"
        "\r\n";
    struct hfi_reader *reader = hfi_reader_new();
    const struct hfi_reply *reply = NULL;

    (void)state;
    hfi_alloc_fail_at(0, 0);
    for (int i = 0; i < 10000; i++) {
        assert_true(hfi_reader_feed(reader, bytes, sizeof bytes - 1));
        reply = NULL;
        assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
        assert_int_equal(reply->count, 3);
        assert_int_equal(reply->items[2].len, 32);
        assert_int_equal(hfi_reader_next(reader, &reply), HF_OK);
        assert_null(reply);
    }
    assert_true(hfi_alloc_fail_at(0, 0) <= 1); /* the memory for input */
    hfi_reader_free(reader);
}

static void no_memory(void **state)
{
    struct hfi_reader *reader = NULL;
    const struct hfi_reply *reply = NULL;

    (void)state;
    for (unsigned long k = 1; !reader; k++) {
        hfi_alloc_fail_at(k, 0);
        reader = hfi_reader_new();
        hfi_alloc_fail_at(0, 0);
        assert_true(k < 10);
    }
    hfi_alloc_fail_at(1, 0);
    assert_false(hfi_reader_feed(reader, ":1\r\n", 4));
    hfi_alloc_fail_at(0, 0);
    assert_int_equal(hfi_reader_next(reader, &reply), HF_NO_MEMORY);
    hfi_reader_free(reader);

    reader = hfi_reader_new();
    assert_true(hfi_reader_feed(reader, "*100000\r\n", 9));
    hfi_alloc_fail_at(1, 0);
    assert_int_equal(hfi_reader_next(reader, &reply), HF_NO_MEMORY);
    hfi_alloc_fail_at(0, 0);
    assert_int_equal(hfi_reader_next(reader, &reply), HF_NO_MEMORY);
    hfi_reader_free(reader);
    hfi_reader_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),          cmocka_unit_test(bad),          cmocka_unit_test(endless),
        cmocka_unit_test(at_the_bounds), cmocka_unit_test(texts_add_up), cmocka_unit_test(no_heap),
        cmocka_unit_test(no_memory),     cmocka_unit_test(long_lines),   cmocka_unit_test(partial),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
