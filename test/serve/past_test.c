/* SPDX-License-Identifier: MIT */
/* Keys of leases that have ended: how long they are remembered, and whose are forgotten when there is no room. */
#include "leases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int64_t now_ms;

int64_t clock_ms(void)
{
    return now_ms;
}

static void end(const char *client, const char *format, int number)
{
    struct lease *lease = lease_new(client);

    assert_non_null(lease);
    snprintf(lease->key, sizeof lease->key, format, number);
    lease->token = 1;
    lease_free(lease);
}

static void a_crowd_forgets_its_own(void **state)
{
    char key[KEY_LEN_MAX + 1];

    (void)state;
    for (int i = 0; i < 100; i++)
        end("quiet", "mine-%d", i);
    for (int i = 0; i < PAST_MAX + 1000; i++)
        end("loud", "k-%d", i);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "mine-%d", i);
        if (!past_find("quiet", key))
            fail_msg("%s was pushed out", key);
    }
    assert_false(past_find("loud", "mine-1"));
    assert_false(past_find("loud", "k-0"));
    assert_true(past_find("loud", "k-100999"));
    end("third", "last", 0); /* there is room for one that comes late */
    assert_true(past_find("third", "last"));
    assert_true(past_find("quiet", "mine-0"));
}

static void after_ten_minutes_all_are_forgotten(void **state)
{
    (void)state;
    now_ms += PAST_KEEP_MS - 1;
    end("quiet", "new", 0);
    now_ms += 2;
    assert_false(past_find("quiet", "mine-0"));
    assert_false(past_find("loud", "k-100999"));
    assert_true(past_find("quiet", "new"));
    now_ms += PAST_KEEP_MS;
    assert_false(past_find("quiet", "new"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_forgets_its_own),
        cmocka_unit_test(after_ten_minutes_all_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
