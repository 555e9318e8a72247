/* SPDX-License-Identifier: MIT */
/* Acquiring a mutex: try, wait, time out, be cancelled; and nobody else meanwhile. */
#include "calls.h"
#include "loop.h"
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void try_once(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = take(store, &request), *untouched = (hf_lease *)&request;
    hf_lease *other = untouched;
    hf_error err;

    (void)state;
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, hf_acquire(store, &request, &other, &err));
    CHECK(other == untouched);
    CHECK(err.status == HF_BUSY);
    CHECK(strstr(err.text, "job") != NULL);
    EXPECT(HF_BUSY, hf_acquire(store, &request, &other, NULL));
    give(lease);
    EXPECT(HF_OK, hf_acquire(store, &request, &lease, &err));
    CHECK(err.status == HF_OK);
    give(lease);
    close_store(store);
}

static void try_from_everywhere(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    struct peer peer;

    (void)state;
    peer_start(&peer);
    attempt_start(&attempt, store, &request);
    EXPECT(HF_BUSY, attempt_join(&attempt));
    EXPECT(HF_BUSY, probe(second, &request));
    EXPECT(HF_BUSY, peer_acquire(&peer, 0, &request));

    give(lease);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    EXPECT(HF_BUSY, probe(store, &request));
    EXPECT(HF_BUSY, probe(second, &request));
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, probe(second, &request));
    peer_stop(&peer);
    close_store(second);
    close_store(store);
}

static void names_are_independent(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request one = mutex_request("one"), two = mutex_request("two");
    hf_lease *lease = take(store, &one), *other = take(store, &two);

    (void)state;
    give(lease);
    EXPECT(HF_BUSY, probe(store, &two));
    EXPECT(HF_OK, probe(store, &one));
    give(other);
    close_store(store);
}

static void timeout_is_not_early(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = take(store, &request), *other = NULL;
    int64_t begin_ms;

    (void)state;
    request.wait_ms = 150;
    for (int i = 0; i < 3; i++) {
        begin_ms = now_ms();
        EXPECT(HF_TIMEOUT, hf_acquire(i == 1 ? second : store, &request, &other, &contract_error));
        CHECK(now_ms() - begin_ms >= 150);
        CHECK(strstr(contract_error.text, "job") != NULL);
        CHECK(other == NULL);
    }
    if (has(HF_CAP_WAITERS))
        CHECK(count_waiters(store, "job") == 0);
    give(lease);
    EXPECT(HF_OK, probe(store, &request)); /* the lock is not handed to a waiter that has left */
    close_store(second);
    close_store(store);
}

static void note_end(const hf_result *result, void *arg)
{
    *(hf_status *)arg = result->status;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Not by a part of a millisecond either, wherever in it the wait begins: in the store, behind a holder of this process, for a
 * change, for a cell, and in the asynchronous form. */
static void waits_are_not_early(void **state)
{
    enum { TRIES = 24, WAIT_MS = 5 };
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("job"), strict = request;
    hf_lease *lease = take(store, &request), *other = NULL;
    hf_status ended;
    uint64_t version;

    (void)state;
    request.wait_ms = strict.wait_ms = WAIT_MS;
    strict.flags = HF_FLAG_STRICT;
    for (int i = 0; i < TRIES; i++) {
        int64_t begin_ns = now_ns();

        switch (i % 6) {
        case 0:
        case 1:
            EXPECT(HF_TIMEOUT, hf_acquire(store, &request, &other, &contract_error));
            break;
        case 2:
        case 3:
            EXPECT(HF_TIMEOUT, hf_acquire(second, &strict, &other, &contract_error));
            break;
        case 4:
            ended = HF_OK;
            EXPECT(HF_OK,
                   hf_acquire_async(second, &request, note_end, &ended, NULL, &contract_error));
            LOOP_UNTIL(second, ended != HF_OK);
            EXPECT(HF_TIMEOUT, ended);
            break;
        default:
            if (!has(HF_CAP_CELL_WATCH))
                continue;
            EXPECT(HF_TIMEOUT, call_cell_wait(store, "cell", HF_CSTRING, 0, WAIT_MS, NULL, &version,
                                              &contract_error));
        }
        if (now_ns() - begin_ns < INT64_C(1000000) * WAIT_MS)
            fail_msg("case %d: a wait of %d ms ended after %lld us", i % 6, WAIT_MS,
                     (long long)(now_ns() - begin_ns) / 1000);
    }
    give(lease);
    close_store(second);
    close_store(store);
}

/* One waits on another thread through `waits_in`, while `store` holds. */
static void wait_and_get(hf_store *store, hf_store *waits_in, int64_t wait_ms, uint64_t flags)
{
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;

    request.wait_ms = wait_ms;
    request.flags = flags;
    attempt_start(&attempt, waits_in, &request);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY,
           probe(store, &(hf_acquire_request){
                            .size = sizeof request, .name = "job", .name_len = HF_CSTRING }));
    give(attempt.lease);
}

