/* SPDX-License-Identifier: MIT */
/*
 * What rate limits decide, against models that know every grant there ever was and find the first
 * moment for a new one by the promise alone. Random schedules of many clients in virtual time: the
 * moments must be the same, to the microsecond. With permits given back and a clock that is set
 * back the models say what must never happen.
 */
#include "unit.h"

#include "prim/limit_plan.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0     INT64_C(1800000000000000)
#define GRANTS 400
#define RUNS   UNIT_ROUNDS(300)

struct grant {
    int64_t at, permits;
    /* BUCKET: in parts of a microsecond, `rate` of them; `at` is rounded up from it */
    int64_t exact;
};

/* One limit in virtual time, with all of its grants in the order in which they were given. */
struct world {
    struct hfi_limit_rule rule;
    uint64_t random;
    int64_t now, offset; /* true time; what the store's clock adds to it */
    unsigned char *state, *room;
    size_t len; /* 0: no state */
    struct grant grants[GRANTS];
    size_t count;
};

static int64_t below(struct world *world, int64_t end)
{
    return (int64_t)(unit_random(&world->random) % (uint64_t)end);
}

static struct world *world_new(hf_limit_algorithm algorithm, int64_t rate, int64_t period_us,
                               int64_t burst, uint64_t seed)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    assert_null(hfi_limit_rule(algorithm, rate, period_us, burst, &world->rule));
    world->random = seed * 2 + 1;
    world->now = T0;
    world->state = malloc(hfi_limit_room(&world->rule, world->len));
    world->room = malloc(hfi_limit_room(&world->rule, world->len));
    return world;
}

static void world_free(struct world *world)
{
    free(world->state);
    free(world->room);
    free(world);
}

static struct hfi_limit_answer decide(struct world *world, const struct hfi_limit_ask *ask)
{
    struct hfi_limit_answer answer;
    unsigned char *swap;

    hfi_limit_decide(&world->rule, ask, world->now + world->offset,
                     world->len ? world->state : NULL, world->len, world->room, &answer);
    assert_true(answer.len <= hfi_limit_room(&world->rule, world->len));
    if (answer.len > 0) {
        swap = world->state;
        world->state = world->room;
        world->room = swap;
        world->len = answer.len;
    }
    return answer;
}

static struct hfi_limit_answer take(struct world *world, int64_t permits, int64_t wait_us)
{
    struct hfi_limit_ask ask = { HFI_LIMIT_TAKE, permits, wait_us, 0 };

    return decide(world, &ask);
}

static struct hfi_limit_answer look(struct world *world)
{
    struct hfi_limit_ask ask = { HFI_LIMIT_LOOK, 0, 0, 0 };

    return decide(world, &ask);
}

static bool give_back(struct world *world, const struct grant *grant)
{
    struct hfi_limit_ask ask = { HFI_LIMIT_BACK, grant->permits, 0, grant->at };
    struct hfi_limit_answer answer = decide(world, &ask);

    assert_true(answer.said == HFI_LIMIT_RETURNED || answer.said == HFI_LIMIT_KEPT);
    return answer.said == HFI_LIMIT_RETURNED;
}

static void note(struct world *world, int64_t at, int64_t permits)
{
    assert_true(world->count < GRANTS);
    world->grants[world->count++] = (struct grant){ at, permits, 0 };
}

/* ---- the promises -------------------------------------------------------------------------------- */

/* Windows as they are promised: each begins with the first grant after the one before it has ended. */
static bool fixed_holds(const struct world *world)
{
    int64_t begin = INT64_MIN / 2, used = 0;

    for (size_t i = 0; i < world->count; i++) {
        if (world->grants[i].at >= begin + world->rule.period_us) {
            begin = world->grants[i].at;
            used = 0;
        }
        used += world->grants[i].permits;
        if (used > world->rule.rate)
            return false;
    }
    return true;
}

/* From each grant on: no more than `most` within a period. */
static bool sliding_holds(const struct world *world, int64_t most)
{
    for (size_t i = 0; i < world->count; i++) {
        int64_t sum = 0;

        for (size_t j = i; j < world->count; j++)
            if (world->grants[j].at < world->grants[i].at + world->rule.period_us)
                sum += world->grants[j].permits;
        if (sum > most)
            return false;
    }
    return true;
}

/* Between any two grants no more than a full bucket and what came back meanwhile. The moments are
 * rounded up to a microsecond, so they may be nearly one further apart in truth. */
