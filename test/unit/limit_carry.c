/* SPDX-License-Identifier: MIT */
/*
 * The rule of a rate limit is changed while it is in use: set, set again, and unset. Random schedules in virtual time, against models
 * that know what was granted and nothing of how it is stored. The property: before a change no more is granted than the old rule
 * allows, after it no more than the new rule allows, and what the old rule still remembers at the change counts for the new one.
 * Moments that were told stand, and nobody gets an earlier one.
 */
#include "unit.h"

#include "prim/limit_plan.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define T0     INT64_C(1800000000000000)
#define GRANTS 400
#define RUNS   UNIT_ROUNDS(300)
#define STEPS  120
/* Permits of a bucket: the model knows moments only as they were told, to the microsecond, and the quickest bucket of this test gets
 * a hundredth of a permit in that time. */
#define ROUNDED 0.05

struct grant {
    int64_t at, permits;
    bool forgotten; /* SLIDING: a period old when the rule was changed */
    bool before;    /* told before the last change */
};

struct world {
    uint64_t random;
    struct hfi_limit_rule rule, asked; /* in force; what requests say */
    bool set, open;
    int64_t now;
    unsigned char state[HFI_LIMIT_ROOM_MAX], room[HFI_LIMIT_ROOM_MAX];
    size_t len;
    struct grant grants[GRANTS];
    size_t count, changes;
    int64_t begin, used;   /* FIXED: the last window */
    double missing, since; /* BUCKET: permits, at a moment */
};

static int64_t below(struct world *world, int64_t end)
{
    return (int64_t)(unit_random(&world->random) % (uint64_t)end);
}

static struct hfi_limit_rule rule_of(hf_limit_algorithm algorithm, int64_t rate, int64_t period_us,
                                     int64_t burst)
{
    struct hfi_limit_rule rule;

    assert_null(hfi_limit_rule(algorithm, rate, period_us, burst, &rule));
    return rule;
}

static struct hfi_limit_rule random_rule(struct world *world, hf_limit_algorithm algorithm)
{
    static const int64_t periods[] = { 1000, 1001, 60000, 97000, 1000000 };
    int64_t burst = algorithm == HF_LIMIT_ALGORITHM_BUCKET ? 1 + below(world, 15) : 0;

    return rule_of(algorithm, 1 + below(world, 12), periods[below(world, COUNT(periods))], burst);
}

static bool same(const struct hfi_limit_rule *a, const struct hfi_limit_rule *b)
{
    return memcmp(a->head, b->head, sizeof a->head) == 0;
}

static struct hfi_limit_answer decide(struct world *world, const struct hfi_limit_rule *rule,
                                      struct hfi_limit_ask ask)
{
    struct hfi_limit_answer answer;

    hfi_limit_decide(rule, &ask, world->now, world->len ? world->state : NULL, world->len,
                     world->room, &answer);
    assert_true(answer.len <= hfi_limit_room(rule, world->len));
    if (answer.len > 0) {
        memcpy(world->state, world->room, answer.len);
        world->len = answer.len;
    }
    return answer;
}

static struct hfi_limit_answer take(struct world *world, int64_t permits, int64_t wait_us)
{
    return decide(world, &world->asked,
                  (struct hfi_limit_ask){ HFI_LIMIT_TAKE, permits, wait_us, 0 });
}

static struct hfi_limit_answer look(struct world *world)
{
    return decide(world, &world->asked, (struct hfi_limit_ask){ .act = HFI_LIMIT_LOOK });
}

static struct hfi_limit_answer set(struct world *world, struct hfi_limit_rule rule)
{
    return decide(world, &rule, (struct hfi_limit_ask){ .act = HFI_LIMIT_SET });
}

static struct hfi_limit_answer unset(struct world *world)
{
    struct hfi_limit_rule none = { .rate = 0 };

    return decide(world, &none, (struct hfi_limit_ask){ .act = HFI_LIMIT_UNSET });
}

/* ---- the models -------------------------------------------------------------------------------------- */

