/* SPDX-License-Identifier: MIT */
/*
 * A storm of waits that end early. Threads want a few names in strict order, with deadlines
 * of milliseconds and cancellers that are fired all the time, so that cancels meet grants,
 * other cancels and looks at the queue. When it is over nobody holds and nobody waits, and the
 * store must say so: a record that was put back after its wait had ended would be granted
 * to nobody and stay for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NAMES      4
#define THREADS    8
#define CANCELLERS 3
#define SECONDS    6

static hf_store *store;
static _Atomic int over;
static _Atomic int inside[NAMES];
static _Atomic long grants, overlaps, oddities;
static _Atomic(hf_cancel *) cancels[CANCELLERS];

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* What a wait may end with here. */
static int is_expected(hf_status status)
{
    return status == HF_BUSY || status == HF_TIMEOUT || status == HF_CANCELLED;
}

static void *worker(void *arg)
{
    uint64_t state = (uintptr_t)arg * 7919 + 12345;

    while (!atomic_load(&over)) {
        unsigned n = (unsigned)(next_random(&state) % NAMES);
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
        char name[16];
        hf_lease *lease;
        hf_status status;

        snprintf(name, sizeof name, "name-%u", n);
        request.name = name;
        request.name_len = HF_CSTRING;
        request.wait_ms =
            next_random(&state) % 2 ? HF_FOREVER : (int64_t)(next_random(&state) % 20);
        request.flags = next_random(&state) % 8 ? HF_FLAG_STRICT : 0;
        if (request.wait_ms == HF_FOREVER || next_random(&state) % 4 == 0)
            request.cancel = atomic_load(&cancels[next_random(&state) % CANCELLERS]);
        status = hf_acquire(store, &request, &lease, NULL);
        if (status == HF_INVALID)
            continue; /* the canceller was freed just now */
        if (status != HF_OK) {
            atomic_fetch_add(&oddities, !is_expected(status));
            continue;
        }
        atomic_fetch_add(&grants, 1);
        atomic_fetch_add(&overlaps, atomic_fetch_add(&inside[n], 1) != 0);
        if (next_random(&state) % 8 == 0)
            pause_us((long)(next_random(&state) % 300));
        atomic_fetch_sub(&inside[n], 1);
        atomic_fetch_add(&oddities, hf_release(lease, NULL) != HF_OK);
    }
    return NULL;
}

static void renew_canceller(size_t i)
{
    hf_cancel *fresh, *old;

    if (hf_cancel_open(&fresh) != HF_OK)
        return;
    old = atomic_exchange(&cancels[i], fresh);
    hf_cancel_fire(old);
    while (hf_cancel_close(old) == HF_IN_USE)
        pause_us(100);
}

static void nothing_is_left(void **unused)
{
    char dir[] = "/tmp/holdfast-storm-XXXXXX", url[64], command[64];
    pthread_t threads[THREADS];
    hf_cancel *cancel;
    hf_view *view;
    time_t end;

    (void)unused;
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s", dir);
    assert_int_equal(hf_open(url, NULL, &store, NULL), HF_OK);
    for (size_t i = 0; i < CANCELLERS; i++) {
        assert_int_equal(hf_cancel_open(&cancel), HF_OK);
        atomic_store(&cancels[i], cancel);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)), 0);

    end = time(NULL) + SECONDS;
    for (size_t i = 0; time(NULL) < end; i++) {
        renew_canceller(i % CANCELLERS);
        pause_us(3000);
    }
    atomic_store(&over, 1);
    for (size_t i = 0; i < CANCELLERS; i++)
        hf_cancel_fire(atomic_load(&cancels[i]));
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    print_message("%ld grants\n", (long)grants);
    assert_true(grants > 0);
    assert_int_equal(overlaps, 0);
    assert_int_equal(oddities, 0);
    assert_int_equal(hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, NULL), HF_OK);
    assert_int_equal(hf_view_count(view), 0);
    hf_free(view);
    for (size_t i = 0; i < CANCELLERS; i++)
        hf_cancel_close(atomic_load(&cancels[i]));
    assert_int_equal(hf_close(store, 0), HF_OK);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_left) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
