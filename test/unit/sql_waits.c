/* SPDX-License-Identifier: MIT */
/* How an op of SQL sleeps that has no thread: it is suspended, and resumed once for whatever happens, however early. */
#include "engine/sql/listener.h"

#include "util/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct sql_store store;
static struct sql_listener listener;
static struct hfi_op op;
static int resumed;

static void on_resume(struct hfi_host *host, struct hfi_op *of)
{
    (void)host;
    assert_ptr_equal(of, &op);
    resumed++;
}

static int begin(void **state)
{
    static struct hfi_host host = { .resume = on_resume };
    struct sql_wait *wait = sql_wait_of(&op);

    (void)state;
    memset(&store, 0, sizeof store);
    memset(&listener, 0, sizeof listener);
    memset(&op, 0, sizeof op);
    resumed = 0;
    pthread_mutex_init(&store.lock, NULL);
    store.host = &host;
    store.kick_fd = -1;
    store.listener = &listener;
    store.listener_runs = true; /* it is this program */
    op.deadline_ms = HFI_NEVER;
    wait->store = &store;
    wait->op = &op;
    sql_wait_add(wait);
    return 0;
}

static void resumed_once(void **state)
{
    struct sql_wait *wait = sql_wait_of(&op);

    (void)state;
    assert_false(sql_wait_sleep(wait, HFI_NEVER));
    assert_int_equal(resumed, 0);
    sql_wait_wake(wait);
    assert_int_equal(resumed, 1);
    sql_wait_wake(wait); /* while it runs */
    sql_wait_wake(wait);
    assert_int_equal(resumed, 1);
    assert_true(sql_wait_sleep(wait, HFI_NEVER)); /* it looks once more for both */
    assert_false(sql_wait_sleep(wait, HFI_NEVER));
    assert_int_equal(resumed, 1);
}

/* Between the look that found nothing and the sleep. */
static void woken_before_it_sleeps(void **state)
{
    struct sql_wait *wait = sql_wait_of(&op);

    (void)state;
    sql_wait_wake(wait);
    assert_true(sql_wait_sleep(wait, HFI_NEVER));
    assert_int_equal(resumed, 0);
    assert_false(sql_wait_sleep(wait, HFI_NEVER));
}

static void cancelled(void **state)
{
    struct sql_wait *wait = sql_wait_of(&op);

    (void)state;
    sql_wait_cancel(&store, &op);
    assert_true(sql_wait_sleep(wait, HFI_NEVER));
    assert_false(sql_wait_sleep(wait, HFI_NEVER));
    sql_wait_cancel(&store, &op);
    assert_int_equal(resumed, 1);
    sql_wait_remove(wait);
    sql_wait_cancel(&store, &op); /* it is being finished: nobody touches it */
    assert_int_equal(resumed, 1);
    assert_int_equal(atomic_load(&wait->woken), 0);
}

/* Times are the listener's business, the deadline is core's. */
static void woken_in_time(void **state)
{
    struct sql_wait *wait = sql_wait_of(&op);
    int64_t now_ms = hfi_now_ms();

    (void)state;
    op.deadline_ms = now_ms + 10000;
    assert_false(sql_wait_sleep(wait, now_ms + 1000));
    assert_int_equal(sql_waits_wake_due(&store, now_ms + 999), now_ms + 1000);
    assert_int_equal(resumed, 0);
    assert_int_equal(sql_waits_wake_due(&store, now_ms + 1000), HFI_NEVER);
    assert_int_equal(resumed, 1);
    assert_false(sql_wait_sleep(wait, op.deadline_ms));
    assert_int_equal(sql_waits_wake_due(&store, op.deadline_ms + 1), HFI_NEVER);
    assert_int_equal(resumed, 1);
}

/* One that has a thread is never resumed. */
static void with_a_thread(void **state)
{
    struct sql_wait *wait = sql_wait_of(&op);

    (void)state;
    op.blocking = true;
    assert_true(sql_wait_sleep(wait, hfi_now_ms() + 1));
    sql_wait_wake(wait);
    assert_true(sql_wait_sleep(wait, HFI_NEVER));
    assert_int_equal(sql_waits_wake_due(&store, HFI_NEVER - 1), HFI_NEVER);
    assert_int_equal(resumed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(resumed_once, begin),
        cmocka_unit_test_setup(woken_before_it_sleeps, begin),
        cmocka_unit_test_setup(cancelled, begin),
        cmocka_unit_test_setup(woken_in_time, begin),
        cmocka_unit_test_setup(with_a_thread, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
