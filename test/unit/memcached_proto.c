/* SPDX-License-Identifier: MIT */
/* What memcached says, taken apart: every form, cut anywhere, and nothing that is not one. */
#include "unit.h"

#include "engine/memcached/proto.h"

#include <stdlib.h>
#include <string.h>

/* Parse a copy that ends where its allocation ends. */
static enum memcached_result parse(const char *text, size_t len, struct memcached_reply *ret_reply,
                                   size_t *ret_used)
{
    static char *copy;

    free(copy);
    copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    return memcached_parse(copy, len, ret_reply, ret_used);
}

/* It is whole, and every shorter piece of it is not. */
static struct memcached_reply whole(const char *text)
{
    struct memcached_reply reply = { 0 };
    size_t len = strlen(text), used = 0;

    for (size_t i = 0; i < len; i++)
        if (parse(text, i, &reply, &used) != MEMCACHED_MORE)
            fail_msg("%zu bytes of %s", i, text);
    if (parse(text, len, &reply, &used) != MEMCACHED_DONE || used != len)
        fail_msg("%s", text);
    return reply;
}

static void meta_replies(void **state)
{
    struct memcached_reply reply;

    (void)state;
    reply = whole("HD\r\n");
    assert_true(reply.kind == MEMCACHED_HD && !reply.has_cas && !reply.has_ttl &&
                !reply.has_opaque);
    reply = whole("HD c18446744073709551615 O7\r\n");
    assert_true(reply.kind == MEMCACHED_HD && reply.has_cas && reply.cas == UINT64_MAX &&
                reply.has_opaque && reply.opaque == 7);
    reply = whole("NS c0 O12\r\n");
    assert_true(reply.kind == MEMCACHED_NS && reply.cas == 0 && reply.opaque == 12);
    assert_true(whole("EX\r\n").kind == MEMCACHED_EX);
    assert_true(whole("NF O1\r\n").kind == MEMCACHED_NF);
    assert_true(whole("EN\r\n").kind == MEMCACHED_EN);
    assert_true(whole("MN\r\n").kind == MEMCACHED_MN);
    assert_true(whole("HD \r\n").kind == MEMCACHED_HD);
    reply = whole("HD khf:l:job W f0 t-1\r\n");
    assert_true(reply.has_ttl && reply.ttl_s == -1);
}

static void values(void **state)
{
    struct memcached_reply reply = whole("VA 5 c9 t30 O3\r\na\r\nbc\r\n");
    size_t used;

    (void)state;
    assert_true(reply.kind == MEMCACHED_VA && reply.len == 5 && reply.cas == 9 &&
                reply.ttl_s == 30);
    assert_memory_equal(reply.text, "a\r\nbc", 5);
    assert_true(!reply.stale && reply.flags == 0);
    reply = whole("VA 1 c9 f4294967295 O3 X W\r\nx\r\n");
    assert_true(reply.stale && reply.flags == UINT32_MAX && reply.cas == 9);
    reply = whole("VA 0\r\n\r\n");
    assert_true(reply.kind == MEMCACHED_VA && reply.len == 0);
    assert_int_equal(parse("HD\r\nVA 1\r\nx\r\n", 13, &reply, &used), MEMCACHED_DONE);
    assert_int_equal(used, 4); /* one at a time */
}

static void other_lines(void **state)
{
    struct memcached_reply reply;

    (void)state;
    reply = whole("VERSION 1.6.18\r\n");
    assert_true(reply.kind == MEMCACHED_VERSION && reply.len == 6);
    reply = whole("STAT pid 12\r\n");
    assert_true(reply.kind == MEMCACHED_STAT && reply.len == 6);
    assert_true(whole("END\r\n").kind == MEMCACHED_END);
    assert_true(whole("STORED\r\n").kind == MEMCACHED_STORED);
    assert_true(whole("ERROR\r\n").kind == MEMCACHED_REFUSED);
    assert_true(whole("CLIENT_ERROR bad command line format\r\n").kind == MEMCACHED_REFUSED);
    assert_true(whole("SERVER_ERROR out of memory storing object\r\n").kind == MEMCACHED_ERROR);
    assert_true(whole("BUSY currently processing crawler request\r\n").kind == MEMCACHED_BUSY);
    reply = whole("key=hf%3Al%3Ajob exp=-1 la=1 cas=3\n");
    assert_true(reply.kind == MEMCACHED_DUMPED && reply.len == 34);
}

static void not_replies(void **state)
{
    static const char *const bad[] = {
        "\n",
        "\r\n",
        "HD\n",
        "hd\r\n",
        "HDX\r\n",
        "HD  c1\r\n",
        "HD c\r\n",
        "HD cx\r\n",
        "HD c-1\r\n",
        "HD c1x\r\n",
        "HD t\r\n",
        "HD t-2\r\n",
        "HD O\r\n",
        "HD 5\r\n",
        "HD c18446744073709551616\r\n",
        "VA\r\n",
        "VA x\r\n",
        "VA -1\r\n",
        "VA 99999999\r\n",
        "VA 1\r\nxx\r\n",
        "VA 1 c\r\nx\r\n",
        "VA 1 f4294967296\r\nx\r\n",
        "VA 1 X1\r\nx\r\n",
        "MN x\r\n",
        "END of it\r\n",
        "STORED x\r\n",
        "$5\r\nhello\r\n",
        " HD\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        "VALUE k 0 1\r\n",
        "HD \1\r\n",
    };
    char endless[MEMCACHED_LINE_MAX + 1];
    struct memcached_reply reply;
    size_t used;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        if (parse(bad[i], strlen(bad[i]), &reply, &used) != MEMCACHED_BAD)
            fail_msg("taken for a reply: %s", bad[i]);
    memset(endless, 'x', sizeof endless);
    assert_int_equal(parse(endless, sizeof endless, &reply, &used), MEMCACHED_BAD);
}

static void numbers(void **state)
{
    uint64_t value = 0;

    (void)state;
    assert_true(memcached_number("0", 1, 9, &value) && value == 0);
    assert_true(memcached_number("18446744073709551615", 20, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_false(memcached_number("18446744073709551616", 20, UINT64_MAX, &value));
    assert_false(memcached_number("10", 2, 9, &value));
    assert_false(memcached_number("", 0, 9, &value));
    assert_false(memcached_number("+1", 2, 9, &value));
    assert_false(memcached_number("000000000000000000001", 21, 9, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meta_replies), cmocka_unit_test(values),  cmocka_unit_test(other_lines),
        cmocka_unit_test(not_replies),  cmocka_unit_test(numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