static double per_us(const struct hfi_limit_rule *rule)
{
    return (double)rule->rate / (double)rule->period_us;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int64_t last_told(const struct world *world)
{
    int64_t last = 0;

    for (size_t i = 0; i < world->count; i++)
        if (world->grants[i].at > last)
            last = world->grants[i].at;
    return last;
}

/* A bucket that is just becoming empty, or just not reserved any more: the model has no exact moments, and cannot say which. */
static bool is_torn(const struct world *world)
{
    double missing = world->missing - per_us(&world->rule) * ((double)world->now - world->since);

    return world->rule.algorithm == HF_LIMIT_ALGORITHM_BUCKET &&
           fabs(missing - (double)world->rule.burst) < 20 * per_us(&world->rule);
}

static void change(struct world *world, const struct hfi_limit_rule *rule)
{
    const struct hfi_limit_rule was = world->rule;
    double now = (double)world->now;

    if (same(rule, &was))
        return;
    world->rule = *rule;
    world->changes++;
    for (size_t i = 0; i < world->count; i++) {
        world->grants[i].before = true;
        if (world->grants[i].at <= world->now - was.period_us)
            world->grants[i].forgotten = true;
    }
    if (world->now >= world->begin + was.period_us)
        world->begin = INT64_MIN / 2; /* idle */
    if (world->begin > world->now)
        world->begin++; /* reserved: the window is a microsecond longer once */
    world->missing = larger(0, world->missing - per_us(&was) * (now - world->since));
    world->since = now;
    if (last_told(world) > world->now) /* reserved: empty at the last moment */
        world->since = (double)last_told(world);
    if (world->since > now || world->missing > (double)rule->burst)
        world->missing = (double)rule->burst;
}

/* Nobody is overtaken, and it is allowed. */
static void check_grant(struct world *world, int64_t at, int64_t permits)
{
    const struct hfi_limit_rule *rule = &world->rule;
    int64_t sum = permits;

    assert_true(at >= world->now && at >= last_told(world));
    if (rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING) {
        for (size_t i = 0; i < world->count; i++)
            if (!world->grants[i].forgotten && world->grants[i].at > at - rule->period_us)
                sum += world->grants[i].permits;
        assert_true(sum <= rule->rate);
    } else if (rule->algorithm == HF_LIMIT_ALGORITHM_FIXED) {
        if (at >= world->begin + rule->period_us) {
            world->begin = at;
            world->used = 0;
        }
        world->used += permits;
        assert_true(world->used <= rule->rate);
    } else {
        world->missing = larger(0, world->missing - per_us(rule) * ((double)at - world->since)) +
                         (double)permits;
        world->since = (double)at;
        assert_true(world->missing <= (double)rule->burst + ROUNDED);
    }
}

/* The first moment that the model allows; SLIDING: one at which it is certainly allowed. */
static int64_t first_moment(const struct world *world, int64_t permits)
{
    const struct hfi_limit_rule *rule = &world->rule;
    int64_t least = last_told(world) > world->now ? last_told(world) : world->now;
    double lack;

    if (rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING)
        return least + rule->period_us;
    if (rule->algorithm == HF_LIMIT_ALGORITHM_FIXED)
        return world->used + permits <= rule->rate || world->begin + rule->period_us < least
                   ? least
                   : world->begin + rule->period_us;
    lack = world->missing + (double)permits - (double)rule->burst;
    lack = world->since + larger(0, lack) / per_us(rule);
    return lack > (double)least ? (int64_t)lack + 1 : least;
}

static void step_take(struct world *world)
{
    int64_t permits = 1 + below(world, hfi_limit_most(&world->asked));
    int64_t wait_us = below(world, 2) ? HFI_LIMIT_WAIT_MAX_US : below(world, 2000000);
    int64_t first, late;
    bool many = world->set && permits > hfi_limit_most(&world->rule);
    struct hfi_limit_answer answer;
    static struct world saved;

    saved = *world;
    if (world->open)
        change(world, &world->asked);
    first = first_moment(world, permits);
    answer = take(world, permits, wait_us);
    if (many) {
        assert_int_equal(answer.said, HFI_LIMIT_MANY);
        assert_int_equal(answer.len, 0);
        return;
    }
    /* Each change may cost a microsecond. Of a quick bucket that is a part of a permit, for which a slow one needs longer. */
    late = 3 + (int64_t)world->changes;
    if (world->rule.algorithm == HF_LIMIT_ALGORITHM_BUCKET)
        late += (int64_t)(ROUNDED / per_us(&world->rule));
    assert_true(answer.at_us <= first + late);
    assert_true(!!answer.head[0] == world->set);
    if (answer.said == HFI_LIMIT_REFUSED) {
        assert_true(answer.wait_us > wait_us);
        *world = saved; /* it was not carried over either */
        return;
    }
    assert_int_equal(answer.said, HFI_LIMIT_GRANTED);
    world->open = false;
    check_grant(world, answer.at_us, permits);
    assert_true(world->count < GRANTS);
    world->grants[world->count++] = (struct grant){ .at = answer.at_us, .permits = permits };
}

/* What was told before a change cannot be given back, but for a log. */
static bool step_back(struct world *world)
{
    struct grant *last = &world->grants[world->count - 1];
    bool due = last->at <= world->now;
    struct hfi_limit_answer answer;

    if (world->rule.algorithm == HF_LIMIT_ALGORITHM_FIXED && !last->before)
        return false;
    answer = decide(world, &world->asked,
                    (struct hfi_limit_ask){ HFI_LIMIT_BACK, last->permits, 0, last->at });
    if (due || (last->before && world->rule.algorithm != HF_LIMIT_ALGORITHM_SLIDING)) {
        assert_int_equal(answer.said, HFI_LIMIT_KEPT);
        return false;
    }
    if (answer.said == HFI_LIMIT_KEPT)
        return false;
    assert_int_equal(answer.said, HFI_LIMIT_RETURNED);
    world->missing +=
        per_us(&world->rule) * (world->since - (double)world->now) - (double)last->permits;
    world->since = (double)world->now;
    world->count--;
    return true;
}

static void step_rule(struct world *world)
{
    struct hfi_limit_rule rule = random_rule(world, world->rule.algorithm);
    struct hfi_limit_answer answer;
    size_t len;

    if (world->set && below(world, 3) == 0) {
        assert_int_equal(unset(world).said, HFI_LIMIT_OPENED);
        assert_int_equal(unset(world).len, 0); /* done already */
        world->set = false;
        world->open = true;
        return;
    }
    answer = set(world, rule);
    assert_int_equal(answer.said, HFI_LIMIT_SEEN_IT);
    assert_int_equal(world->state[1], HFI_LIMIT_WAS_SET);
    change(world, &rule);
    world->set = true;
    world->open = false;
    len = world->len;
    memcpy(world->room, world->state, len);
    if (below(world, 2)) { /* once more is the same */
        unsigned char again[HFI_LIMIT_ROOM_MAX];

        memcpy(again, world->state, len);
        assert_int_equal(set(world, rule).left, answer.left);
        assert_int_equal(world->len, len);
        assert_memory_equal(again, world->state, len);
    }
    assert_int_equal(look(world).left, answer.left);
    assert_int_equal(look(world).refill_us, answer.refill_us);
}

static void pass(struct world *world)
{
    int64_t dice = below(world, 10), period = world->rule.period_us;

    if (dice < 3)
        return;
    if (dice < 7)
        world->now += below(world, 1 + period / world->rule.rate);
    else if (dice < 8)
        world->now += below(world, 2 * period);
    else if (world->count > 0) {
        int64_t edge =
            world->grants[world->count - 1].at + below(world, 2) * period + below(world, 3) - 1;

        world->now = edge > world->now && edge < world->now + 3000000 ? edge : world->now;
    }
}

static void never_more_than_the_rules_allow(void **state)
{
    size_t granted = 0, changes = 0, returned = 0;

    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        static struct world world;

        world = (struct world){ .random = run * 2 + 1, .now = T0, .begin = INT64_MIN / 2 };
        world.rule = world.asked = random_rule(&world, (hf_limit_algorithm)(run % 3));
        for (int i = 0; i < STEPS; i++) {
            int64_t dice = below(&world, 10);

            pass(&world);
            if ((dice == 0 || world.open) && is_torn(&world))
                continue;
            if (dice == 0)
                step_rule(&world);
            else if (dice == 1 && world.count > 0)
                returned += step_back(&world);
            else
                step_take(&world);
        }
        granted += world.count;
        changes += world.changes;
    }
    assert_true(granted > RUNS * 20 && changes > RUNS * 4 && returned > RUNS / 4);
}

