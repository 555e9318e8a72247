/* SPDX-License-Identifier: MIT */
/* The checker finds every violation and reports nothing else: histories made by hand. */
#include "checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { MUTEX, RW, SEM };

static struct history *history;

static int begin(void **state)
{
    (void)state;
    history = history_new();
    assert_non_null(history);
    history->lanes = 6;
    history->capacities[MUTEX] = 1;
    history->capacities[RW] = UINT32_MAX;
    history->capacities[SEM] = 3;
    return 0;
}

static int end(void **state)
{
    (void)state;
    munmap(history, sizeof *history);
    return 0;
}

static struct event base(int name, hf_kind lock, uint32_t permits)
{
    return (struct event){
        .name = (uint8_t)name, .lock = (uint8_t)lock, .permits = permits, .flags = HF_FLAG_STRICT
    };
}

static void add(uint32_t lane, struct event e, enum event_kind kind, int64_t at_ns)
{
    e.kind = (uint8_t)kind;
    e.at_ns = at_ns;
    if (kind == EV_ASK)
        atomic_store(&history->lane[lane].number, e.number);
    assert_true(history_add(history, lane, e));
}

/* Asked at `ask`, held from `got` until `let`, with a token. */
static void lease(uint32_t lane, struct event e, int64_t ask, int64_t got, int64_t let,
                  uint64_t token)
{
    e.number = atomic_load(&history->lane[lane].number) + 1;
    add(lane, e, EV_ASK, ask);
    e.token = token;
    add(lane, e, EV_GOT, got);
    if (e.ttl)
        add(lane, e, EV_STILL, let);
    add(lane, e, EV_LETTING, let);
    add(lane, e, EV_LET, let + 1);
}

static struct event mutex(void)
{
    return base(MUTEX, HF_KIND_MUTEX, 1);
}

static void seen(uint32_t look, int64_t at_ns, uint8_t lane, uint32_t number)
{
    struct event e = { .look = look, .seen_lane = lane, .number = number };

    add(5, e, EV_SEEN, at_ns);
}

static void expect(unsigned exclusion, unsigned tokens, unsigned order, unsigned loss)
{
    struct verdict v = check_history(history, NULL);

    assert_int_equal(v.exclusion, exclusion);
    assert_int_equal(v.tokens, tokens);
    assert_int_equal(v.order, order);
    assert_int_equal(v.loss, loss);
}

/* ---- good ---------------------------------------------------------------------------- */

static void one_after_another(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 20, 1);
    lease(1, mutex(), 5, 20, 30, 2); /* the same nanosecond is no overlap */
    lease(0, mutex(), 21, 31, 40, 7);
    lease(2, base(RW, HF_KIND_SHARED, 1), 0, 10, 50, 3);
    lease(3, base(RW, HF_KIND_SHARED, 1), 0, 11, 40, 2);
    lease(4, base(RW, HF_KIND_EXCLUSIVE, 1), 0, 50, 60, 4);
    lease(0, base(SEM, HF_KIND_SEMAPHORE, 2), 0, 10, 20, 11);
    lease(1, base(SEM, HF_KIND_SEMAPHORE, 1), 0, 10, 20, 10);
    expect(0, 0, 0, 0);
}

static void death_ends_a_lease(void **state)
{
    struct event e = mutex();

    (void)state;
    e.number = 1;
    add(0, e, EV_ASK, 0);
    e.token = 1;
    add(0, e, EV_GOT, 10);
    add(0, (struct event){ 0 }, EV_DEAD, 15);
    lease(1, mutex(), 5, 16, 30, 2);
    expect(0, 0, 0, 0);
    assert_int_equal(check_history(history, NULL).deaths, 1);
}

/* Past its ttl nothing is certain. */
static void expired_is_not_held(void **state)
{
    struct event e = mutex();

    (void)state;
    e.ttl = 1;
    e.number = 1;
    add(0, e, EV_ASK, 0);
    e.token = 1;
    add(0, e, EV_GOT, 10);
    add(0, e, EV_LOST, 100);
    e.status = HF_LOST;
    add(0, e, EV_LET, 101);
    lease(1, mutex(), 5, 50, 120, 2);
    expect(0, 0, 0, 0);
}

static void order_that_is_not_certain(void **state)
{
    struct event barge = mutex();

    (void)state;
    barge.flags |= HF_FLAG_BARGE;
    lease(0, mutex(), 0, 10, 100, 1);
    lease(1, mutex(), 20, 130, 140, 3);
    lease(2, mutex(), 21, 110, 120, 2); /* nobody saw lane 1 waiting before lane 2 asked */
    seen(1, 25, 1, 1);
    lease(3, barge, 200, 210, 220, 4); /* barging is allowed to overtake */
    lease(4, mutex(), 190, 230, 240, 5);
    seen(2, 195, 4, 1);
    expect(0, 0, 0, 0);
}

/* ---- bad ------------------------------------------------------------------------------ */

static void two_hold_a_mutex(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 20, 1);
    lease(1, mutex(), 0, 19, 30, 2);
    expect(1, 0, 0, 0);
}

static void a_long_one_and_many_short_ones(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 1000, 1);
    lease(1, mutex(), 0, 20, 30, 2);
    lease(1, mutex(), 0, 40, 50, 3);
    expect(2, 0, 0, 0);
}

static void killed_one_still_held(void **state)
{
    struct event e = mutex();

    (void)state;
    e.number = 1;
    add(0, e, EV_ASK, 0);
    e.token = 1;
    add(0, e, EV_GOT, 10);
    add(0, (struct event){ 0 }, EV_DEAD, 50);
    lease(1, mutex(), 5, 30, 60, 2);
    expect(1, 0, 0, 0);
}