static void waiting_is_granted(void **state)
{
    hf_store *store = open_store(), *second = open_store();

    (void)state;
    wait_and_get(store, store, LIMIT_MS, 0);
    wait_and_get(store, store, HF_FOREVER, 0);
    wait_and_get(store, store, HF_FOREVER, HF_FLAG_STRICT);
    wait_and_get(store, second, LIMIT_MS, 0);
    wait_and_get(store, second, HF_FOREVER, HF_FLAG_STRICT);
    close_store(second);
    close_store(store);
}

static void waiting_peer_is_granted(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = take(store, &request);
    struct peer peer;

    (void)state;
    peer_start(&peer);
    request.wait_ms = HF_FOREVER;
    peer_begin(&peer, 0, &request);
    if (has(HF_CAP_WAITERS))
        AWAIT(count_waiters(store, "job") == 1);
    give(lease);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    request.wait_ms = 0;
    EXPECT(HF_BUSY, probe(store, &request));
    EXPECT(HF_OK, peer_release(&peer, 0));
    peer_stop(&peer);
    close_store(store);
}

static void cancel_ends_waiting(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = take(store, &request), *none = NULL;
    struct attempt attempts[4];

    (void)state;
    request.wait_ms = HF_FOREVER;
    EXPECT(HF_OK, hf_cancel_open(&request.cancel));
    for (int i = 0; i < 4; i++) {
        request.flags = i & 1 ? HF_FLAG_STRICT : 0;
        attempt_start(&attempts[i], store, &request);
    }
    for (int i = 0; i < 4; i++)
        attempt_settled(&attempts[i]);
    EXPECT(HF_IN_USE, hf_cancel_close(request.cancel));
    EXPECT(HF_OK, hf_cancel_fire(request.cancel));
    for (int i = 0; i < 4; i++)
        EXPECT(HF_CANCELLED, attempt_join(&attempts[i]));

    /* Fired once, it stays fired. */
    EXPECT(HF_CANCELLED, hf_acquire(store, &request, &none, &contract_error));
    EXPECT(HF_OK, hf_cancel_fire(request.cancel));
    EXPECT(HF_OK, hf_cancel_close(request.cancel));
    EXPECT(HF_INVALID, hf_cancel_close(request.cancel));
    EXPECT(HF_INVALID, hf_cancel_fire(request.cancel));
    EXPECT(HF_INVALID, hf_acquire(store, &request, &none, &contract_error));
    if (has(HF_CAP_WAITERS))
        CHECK(count_waiters(store, "job") == 0);
    give(lease);
    request.cancel = NULL;
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

static void on_signal(int signal)
{
    (void)signal;
}

/* A caller's signals neither end the waiting nor are they taken by our threads. */
static void signals_do_not_end_waiting(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("job"), wait = waiting_request("job");
    struct sigaction action = { .sa_handler = on_signal }, before;
    hf_lease *lease = take(store, &request);
    struct attempt attempts[3];

    (void)state;
    CHECK(sigaction(SIGUSR1, &action, &before) == 0);
    attempt_start(&attempts[0], store, &wait);
    attempt_start(&attempts[1], second, &wait);
    wait.flags = HF_FLAG_STRICT;
    attempt_start(&attempts[2], store, &wait);
    for (int i = 0; i < 3; i++)
        attempt_settled(&attempts[i]);
    for (int i = 0; i < 60; i++) {
        CHECK(pthread_kill(attempts[i % 3].thread, SIGUSR1) == 0);
        nap_ms(1);
    }
    for (int i = 0; i < 3; i++)
        CHECK(!attempts[i].ended);
    give(lease);
    for (int left = 3; left > 0;) /* in whatever order */
        for (int i = 0; i < 3; i++)
            if (attempts[i].ended && attempts[i].lease) {
                EXPECT(HF_OK, attempts[i].status);
                give(attempts[i].lease);
                attempts[i].lease = NULL;
                left--;
            }
    for (int i = 0; i < 3; i++)
        EXPECT(HF_OK, attempt_join(&attempts[i]));
    CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
    close_store(second);
    close_store(store);
}

/* Cancel and release race; in either case the lock is free in the end. */
static void cancel_races_with_grant(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("job");

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct attempt attempt;
        hf_lease *lease = take(store, &request);
        hf_acquire_request wait = waiting_request("job");
        hf_status status;

        EXPECT(HF_OK, hf_cancel_open(&wait.cancel));
        wait.flags = i & 1 ? HF_FLAG_STRICT : 0;
        attempt_start(&attempt, i & 2 ? second : store, &wait);
        if (i % 3)
            nap_ms(i % 5);
        EXPECT(HF_OK, hf_cancel_fire(wait.cancel));
        give(lease);
        status = attempt_join(&attempt);
        CHECK(status == HF_OK || status == HF_CANCELLED);
        if (status == HF_OK)
            give(attempt.lease);
        EXPECT(HF_OK, hf_cancel_close(wait.cancel));
        wait.cancel = NULL;
        EXPECT(HF_OK, probe(store, &wait));
    }
    close_store(second);
    close_store(store);
}

