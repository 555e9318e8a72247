/* SPDX-License-Identifier: MIT */
/* When the descriptor of a caller's loop becomes readable: for an answer that another thread brought, or that another thread of the
 * caller may deliver; and not for one that hf_store_process() brought and delivered itself. */
#include "async.h"
#include "loop.h"

#include <poll.h>
#include <stdatomic.h>

#define PAIRS 50

static bool readable(hf_store *store, int timeout_ms)
{
    struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };

    return poll(&fd, 1, timeout_ms) == 1;
}

static void note(const hf_result *result, void *arg)
{
    EXPECT(HF_OK, result->status);
    *(hf_lease **)arg = result->lease;
}

static void count(const hf_result *result, void *arg)
{
    EXPECT(HF_OK, result->status);
    ++*(int *)arg;
}

/* A pair costs no turn of the loop that finds nothing. The store may have something of its own to say now and then, but not every time.
 * On Redlock a minority answers after the call has ended, so all but every time is allowed there. */
static void quiet_after_the_answer(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("quiet");
    int quiet = 0;

    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        hf_lease *lease = NULL;
        int released = 0;

        EXPECT(HF_OK, hf_acquire_async(store, &request, note, &lease, NULL, &contract_error));
        LOOP_UNTIL(store, lease);
        quiet += !readable(store, 0);
        EXPECT(HF_OK, hf_release_async(lease, count, &released, NULL, &contract_error));
        LOOP_UNTIL(store, released);
        quiet += !readable(store, 0);
    }
    CHECK(quiet > (several_nodes() ? 0 : PAIRS)); /* of twice as many */
    close_store(store);
}

struct waiter {
    hf_store *store;
    hf_lease *lease;
};

static void *wait_long(void *arg)
{
    struct waiter *waiter = arg;
    hf_acquire_request request = waiting_request("busy");

    waiter->lease = take(waiter->store, &request);
    return NULL;
}

/* A thread that waits drives, and brings the answers of the loop: each makes the descriptor readable. */
static void woken_by_another_thread(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request busy = mutex_request("busy"), request = mutex_request("woken");
    struct waiter waiter = { .store = store };
    hf_lease *held = take(second, &busy);
    pthread_t thread;

    (void)state;
    CHECK(pthread_create(&thread, NULL, wait_long, &waiter) == 0);
    for (int i = 0; i < PAIRS; i++) {
        hf_lease *lease = NULL;

        EXPECT(HF_OK, hf_acquire_async(store, &request, note, &lease, NULL, &contract_error));
        while (!lease) {
            int timeout_ms = hf_store_timeout_ms(store);

            /* Without a limit: only the descriptor can end this. */
            CHECK(readable(store, timeout_ms < 0 ? LIMIT_MS : timeout_ms) || timeout_ms >= 0);
            EXPECT(HF_OK, hf_store_process(store));
        }
        give(lease);
    }
    give(held);
    CHECK(pthread_join(thread, NULL) == 0);
    give(waiter.lease);
    close_store(second);
    close_store(store);
}

#define TWO 2

struct pair {
    hf_store *store;
    atomic_int inside, ended;
    hf_lease *leases[TWO];
};

static void wait_for_the_other(const hf_result *result, void *arg)
{
    struct pair *pair = arg;

    EXPECT(HF_OK, result->status);
    pair->leases[pair->inside++] = result->lease;
    AWAIT(pair->inside == TWO);
    pair->ended++;
}

static void *second_loop(void *arg)
{
    struct pair *pair = arg;

    AWAIT(pair->inside == 1);
    while (pair->inside < TWO) {
        CHECK(readable(pair->store, LIMIT_MS));
        EXPECT(HF_OK, hf_store_process(pair->store));
    }
    return NULL;
}

/* Two threads of the caller serve one store. A callback that takes its time does not keep the other thread from the next answer, though the
 * first thread brought pair. */
static void a_slow_callback_holds_up_nobody(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request requests[TWO] = { mutex_request("one"), mutex_request("two") };

    (void)state;
    for (int round = 0; round < 10; round++) {
        struct pair pair = { .store = store };
        pthread_t thread;

        for (int i = 0; i < TWO; i++)
            EXPECT(HF_OK, hf_acquire_async(store, &requests[i], wait_for_the_other, &pair, NULL,
                                           &contract_error));
        nap_ms(5); /* both answers should be there, or this round shows nothing */
        CHECK(pthread_create(&thread, NULL, second_loop, &pair) == 0);
        LOOP_UNTIL(store, pair.inside == TWO);
        CHECK(pthread_join(thread, NULL) == 0);
        for (int i = 0; i < TWO; i++)
            give(pair.leases[i]);
        CHECK(pair.ended == TWO);
    }
    close_store(store);
}

int async_wakes(void)
{
    const struct CMUnitTest cases[] = {
        CASE(quiet_after_the_answer),
        CASE(woken_by_another_thread),
        CASE(a_slow_callback_holds_up_nobody),
    };

    return cmocka_run_group_tests_name("async_wakes", cases, NULL, NULL);
}
