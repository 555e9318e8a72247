/* SPDX-License-Identifier: MIT */
/* Store URLs: what is taken, what is refused and where, and what is never shown. */
#include "unit.h"

#include "core/url.h"
#include "util/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void parts(void **state)
{
    struct hfi_url url;
    hf_error err;

    (void)state;
    assert_int_equal(
        hfi_url_parse("FiLe:/var/lib/x%20y?ttl=5s&na%6De=a%26b%3Dc&e=&x==", &url, &err), HF_OK);
    assert_string_equal(url.scheme, "file");
    assert_string_equal(url.rest, "/var/lib/x%20y");
    assert_int_equal(url.param_count, 4);
    assert_string_equal(hfi_url_take(&url, "ttl"), "5s");
    assert_string_equal(hfi_url_take(&url, "name"), "a&b=c");
    assert_string_equal(hfi_url_take(&url, "e"), "");
    assert_string_equal(hfi_url_take(&url, "x"), "=");
    assert_null(hfi_url_take(&url, "TTL"));
    assert_null(hfi_url_take(&url, ""));
    assert_int_equal(url.params[1].at, 27);
    assert_true(hfi_url_decode(url.rest));
    assert_string_equal(url.rest, "/var/lib/x y");
    hfi_url_done(&url);
    hfi_url_done(&url); /* a second time does no harm */
}

static void good_urls(void **state)
{
    static const struct {
        const char *text, *scheme, *rest;
    } good[] = {
        { "file:", "file", "" },
        { "a:", "a", "" },
        { "redis+unix:///run/redis.sock", "redis+unix", "///run/redis.sock" },
        { "x.y-z1:b:c", "x.y-z1", "b:c" },
        { "file:/a b/#frag;x", "file", "/a b/#frag;x" },
        { "file:/\xc3\xa9/\xff", "file", "/\xc3\xa9/\xff" },
        { "redis://u:p@h:1,h:2/0", "redis", "//u:p@h:1,h:2/0" },
        { "file:%", "file", "%" }, /* the engine's to decode, or not */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct hfi_url url;

        assert_int_equal(hfi_url_parse(good[i].text, &url, NULL), HF_OK);
        assert_string_equal(url.text, good[i].text);
        assert_string_equal(url.scheme, good[i].scheme);
        assert_string_equal(url.rest, good[i].rest);
        assert_int_equal(url.param_count, 0);
        hfi_url_done(&url);
    }
}

static void bad_urls(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "byte 0" },
        { ":", "byte 0" },
        { ":x", "byte 0" },
        { "/var/lib/holdfast", "byte 0" },
        { "1file:x", "byte 0" },
        { "file", "byte 4" },
        { "localhost", "no ':' after the scheme at byte 9; a URL begins like" },
        { "fi_le:", "byte 2" },
        { "fi le:", "byte 2" },
        { "f\xc3\xa9:", "byte 1" },
        { "file:/a\nb", "control character at byte 7" },
        { "file:\x7f", "control character at byte 5" },
        { "\x01", "control character at byte 0" },
        { "file:?", "byte 6" },
        { "file:?&a=1", "byte 6" },
        { "file:?a=1&", "byte 10" },
        { "file:?a=1&&b=2", "byte 10" },
        { "file:?a", "byte 6" },
        { "file:?a=1?b=2", "second '?' at byte 9" },
        { "file:??", "second '?' at byte 6" },
        { "file:?a=1&b", "byte 10" },
        { "file:?=1", "without a key at byte 6" },
        { "file:?%=1", "%XX at byte 6" },
        { "file:?a=%", "%XX at byte 8" },
        { "file:?a=%4", "%XX at byte 8" },
        { "file:?a=%4&b=1", "%XX at byte 8" },
        { "file:?a=%zz", "%XX at byte 8" },
        { "file:?a=%00", "%XX at byte 8" },
        { "file:?a=b%00c", "%XX at byte 9" },
        { "file:?a=1&b=2&a=3", "parameter 'a' at byte 14 is given twice" },
        { "file:?a=1&%61=3", "parameter 'a' at byte 10 is given twice" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct hfi_url url, before;
        hf_error err;

        memset(&url, 'x', sizeof url);
        before = url;
        assert_int_equal(hfi_url_parse(bad[i].text, &url, &err), HF_CONFIG);
        assert_int_equal(err.status, HF_CONFIG);
        if (!strstr(err.text, bad[i].says))
            print_error("'%s': %s\n", bad[i].text, err.text);
        assert_non_null(strstr(err.text, bad[i].says));
        assert_memory_equal(&url, &before, sizeof url); /* set only on success */
        assert_int_equal(hfi_url_parse(bad[i].text, &url, NULL), HF_CONFIG);
    }
}

