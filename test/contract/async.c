/* SPDX-License-Identifier: MIT */
/* Asynchronous use: callbacks from hf_store_process() and nowhere else, driven by poll(2). */
#include "async.h"
#include "loop.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a callback brought. */
struct result {
    int calls;
    hf_status status, error_status;
    hf_lease *lease;
    pthread_t thread;
    int *order; /* the next number in line, if set */
    int number;
};

static void on_done(const hf_result *got, void *arg)
{
    struct result *result = arg;

    result->calls++;
    result->status = got->status;
    result->lease = got->lease;
    result->error_status = got->error ? got->error->status : HF_INTERNAL;
    result->thread = pthread_self();
    if (result->order)
        result->number = ++*result->order;
    CHECK((got->lease != NULL) == (got->status == HF_OK) || got->lease == NULL);
}

/* Run the loop until `count` callbacks of `results` have come. */
static void loop_until(hf_store *store, const struct result *results, int of, int count)
{
    int64_t until_ms = now_ms() + LIMIT_MS;
    int come;

    for (;;) {
        come = 0;
        for (int i = 0; i < of; i++)
            come += results[i].calls;
        if (come >= count)
            return;
        CHECK(now_ms() < until_ms);
        loop_turn(store, LIMIT_MS);
    }
}

/* Pass a time that is too short to sleep for. */
static void spin_ns(int64_t ns)
{
    struct timespec from, t;

    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &t);
    while ((t.tv_sec - from.tv_sec) * INT64_C(1000000000) + t.tv_nsec - from.tv_nsec < ns);
}

static void begin(hf_store *store, const hf_acquire_request *request, struct result *result,
                  hf_op **ret_op)
{
    memset(result, 0, sizeof *result);
    EXPECT(HF_OK, hf_acquire_async(store, request, on_done, result, ret_op, &contract_error));
    CHECK(result->calls == 0); /* always later than the call returns */
}

static void end(hf_store *store, hf_lease *lease)
{
    struct result result = { .calls = 0 };

    EXPECT(HF_OK, hf_release_async(lease, on_done, &result, NULL, &contract_error));
    CHECK(result.calls == 0);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST); /* the handle has ended */
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    loop_until(store, &result, 1, 1);
    EXPECT(HF_OK, result.status);
    CHECK(result.lease == NULL);
}

