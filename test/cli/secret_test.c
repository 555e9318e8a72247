/* SPDX-License-Identifier: MIT */
/* Secrets in store URLs: cli/secret.c. */
#include "secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void *must_alloc(size_t size);
void *must_alloc(size_t size)
{
    return calloc(1, size);
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
}

static void wiped(const char *url, const char *expected)
{
    char *copy = strdup(url);

    url_wipe(copy);
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
}

static void with(const char *url, const char *password, const char *expected)
{
    const char *wrong = NULL;
    char *result = url_with_password(url, password, &wrong);

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passwords_are_left_out),
        cmocka_unit_test(argv_is_wiped_only_if_it_must_be),
        cmocka_unit_test(a_password_is_put_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