static bool bucket_holds(const struct world *world)
{
    for (size_t i = 0; i < world->count; i++) {
        int64_t sum = 0;

        for (size_t j = i; j < world->count; j++) {
            sum += world->grants[j].permits;
            if ((sum - world->rule.burst) * world->rule.period_us >=
                world->rule.rate * (world->grants[j].at - world->grants[i].at + 1))
                return false;
        }
    }
    return true;
}

static bool holds(const struct world *world)
{
    if (world->rule.algorithm == HF_LIMIT_ALGORITHM_FIXED)
        return fixed_holds(world);
    if (world->rule.algorithm == HF_LIMIT_ALGORITHM_SLIDING)
        return sliding_holds(world, world->rule.rate);
    return bucket_holds(world);
}

/* Would it hold with one more? */
static bool fits(struct world *world, int64_t at, int64_t permits)
{
    bool good;

    note(world, at, permits);
    good = holds(world);
    world->count--;
    return good;
}

/* The first moment at which it fits, nobody overtaking: at once, or when something of the past
 * leaves what it counts in. Those moments are tried one after the other. */
static int64_t first_window(struct world *world, int64_t permits)
{
    int64_t least = world->now, best = INT64_MAX;

    if (world->count > 0 && world->grants[world->count - 1].at > least)
        least = world->grants[world->count - 1].at;
    if (fits(world, least, permits))
        return least;
    for (size_t i = 0, end = world->count; i < end; i++) {
        int64_t at = world->grants[i].at + world->rule.period_us;

        if (at >= least && at < best && fits(world, at, permits))
            best = at;
    }
    return best;
}

/* The first moment, exactly, at which from no grant on more than a full bucket and what came back since is
 * taken. */
static int64_t first_exact(const struct world *world, int64_t permits)
{
    int64_t exact = world->now * world->rule.rate, sum = permits;

    for (size_t i = world->count; i-- > 0;) {
        int64_t least = world->grants[i].exact;

        sum += world->grants[i].permits;
        if (sum > world->rule.burst)
            least += (sum - world->rule.burst) * world->rule.period_us;
        if (least > exact)
            exact = least;
    }
    return exact;
}

/* ---- schedules ----------------------------------------------------------------------------------- */

static struct world *random_world(uint64_t seed)
{
    static const int64_t periods[] = { 1000, 1001, 60000, 1000000, 60000000 };
    uint64_t random = seed * 7919 + 13;
    hf_limit_algorithm algorithm = (hf_limit_algorithm)(seed % 3);
    int64_t rate = 1 + (int64_t)(unit_random(&random) % 12);
    int64_t period = periods[unit_random(&random) % COUNT(periods)];
    int64_t burst =
        algorithm == HF_LIMIT_ALGORITHM_BUCKET ? 1 + (int64_t)(unit_random(&random) % 15) : 0;

    return world_new(algorithm, rate, period, burst, seed);
}

/* Time passes: not at all, a little, or to the very edge of something. */
static void pass(struct world *world)
{
    int64_t period = world->rule.period_us, dice = below(world, 10);

    if (dice < 3)
        return;
    if (dice < 7)
        world->now += below(world, 1 + period / world->rule.rate);
    else if (dice < 8)
        world->now += below(world, 2 * period);
    else if (world->count > 0) {
        int64_t edge =
            world->grants[below(world, (int64_t)world->count)].at + period + below(world, 3) - 1;
        if (edge > world->now)
            world->now = edge;
    }
}

static int64_t random_wait(struct world *world)
{
    int64_t dice = below(world, 4);

    return dice == 0   ? 0
           : dice == 1 ? HFI_LIMIT_WAIT_MAX_US
                       : below(world, 3 * world->rule.period_us);
}

/* Every decision is the model's. */
static void same_as_the_model(void **state)
{
    size_t granted = 0, waited = 0, refused = 0;

    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct world *world = random_world(run);

        for (int i = 0; i < 60; i++) {
            int64_t permits = 1 + below(world, hfi_limit_most(&world->rule));
            int64_t wait_us = random_wait(world), at, exact = 0;
            struct hfi_limit_answer answer, before;

            pass(world);
            if (world->rule.algorithm == HF_LIMIT_ALGORITHM_BUCKET) {
                exact = first_exact(world, permits);
                at = (exact + world->rule.rate - 1) / world->rule.rate;
            } else {
                at = first_window(world, permits);
            }
            before = look(world);
            answer = take(world, permits, wait_us);
            assert_int_equal(answer.at_us, at);
            assert_int_equal(answer.wait_us, at - world->now);
            assert_int_equal(answer.said,
                             at - world->now <= wait_us ? HFI_LIMIT_GRANTED : HFI_LIMIT_REFUSED);
            assert_true((before.left >= permits) == (at == world->now));
            if (answer.said == HFI_LIMIT_GRANTED) {
                granted++;
                waited += at > world->now;
                note(world, at, permits);
                world->grants[world->count - 1].exact = exact;
                assert_int_equal(answer.left, at > world->now ? 0 : before.left - permits);
            } else {
                refused++;
                assert_int_equal(answer.left, before.left);
                assert_int_equal(answer.len, 0);
            }
            assert_int_equal(look(world).left, answer.left);
            assert_int_equal(look(world).refill_us, answer.refill_us);
        }
        world_free(world);
    }
    assert_true(granted > RUNS * 10 && waited > RUNS && refused > RUNS);
}