/* ---- examples ---------------------------------------------------------------------------------------- */

#define SECOND INT64_C(1000000)

static struct world *world_of(hf_limit_algorithm algorithm, int64_t rate, int64_t period_us,
                              int64_t burst)
{
    static struct world world;

    world = (struct world){ .now = T0, .asked = rule_of(algorithm, rate, period_us, burst) };
    return &world;
}

static void a_window_keeps_its_beginning(void **state)
{
    struct world *world = world_of(HF_LIMIT_ALGORITHM_FIXED, 10, 60 * SECOND, 0);

    (void)state;
    take(world, 8, 0);
    world->now += 20 * SECOND;
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 20, 60 * SECOND, 0)).left, 12);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 5, 60 * SECOND, 0)).left, 0);
    assert_int_equal(take(world, 1, 0).wait_us, 40 * SECOND);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 20, 60 * SECOND, 0)).left, 12);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 20, 30 * SECOND, 0)).refill_us,
                     10 * SECOND);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 20, 15 * SECOND, 0)).left, 20);
}

static void a_log_is_judged_anew(void **state)
{
    struct world *world = world_of(HF_LIMIT_ALGORITHM_SLIDING, 10, 60 * SECOND, 0);

    (void)state;
    take(world, 8, 0);
    world->now += 20 * SECOND;
    take(world, 2, 0);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_SLIDING, 5, 30 * SECOND, 0)).left, 0);
    assert_int_equal(take(world, 1, 0).wait_us, 10 * SECOND);
    assert_int_equal(take(world, 5, 0).wait_us, 30 * SECOND);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_SLIDING, 50, 3600 * SECOND, 0)).left,
                     40);
    world->now += 100 * SECOND;
    assert_int_equal(look(world).left, 40);
}