static void reader_beside_a_writer(void **state)
{
    (void)state;
    lease(0, base(RW, HF_KIND_SHARED, 1), 0, 10, 20, 1);
    lease(1, base(RW, HF_KIND_EXCLUSIVE, 1), 0, 15, 30, 2);
    lease(2, base(RW, HF_KIND_SHARED, 1), 0, 29, 40, 3);
    expect(2, 0, 0, 0);
}

static void too_many_permits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        lease(i, base(SEM, HF_KIND_SEMAPHORE, 1), 0, 10 + i, 20, i + 1);
    expect(1, 0, 0, 0);
    lease(4, base(SEM, HF_KIND_SEMAPHORE, 3), 0, 30, 40, 10);
    lease(0, base(SEM, HF_KIND_SEMAPHORE, 1), 0, 35, 40, 11);
    expect(2, 0, 0, 0);
}

static void with_a_ttl_that_had_not_passed(void **state)
{
    struct event e = mutex();

    (void)state;
    e.ttl = 1;
    lease(0, e, 0, 10, 50, 1);
    lease(1, mutex(), 0, 40, 60, 2);
    expect(1, 0, 0, 0);
}

static void token_goes_back(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 20, 5);
    lease(1, mutex(), 0, 30, 40, 4);
    expect(0, 1, 0, 0);
}

static void token_twice(void **state)
{
    (void)state;
    lease(0, base(RW, HF_KIND_SHARED, 1), 0, 10, 20, 5);
    lease(1, base(RW, HF_KIND_SHARED, 1), 0, 30, 40, 5);
    expect(0, 1, 0, 0);
}

static void token_of_a_writer_below_a_reader(void **state)
{
    (void)state;
    lease(0, base(RW, HF_KIND_SHARED, 1), 0, 10, 20, 9);
    lease(1, base(RW, HF_KIND_SHARED, 1), 0, 11, 20, 3);
    lease(2, base(RW, HF_KIND_EXCLUSIVE, 1), 0, 30, 40, 5);
    lease(3, base(RW, HF_KIND_SHARED, 1), 0, 50, 60, 4);
    expect(0, 2, 0, 0);
}

static void no_token_and_too_large_a_token(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 20, 0);
    lease(1, mutex(), 0, 30, 40, UINT64_C(1) << 53);
    expect(0, 2, 0, 0);
}

static void overtaken_in_the_queue(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 100, 1);
    lease(1, mutex(), 20, 130, 140, 3);
    lease(2, mutex(), 21, 110, 120, 2);
    seen(1, 50, 1, 1); /* lane 1 stood before lane 2 */
    seen(1, 50, 2, 1);
    expect(0, 0, 1, 0);
}

static void overtaken_by_a_latecomer(void **state)
{
    (void)state;
    lease(0, mutex(), 0, 10, 100, 1);
    lease(1, mutex(), 20, 130, 140, 3);
    seen(1, 50, 1, 1);
    lease(2, mutex(), 51, 110, 120, 2);
    expect(0, 0, 1, 0);
}

static void lost_without_a_ttl(void **state)
{
    struct event e = mutex();

    (void)state;
    e.number = 1;
    add(0, e, EV_ASK, 0);
    e.token = 1;
    add(0, e, EV_GOT, 10);
    add(0, e, EV_LETTING, 20);
    e.status = HF_LOST;
    add(0, e, EV_LET, 21);
    expect(0, 0, 0, 1);
}

/* If two may hold at once, the order of the requests counts, not the order in which they were seen
 * to hold. */
static void with_doubles_asking_counts(void **state)
{
    (void)state;
    history->doubles = true;
    lease(0, mutex(), 0, 50, 100, 1); /* granted early, and told late */
    lease(1, mutex(), 20, 30, 90, 2);
    lease(2, mutex(), 60, 70, 80, 3);
    expect(2, 0, 0, 0);
    lease(3, mutex(), 81, 110, 120, 2); /* 3 was there when it asked; and 2 is used */
    expect(2, 2, 0, 0);
    history->tokenless = true;
    expect(2, 0, 0, 0);
}

static void ties_only_where_nothing_is_excluded(void **state)
{
    (void)state;
    lease(0, base(RW, HF_KIND_SHARED, 1), 0, 10, 20, 5);
    lease(1, base(RW, HF_KIND_SHARED, 1), 0, 12, 22, 5);
    expect(0, 1, 0, 0);
    history->ties = true;
    expect(0, 0, 0, 0);
    lease(2, base(RW, HF_KIND_EXCLUSIVE, 1), 30, 40, 50, 6);
    lease(3, base(RW, HF_KIND_EXCLUSIVE, 1), 52, 60, 70, 6);
    expect(0, 2, 0, 0); /* twice, and it did not grow */
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(one_after_another),
        CASE(death_ends_a_lease),
        CASE(expired_is_not_held),
        CASE(order_that_is_not_certain),
        CASE(two_hold_a_mutex),
        CASE(a_long_one_and_many_short_ones),
        CASE(killed_one_still_held),
        CASE(reader_beside_a_writer),
        CASE(too_many_permits),
        CASE(with_a_ttl_that_had_not_passed),
        CASE(token_goes_back),
        CASE(token_twice),
        CASE(token_of_a_writer_below_a_reader),
        CASE(no_token_and_too_large_a_token),
        CASE(overtaken_in_the_queue),
        CASE(overtaken_by_a_latecomer),
        CASE(lost_without_a_ttl),
        CASE(with_doubles_asking_counts),
        CASE(ties_only_where_nothing_is_excluded),
    };

    return cmocka_run_group_tests_name("torture_checker", tests, NULL, NULL);
}
