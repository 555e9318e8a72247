/* SPDX-License-Identifier: MIT */
/* The engine's pure parts: protocol buffers, keys and values, places in the queue, URLs. No server. */
#include "core/conf.h"
#include "engine/etcd/api.h"
#include "engine/etcd/version.h"
#include "util/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- protocol buffers ------------------------------------------------------------------------- */

static const struct etcd_form inner_form = { .fields = { { 1, ETCD_NUMBER, NULL },
                                                         { 2, ETCD_BYTES, NULL } } };
static const struct etcd_form outer_form = { .fields = { { 1, ETCD_MESSAGE, &inner_form },
                                                         { 2, ETCD_NUMBER, NULL },
                                                         { 3, ETCD_MESSAGES, &inner_form } } };

static struct etcd_message message_of(const struct etcd_text *text)
{
    return (struct etcd_message){ (const unsigned char *)text->bytes, text->len };
}

/* Numbers at the borders of a varint, and nested messages whose length needs one byte, two and three. */
static void messages_are_read_back(void **state)
{
    static const int64_t numbers[] = { 0,         1,  127,       128,      16383,   16384,
                                       INT64_MAX, -1, INT64_MIN, 1L << 53, 1 << 30, 255 };
    static const size_t lens[] = { 0, 1, 100, 124, 125, 126, 127, 128, 16380, 16384, 70000 };
    static char bytes[70000];

    (void)state;
    memset(bytes, 'b', sizeof bytes);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < sizeof lens / sizeof *lens; k++) {
            struct etcd_text text = { 0 };
            struct etcd_message at, one;
            size_t begun = etcd_put_begin(&text, 1), count = 0;

            etcd_put_number(&text, 1, numbers[i]);
            etcd_put_bytes(&text, 2, bytes, lens[k]);
            etcd_put_end(&text, begun);
            etcd_put_number(&text, 2, numbers[i]);
            for (int part = 0; part < 3; part++) {
                begun = etcd_put_begin(&text, 3);
                etcd_put_number(&text, 1, part);
                etcd_put_end(&text, begun);
            }
            at = message_of(&text);
            assert_true(etcd_message_fits(at, &outer_form));
            assert_true(etcd_number(at, 2) == numbers[i]);
            assert_true(etcd_number(etcd_part(at, 1), 1) == numbers[i]);
            assert_int_equal(etcd_part(etcd_part(at, 1), 2).len, lens[k]);
            assert_int_equal(etcd_count(at, 3), 3);
            while (etcd_next(&at, 3, &one))
                assert_int_equal(etcd_number(one, 1), count++);
            /* Cut anywhere (but between two fields) it does not fit. */
            for (size_t len = 0; len < text.len && text.len < 300; len++) {
                struct etcd_message cut = { (const unsigned char *)text.bytes, len };

                (void)etcd_number(cut, 2);
                (void)etcd_part(cut, 1);
                (void)etcd_count(cut, 3);
                if (len < text.len - 12) /* the three parts of four bytes */
                    assert_true(len == 0 || len == text.len - 12 - 2 ||
                                !etcd_message_fits(cut, &outer_form) || etcd_number(cut, 2) == 0);
            }
            etcd_text_done(&text);
        }
}

static bool fits_bytes(const void *bytes, size_t len)
{
    return etcd_message_fits((struct etcd_message){ bytes, len }, &outer_form);
}

#define FITS(text) fits_bytes(text, sizeof text - 1)

