/* SPDX-License-Identifier: MIT */
/* hf_semaphore_resize(): the size of a semaphore is set while it is in use (HF_CAP_RESIZE). */
#include "contract.h"

#include <string.h>

static hf_acquire_request slots_request(uint32_t capacity, uint32_t permits, int64_t wait_ms)
{
    hf_acquire_request request = mutex_request("slots");

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = capacity;
    request.permits = permits;
    request.flags = HF_FLAG_NO_DEADLOCK_CHECK; /* one thread, several parts */
    request.wait_ms = wait_ms;
    return request;
}

static void resize(hf_store *store, uint32_t capacity)
{
    EXPECT(HF_OK, hf_semaphore_resize(store, "slots", 5, capacity, &contract_error));
}

static void queue_up(struct attempt *attempt, hf_store *store, const hf_acquire_request *request,
                     size_t position)
{
    attempt_start(attempt, store, request);
    AWAIT(count_waiters(store, request->name) == position);
}

/* What the store shows for the name; 0: no entry. */
static uint32_t shown_size(hf_store *store, uint64_t flags, bool *ret_resized)
{
    uint32_t capacity = 0;
    hf_view *view;

    EXPECT(HF_OK, hf_store_inspect(store, "slots", 5, flags, &view, &contract_error));
    if (hf_view_count(view) == 1) {
        capacity = hf_view_entry(view, 0)->capacity;
        *ret_resized = hf_view_entry(view, 0)->resized;
        CHECK(hf_view_entry(view, 0)->kind == HF_KIND_SEMAPHORE);
    }
    hf_free(view);
    return capacity;
}

static void refusals(void **state)
{
    hf_acquire_request mutex = mutex_request("slots");
    hf_store *store = open_store();
    hf_lease *lease;

    (void)state;
    if (!has(HF_CAP_RESIZE)) {
        EXPECT(HF_UNSUPPORTED, hf_semaphore_resize(store, "slots", 5, 3, &contract_error));
        CHECK(strstr(contract_error.text, "size of a semaphore"));
        close_store(store);
        return;
    }
    EXPECT(HF_INVALID, hf_semaphore_resize(store, NULL, 5, 3, &contract_error));
    EXPECT(HF_INVALID, hf_semaphore_resize(store, "", 0, 3, &contract_error));
    EXPECT(HF_INVALID,
           hf_semaphore_resize(store, "slots", 5, HF_CAPACITY_MAX + 1, &contract_error));
    CHECK(strstr(contract_error.text, "capacity"));
    resize(store, 0); /* nothing was set */
    lease = take(store, &mutex);
    EXPECT(HF_MISMATCH, hf_semaphore_resize(store, "slots", 5, 3, &contract_error));
    CHECK(strstr(contract_error.text, "a mutex"));
    give(lease);
    EXPECT(HF_OK, probe(store, &mutex));
    close_store(store);
}

/* Whatever requests say, also while nobody uses it, and after everybody has gone. */
static void set_size_counts(void **state)
{
    hf_acquire_request of_two = slots_request(2, 1, 0), of_nine = slots_request(9, 1, 0),
                       three = slots_request(9, 3, 0), four = slots_request(9, 4, 0),
                       mutex = mutex_request("slots");
    hf_lease *leases[3];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_RESIZE);
    store = open_store();
    resize(store, 3);
    resize(store, 3); /* once more: the same */
    EXPECT(HF_MISMATCH, probe(store, &mutex));
    EXPECT(HF_MISMATCH, probe(store, &four));
    EXPECT(HF_OK, probe(store, &three));
    close_store(store);

    store = open_store();
    for (int i = 0; i < 3; i++)
        leases[i] = take(store, i % 2 ? &of_two : &of_nine);
    EXPECT(HF_BUSY, probe(store, &of_two));
    EXPECT(HF_BUSY, probe(store, &of_nine));
    EXPECT(HF_MISMATCH, probe(store, &mutex));
    EXPECT(HF_MISMATCH, probe(store, &four));
    for (int i = 0; i < 3; i++)
        give(leases[i]);
    close_store(store);

    store = open_store();
    EXPECT(HF_MISMATCH, probe(store, &mutex));
    resize(store, 0);
    EXPECT(HF_OK, probe(store, &mutex));
    EXPECT(HF_OK, probe(store, &four));
    close_store(store);
}