static void limits(void **state)
{
    char text[HFI_URL_MAX + 2], *at = text;
    struct hfi_url url;
    hf_error err;

    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "file:", 5);
    text[HFI_URL_MAX] = 0;
    assert_int_equal(hfi_url_parse(text, &url, &err), HF_OK);
    hfi_url_done(&url);
    text[HFI_URL_MAX] = 'a';
    text[HFI_URL_MAX + 1] = 0;
    assert_int_equal(hfi_url_parse(text, &url, &err), HF_CONFIG);
    assert_non_null(strstr(err.text, "longer than 4096"));

    at += sprintf(at, "file:");
    for (int i = 0; i < HFI_URL_PARAMS_MAX; i++)
        at += sprintf(at, "%ck%d=%d", i ? '&' : '?', i, i);
    assert_int_equal(hfi_url_parse(text, &url, &err), HF_OK);
    assert_int_equal(url.param_count, HFI_URL_PARAMS_MAX);
    assert_string_equal(hfi_url_take(&url, "k31"), "31");
    hfi_url_done(&url);
    sprintf(at, "&more=1");
    assert_int_equal(hfi_url_parse(text, &url, &err), HF_CONFIG);
    assert_non_null(strstr(err.text, "parameter 'more'"));
}

static void what_nobody_took_is_named(void **state)
{
    struct hfi_url url;
    hf_error err;

    (void)state;
    assert_int_equal(hfi_url_parse("file:/x?ttl=5s&tll=6s", &url, &err), HF_OK);
    hfi_url_take(&url, "ttl");
    assert_int_equal(hfi_url_all_taken(&url, &err), HF_CONFIG);
    assert_string_equal(err.text, "store URL: parameter 'tll' at byte 15 is not known");
    hfi_url_take(&url, "tll");
    assert_int_equal(hfi_url_all_taken(&url, &err), HF_OK);
    hfi_url_done(&url);
}

/* What an engine takes without finding it is what it knows: the closest of those is suggested, but
 * nothing that is far, and nothing that the URL has already. */
static void a_mistyped_key_gets_a_suggestion(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "redis://h?op_timout=1s",
          "'op_timout' at byte 10 is not known; did you mean 'op_timeout'?" },
        { "redis://h?tokns=1s", "'tokns' at byte 10 is not known; did you mean 'tokens'?" },
        { "redis://h?colour=1s", "'colour' at byte 10 is not known" },
        { "redis://h?op_timeout=1s&op_timeouts=1s", "'op_timeouts' at byte 24 is not known" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_url url;
        hf_error err;

        assert_int_equal(hfi_url_parse(cases[i].text, &url, &err), HF_OK);
        hfi_url_take(&url, "tokens");
        hfi_url_take(&url, "op_timeout");
        hfi_url_take(&url, "ttl");
        assert_int_equal(hfi_url_all_taken(&url, &err), HF_CONFIG);
        assert_string_equal(err.text + strlen("store URL: parameter "), cases[i].said);
        hfi_url_done(&url);
    }
}

static void decoding(void **state)
{
    static const char *const bad[] = {
        "%", "a%", "%1", "%g1", "%1g", "%%41", "%00", "a%00b", "% 1"
    };
    char text[] = "a%41%2fb%25%32%35%e2%82%AC";

    (void)state;
    assert_true(hfi_url_decode(text));
    assert_string_equal(text, "aA/b%25\xe2\x82\xac");
    for (size_t i = 0; i < COUNT(bad); i++) {
        char copy[16];

        strcpy(copy, bad[i]);
        assert_false(hfi_url_decode(copy));
        assert_string_equal(copy, bad[i]);
    }
}