/* ---- mutual exclusion ------------------------------------------------------------- */

struct counter {
    hf_store *store;
    int rounds;
    uint64_t *numbers; /* equal but for the moment in which a holder raises them */
    uint64_t *last_token;
};

static void *count_up(void *arg)
{
    struct counter *counter = arg;
    hf_acquire_request request = waiting_request("count");

    for (int i = 0; i < counter->rounds; i++) {
        hf_lease *lease = take(counter->store, &request);
        uint64_t token = hf_lease_token(lease);

        CHECK(counter->numbers[0] == counter->numbers[1]);
        counter->numbers[0]++;
        if (i % 7 == 0)
            sched_yield();
        counter->numbers[1]++;
        CHECK(!has(HF_CAP_TOKEN) || token > *counter->last_token);
        *counter->last_token = token;
        give(lease);
    }
    return NULL;
}

#define COUNTERS 8

static void one_at_a_time_of_threads(void **state)
{
    hf_store *stores[2] = { open_store(), open_store() };
    uint64_t numbers[2] = { 0, 0 }, last_token = 0;
    struct counter counters[COUNTERS];
    pthread_t threads[COUNTERS];

    (void)state;
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = (struct counter){ stores[i % 2], 150, numbers, &last_token };
        CHECK(pthread_create(&threads[i], NULL, count_up, &counters[i]) == 0);
    }
    for (int i = 0; i < COUNTERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(numbers[0] == COUNTERS * 150 && numbers[1] == COUNTERS * 150);
    close_store(stores[1]);
    close_store(stores[0]);
}

static void one_at_a_time_of_peers(void **state)
{
    char path[] = "/tmp/holdfast-numbers-XXXXXX";
    int fd = mkstemp(path);
    struct peer peers[3];
    uint64_t *numbers;

    (void)state;
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, 4096) == 0);
    numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(numbers != MAP_FAILED);
    for (int i = 0; i < 3; i++)
        peer_start(&peers[i]);
    for (int i = 0; i < 3; i++)
        peer_hammer(&peers[i], "count", HF_KIND_MUTEX, 300, path);
    for (int i = 0; i < 3; i++)
        peer_idle(&peers[i]);
    for (int i = 0; i < 3; i++)
        peer_stop(&peers[i]);
    CHECK(numbers[0] == 900 && numbers[1] == 900);
    munmap(numbers, 4096);
    close(fd);
    unlink(path);
}

int contract_acquire(void)
{
    const struct CMUnitTest cases[] = {
        CASE(try_once),
        CASE(try_from_everywhere),
        CASE(names_are_independent),
        CASE(timeout_is_not_early),
        CASE(waits_are_not_early),
        CASE(waiting_is_granted),
        CASE(waiting_peer_is_granted),
        CASE(cancel_ends_waiting),
        CASE(cancel_races_with_grant),
        CASE(signals_do_not_end_waiting),
        CASE(one_at_a_time_of_threads),
        CASE(one_at_a_time_of_peers),
    };

    return cmocka_run_group_tests_name("acquire", cases, NULL, NULL);
}