/* A lease of before keeps what it has; those that fit are granted in their order, and no others. */
static void growing_wakes(void **state)
{
    hf_acquire_request one = slots_request(1, 1, 0), wait = slots_request(1, 1, LIMIT_MS),
                       two = slots_request(3, 2, LIMIT_MS);
    struct attempt attempts[4];
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_WAIT | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    lease = take(store, &one);
    for (size_t i = 0; i < 3; i++)
        queue_up(&attempts[i], second, &wait, i + 1);
    resize(store, 3); /* in the same step: nobody looks by itself so soon */
    CHECK(count_waiters(store, "slots") == 1 && count_holders(store, "slots") == 3);
    EXPECT(HF_OK, attempt_join(&attempts[0]));
    EXPECT(HF_OK, attempt_join(&attempts[1]));
    CHECK(!attempts[2].ended);
    queue_up(&attempts[3], second, &two, 2);
    resize(store, 4); /* the third, and not the one that wants two */
    CHECK(count_waiters(store, "slots") == 1);
    EXPECT(HF_OK, attempt_join(&attempts[2]));
    CHECK(count_waiters(store, "slots") == 1 && !attempts[3].ended);
    resize(store, 6);
    EXPECT(HF_OK, attempt_join(&attempts[3]));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    for (int i = 0; i < 4; i++)
        give(attempts[i].lease);
    resize(store, 0);
    close_store(second);
    close_store(store);
}

/* Nobody is thrown out, and nobody comes in before enough has left. */
static void shrinking_waits(void **state)
{
    hf_acquire_request one = slots_request(4, 1, 0), wait = slots_request(4, 1, LIMIT_MS);
    struct attempt attempt;
    hf_store *store, *second;
    hf_lease *leases[4];

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_WAIT);
    store = open_store();
    second = open_store();
    for (int i = 0; i < 4; i++)
        leases[i] = take(store, &one);
    resize(second, 2);
    attempt_start(&attempt, second, &wait);
    if (has(HF_CAP_WAITERS))
        AWAIT(count_waiters(store, "slots") == 1);
    for (int i = 0; i < 3; i++) {
        CHECK(!attempt.ended);
        EXPECT(HF_BUSY, probe(second, &one));
        CHECK(hf_lease_state(leases[i]) == HF_STATE_HELD);
        if (hf_lease_remaining_ms(leases[i]) != INT64_MAX)
            EXPECT(HF_OK, hf_renew(leases[i], 0, &contract_error));
        give(leases[i]);
    }
    EXPECT(HF_OK, attempt_join(&attempt)); /* one is left, and it */
    EXPECT(HF_BUSY, probe(second, &one));
    give(leases[3]);
    EXPECT(HF_OK, probe(second, &one));
    give(attempt.lease);
    resize(store, 0);
    close_store(second);
    close_store(store);
}

/* A waiter that asks for more than a size that was set later stays, and those behind it wait too. */
static void waiter_too_large(void **state)
{
    hf_acquire_request one = slots_request(4, 1, 0), large = slots_request(4, 4, LIMIT_MS),
                       small = slots_request(4, 1, LIMIT_MS);
    struct attempt first, behind;
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_WAIT | HF_CAP_WAITERS | HF_CAP_FIFO);
    store = open_store();
    second = open_store();
    lease = take(store, &one);
    queue_up(&first, second, &large, 1);
    queue_up(&behind, second, &small, 2);
    resize(store, 2);
    give(lease);
    CHECK(count_waiters(store, "slots") == 2 && count_holders(store, "slots") == 0);
    EXPECT(HF_BUSY, probe(store, &one));
    CHECK(!first.ended && !behind.ended);
    resize(store, 5);
    EXPECT(HF_OK, attempt_join(&first));
    EXPECT(HF_OK, attempt_join(&behind));
    give(first.lease);
    give(behind.lease);
    resize(store, 0);
    close_store(second);
    close_store(store);
}

/* 0: a name in use keeps its size until it is free. */
static void reset_in_use(void **state)
{
    hf_acquire_request one = slots_request(1, 1, 0), of_three = slots_request(3, 1, 0);
    hf_lease *first, *second, *third;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_RESIZE);
    store = open_store();
    first = take(store, &one);
    resize(store, 3);
    second = take(store, &one);
    resize(store, 0);
    EXPECT(HF_MISMATCH, probe(store, &one)); /* it is a semaphore of 3 by now */
    third = take(store, &of_three);
    EXPECT(HF_BUSY, probe(store, &of_three));
    give(first);
    give(second);
    give(third);
    first = take(store, &one);
    EXPECT(HF_BUSY, probe(store, &one));
    give(first);
    close_store(store);
}