static void what_is_missing_stays_missing(void **state)
{
    struct world *world = world_of(HF_LIMIT_ALGORITHM_BUCKET, 1, SECOND, 10);

    (void)state;
    take(world, 8, 0);
    world->now += SECOND / 2; /* 7.5 are missing */
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_BUCKET, 2, 7 * SECOND, 20)).left, 12);
    assert_int_equal(take(world, 10, 0).said, HFI_LIMIT_GRANTED); /* 17.5 */
    assert_int_equal(take(world, 3, 0).wait_us, SECOND / 2 * 7 / 2);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_BUCKET, 1, 60 * SECOND, 5)).left, 0);
    assert_int_equal(take(world, 1, 0).wait_us, 60 * SECOND);
}

/* A waiter was told a moment: those that come after the change stand behind it, in either direction. */
static void moments_stand(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm < 3; algorithm++)
        for (int64_t rate = 1; rate <= 1000; rate *= 1000) {
            struct world *world = world_of((hf_limit_algorithm)algorithm, 10, 60 * SECOND, 0);
            int64_t burst = algorithm == HF_LIMIT_ALGORITHM_BUCKET ? rate : 0, told;

            take(world, 10, 0);
            told = take(world, 5, HFI_LIMIT_WAIT_MAX_US).at_us;
            assert_true(told > world->now);
            set(world, rule_of((hf_limit_algorithm)algorithm, rate, SECOND, burst));
            assert_true(take(world, 1, HFI_LIMIT_WAIT_MAX_US).at_us >= told);
        }
}

/* ---- who sets, and what it is -------------------------------------------------------------------------- */