static void malformed_messages_do_not_fit(void **state)
{
    (void)state;
    assert_true(FITS(""));
    assert_true(FITS("\x10\x01"));
    assert_true(FITS("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));  /* -1 */
    assert_false(FITS("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")); /* more than 64 bits */
    assert_false(FITS("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"));
    assert_false(FITS("\x10"));         /* no value */
    assert_false(FITS("\x12\x01x"));    /* bytes where a number must be */
    assert_false(FITS("\x0a\x02\x08")); /* longer than what follows */
    assert_false(FITS("\x0a\x01\x08")); /* the inner one is cut */
    assert_false(FITS("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x")); /* 2^64 - 1 bytes */
    assert_false(FITS("\x0a\x00\x0a\x00"));                              /* twice */
    assert_true(FITS("\x1a\x00\x1a\x00"));                               /* repeated */
    assert_false(FITS("\x02\x00"));                                      /* field 0 */
    assert_false(FITS("\x13"));                                          /* a group */
    assert_false(FITS("\x17\x01"));                                      /* no such type */
    assert_true(FITS("\x7a\x01x\x7d"
                     "1234"
                     "\x79"
                     "12345678")); /* unknown fields */
    assert_false(FITS("\x79"
                      "1234567"));
    assert_false(etcd_message_fits((struct etcd_message){ NULL, 0 }, &outer_form));
    /* Also where nobody has asked whether it fits: never a part beyond the end. */
    assert_null(etcd_part((struct etcd_message){ (const unsigned char *)"\x12\x05"
                                                                        "abcde",
                                                 6 },
                          2)
                    .at);
}

/* Transactions in transactions have an end. */
static void deep_messages_do_not_fit(void **state)
{
    struct etcd_text text = { 0 };
    size_t begun[64];

    (void)state;
    for (size_t i = 0; i < 64; i += 2) {
        begun[i] = etcd_put_begin(&text, 3);
        begun[i + 1] = etcd_put_begin(&text, 4);
    }
    for (size_t i = 64; i-- > 0;)
        etcd_put_end(&text, begun[i]);
    assert_false(etcd_message_fits(message_of(&text), etcd_txn_method.reply));
    etcd_text_done(&text);
}

/* ---- keys and values --------------------------------------------------------------------------- */

static struct hfi_claim claim_of(const void *name, size_t len, enum hfi_mode mode,
                                 uint32_t capacity)
{
    struct hfi_claim claim = { .name = { .bytes = name, .len = (uint32_t)len },
                               .mode = mode,
                               .capacity = capacity,
                               .permits = 1 };

    memset(claim.owner, 0xa5, sizeof claim.owner);
    return claim;
}

/* Any bytes make a key, which says the same when it is read; also the longest. */
static void keys_are_read_back(void **state)
{
    unsigned char name[HF_NAME_MAX];
    char prefix[ETCD_PREFIX_MAX + 1];
    struct etcd_record record;
    struct etcd_key key;

    (void)state;
    memset(prefix, 'p', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = 0;
    for (unsigned first = 0; first < 256; first++) {
        size_t len = first % 2 ? sizeof name : 1 + first / 2;
        struct hfi_claim claim = claim_of(name, len, (enum hfi_mode)(first % 3),
                                          first % 3 == HFI_MODE_SEMAPHORE ? HF_CAPACITY_MAX
                                          : first % 3 == HFI_MODE_RW      ? HFI_RW_MAX
                                                                          : 1);

        for (size_t i = 0; i < sizeof name; i++)
            name[i] = (unsigned char)(first + i * (first % 5));
        etcd_claim_key(prefix, &claim, &key);
        assert_true(key.len <= sizeof key.bytes);
        assert_true(etcd_read_key(prefix, key.bytes, key.len, &record));
        assert_int_equal(record.name_len, len);
        assert_memory_equal(record.name, name, len);
        assert_int_equal(record.mode, claim.mode);
        assert_int_equal(record.capacity, claim.capacity);
    }
}

static int order(const struct etcd_key *a, const struct etcd_key *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int by_bytes = memcmp(a->bytes, b->bytes, len);

    return by_bytes ? by_bytes : (a->len > b->len) - (a->len < b->len);
}

/* No key of one name, or kind, lies in the range of another. */
static void ranges_do_not_mix(void **state)
{
    static const char *const names[] = { "a",    "a/",   "a/m",    "a0",  "a/0", "b",   "a%",
                                         "a%2F", "a/m/", "a/s5/x", "a b", "A",   "a\n", "/" };
    static const uint32_t capacities[] = { 1, 5, 50, 55, 500 };
    size_t count = sizeof names / sizeof *names;
    struct etcd_key key, from, to;

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            struct hfi_claim claim = claim_of(names[i], strlen(names[i]), HFI_MODE_MUTEX, 1);

            etcd_claim_key("p", &claim, &key);
            etcd_name_range("p", (const unsigned char *)names[j], (uint32_t)strlen(names[j]), &from,
                            &to);
            assert_int_equal(order(&from, &key) <= 0 && order(&key, &to) < 0, i == j);
        }
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            struct hfi_claim one = claim_of("n", 1, HFI_MODE_SEMAPHORE, capacities[i]);
            struct hfi_claim two = claim_of("n", 1, HFI_MODE_SEMAPHORE, capacities[j]);

            etcd_claim_key("p", &one, &key);
            etcd_kind_range("p", &two, &from, &to);
            assert_int_equal(order(&from, &key) <= 0 && order(&key, &to) < 0, i == j);
        }
}

static void values(void **state)
{
    static const char *const bad[] = {
        "",
        "1",
        "2 1 30 5 0123456789abcdef - 0123456789abcdef0123456789abcdef x",
        "1 0 30 5 0123456789abcdef - 0123456789abcdef0123456789abcdef x",
        "1 1 30 5 0123456789abcdeg - 0123456789abcdef0123456789abcdef x",
        "1 1 30 5 0123456789abcde - 0123456789abcdef0123456789abcdef x",
        "1 1 -30 5 0123456789abcdef - 0123456789abcdef0123456789abcdef x",
        "1 99999999999 30 5 0123456789abcdef - 0123456789abcdef0123456789abcdef x"
    };
    struct hfi_claim claim = claim_of("n", 1, HFI_MODE_MUTEX, 1);
    struct etcd_record record;
    char value[ETCD_VALUE_MAX];
    size_t len;

    (void)state;
    claim.flags = HFI_CLAIM_DETACHED;
    len = etcd_write_value(&claim, 30, 12345, "0123456789abcdef", "who, where and why", value);
    assert_true(etcd_read_value(value, len, &record));
    assert_int_equal(record.ttl_s, 30);
    assert_int_equal(record.since_ms, 12345);
    assert_true(record.detached);
    assert_memory_equal(record.owner, claim.owner, HFI_OWNER_LEN);
    assert_string_equal(record.store, "0123456789abcdef");
    assert_string_equal(record.label, "who, where and why");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(etcd_read_value(bad[i], strlen(bad[i]), &record));
}

static hf_status parse(const char *text, struct etcd_conf **ret_conf, hf_error *err)
{
    struct hfi_conf *conf = NULL;
    struct hfi_url url;
    hf_status status = hfi_url_parse(text, &url, err);

    if (status != HF_OK)
        return status;
    status = hfi_conf_read(&url, &etcd_conf_type, &conf, err);
    if (status == HF_OK)
        status = etcd_conf_finish((struct etcd_conf *)conf, err);
    hfi_url_done(&url);
    if (status == HF_OK)
        *ret_conf = (struct etcd_conf *)conf;
    else
        hfi_conf_free(conf);
    return status;
}

static void urls(void **state)
{
    static const char *const bad[] = {
        "etcd:h",
        "etcd://",
        "etcd://h:0",
        "etcd://h:x",
        "etcd://h,",
        "etcd://[::1",
        "etcd://a:b:c",
        "etcd://:pw@h",
        "etcd://u@h",
        "etcd://h/a@b",
        "etcd://h?ca=/x",
        "etcd://h?unknown=1",
        "etcd://h?user=u",
        "etcds://h?cert=/x",
        "etcds://h?verify=maybe",
        "etcd://h?op_timeout=0ms",
        "etcd://u:p@h?user=v",
        "etcd://u:p@h?password_env=HOME",
        "etcd://u@h?password_env=NO_SUCH_VARIABLE",
        "etcds://h?ca=/no/such/file",
        "etcd://h/%zz",
    };
    struct etcd_conf *conf = NULL;
    hf_error err;

    (void)state;
    assert_int_equal(
        parse("etcd://u%40:se%3Acret@a:1234,b,[::1]:7/team/locks/?op_timeout=1s", &conf, &err),
        HF_OK);
    assert_int_equal(conf->url.host_count, 3);
    assert_string_equal(conf->url.hosts[0].shown, "a:1234");
    assert_string_equal(conf->url.hosts[1].shown, "b:2379");
    assert_string_equal(conf->url.hosts[2].shown, "[::1]:7");
    assert_string_equal(conf->url.user, "u@");
    assert_string_equal(conf->url.secret, "se:cret");
    assert_string_equal(conf->prefix, "team/locks");
    assert_int_equal(conf->op_ms, 1000);
    assert_string_equal(conf->location, "etcd://a:1234,b:2379,[::1]:7/team/locks");
    assert_null(strstr(conf->location, "cret"));
    hfi_conf_free(conf);
    assert_int_equal(parse("etcds://h", &conf, &err), HF_OK);
    assert_true(conf->url.tls.on && conf->url.tls.verify);
    assert_string_equal(conf->prefix, "holdfast");
    hfi_conf_free(conf);
    assert_int_equal(parse("etcd://[fe80::1%25eth0]:7", &conf, &err), HF_OK);
    assert_string_equal(conf->location, "etcd://[fe80::1%eth0]:7/holdfast");
    hfi_conf_free(conf);
    setenv("ETCD_TEST_SECRET", "from the environment", 1);
    assert_int_equal(parse("etcd://u@h?password_env=ETCD_TEST_SECRET", &conf, &err), HF_OK);
    assert_string_equal(conf->url.secret, "from the environment");
    hfi_conf_free(conf);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hf_status status = parse(bad[i], &conf, &err);

        if (status != HF_CONFIG && status != HF_DENIED)
            fail_msg("%s: %d", bad[i], (int)status);
        assert_true(strlen(err.text) > 0);
    }
}