/* When it says that all is there again, it is, and not a microsecond before. */
static void refills_when_it_says(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct world *world = random_world(run);
        int64_t most = hfi_limit_most(&world->rule), refill;

        for (int i = 0; i < 5; i++) {
            pass(world);
            take(world, 1 + below(world, most), random_wait(world));
        }
        take(world, 1, HFI_LIMIT_WAIT_MAX_US);
        refill = look(world).refill_us;
        assert_true(refill > 0);
        world->now += refill - 1;
        assert_int_equal(look(world).refill_us, 1);
        assert_true(look(world).left < most);
        world->now += 1;
        assert_int_equal(look(world).left, most);
        assert_int_equal(look(world).refill_us, 0);
        world_free(world);
    }
}

/* Waiters give back at random: the promise holds, and nobody waits for nothing at the end of the queue. */
static void given_back(void **state)
{
    size_t returned = 0, lost = 0;

    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct world *world = random_world(run);
        bool last_asked = false; /* the last grant is also the last thing that happened */

        for (int i = 0; i < 80; i++) {
            int64_t permits = 1 + below(world, hfi_limit_most(&world->rule));
            struct hfi_limit_answer answer;

            pass(world);
            if (world->count > 0 && below(world, 3) == 0) {
                size_t which = below(world, 2) ? world->count - 1
                                               : (size_t)below(world, (int64_t)world->count);
                struct grant grant = world->grants[which];
                bool due = grant.at <= world->now;
                bool back = give_back(world, &grant);

                assert_true(!due || !back);
                if (!due && which == world->count - 1 && last_asked)
                    assert_true(back);
                last_asked = false;
                returned += back;
                lost += !due && !back;
                if (back || !due) { /* nobody uses it */
                    memmove(&world->grants[which], &world->grants[which + 1],
                            (world->count - which - 1) * sizeof grant);
                    world->count--;
                }
            }
            answer = take(world, permits, random_wait(world));
            assert_true(answer.at_us >= world->now);
            if (answer.said == HFI_LIMIT_GRANTED) {
                note(world, answer.at_us, permits);
                last_asked = true;
            }
            /* Windows are those of the state: a request that gave up may have opened one. */
            if (i % 8 == 7)
                assert_true(world->rule.algorithm == HF_LIMIT_ALGORITHM_FIXED
                                ? sliding_holds(world, 2 * world->rule.rate)
                                : holds(world));
        }
        world_free(world);
    }
    assert_true(returned > RUNS && lost > RUNS / 10);
}

/* What was undone has not been: the same moments as before. */
static void the_last_one_undone(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct world *world = random_world(run);
        int64_t most = hfi_limit_most(&world->rule);
        struct hfi_limit_answer first, second;
        struct grant grant;

        take(world, most, 0);
        take(world, 1 + below(world, most), HFI_LIMIT_WAIT_MAX_US);
        grant.permits = 1 + below(world, most);
        first = take(world, grant.permits, HFI_LIMIT_WAIT_MAX_US);
        grant.at = first.at_us;
        assert_true(first.wait_us > 0);
        assert_true(give_back(world, &grant));
        second = take(world, grant.permits, HFI_LIMIT_WAIT_MAX_US);
        assert_int_equal(second.at_us, first.at_us);
        world_free(world);
    }
}

/* A reservation that nobody wants any more does not keep others out of what is left. */
static void a_window_that_was_not_wanted(void **state)
{
    struct world *world = world_new(HF_LIMIT_ALGORITHM_FIXED, 10, 1000000, 0, 1);
    struct grant grant = { .permits = 2 };

    (void)state;
    take(world, 9, 0);
    grant.at = take(world, 2, HFI_LIMIT_WAIT_MAX_US).at_us;
    assert_int_equal(grant.at, T0 + 1000000);
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_REFUSED); /* behind a waiter */
    assert_true(give_back(world, &grant));
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_GRANTED);
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_REFUSED);
    world_free(world);

    world = world_new(HF_LIMIT_ALGORITHM_SLIDING, 2, 1000000, 0, 1);
    take(world, 1, 0);
    grant.at = take(world, 2, HFI_LIMIT_WAIT_MAX_US).at_us;
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_REFUSED);
    assert_true(give_back(world, &grant));
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_GRANTED);
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_REFUSED);
    world_free(world);
}