static void acquire_and_release(void **state)
{
    hf_store *store = open_store();
    char name[] = "async";
    hf_acquire_request request = mutex_request(name);
    struct result result;
    hf_op *op = NULL;

    (void)state;
    begin(store, &request, &result, &op);
    CHECK(op != NULL);
    memset(name, 'z', 5); /* the request was copied */
    nap_ms(30);
    CHECK(result.calls == 0); /* nobody called hf_store_process() */
    loop_until(store, &result, 1, 1);
    EXPECT(HF_OK, result.status);
    CHECK(result.error_status == HF_OK);
    CHECK(pthread_equal(result.thread, pthread_self()));
    CHECK(hf_lease_state(result.lease) == HF_STATE_HELD);
    request = mutex_request("async");
    EXPECT(HF_BUSY, probe(store, &request));
    EXPECT(HF_INVALID, hf_op_cancel(op)); /* it is done */
    end(store, result.lease);
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

static void failures(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("async");
    hf_lease *lease = take(store, &request);
    struct result result;
    int64_t begin_ms;

    (void)state;
    begin(store, &request, &result, NULL);
    loop_until(store, &result, 1, 1);
    EXPECT(HF_BUSY, result.status);
    CHECK(result.lease == NULL && result.error_status == HF_BUSY);

    request.wait_ms = 120;
    begin_ms = now_ms();
    begin(store, &request, &result, NULL);
    loop_until(store, &result, 1, 1);
    EXPECT(HF_TIMEOUT, result.status);
    CHECK(now_ms() - begin_ms >= 120);
    if (has(HF_CAP_SEMAPHORE)) {
        request.kind = HF_KIND_SEMAPHORE;
        request.capacity = 2;
        request.wait_ms = LIMIT_MS; /* a slow server must have the time to say it */
        begin(store, &request, &result, NULL);
        loop_until(store, &result, 1, 1);
        EXPECT(HF_MISMATCH, result.status);
    }
    give(lease);
    close_store(store);
}

static void waits_for_a_peer(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("async");
    struct result result;
    struct peer peer;

    (void)state;
    peer_start(&peer);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    request.wait_ms = HF_FOREVER;
    begin(store, &request, &result, NULL);
    for (int i = 0; i < 5; i++)
        loop_turn(store, 20);
    CHECK(result.calls == 0);
    EXPECT(HF_OK, peer_release(&peer, 0));
    loop_until(store, &result, 1, 1);
    EXPECT(HF_OK, result.status);
    end(store, result.lease);
    peer_stop(&peer);
    close_store(store);
}

static void cancel(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("async");
    hf_lease *lease = take(store, &request);
    struct result result;
    hf_op *op = NULL;

    (void)state;
    request.wait_ms = HF_FOREVER;
    for (int round = 0; round < 6; round++) {
        request.flags = round & 1 ? HF_FLAG_STRICT : 0;
        begin(store, &request, &result, &op);
        if (round >= 2)
            loop_turn(store, 10);
        EXPECT(HF_OK, hf_op_cancel(op));
        CHECK(result.calls == 0);
        loop_until(store, &result, 1, 1);
        EXPECT(HF_CANCELLED, result.status);
        CHECK(result.lease == NULL);
        EXPECT(HF_INVALID, hf_op_cancel(op));
    }
    if (has(HF_CAP_WAITERS))
        CHECK(count_waiters(store, "async") == 0);

    /* By a canceller too. */
    request.flags = 0;
    EXPECT(HF_OK, hf_cancel_open(&request.cancel));
    begin(store, &request, &result, &op);
    loop_turn(store, 10);
    EXPECT(HF_IN_USE, hf_cancel_close(request.cancel));
    EXPECT(HF_OK, hf_cancel_fire(request.cancel));
    loop_until(store, &result, 1, 1);
    EXPECT(HF_CANCELLED, result.status);
    EXPECT(HF_OK, hf_cancel_close(request.cancel));

    /* Too late: the lock is free, so it may be HF_OK; then it is ours. */
    give(lease);
    request.cancel = NULL;
    begin(store, &request, &result, &op);
    EXPECT(HF_OK, hf_op_cancel(op));
    loop_until(store, &result, 1, 1);
    CHECK(result.status == HF_OK || result.status == HF_CANCELLED);
    if (result.status == HF_OK)
        end(store, result.lease);
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

/* At any moment between the call and its sleep in the store, and in the local queue as well: a
 * cancel is never lost. */
static void cancel_at_any_moment(void **state)
{
    enum { ROUNDS = 1500, STEP_NS = 100 };
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("async");
    hf_lease *lease = take(second, &request);
    struct result result;
    hf_op *op = NULL;

    (void)state;
    request.wait_ms = HF_FOREVER;
    for (int round = 0; round < ROUNDS; round++) {
        begin(store, &request, &result, &op);
        spin_ns((int64_t)round * STEP_NS);
        EXPECT(HF_OK, hf_op_cancel(op));
        loop_until(store, &result, 1, 1);
        EXPECT(HF_CANCELLED, result.status);
    }
    give(lease);
    close_store(second);
    close_store(store);
}

static void acquire_and_end(hf_store *store, const hf_acquire_request *request)
{
    struct result result;

    begin(store, request, &result, NULL);
    loop_until(store, &result, 1, 1);
    EXPECT(HF_OK, result.status);
    end(store, result.lease);
}

/* Those that wait do not hold up one that need not: also if all begin at once, when the library has
 * fewer threads that have nothing to do than there are of them. */
static void who_waits_holds_up_nobody(void **state)
{
    enum { WAITERS = 24 }; /* more than a blocking engine has threads for waiting */
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("free"), busy[WAITERS];
    struct result results[WAITERS], late;
    hf_lease *leases[WAITERS];
    hf_op *ops[WAITERS];
    char names[WAITERS][8];

    (void)state;
    for (int i = 0; i < WAITERS; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        busy[i] = mutex_request(names[i]);
        leases[i] = take(second, &busy[i]);
        busy[i].wait_ms = HF_FOREVER;
    }
    acquire_and_end(store, &request);
    others_settled();
    for (int i = 0; i < WAITERS; i++)
        begin(store, &busy[i], &results[i], &ops[i]);
    acquire_and_end(store, &request);
    request.wait_ms = HF_FOREVER; /* it may wait, and need not */
    acquire_and_end(store, &request);
    request = busy[WAITERS - 1];
    request.wait_ms = 50; /* it must, and its time is up before the others' */
    begin(store, &request, &late, NULL);
    loop_until(store, &late, 1, 1);
    EXPECT(HF_TIMEOUT, late.status);
    EXPECT(HF_OK, hf_op_cancel(ops[WAITERS - 1])); /* so it can be stopped, too */
    loop_until(store, &results[WAITERS - 1], 1, 1);
    for (int i = 0; i < WAITERS - 1; i++)
        EXPECT(HF_OK, hf_op_cancel(ops[i]));
    loop_until(store, results, WAITERS, WAITERS);
    for (int i = 0; i < WAITERS; i++) {
        EXPECT(HF_CANCELLED, results[i].status);
        give(leases[i]);
    }
    close_store(second);
    close_store(store);
}

#define MANY 200

static void many_names_at_once(void **state)
{
    hf_store *store = open_store();
    struct result *results = calloc(MANY, sizeof *results);
    char name[16];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        hf_acquire_request request = mutex_request(name);

        snprintf(name, sizeof name, "many-%d", i);
        begin(store, &request, &results[i], NULL);
    }
    loop_until(store, results, MANY, MANY);
    for (int i = 0; i < MANY; i++) {
        EXPECT(HF_OK, results[i].status);
        CHECK(results[i].calls == 1);
    }
    for (int i = 0; i < MANY; i++)
        EXPECT(HF_OK,
               hf_release_async(results[i].lease, on_done, &results[i], NULL, &contract_error));
    loop_until(store, results, MANY, 2 * MANY);
    for (int i = 0; i < MANY; i++)
        EXPECT(HF_OK, results[i].status);
    free(results);
    close_store(store);
}

/* Fifty callers of one name: each gets it, and where they queue locally in the order in which they
 * asked. (Without that a blocking engine's worker threads come to the store as they come.) */
static void many_on_one_name(void **state)
{
    enum { QUEUE = 50 };
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("one");
    struct result results[QUEUE];
    hf_lease *held = NULL;
    uint64_t last_token = 0;
    int order = 0;

    (void)state;
    request.wait_ms = HF_FOREVER;
    for (int i = 0; i < QUEUE; i++) {
        begin(store, &request, &results[i], NULL);
        results[i].order = &order;
    }
    for (int i = 0; i < QUEUE; i++) {
        int winner = -1;

        loop_until(store, results, QUEUE, i + 1);
        for (int j = 0; j < QUEUE; j++)
            if (results[j].number == i + 1)
                winner = j;
        CHECK(winner >= 0);
        CHECK(winner == i || !has(HF_CAP_FIFO | HF_CAP_PASS));
        EXPECT(HF_OK, results[winner].status);
        held = results[winner].lease;
        CHECK(!has(HF_CAP_TOKEN) || hf_lease_token(held) > last_token);
        last_token = hf_lease_token(held);
        CHECK(order == i + 1); /* one at a time */
        give(held);            /* synchronous calls and the loop go together */
    }
    close_store(store);
}

/* A callback may begin the next thing. */
struct chain {
    hf_store *store;
    int left;
    bool ended;
};

static void chain_released(const hf_result *result, void *arg);

static void chain_acquired(const hf_result *result, void *arg)
{
    EXPECT(HF_OK, result->status);
    EXPECT(HF_OK, hf_release_async(result->lease, chain_released, arg, NULL, NULL));
}

static void chain_released(const hf_result *result, void *arg)
{
    struct chain *chain = arg;
    hf_acquire_request request = waiting_request("chain");

    EXPECT(HF_OK, result->status);
    if (--chain->left > 0)
        EXPECT(HF_OK, hf_acquire_async(chain->store, &request, chain_acquired, chain, NULL, NULL));
    else
        chain->ended = true;
}

static void callbacks_begin_more(void **state)
{
    hf_store *store = open_store();
    struct chain chains[3];
    hf_acquire_request request = waiting_request("chain");
    int64_t until_ms = now_ms() + LIMIT_MS;

    (void)state;
    for (int i = 0; i < 3; i++) {
        chains[i] = (struct chain){ store, 30, false };
        EXPECT(HF_OK, hf_acquire_async(store, &request, chain_acquired, &chains[i], NULL, NULL));
    }
    while (!chains[0].ended || !chains[1].ended || !chains[2].ended) {
        CHECK(now_ms() < until_ms);
        loop_turn(store, LIMIT_MS);
    }
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

struct nested {
    hf_store *store;
    int calls;
};

static void acquire_within(const hf_result *result, void *arg)
{
    struct nested *nested = arg;
    hf_acquire_request request = mutex_request("inner");
    hf_lease *lease = NULL;

    EXPECT(HF_OK, result->status);
    for (int i = 0; i < 3; i++) {
        EXPECT(HF_OK, hf_acquire(nested->store, &request, &lease, &contract_error));
        EXPECT(HF_OK, hf_release(lease, &contract_error));
    }
    EXPECT(HF_OK, hf_release(result->lease, &contract_error));
    nested->calls++;
}

/* A callback may call what blocks: what that sends does not wait for the end of the callback. */
static void callbacks_block(void **state)
{
    struct nested nested = { .store = open_store() };
    hf_acquire_request request = mutex_request("outer");

    (void)state;
    EXPECT(HF_OK, hf_acquire_async(nested.store, &request, acquire_within, &nested, NULL,
                                   &contract_error));
    while (nested.calls == 0)
        loop_turn(nested.store, LIMIT_MS);
    close_store(nested.store);
}

/* A loop on one thread while others use blocking calls on the same store and name. */
struct mixer {
    hf_store *store;
    int *inside;
};

static void *mixer_run(void *arg)
{
    struct mixer *mixer = arg;
    hf_acquire_request request = waiting_request("mix");

    for (int i = 0; i < 60; i++) {
        hf_lease *lease = take(mixer->store, &request);

        CHECK(++*mixer->inside == 1);
        --*mixer->inside;
        give(lease);
    }
    return NULL;
}

static void loop_beside_threads(void **state)
{
    hf_store *store = open_store();
    int inside = 0;
    struct mixer mixer = { store, &inside };
    hf_acquire_request request = waiting_request("mix");
    struct result result;
    pthread_t threads[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, mixer_run, &mixer) == 0);
    for (int i = 0; i < 60; i++) {
        begin(store, &request, &result, NULL);
        loop_until(store, &result, 1, 1);
        EXPECT(HF_OK, result.status);
        CHECK(++inside == 1);
        --inside;
        give(result.lease);
    }
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    close_store(store);
}

struct loss {
    int count;
    pthread_t thread;
};

static void on_lost(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct loss *loss = arg;

    (void)lease, (void)why;
    if (event != HF_EVENT_LOST)
        return;
    loss->count++;
    loss->thread = pthread_self();
}

/* The loss of what was acquired in the loop is told in the loop. */
static void loss_in_the_loop(void **state)
{
    hf_acquire_request request = mutex_request("async");
    struct result result;
    struct loss loss = { 0 };
    int64_t until_ms;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    request.on_event = on_lost;
    request.on_event_arg = &loss;
    begin(store, &request, &result, NULL);
    loop_until(store, &result, 1, 1);
    EXPECT(HF_OK, result.status);
    EXPECT(HF_OK, hf_lease_break(store, "async", 5, hf_lease_token(result.lease), &contract_error));
    until_ms = now_ms() + LIMIT_MS;
    while (loss.count == 0) {
        CHECK(now_ms() < until_ms);
        loop_turn(store, 50);
    }
    CHECK(loss.count == 1 && pthread_equal(loss.thread, pthread_self()));
    EXPECT(HF_LOST, hf_release(result.lease, &contract_error));
    close_store(store);
}

static void close_with_pending(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("async");
    hf_lease *lease = take(second, &request);
    struct result result;
    hf_op *op = NULL;

    (void)state;
    request.wait_ms = HF_FOREVER;
    begin(store, &request, &result, &op);
    EXPECT(HF_IN_USE, hf_close(store, 0));
    EXPECT(HF_OK, hf_op_cancel(op));
    loop_until(store, &result, 1, 1);
    EXPECT(HF_CANCELLED, result.status);
    close_store(store);
    give(lease);
    close_store(second);
}

int contract_async(void)
{
    const struct CMUnitTest cases[] = {
        CASE(acquire_and_release),  CASE(failures),
        CASE(waits_for_a_peer),     CASE(cancel),
        CASE(cancel_at_any_moment), CASE(who_waits_holds_up_nobody),
        CASE(many_names_at_once),   CASE(many_on_one_name),
        CASE(callbacks_begin_more), CASE(callbacks_block),
        CASE(loop_beside_threads),  CASE(loss_in_the_loop),
        CASE(close_with_pending),

    };

    return cmocka_run_group_tests_name("async", cases, NULL, NULL) + async_forms() + async_wakes();
}
