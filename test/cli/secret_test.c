/* SPDX-License-Identifier: MIT */
/* Secrets in store URLs: util/url_text.c and cli/secret.c. */
#include "secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *must_strdup(const char *text);
char *must_strdup(const char *text)
{
    return strdup(text);
}

void say_error(const char *format, ...);
void say_error(const char *format, ...)
{
    fail_msg("%s", format);
}

static void without(const char *url, const char *expected)
{
    char *result = url_without_secrets(url);

    assert_string_equal(result, expected);
    free(result);
}

static void passwords_are_left_out(void **state)
{
    (void)state;
    without("file:/a/b@c:d", "file:/a/b@c:d");
    without("redis://host/0", "redis://host/0");
    without("redis://:secret@host/0", "redis://host/0");
    without("redis://me:secret@host/0?db=1", "redis://me@host/0?db=1");
    without("redis://me:se@cr/et@host/0", "redis://me@host/0");
    without("redis://host/?password=x&db=1&Auth_Token=y", "redis://host/?db=1");
    without("redis://host/?password=x", "redis://host/");
    without("redis://host/?%70assword=x&db=1", "redis://host/?db=1");
    without("redis://host/?x_file=a@b", "redis://host/"); /* the end of a password */
    without("redis+unix://:secret@/run/sock?db=1", "redis+unix:///run/sock?db=1");
    without("redis+sentinel://me:secret@a:1,b:2/master/0", "redis+sentinel://me@a:1,b:2/master/0");
}

/* A child can only use the store if it is told where the password is. */
static void places_of_passwords_stay(void **state)
{
    static const char *const urls[] = {
        "redis://host/?password_file=/etc/pw&db=1",
        "redis://me@host/?password_env=PW",
        "redis+sentinel://h/m?sentinel_password_file=/a&sentinel_user=x",
        "rediss://host/?ca=/a&cert=/b&key=/c",
    };

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        without(urls[i], urls[i]);
    without("redis://host/?sslkey=x&keys=y&file=z", "redis://host/?file=z");
}

static void param(const char *url, const char *key, const char *expected)
{
    char *value = hfi_url_value(url, key);

    if (expected)
        assert_string_equal(value, expected);
    else
        assert_null(value);
    free(value);
}

static void parameters_are_found(void **state)
{
    (void)state;
    param("redis://h?password_env=PW", "password_env", "PW");
    param("redis://h?a=b&password_env=&c=d", "password_env", "");
    param("redis://h?sentinel_password_env=PW", "password_env", NULL);
    param("redis://h?password_env", "password_env", NULL);
    param("redis://h", "password_env", NULL);
    param("redis://h?%70assword_env=PW", "password_env", "PW");
    param("redis://h?a=b&%70%61ssword%5Fen%76=P%57", "password_env", "PW");
    param("redis://h?password_env%=PW", "password_env", NULL);
    param("redis://h?password_env=P%5", "password_env", "P%5");
    param("redis://h?password_env=P%zz", "password_env", "P%zz");
    param("profile", "password_env", NULL);
}

static void wiped(const char *url, const char *expected)
{
    char *copy = strdup(url);

    hfi_url_wipe(copy);
    assert_string_equal(copy, expected);
    free(copy);
}

static void argv_is_wiped_only_if_it_must_be(void **state)
{
    (void)state;
    wiped("file:/a/b", "file:/a/b");
    wiped("profile", "profile");
    wiped("redis://host/?db=1", "redis://host/?db=1");
    wiped("redis://u:p@h", "redis:*******");
    wiped("redis://h?pwd=1", "redis:*********");
    wiped("redis://h?password_file=/etc/pw", "redis://h?password_file=/etc/pw");
}

static void variables_are_overwritten(void **state)
{
    char *at;

    (void)state;
    setenv("CLI_TEST_PW", "sesame", 1);
    at = getenv("CLI_TEST_PW");
    env_wipe("CLI_TEST_PW");
    assert_string_equal(at, "******");
    env_wipe("CLI_TEST_NONE");
    env_wipe("CLI_TEST_PW=");
    env_wipe("");
    env_wipe(NULL);
}

static void with(const char *url, const char *password, const char *expected)
{
    const char *wrong = NULL;
    char *result = hfi_url_with_password(url, password, &wrong);

    if (!expected) {
        assert_null(result);
        assert_non_null(wrong);
        return;
    }
    assert_string_equal(result, expected);
    free(result);
}

static void a_password_is_put_in(void **state)
{
    (void)state;
    with("redis://host/0", "a b", "redis://:a%20b@host/0");
    with("redis://me@host/0", "p@:/", "redis://me:p%40%3A%2F@host/0");
    with("redis://me:old@host/0", "new", NULL);
    with("file:/a", "x", NULL);
}

static void complete(const char *url, const char *expected)
{
    char *result = url_with_its_password(url);

    assert_string_equal(result, expected);
    secret_free(result);
}

/* What an outer run hands on must need no environment: the command does not get the variable. */
static void a_variable_is_put_in(void **state)
{
    (void)state;
    setenv("CLI_TEST_PW", "s@same", 1);
    complete("redis://h/0", "redis://h/0");
    complete("redis://:a@h/0", "redis://:a@h/0");
    complete("redis://h/0?password_env=CLI_TEST_PW", "redis://:s%40same@h/0");
    complete("redis://me@h/0?%70assword_env=CLI_TEST_PW&db=1", "redis://me:s%40same@h/0?db=1");
    complete("redis://h?db=1&password_env=CLI_TEST_PW", "redis://:s%40same@h?db=1");
    complete("redis://h?a=b&password_env=CLI_TEST_PW&c=d", "redis://:s%40same@h?a=b&c=d");
    complete("redis://h?password_env=CLI_TEST_NONE", "redis://h?password_env=CLI_TEST_NONE");
    complete("redis://u:p@h?password_env=CLI_TEST_PW", "redis://u:p@h?password_env=CLI_TEST_PW");
    unsetenv("CLI_TEST_PW");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passwords_are_left_out),
        cmocka_unit_test(places_of_passwords_stay),
        cmocka_unit_test(parameters_are_found),
        cmocka_unit_test(variables_are_overwritten),
        cmocka_unit_test(argv_is_wiped_only_if_it_must_be),
        cmocka_unit_test(a_password_is_put_in),
        cmocka_unit_test(a_variable_is_put_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
