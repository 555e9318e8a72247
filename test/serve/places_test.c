/* SPDX-License-Identifier: MIT */
/* Who is pushed out. */
#include "places.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void add(struct places *places, struct place *place, const char *address)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    struct sockaddr_storage at = { 0 };

    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        memcpy(&at, &v4, sizeof v4);
    else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
        memcpy(&at, &v6, sizeof v6);
    assert_true(places_add(places, place, at.ss_family ? (struct sockaddr *)&at : NULL));
}

static void remove_all(struct places *places, struct place *place, size_t count)
{
    for (size_t i = 0; i < count; i++)
        places_remove(places, &place[i]);
    assert_null(places->newest);
    assert_null(places->parties);
    assert_int_equal(places->count, 0);
    assert_int_equal(places->watching, 0);
}

static void the_address_that_has_most(void **state)
{
    struct places places = { 0 };
    struct place place[6];

    (void)state;
    add(&places, &place[0], "10.0.0.1"); /* the oldest, but alone */
    add(&places, &place[1], "10.0.0.2");
    add(&places, &place[2], "10.0.0.2");
    add(&places, &place[3], "10.0.0.2");
    add(&places, &place[4], "10.0.0.3");
    add(&places, &place[5], "10.0.0.3");
    assert_ptr_equal(places_push(&places, false), &place[1]);
    assert_int_equal(places.count, 5);
    assert_ptr_equal(places_push(&places, false), &place[2]); /* of two that have two: the older */
    assert_ptr_equal(places_push(&places, false), &place[4]);
    assert_ptr_equal(places_push(&places, false), &place[0]);
    assert_ptr_equal(places_push(&places, false), &place[3]);
    assert_ptr_equal(places_push(&places, false), &place[5]);
    assert_null(places_push(&places, false));
    assert_int_equal(places.count, 0);
    remove_all(&places, place, 6);
}

static void one_with_a_token_stays(void **state)
{
    struct places places = { 0 };
    struct place place[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        add(&places, &place[i], "10.0.0.1");
    places_is(&places, &place[0], true, false);
    places_is(&places, &place[1], true, true);
    assert_ptr_equal(places_push(&places, false), &place[2]);
    assert_null(places_push(&places, false));
    assert_null(places_push(&places, true));
    assert_int_equal(places.watching, 0);
    places_is(&places, &place[0], false, false); /* its next request has none */
    assert_ptr_equal(places_push(&places, false), &place[0]);
    remove_all(&places, place, 3);
}

static void streams(void **state)
{
    struct places places = { 0 };
    struct place place[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        add(&places, &place[i], "10.0.0.1");
    places_is(&places, &place[1], false, true);
    places_is(&places, &place[2], false, true);
    assert_int_equal(places.watching, 2);
    assert_ptr_equal(places_push(&places, true), &place[1]);
    assert_int_equal(places.watching, 1);
    places_is(&places, &place[2], false, false);
    assert_null(places_push(&places, true));
    remove_all(&places, place, 4);
}

/* Every user of this machine has all of 127/8, every IPv6 client a network of 64 bits. */
static void addresses_that_are_one_client(void **state)
{
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {
        { "127.0.0.1", "127.9.9.9", true },
        { "10.0.0.1", "10.0.0.2", false },
        { "2001:db8::1", "2001:db8::2", true },
        { "2001:db8::1", "2001:db8:0:1::1", false },
        { "unix", "unix", true },
        { "unix", "0.0.0.0", false },
        { "0.0.0.0", "::", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct places places = { 0 };
        struct place place[3];

        add(&places, &place[0], "10.9.9.9"); /* the oldest */
        add(&places, &place[1], cases[i].one);
        add(&places, &place[2], cases[i].other);
        if (places_push(&places, false) != &place[cases[i].same ? 1 : 0])
            fail_msg("%s and %s", cases[i].one, cases[i].other);
        remove_all(&places, place, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_that_has_most),
        cmocka_unit_test(one_with_a_token_stays),
        cmocka_unit_test(streams),
        cmocka_unit_test(addresses_that_are_one_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
