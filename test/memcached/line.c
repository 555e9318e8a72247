/* SPDX-License-Identifier: MIT */
/*
 * The line of waiters on a real server: what it costs where nobody waits, and that marks, tickets and their counter never
 * stand in the way of a lease. How well the line works is judged in virtual time (test/unit/memcached_pace.c).
 */
#include "memcached_bed.h"

#include <stdio.h>
#include <string.h>

#define PAIRS 50

static hf_lease *held(hf_store *by)
{
    hf_acquire_request request = with_ttl(waiting_request("n"), LONG_MS);

    return take(by, &request);
}

/* What a waiter does to the lease of a holder that does not know of it. */
static void mark(void)
{
    CHECK(strncmp(cache_say(cache, "md hf:l:n I\r\n", 1), "HD", 2) == 0);
}

/* How many were given out. */
static int tickets(void)
{
    int count = 0;

    (void)sscanf(cache_say(cache, "mg hf:t:n v\r\nmn\r\n", 2), "VA %*d%d", &count);
    return count;
}

static void a_pair_is_two_commands(void **state)
{
    long long sets = cache_stat(cache, "cmd_set"), gets = cache_stat(cache, "cmd_get");
    long long deletes = cache_stat(cache, "delete_hits");

    (void)state;
    for (int i = 0; i < PAIRS; i++)
        give(held(other));
    CHECK(cache_stat(cache, "cmd_set") == sets + PAIRS);
    CHECK(cache_stat(cache, "delete_hits") == deletes + PAIRS);
    CHECK(cache_stat(cache, "cmd_get") == gets && tickets() == 0);
}

static void a_marked_lease_is_a_lease(void **state)
{
    hf_acquire_request trying = mutex_request("n");
    hf_lease *lease = held(store);

    (void)state;
    mark();
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    mark();
    EXPECT(HF_BUSY, probe(other, &trying));
    CHECK(count_holders(other, "n") == 1);
    give(lease);
    CHECK(!is_there("n"));
}

/* Somebody waits, so the next request takes a ticket and rests; one that does not wait asks at once. */
static void a_mark_makes_manners(void **state)
{
    hf_acquire_request trying = mutex_request("n");
    hf_lease *lease = held(store);
    int now;

    (void)state;
    while (tickets() == 0) { /* a name is remembered for a second only: on a slow machine, again */
        mark();
        give(lease);
        EXPECT(HF_OK, probe(store, &trying));
        CHECK(tickets() == 0);
        lease = held(store);
    }
    give(lease);
    give(held(store)); /* nobody has come since: the next one is a pair again */
    CHECK(tickets() <= 2);
    now = tickets();
    give(held(store));
    CHECK(tickets() == now);
}

/* The counter is somebody else's value, or the server has no number for us: no place in line, and no more. */
static void a_strange_counter(void **state)
{
    hf_acquire_request waiting = waiting_request("n");
    hf_lease *lease = held(store);
    struct attempt attempt;

    (void)state;
    cache_set(cache, "hf:t:n", "tickets are elsewhere", 21, "T600");
    attempt_start(&attempt, other, &waiting);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    give(held(other));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pair_is_two_commands),
        TEST(a_marked_lease_is_a_lease),
        TEST(a_mark_makes_manners),
        TEST(a_strange_counter),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