/* ---- the clock ----------------------------------------------------------------------------------- */

/* The store's clock is set back again and again: in true time the promise still holds. */
static void clock_set_back(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct world *world = random_world(run);

        for (int i = 0; i < 60; i++) {
            int64_t permits = 1 + below(world, hfi_limit_most(&world->rule));
            struct hfi_limit_answer answer;

            pass(world);
            if (below(world, 5) == 0)
                world->offset -= below(world, 2) ? below(world, 2 * world->rule.period_us)
                                                 : below(world, 3 * HFI_LIMIT_HOLD_US);
            answer = take(world, permits, random_wait(world));
            assert_true(answer.wait_us >= 0);
            if (answer.said == HFI_LIMIT_GRANTED)
                note(world, world->now + answer.wait_us, permits);
        }
        /* In true time a held window is longer than a period, so two may show in one. */
        assert_true(world->rule.algorithm == HF_LIMIT_ALGORITHM_FIXED
                        ? sliding_holds(world, 2 * world->rule.rate)
                        : holds(world));
        world_free(world);
    }
}

/* However far back: it is never blocked for longer than it would be, and the hold. */
static void never_blocked_for_ever(void **state)
{
    static const int64_t backs[] = { 1,
                                     1000000,
                                     HFI_LIMIT_HOLD_US,
                                     HFI_LIMIT_HOLD_US + 1,
                                     INT64_C(86400000000),
                                     INT64_C(1000000000000000) };

    (void)state;
    for (uint64_t run = 0; run < 30; run++)
        for (size_t i = 0; i < COUNT(backs); i++) {
            struct world *world = random_world(run);
            int64_t most = hfi_limit_most(&world->rule), refill;

            take(world, most, 0);
            take(world, 1, HFI_LIMIT_WAIT_MAX_US);
            refill = look(world).refill_us;
            world->offset -= backs[i];
            assert_int_equal(take(world, most, 0).said, HFI_LIMIT_REFUSED);
            assert_true(take(world, 1, HFI_LIMIT_WAIT_MAX_US).wait_us <= refill);
            refill = look(world).refill_us;
            world->now += refill + HFI_LIMIT_HOLD_US;
            assert_int_equal(look(world).left, most);
            world_free(world);
        }
}

/* ---- rules and bytes ----------------------------------------------------------------------------- */

static void another_rule(void **state)
{
    struct world *world = world_new(HF_LIMIT_ALGORITHM_FIXED, 3, 1000000, 0, 1);
    struct hfi_limit_rule rules[4];

    (void)state;
    hfi_limit_rule(HF_LIMIT_ALGORITHM_FIXED, 4, 1000000, 0, &rules[0]);
    hfi_limit_rule(HF_LIMIT_ALGORITHM_FIXED, 3, 1001000, 0, &rules[1]);
    hfi_limit_rule(HF_LIMIT_ALGORITHM_SLIDING, 3, 1000000, 0, &rules[2]);
    hfi_limit_rule(HF_LIMIT_ALGORITHM_BUCKET, 3, 1000000, 7, &rules[3]);
    for (size_t i = 0; i < COUNT(rules); i++) {
        struct hfi_limit_rule was = world->rule;

        take(world, 1, 0);
        world->rule = rules[i];
        assert_int_equal(take(world, 1, HFI_LIMIT_WAIT_MAX_US).said, HFI_LIMIT_MISMATCH);
        assert_int_equal(look(world).said, HFI_LIMIT_MISMATCH);
        world->rule = was;
        world->now += look(world).refill_us;
        free(world->room);
        world->rule = rules[i];
        world->room = malloc(hfi_limit_room(&world->rule, world->len));
        assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_GRANTED); /* it has run out */
        free(world->room);
        world->room = malloc(HFI_LIMIT_ROOM_MAX);
        free(world->state);
        world->state = malloc(HFI_LIMIT_ROOM_MAX);
        world->len = 0;
        world->rule = was;
    }
    world_free(world);
}

