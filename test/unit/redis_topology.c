/* SPDX-License-Identifier: MIT */
/* Which master to follow when sentinels differ; addresses and redirections as servers send them. */
#include "engine/redis/address.h"
#include "engine/redis/sentinel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct hfi_address old_one = { .host = "10.0.0.1", .port = 6379 };
static struct hfi_address new_one = { .host = "10.0.0.2", .port = 6379 };

static void nobody_answers(void **state)
{
    (void)state;
    assert_int_equal(hfi_sentinel_choose(NULL, 0, 3, NULL, 0), 0);
    assert_int_equal(hfi_sentinel_choose(NULL, 0, 3, &old_one, 7), 0);
}

static void the_last_failover_wins(void **state)
{
    const struct hfi_sentinel_answer answers[] = { { &old_one, 4 },
                                                   { &new_one, 5 },
                                                   { &old_one, 4 } };

    (void)state;
    assert_int_equal(hfi_sentinel_choose(answers, 3, 3, NULL, 0), 1);
    assert_int_equal(hfi_sentinel_choose(answers, 3, 3, &old_one, 4), 1);
    assert_int_equal(hfi_sentinel_choose(answers, 3, 3, &new_one, 5), 1);
}

/* A sentinel that has missed a failover, and is alone to answer: stay where we are. */
static void an_old_answer_is_not_followed(void **state)
{
    const struct hfi_sentinel_answer answers[] = { { &old_one, 4 } };

    (void)state;
    assert_int_equal(hfi_sentinel_choose(answers, 1, 3, &new_one, 5), 1);
    assert_int_equal(hfi_sentinel_choose(answers, 1, 3, &new_one, 4),
                     0); /* not older: a new state */
    assert_int_equal(hfi_sentinel_choose(answers, 1, 1, &new_one, 5), 0); /* it is all there is */
}

/* If the sentinels are set up again, epochs begin again: then all of them answer, and most
 * agree. */
static void most_of_them_are_believed(void **state)
{
    const struct hfi_sentinel_answer answers[] = { { &new_one, 0 },
                                                   { &new_one, 0 },
                                                   { &old_one, 0 } };

    (void)state;
    assert_int_equal(hfi_sentinel_choose(answers, 3, 3, &old_one, 9), 0);
    assert_int_equal(hfi_sentinel_choose(answers, 2, 3, &old_one, 9),
                     2); /* the third may know more */
    assert_int_equal(hfi_sentinel_choose(answers, 3, 4, &old_one, 9), 3);
}

/* No epochs (a user without the right to ask): votes decide, then the current master stays. */
static void votes_decide_among_equals(void **state)
{
    const struct hfi_sentinel_answer answers[] = { { &old_one, 0 },
                                                   { &new_one, 0 },
                                                   { &new_one, 0 } };

    (void)state;
    assert_ptr_equal(answers[hfi_sentinel_choose(answers, 3, 3, &old_one, 0)].master, &new_one);
    assert_ptr_equal(answers[hfi_sentinel_choose(answers, 2, 3, &old_one, 0)].master, &old_one);
    assert_ptr_equal(answers[hfi_sentinel_choose(answers, 2, 3, &new_one, 0)].master, &new_one);
}

static void addresses(void **state)
{
    struct hfi_address *one = hfi_address_new("::1", 3, 6380), *copy;
    struct hfi_address socket = { .path = "/run/s", .shown = "/run/s" };

    (void)state;
    assert_string_equal(one->shown, "[::1]:6380");
    copy = hfi_address_copy(one);
    assert_true(hfi_address_same(one, copy));
    assert_string_equal(copy->shown, one->shown);
    hfi_address_free(copy);
    assert_true(hfi_address_is(one, "::1", 3, 6380));
    assert_false(hfi_address_is(one, "::1", 3, 6381));
    assert_false(hfi_address_is(one, "::", 2, 6380));
    hfi_address_free(one);
    copy = hfi_address_copy(&socket);
    assert_null(copy->host);
    assert_false(hfi_address_same(copy, &socket)); /* there is one only */
    hfi_address_free(copy);

    assert_null(hfi_address_new("", 0, 6380));
    assert_null(hfi_address_new("host", 4, 0));
    assert_null(hfi_address_new("ho st", 5, 6380));
    assert_null(hfi_address_new("host\0x", 6, 6380));
    assert_null(hfi_address_new("host/x", 6, 6380));
}

static bool parses(const char *text, struct hfi_redirect *ret_redirect)
{
    const struct hfi_reply reply = { .type = HFI_REPLY_ERROR, .text = text, .len = strlen(text) };

    return hfi_redirect_parse(&reply, ret_redirect);
}

static void redirections(void **state)
{
    static const char *const bad[] = { "MOVED",
                                       "MOVED ",
                                       "MOVED 1",
                                       "MOVED 1 ",
                                       "MOVED 1 host",
                                       "MOVED 1 host:",
                                       "MOVED 1 host:0",
                                       "MOVED 1 host:65536",
                                       "MOVED 1 host:6379x",
                                       "MOVED x host:6379",
                                       "MOVED 16384 host:6379",
                                       "MOVED -1 host:6379",
                                       "MOVED 99999999999999999999 host:6379",
                                       "MOVED 1 host:99999999999999999999" };
    struct hfi_redirect to;

    (void)state;
    assert_true(parses("MOVED 3999 127.0.0.1:6381", &to));
    assert_int_equal(to.slot, 3999);
    assert_int_equal(to.port, 6381);
    assert_int_equal(to.len, 9);
    assert_memory_equal(to.host, "127.0.0.1", 9);
    assert_true(parses("ASK 16383 2001:db8::1:6381", &to));
    assert_int_equal(to.port, 6381);
    assert_memory_equal(to.host, "2001:db8::1", to.len);
    assert_true(parses("MOVED 0 :7000", &to));
    assert_int_equal(to.len, 0);
    assert_true(parses("MOVED 0 ?:7000", &to));
    assert_int_equal(to.len, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parses(bad[i], &to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_answers),
        cmocka_unit_test(the_last_failover_wins),
        cmocka_unit_test(an_old_answer_is_not_followed),
        cmocka_unit_test(most_of_them_are_believed),
        cmocka_unit_test(votes_decide_among_equals),
        cmocka_unit_test(addresses),
        cmocka_unit_test(redirections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