static void a_rule_that_was_set_stays(void **state)
{
    struct world *world = world_of(HF_LIMIT_ALGORITHM_FIXED, 10, SECOND, 0);
    struct hfi_limit_rule none = { .rate = 0 }, got;
    struct hfi_limit_ask seek = { .act = HFI_LIMIT_LOOK };

    (void)state;
    assert_int_equal(decide(world, &none, seek).said, HFI_LIMIT_NONE);
    assert_int_equal(unset(world).said, HFI_LIMIT_OPENED);
    assert_int_equal(world->len, 0);
    set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 3, SECOND, 0));
    world->now += 1000 * SECOND;
    assert_int_equal(take(world, 4, 0).said, HFI_LIMIT_MANY);
    assert_int_equal(take(world, 3, 0).said, HFI_LIMIT_GRANTED);
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_REFUSED);
    world->now += 1000 * SECOND;
    assert_int_equal(decide(world, &none, seek).left, 3);
    assert_true(hfi_limit_rule_of(decide(world, &none, seek).head, &got));
    assert_int_equal(got.rate, 3);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_SLIDING, 3, SECOND, 0)).said,
                     HFI_LIMIT_MISMATCH);
    world->asked = rule_of(HF_LIMIT_ALGORITHM_BUCKET, 3, SECOND, 0);
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_MISMATCH);

    unset(world); /* it is idle: no trace */
    assert_int_equal(world->state[1], '1');
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_GRANTED);
    assert_int_equal(decide(world, &none, seek).left, 2);
}

static void unset_in_use(void **state)
{
    struct world *world = world_of(HF_LIMIT_ALGORITHM_FIXED, 10, SECOND, 0);

    (void)state;
    set(world, rule_of(HF_LIMIT_ALGORITHM_FIXED, 30, 60 * SECOND, 0));
    take(world, 8, 0);
    take(world, 8, 0);
    unset(world);
    assert_int_equal(look(world).left, 0);
    world->asked = rule_of(HF_LIMIT_ALGORITHM_FIXED, 20, 10 * SECOND, 0);
    assert_int_equal(take(world, 1, 0).left, 3); /* whoever comes first brings the rule */
    world->asked = rule_of(HF_LIMIT_ALGORITHM_FIXED, 10, SECOND, 0);
    assert_int_equal(take(world, 1, 0).said, HFI_LIMIT_MISMATCH);
    world->now += 10 * SECOND;
    assert_int_equal(take(world, 1, 0).left, 9);
}

/* Reserved for longer than the new parts can count: nothing has changed. */
static void too_far_ahead(void **state)
{
    struct world *world = world_of(HF_LIMIT_ALGORITHM_BUCKET, 1, 3600 * SECOND, 1);

    (void)state;
    take(world, 1, 0);
    take(world, 1, HFI_LIMIT_WAIT_MAX_US);
    assert_int_equal(set(world, rule_of(HF_LIMIT_ALGORITHM_BUCKET, 999999937, SECOND, 1)).said,
                     HFI_LIMIT_MISMATCH);
    assert_int_equal(take(world, 1, 0).wait_us, 2 * 3600 * SECOND);
}

/* A log that contradicts itself is no log. */
static void a_log_must_add_up(void **state)
{
    static const size_t wrong[] = { HFI_LIMIT_OVER, HFI_LIMIT_MORE + 8, HFI_LIMIT_LOG + 3,
                                    HFI_LIMIT_LOG + 8, HFI_LIMIT_LOG + HFI_LIMIT_LINE };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct world *world = world_of(HF_LIMIT_ALGORITHM_SLIDING, 10, 60 * SECOND, 0);

        take(world, 3, 0);
        world->now += 5;
        take(world, 3, 0);
        assert_int_equal(look(world).said, HFI_LIMIT_SEEN_IT);
        world->state[wrong[i]] ^= 0x40;
        assert_int_equal(look(world).said, HFI_LIMIT_CORRUPT);
        assert_int_equal(take(world, 1, 0).len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_more_than_the_rules_allow),
        cmocka_unit_test(a_window_keeps_its_beginning),
        cmocka_unit_test(a_log_is_judged_anew),
        cmocka_unit_test(what_is_missing_stays_missing),
        cmocka_unit_test(moments_stand),
        cmocka_unit_test(a_rule_that_was_set_stays),
        cmocka_unit_test(unset_in_use),
        cmocka_unit_test(too_far_ahead),
        cmocka_unit_test(a_log_must_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