static void bad_rules_are_named(void **state)
{
    static const struct {
        int algorithm;
        int64_t rate, period_us, burst;
        const char *field;
    } bad[] = {
        { 3, 1, 1000, 0, "algorithm" },
        { HF_LIMIT_ALGORITHM_FIXED, 0, 1000, 0, "rate" },
        { HF_LIMIT_ALGORITHM_FIXED, INT64_C(1000000001), 1000, 0, "rate" },
        { HF_LIMIT_ALGORITHM_FIXED, 1, 999, 0, "per_ms" },
        { HF_LIMIT_ALGORITHM_FIXED, 1, HF_DURATION_MAX_MS * 1000 + 1000, 0, "per_ms" },
        { HF_LIMIT_ALGORITHM_FIXED, 1, 1000, 1, "burst" },
        { HF_LIMIT_ALGORITHM_SLIDING, 1, 1000, 1, "burst" },
        { HF_LIMIT_ALGORITHM_SLIDING, HF_LIMIT_SLIDING_MAX + 1, 1000, 0, "rate" },
        { HF_LIMIT_ALGORITHM_BUCKET, 1, HF_DURATION_MAX_MS * 1000, 1000000000, "burst" },
    };
    struct hfi_limit_rule rule;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *wrong = hfi_limit_rule((hf_limit_algorithm)bad[i].algorithm, bad[i].rate,
                                           bad[i].period_us, bad[i].burst, &rule);

        assert_non_null(wrong);
        assert_memory_equal(wrong, bad[i].field, strlen(bad[i].field));
    }
    assert_null(hfi_limit_rule(HF_LIMIT_ALGORITHM_BUCKET, 1000000, INT64_C(86400000000), 0, &rule));
    assert_int_equal(rule.burst, 1000000);
}

/* Large numbers: years of reservations, and a full log. */
static void to_the_bounds(void **state)
{
    struct world *world =
        world_new(HF_LIMIT_ALGORITHM_SLIDING, HF_LIMIT_SLIDING_MAX, 60000000, 0, 1);
    struct hfi_limit_answer answer;

    (void)state;
    for (int i = 0; i < HF_LIMIT_SLIDING_MAX + 100; i++) {
        world->now++;
        answer = take(world, 1, HFI_LIMIT_WAIT_MAX_US);
        assert_int_equal(answer.said, HFI_LIMIT_GRANTED);
    }
    assert_int_equal(answer.at_us, T0 + 100 + 60000000); /* a period after the hundredth */
    world_free(world);

    world = world_new(HF_LIMIT_ALGORITHM_BUCKET, 999999937, 1000, HF_CAPACITY_MAX, 1);
    do
        answer = take(world, HF_CAPACITY_MAX, hfi_limit_wait_max(&world->rule));
    while (answer.said == HFI_LIMIT_GRANTED);
    assert_true(answer.wait_us > hfi_limit_wait_max(&world->rule));
    world_free(world);
}

/* Bytes that are no state are told, whatever they are; none is read past its end. */
static void any_bytes(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < 10 * RUNS; run++) {
        struct world *world = random_world(run);
        unsigned char *bytes;
        size_t len;

        take(world, 1, 0);
        take(world, 1, HFI_LIMIT_WAIT_MAX_US);
        len = world->len;
        bytes = world->state;
        if (run % 4 == 0)
            world->len = (size_t)below(world, (int64_t)len + 1);
        for (int i = 0; run % 4 && i < 3; i++)
            bytes[below(world, (int64_t)len)] = (unsigned char)unit_random(&world->random);
        bytes = malloc(world->len ? world->len : 1); /* so that a sanitizer sees the end */
        memcpy(bytes, world->state, world->len);
        if (world->len > 0) {
            struct hfi_limit_ask ask = { HFI_LIMIT_TAKE, 1, HFI_LIMIT_WAIT_MAX_US, 0 };
            struct hfi_limit_answer answer;

            hfi_limit_decide(&world->rule, &ask, world->now, bytes, world->len, world->room,
                             &answer);
            assert_true(answer.len <= hfi_limit_room(&world->rule, world->len));
            ask = (struct hfi_limit_ask){ HFI_LIMIT_BACK, 1, 0, world->now + 1 };
            hfi_limit_decide(&world->rule, &ask, world->now, bytes, world->len, world->room,
                             &answer);
        }
        free(bytes);
        world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_the_model),
        cmocka_unit_test(refills_when_it_says),
        cmocka_unit_test(given_back),
        cmocka_unit_test(the_last_one_undone),
        cmocka_unit_test(a_window_that_was_not_wanted),
        cmocka_unit_test(clock_set_back),
        cmocka_unit_test(never_blocked_for_ever),
        cmocka_unit_test(another_rule),
        cmocka_unit_test(bad_rules_are_named),
        cmocka_unit_test(to_the_bounds),
        cmocka_unit_test(any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