/* ---- versions --------------------------------------------------------------------------------- */

static void versions_are_judged(void **state)
{
    static const struct {
        const char *version;
        hf_check_level level;
    } cases[] = {
        { "3.3.27", HF_CHECK_LEVEL_BAD },
        { "2.3.8", HF_CHECK_LEVEL_BAD },
        { "3.4.0", HF_CHECK_LEVEL_WARNING },
        { "3.4.23", HF_CHECK_LEVEL_WARNING },
        { "3.4.30", HF_CHECK_LEVEL_WARNING },
        { "3.4.31", HF_CHECK_LEVEL_OK },
        { "3.4.40", HF_CHECK_LEVEL_OK },
        { "3.5.0-rc.1", HF_CHECK_LEVEL_BAD },
        { "3.5.0", HF_CHECK_LEVEL_BAD },
        { "3.5.1", HF_CHECK_LEVEL_BAD },
        { "3.5.2", HF_CHECK_LEVEL_BAD },
        { "3.5.3", HF_CHECK_LEVEL_WARNING },
        { "3.5.12", HF_CHECK_LEVEL_WARNING },
        { "3.5.13", HF_CHECK_LEVEL_OK },
        { "3.5.35", HF_CHECK_LEVEL_OK },
        { "3.6.0", HF_CHECK_LEVEL_OK },
        { "3.6.16", HF_CHECK_LEVEL_OK },
        { "3.10.2", HF_CHECK_LEVEL_OK },
        { "4.0.0", HF_CHECK_LEVEL_OK },
        { "", HF_CHECK_LEVEL_WARNING },
        { "3", HF_CHECK_LEVEL_WARNING },
        { "3.5", HF_CHECK_LEVEL_WARNING },
        { "newest", HF_CHECK_LEVEL_WARNING },
        { "3.x.1", HF_CHECK_LEVEL_WARNING },
        { "99999999999.4.0", HF_CHECK_LEVEL_WARNING },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct etcd_judged judged = etcd_version_judge(cases[i].version);

        if (judged.level != cases[i].level)
            fail_msg("etcd %s: level %d", cases[i].version, (int)judged.level);
        assert_int_equal(judged.why != NULL, judged.level != HF_CHECK_LEVEL_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_read_back),
        cmocka_unit_test(malformed_messages_do_not_fit),
        cmocka_unit_test(deep_messages_do_not_fit),
        cmocka_unit_test(keys_are_read_back),
        cmocka_unit_test(ranges_do_not_mix),
        cmocka_unit_test(values),
        cmocka_unit_test(urls),
        cmocka_unit_test(versions_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
