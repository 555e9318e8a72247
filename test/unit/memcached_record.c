/* SPDX-License-Identifier: MIT */
/* Keys and values of the memcached engine, and its URLs. */
#include "unit.h"

#include "core/conf.h"
#include "engine/memcached/conf.h"
#include "engine/memcached/proto.h"
#include "engine/memcached/record.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hfi_name name_of(const void *bytes, size_t len)
{
    struct hfi_name name = { .bytes = bytes, .len = (uint32_t)len };

    hfi_hash128(bytes, len, name.hash);
    return name;
}

static struct memcached_key key_of(const void *bytes, size_t len)
{
    struct hfi_name name = name_of(bytes, len);
    struct memcached_key key;

    memcached_key("hf:", 'l', &name, &key);
    return key;
}

static void keys(void **state)
{
    char name[HF_NAME_MAX], prefix[MEMCACHED_PREFIX_MAX + 1];
    struct memcached_key key = key_of("job", 3);
    struct hfi_name longest;

    (void)state;
    assert_true(key.len == 8 && memcmp(key.text, "hf:l:job", 8) == 0);
    memset(name, 'n', sizeof name);
    assert_int_equal(key_of(name, 245).len, 250);
    key = key_of(name, 246);
    assert_true(key.len == 5 + 32 && memcmp(key.text, "hf:L:", 5) == 0);
    /* A byte that cannot be in a key, and only that. */
    for (int byte = 0; byte < 256; byte++) {
        unsigned char one = (unsigned char)byte;
        bool fits = byte > ' ' && byte != 0x7f;

        key = key_of(&one, 1);
        assert_int_equal(key.text[3], fits ? 'l' : 'L');
        for (unsigned i = 0; i < key.len; i++)
            assert_true(memcached_key_byte((unsigned char)key.text[i]));
    }
    memset(prefix, 'p', MEMCACHED_PREFIX_MAX);
    prefix[MEMCACHED_PREFIX_MAX] = 0;
    longest = name_of(name, sizeof name);
    memcached_key(prefix, 'c', &longest, &key);
    assert_true(key.len == MEMCACHED_PREFIX_MAX + 2 + 32 && key.text[MEMCACHED_PREFIX_MAX] == 'C');
}

static void records(void **state)
{
    unsigned char name[HF_NAME_MAX];
    char label[HF_LABEL_MAX], text[MEMCACHED_RECORD_MAX], *copy;
    struct memcached_record record = { .detached = true,
                                       .ttl_ms = HF_DURATION_MAX_MS,
                                       .since_ms = INT64_MAX,
                                       .name = name,
                                       .name_len = HF_NAME_MAX,
                                       .label = label,
                                       .label_len = HF_LABEL_MAX },
                            back;
    size_t len;

    (void)state;
    memset(name, '\n', sizeof name);
    memset(label, ' ', sizeof label);
    memset(record.owner, 0xab, sizeof record.owner);
    len = memcached_record_write(&record, text);
    assert_true(len <= sizeof text);
    assert_true(memcached_record_read(text, len, &back));
    assert_true(back.detached && back.ttl_ms == HF_DURATION_MAX_MS && back.since_ms == INT64_MAX);
    assert_true(back.name_len == HF_NAME_MAX && back.label_len == HF_LABEL_MAX);
    assert_memory_equal(back.name, name, sizeof name);
    assert_memory_equal(back.owner, record.owner, HFI_OWNER_LEN);
    for (size_t i = 0; i < len; i++) { /* in an allocation of its own: ASan sees a read past it */
        copy = malloc(i ? i : 1);
        assert_non_null(copy);
        memcpy(copy, text, i);
        assert_false(memcached_record_read(copy, i, &back));
        free(copy);
    }
    text[len] = 'x';
    assert_false(memcached_record_read(text, len + 1, &back));
}

