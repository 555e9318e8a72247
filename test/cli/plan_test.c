/* SPDX-License-Identifier: MIT */
/* When a running command has to be ended: cli/plan.c. No process, no clock. */
#include "plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct run_plan term = { ON_LOST_TERM, 5000 };
static const struct run_plan kill_ = { ON_LOST_KILL, 5000 };
static const struct run_plan warn = { ON_LOST_WARN, 5000 };

static struct run_step next(const struct run_plan *plan, int64_t valid_until_ms, bool lost,
                            int64_t now_ms)
{
    struct run_lease lease = { valid_until_ms, lost };

    return plan_next(plan, RUN_RUNNING, 0, &lease, now_ms);
}

static void expect(struct run_step step, enum run_act act, int64_t until_ms)
{
    assert_int_equal(step.act, act);
    assert_true(step.until_ms == until_ms);
}

static void without_an_end_it_sleeps(void **state)
{
    (void)state;
    expect(next(&term, PLAN_NEVER, false, 1000), RUN_SLEEP, PLAN_NEVER);
    expect(next(&kill_, PLAN_NEVER, false, 1000), RUN_SLEEP, PLAN_NEVER);
}

static void term_leaves_time_for_kill_before_the_end(void **state)
{
    int64_t last = 30000 - KILL_MARGIN_MS;

    (void)state;
    expect(next(&term, 30000, false, 0), RUN_SLEEP, last - 5000);
    expect(next(&term, 30000, false, last - 5001), RUN_SLEEP, last - 5000);
    expect(next(&term, 30000, false, last - 5000), RUN_TERM, last);
    expect(next(&term, 30000, false, last - 1), RUN_TERM, last);
    expect(next(&kill_, 30000, false, last - 1), RUN_SLEEP, last);
    expect(next(&kill_, 30000, false, last), RUN_KILL, last);
}

static void a_renewal_moves_it(void **state)
{
    (void)state;
    expect(next(&term, 40000, false, 24950), RUN_SLEEP, 40000 - KILL_MARGIN_MS - 5000);
}

static void slept_through_it_means_kill(void **state)
{
    (void)state;
    expect(next(&term, 30000, true, 30000), RUN_KILL, 30000);
    expect(next(&term, 30000, true, 99999), RUN_KILL, 99999);
    expect(next(&term, 30000, false, 30000 - KILL_MARGIN_MS), RUN_KILL, 30000 - KILL_MARGIN_MS);
}

static void broken_means_term_with_its_grace(void **state)
{
    (void)state;
    expect(next(&term, PLAN_NEVER, true, 1000), RUN_TERM, 6000);
    expect(next(&term, 30000, true, 1000), RUN_TERM, 6000);
    expect(next(&kill_, PLAN_NEVER, true, 1000), RUN_KILL, 1000);
}

static void warn_does_nothing(void **state)
{
    (void)state;
    expect(next(&warn, 30000, false, 29999), RUN_SLEEP, PLAN_NEVER);
    expect(next(&warn, 30000, true, 31000), RUN_SLEEP, PLAN_NEVER);
}

static void after_term_comes_kill(void **state)
{
    struct run_lease lease = { 30000, false };

    (void)state;
    expect(plan_next(&term, RUN_ENDING, 29950, &lease, 29000), RUN_SLEEP, 29950);
    expect(plan_next(&term, RUN_ENDING, 29950, &lease, 29950), RUN_KILL, 29950);
    expect(plan_next(&term, RUN_KILLED, 29950, &lease, 29951), RUN_SLEEP, PLAN_NEVER);
}

static void kill_after_fits_or_is_refused(void **state)
{
    (void)state;
    assert_int_equal(plan_kill_after(0, 0, 0), 5000);
    assert_int_equal(plan_kill_after(0, 30000, 0), 5000);
    assert_int_equal(plan_kill_after(0, 3000, 0), 1000);
    assert_int_equal(plan_kill_after(0, 0, 3000), 1000);
    assert_int_equal(plan_kill_after(60000, 0, 0), 60000);
    assert_int_equal(plan_kill_after(1000, 2000, 0), 1000);
    assert_int_equal(plan_kill_after(1001, 2000, 0), -1);
    assert_int_equal(plan_kill_after(5000, 30000, 9000), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_end_it_sleeps),
        cmocka_unit_test(term_leaves_time_for_kill_before_the_end),
        cmocka_unit_test(a_renewal_moves_it),
        cmocka_unit_test(slept_through_it_means_kill),
        cmocka_unit_test(broken_means_term_with_its_grace),
        cmocka_unit_test(warn_does_nothing),
        cmocka_unit_test(after_term_comes_kill),
        cmocka_unit_test(kill_after_fits_or_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