static void redaction(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        { "file:", "file:" },
        { "file:/a@b/c?ttl=5s", "file:/a@b/c?ttl=5s" },
        { "file:dir@x?apikey=v@w", "file:dir@x?apikey=***" },
        { "redis://h:6379/0", "redis://h:6379/0" },
        { "REDIS://u:SECRET@h/0", "redis://u:***@h/0" },
        { "redis://:SECRET@h", "redis://***@h" },
        { "redis://SECRET@h", "redis://***@h" },
        { "redis://u:SEC@RET@h", "redis://u:***@h" },
        { "redis://u:SEC/RET@h", "redis://u:***@h" },
        { "redis://u:SECRET?x=RET@h", "redis://u:SECRET?x=***" }, /* nobody could know */
        { "redis:u:SECRET@h", "redis:u:***@h" },
        { "redis://SEC%52ET:x@h", "redis://***@h" },
        { "postgresql://app@h/db", "postgresql://app@h/db" },
        { "postgresql://app:SECRET@h/db", "postgresql://app:***@h/db" },
        { "postgresql://:SECRET@h/db", "postgresql://***@h/db" },
        { "postgresql://SEC@RET@h/db", "postgresql://***@h/db" },
        { "postgresql://@h/db", "postgresql://@h/db" },
        { "mysql://app@h/db", "mysql://app@h/db" },
        { "redis+unix:///run/a@b.sock", "redis+unix:///run/a@b.sock" },
        { "redis+unix://:SECRET@/run/sock", "redis+unix://***@/run/sock" },
        { "redis://h?password=SECRET&db=1", "redis://h?password=***&db=1" },
        { "redis://h?db=1&PassWord=SECRET", "redis://h?db=1&PassWord=***" },
        { "redis://h?%70assword=SECRET", "redis://h?%70assword=***" },
        { "redis://h?auth=SECRET&authx=SECRET&sslkey=SECRET",
          "redis://h?auth=***&authx=***&sslkey=***" },
        { "redis://h?x=a%26b", "redis://h?x=a%26b" },
        { "redis://h?password_file=/etc/pw&password_env=PW&key=/etc/key",
          "redis://h?password_file=/etc/pw&password_env=PW&key=/etc/key" },
        { "redis://h?password_file=SE@CRET", "redis://h?password_file=***" },
        { "redis://h?tokens=on&linger=1s", "redis://h?tokens=on&linger=1s" },
        { "redis://app@h?password_file=/etc/pw", "redis://app@h?password_file=/etc/pw" },
        { "etcd://app@h/x?password_env=PW", "etcd://app@h/x?password_env=PW" },
        { "etcd://SEC@RET@h/x?password_env=PW", "etcd://***@h/x?password_env=PW" },
        { "x:?secret=&a=", "x:?secret=***&a=" },
        { "x:?pwd=1&pwd2=2&pass=3&token=4&cred=5",
          "x:?pwd=***&pwd2=***&pass=***&token=***&cred=***" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_url url;
        char *shown;

        assert_int_equal(hfi_url_parse(cases[i].text, &url, NULL), HF_OK);
        shown = hfi_url_redacted(&url);
        assert_string_equal(shown, cases[i].shown);
        hfi_free(shown);
        hfi_url_done(&url);
    }
}

/* A URL that is refused may hold half of a password where a key should be. */
static void errors_tell_no_secrets(void **state)
{
    static const char *const urls[] = {
        "redis://h?password=abc&SECRET",
        "redis://u:p?SECRET@h",
        "redis://u:SECRET@h?x",
        "SECRET",
        "redis://h?password=SECRET%zz",
        "redis://h?password=SECRET\n",
        "redis://h?SECRET@h=1&SECRET@h=2",
        "redis://h?a=SECRET&a=SECRET",
        "SECRET://x?a",
        "redis://h?SECRET",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        struct hfi_url url;
        hf_error err;

        assert_int_equal(hfi_url_parse(urls[i], &url, &err), HF_CONFIG);
        if (strstr(err.text, "SECRET"))
            print_error("'%s': %s\n", urls[i], err.text);
        assert_null(strstr(err.text, "SECRET"));
    }
}

static void out_of_memory(void **state)
{
    struct hfi_url url;
    hf_error err;

    (void)state;
    for (unsigned long k = 1; k <= 2; k++) {
        hfi_alloc_fail_at(k, 0);
        assert_int_equal(hfi_url_parse("file:/x?a=1", &url, &err), HF_NO_MEMORY);
        assert_int_equal(err.status, HF_NO_MEMORY);
    }
    hfi_alloc_fail_at(3, 1);
    assert_int_equal(hfi_url_parse("file:/x?a=1", &url, &err), HF_OK);
    assert_null(hfi_url_redacted(&url));
    hfi_url_done(&url);
    hfi_alloc_fail_at(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),
        cmocka_unit_test(good_urls),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(limits),
        cmocka_unit_test(what_nobody_took_is_named),
        cmocka_unit_test(a_mistyped_key_gets_a_suggestion),
        cmocka_unit_test(decoding),
        cmocka_unit_test(redaction),
        cmocka_unit_test(errors_tell_no_secrets),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