static void cells(void **state)
{
    struct memcached_cell cell = { .version = 7,
                                   .name = (const unsigned char *)"n",
                                   .name_len = 1 },
                          back;
    char text[MEMCACHED_HEAD_MAX + HF_NAME_MAX + 8];
    size_t len = memcached_cell_head(&cell, text);

    (void)state;
    memcpy(text + len, "bytes", 5);
    assert_true(memcached_cell_read(text, len + 5, &back));
    assert_true(back.version == 7 && back.len == 5 && back.name_len == 1);
    assert_memory_equal(back.bytes, "bytes", 5);
    assert_true(memcached_cell_read(text, len, &back) && back.len == 0);
    assert_false(memcached_cell_read(text, len - 1, &back));
    assert_false(memcached_cell_read("holdfastc1 0 1\nn", 16, &back));
    assert_false(memcached_record_read(text, len, &(struct memcached_record){ 0 }));
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static hf_status conf_of(const char *text, struct memcached_conf **ret_conf, hf_error *err)
{
    struct hfi_conf *conf = NULL;
    struct hfi_url url;
    hf_status status = hfi_url_parse(text, &url, err);

    if (status != HF_OK)
        return status;
    status = hfi_conf_read(&url, &memcached_conf_type, &conf, err);
    if (status == HF_OK)
        status = memcached_conf_finish((struct memcached_conf *)conf, err);
    hfi_url_done(&url);
    if (status == HF_OK)
        *ret_conf = (struct memcached_conf *)conf;
    else
        hfi_conf_free(conf);
    return status;
}

static void good_urls(void **state)
{
    static const struct {
        const char *url, *host, *path, *location;
        uint16_t port;
    } cases[] = {
        { "memcached://h", "h", NULL, "memcached://h:11211", 11211 },
        { "memcached://10.0.0.4:1/", "10.0.0.4", NULL, "memcached://10.0.0.4:1", 1 },
        { "memcached://[::1]:65535", "::1", NULL, "memcached://[::1]:65535", 65535 },
        { "memcached://u:p%40@h", "h", NULL, "memcached://h:11211", 11211 },
        { "memcached+unix:///run/m.sock", NULL, "/run/m.sock", "memcached+unix:///run/m.sock", 0 },
        { "memcached+unix://u:p@/run/m", NULL, "/run/m", "memcached+unix:///run/m", 0 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct memcached_conf *conf = NULL;
        hf_error err;

        if (conf_of(cases[i].url, &conf, &err) != HF_OK)
            fail_msg("%s: %s", cases[i].url, err.text);
        assert_string_equal(conf->location, cases[i].location);
        assert_int_equal(conf->url.hosts[0].port, cases[i].port);
        if (cases[i].host)
            assert_string_equal(conf->url.hosts[0].host, cases[i].host);
        else
            assert_string_equal(conf->url.hosts[0].path, cases[i].path);
        assert_string_equal(conf->prefix, "hf:");
        hfi_conf_free(conf);
    }
}

static void bad_urls(void **state)
{
    static const struct {
        const char *url, *says;
    } cases[] = {
        { "memcached:h", "\"//\"" },
        { "memcached://", "empty" },
        { "memcached://h:0", "port" },
        { "memcached://h:65536", "port" },
        { "memcached://h:", "port" },
        { "memcached://h:x", "port" },
        { "memcached://[::1", "]" },
        { "memcached://[::1]x", "]" },
        { "memcached://a:b:c", "two ':'" },
        { "memcached://a,b", "one server" },
        { "memcached://h/0", "path" },
        { "memcached://h h", "neither" },
        { "memcached://u@h", "password" },
        { "memcached://:p@h", "user" },
        { "memcached://u:S3KR3T%20x@h", "one word" },
        { "memcached://u:S3KR3T/x@h", "%2F" },
        { "memcached://u:S3KR3T@h?password_env=X", "second" },
        { "memcached://u@h?password_env=HOLDFAST_NO_SUCH", "password_env" },
        { "memcached://u@h?password_file=/no/such", "password_file" },
        { "memcached://h?password_env=HOME", "user" },
        { "memcached://h?prefix=a%20b", "prefix" },
        { "memcached://h?op_timeout=5", "op_timeout" },
        { "memcached://h?poll=0ms", "poll" },
        { "memcached+unix://h", "begin with" },
        { "memcached+unix:///", "missing" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct memcached_conf *conf = NULL;
        hf_error err = { .text = "" };
        hf_status status = conf_of(cases[i].url, &conf, &err);

        if ((status != HF_CONFIG && status != HF_DENIED) || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].url, hf_status_name(status), err.text);
        assert_null(strstr(err.text, "S3KR3T"));
    }
}

static void long_prefix(void **state)
{
    char url[300] = "memcached://h?prefix=";
    struct memcached_conf *conf = NULL;
    size_t len = strlen(url);

    (void)state;
    memset(url + len, 'p', MEMCACHED_PREFIX_MAX);
    assert_int_equal(conf_of(url, &conf, NULL), HF_OK);
    hfi_conf_free(conf);
    url[len + MEMCACHED_PREFIX_MAX] = 'p';
    assert_int_equal(conf_of(url, &conf, NULL), HF_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),      cmocka_unit_test(records),  cmocka_unit_test(cells),
        cmocka_unit_test(good_urls), cmocka_unit_test(bad_urls), cmocka_unit_test(long_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