static void inspected(void **state)
{
    hf_acquire_request one = slots_request(2, 1, 0);
    bool resized = true;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_INSPECT);
    store = open_store();
    lease = take(store, &one);
    CHECK(shown_size(store, 0, &resized) == 2 && !resized);
    resize(store, 7);
    CHECK(shown_size(store, 0, &resized) == 7 && resized);
    CHECK(shown_size(store, HF_INSPECT_FLAG_PATTERN, &resized) == 7 && resized);
    give(lease);
    CHECK(shown_size(store, HF_INSPECT_FLAG_PATTERN, &resized) == 0); /* nobody uses it ... */
    resized = false;
    CHECK(shown_size(store, 0, &resized) == 7 && resized); /* ... but its size is there */
    CHECK(count_holders(store, "slots") == 0);
    resize(store, 0);
    CHECK(shown_size(store, 0, &resized) == 0);
    close_store(store);
}

/* All permits of a semaphore are not the whole of it for ever. */
static void token_is_no_fence(void **state)
{
    hf_acquire_request all = slots_request(2, 2, 0);
    uint64_t token = 0;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_TOKEN);
    store = open_store();
    lease = take(store, &all);
    EXPECT(HF_UNSUPPORTED, hf_lease_fence(lease, &token, &contract_error));
    CHECK(token == 0);
    give(lease);
    close_store(store);
}

/* A session that holds one permit and waits for another one is no deadlock where the size was set higher. */
static void no_false_deadlock(void **state)
{
    hf_acquire_request one = slots_request(1, 1, HF_FOREVER);
    hf_store *store;
    hf_lease *first, *second;

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_WAIT);
    one.flags = 0;
    store = open_store();
    resize(store, 2);
    first = take(store, &one);
    second = take(store, &one);
    give(first);
    give(second);
    resize(store, 0);
    close_store(store);
}

/* ---- many at once --------------------------------------------------------------------------------- */

#define WORKERS 6
#define ROUNDS  25
#define LARGE   4
#define SMALL   2

struct world {
    _Atomic int inside, most, left; /* permits that are held; the most; workers */
};

struct worker {
    struct world *world;
    hf_store *store;
    pthread_t thread;
    uint32_t number;
};

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    struct world *world = worker->world;
    hf_acquire_request request = slots_request(1 + worker->number, 1, LIMIT_MS);

    request.permits = worker->number % 3 ? 1 : 2;
    if (request.capacity < 2)
        request.capacity = 2;
    for (int round = 0; round < ROUNDS; round++) {
        hf_lease *lease = take(worker->store, &request);
        int now = atomic_fetch_add(&world->inside, (int)request.permits) + (int)request.permits;
        int most = world->most;

        CHECK(now <= LARGE);
        while (now > most && !atomic_compare_exchange_weak(&world->most, &most, now))
            ;
        nap_ms(1);
        atomic_fetch_sub(&world->inside, (int)request.permits);
        give(lease);
    }
    atomic_fetch_sub(&world->left, 1);
    return NULL;
}

static void never_more_than_the_larger(void **state)
{
    struct world world = { .left = WORKERS };
    struct worker workers[WORKERS];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_RESIZE | HF_CAP_WAIT);
    store = open_store();
    resize(store, LARGE);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){ .world = &world, .store = open_store(), .number = i };
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    for (unsigned i = 0; world.left > 0; i++) {
        resize(store, i % 2 ? LARGE : SMALL + i % 4 / 2);
        nap_ms(2);
    }
    for (int i = 0; i < WORKERS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        close_store(workers[i].store);
    }
    CHECK(world.inside == 0 && world.most > 0);
    resize(store, 0);
    close_store(store);
}

int contract_resize(void)
{
    const struct CMUnitTest cases[] = {
        CASE(refusals),          CASE(set_size_counts),
        CASE(growing_wakes),     CASE(shrinking_waits),
        CASE(waiter_too_large),  CASE(reset_in_use),
        CASE(inspected),         CASE(token_is_no_fence),
        CASE(no_false_deadlock), CASE(never_more_than_the_larger),
    };

    return cmocka_run_group_tests_name("resize", cases, NULL, NULL);
}
