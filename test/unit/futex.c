/* SPDX-License-Identifier: MIT */
/* Futexes: they wake, they time out neither early nor much too late, and never sleep in vain. */
#include "unit.h"

#include "util/clock.h"
#include "util/futex.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE_MS 30000 /* a loaded machine may be this late */

static void times_out_at_its_time(void **state)
{
    _Atomic uint32_t word = 1;

    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        int64_t until_ms = hfi_now_ms() + 30;

        hfi_futex_wait(&word, 1, until_ms, shared);
        assert_in_range(hfi_now_ms(), until_ms, until_ms + LATE_MS);
    }
}

/* None of these may sleep: the test's time limit would end it. */
static void does_not_sleep_without_need(void **state)
{
    static const int64_t gone[] = { INT64_MIN, -1, 0, 1 };
    _Atomic uint32_t word = 1;

    (void)state;
    for (size_t i = 0; i < COUNT(gone); i++)
        hfi_futex_wait(&word, 1, gone[i], false);
    hfi_futex_wait(&word, 1, hfi_now_ms(), false);
    hfi_futex_wait(&word, 2, INT64_MAX, false);
    hfi_futex_wait(&word, 2, INT64_MAX - 1, true);
    assert_int_equal(hfi_futex_wake(&word, 1, false), 0);
    assert_int_equal(hfi_futex_wake(&word, 1, true), 0);
}

struct sleeper {
    _Atomic uint32_t word;
    int64_t until_ms;
    bool shared;
};

static void *sleep_until_changed(void *arg)
{
    struct sleeper *sleeper = arg;

    while (atomic_load(&sleeper->word) == 0)
        hfi_futex_wait(&sleeper->word, 0, sleeper->until_ms, sleeper->shared);
    return NULL;
}

static void a_wake_ends_the_sleep(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct sleeper sleeper = { .until_ms = i & 1 ? INT64_MAX : INT64_MAX - 1, .shared = i & 2 };
        int64_t give_up_ms = hfi_now_ms() + LATE_MS;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, sleep_until_changed, &sleeper), 0);

        /* Until it sleeps nobody is woken. */
        while (hfi_futex_wake(&sleeper.word, 1, sleeper.shared) == 0)
            assert_true(hfi_now_ms() < give_up_ms);

        atomic_store(&sleeper.word, 1);
        hfi_futex_wake(&sleeper.word, 1, sleeper.shared);
        pthread_join(thread, NULL);
    }
}

static void wakes_another_process(void **state)
{
    struct sleeper *sleeper =
        mmap(NULL, sizeof *sleeper, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t give_up_ms = hfi_now_ms() + LATE_MS;
    int status = -1;
    pid_t child;

    (void)state;
    assert_ptr_not_equal(sleeper, MAP_FAILED);
    *sleeper = (struct sleeper){ .until_ms = INT64_MAX, .shared = true };
    child = fork();
    if (child == 0) {
        sleep_until_changed(sleeper);
        _exit(0);
    }

    while (hfi_futex_wake(&sleeper->word, 1, true) == 0)
        assert_true(hfi_now_ms() < give_up_ms);
    atomic_store(&sleeper->word, 1);
    hfi_futex_wake(&sleeper->word, 1, true);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(sleeper, sizeof *sleeper);
}

static void on_alarm(int number)
{
    (void)number;
}

static void a_signal_ends_the_sleep(void **state)
{
    struct sigaction action = { .sa_handler = on_alarm };
    _Atomic uint32_t word = 1;

    (void)state;
    sigaction(SIGALRM, &action, NULL);
    ualarm(20000, 0);
    hfi_futex_wait(&word, 1, INT64_MAX, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_out_at_its_time),   cmocka_unit_test(does_not_sleep_without_need),
        cmocka_unit_test(a_wake_ends_the_sleep),   cmocka_unit_test(wakes_another_process),
        cmocka_unit_test(a_signal_ends_the_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
