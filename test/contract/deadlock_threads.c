/* SPDX-License-Identifier: MIT */
/* Sessions that are threads: circles of mutexes, semaphores, readers and writers; and a thread alone. */
#include "deadlock.h"
#include "watched.h"

#include <string.h>

/* Of parties that wait in a circle, one gives up and the others get what they want. */
static void expect_one_victim(struct party *parties, int count)
{
    int victims = 0;

    for (int i = 0; i < count; i++)
        party_start(&parties[i]);
    for (int i = 0; i < count; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        if (parties[i].status == HF_DEADLOCK) {
            victims++;
            CHECK(parties[i].err.status == HF_DEADLOCK);
            CHECK(strstr(parties[i].err.text, "which we hold (token ") != NULL);
            CHECK(strstr(parties[i].err.text, parties[i].first.name) != NULL);
            CHECK(strstr(parties[i].err.text, parties[i].second.name) != NULL);
        } else {
            EXPECT(HF_OK, parties[i].status);
        }
    }
    CHECK(victims == 1);
}

/* Through one store, where they meet in the local queue; and through two. */
static void two_threads(void **state)
{
    hf_store *stores[2];

    (void)state;
    NEEDS(NEEDED);
    stores[0] = open_store();
    stores[1] = open_store();
    for (int round = 0; round < 4; round++) {
        pthread_barrier_t ready;
        struct party parties[2] = {
            { .store = stores[0], .first = waiting_request("a"), .second = waiting_request("b") },
            { .store = stores[round % 2],
              .first = waiting_request("b"),
              .second = waiting_request("a") }
        };

        pthread_barrier_init(&ready, NULL, 2);
        for (int i = 0; i < 2; i++) {
            parties[i].ready = &ready;
            if (round >= 2)
                parties[i].second.wait_ms = HF_FOREVER;
        }
        expect_one_victim(parties, 2);
        pthread_barrier_destroy(&ready);
    }
    CHECK(circles(stores[0]) == 0);
    close_store(stores[1]);
    close_store(stores[0]);
}

static hf_acquire_request semaphore(const char *name, uint32_t capacity, uint32_t permits)
{
    hf_acquire_request request = waiting_request(name);

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = capacity;
    request.permits = permits;
    return request;
}

/* Two of two permits with threads that wait for what the third has. */
static void semaphore_knot(void **state)
{
    pthread_barrier_t ready;
    hf_store *store;
    struct party parties[3];

    (void)state;
    NEEDS(NEEDED | HF_CAP_SEMAPHORE);
    store = open_store();
    pthread_barrier_init(&ready, NULL, 3);
    for (int i = 0; i < 3; i++)
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = i ? semaphore("s", 2, 1) : waiting_request("m"),
                                     .second = i ? waiting_request("m") : semaphore("s", 2, 1) };
    expect_one_victim(parties, 3);
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* As long as the holder of one permit does not wait, nobody is stuck. */
static void semaphore_with_a_way_out(void **state)
{
    hf_acquire_request one = semaphore("s", 2, 1);
    struct party parties[2];
    pthread_barrier_t ready;
    hf_store *store;
    hf_lease *way_out;

    (void)state;
    NEEDS(NEEDED | HF_CAP_SEMAPHORE);
    store = open_store();
    way_out = take(store, &one);
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = i ? one : waiting_request("m"),
                                     .second = i ? waiting_request("m") : one };
        party_start(&parties[i]);
    }
    AWAIT(count_waiters(store, "m") == 1 && count_waiters(store, "s") == 1);
    for (int i = 0; i < 5; i++)
        CHECK(circles(store) == 0);
    CHECK(!parties[0].ended && !parties[1].ended);
    give(way_out);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        EXPECT(HF_OK, parties[i].status);
    }
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* ---- readers and writers ---------------------------------------------------------------- */

static hf_acquire_request kind_of(const char *name, hf_kind kind)
{
    hf_acquire_request request = waiting_request(name);

    request.kind = kind;
    return request;
}

static void upgrade(void **state)
{
    hf_acquire_request read = kind_of("rw", HF_KIND_SHARED),
                       write = kind_of("rw", HF_KIND_EXCLUSIVE);
    hf_store *store;
    hf_lease *lease, *none = NULL;

    (void)state;
    NEEDS(NEEDED | HF_CAP_SHARED);
    store = open_store();
    lease = take(store, &read);
    EXPECT(HF_DEADLOCK, hf_acquire(store, &write, &none, &contract_error));
    CHECK(strstr(contract_error.text, "before it can become the writer") != NULL);
    write.flags = read.flags = HF_FLAG_REENTRANT;
    EXPECT(HF_DEADLOCK, hf_acquire(store, &write, &none, &contract_error));
    write.flags = 0;
    write.wait_ms = 0;
    EXPECT(HF_BUSY, hf_acquire(store, &write, &none, &contract_error));
    CHECK(count_waiters(store, "rw") == 0 && count_holders(store, "rw") == 1);
    give(lease);
    write.wait_ms = LIMIT_MS;
    give(take(store, &write)); /* a released lease blocks nobody */
    close_store(store);
}

static void *write_once(void *arg)
{
    hf_store *store = arg;
    hf_acquire_request write = kind_of("rw", HF_KIND_EXCLUSIVE);

    give(take(store, &write));
    return NULL;
}

/* We read and wait for `m`; its holder wants to read too, behind a writer that waits for us. */
static void reader_behind_writer(void **state)
{
    hf_acquire_request read = kind_of("rw", HF_KIND_SHARED);
    struct party parties[2];
    pthread_t writer;
    pthread_barrier_t ready;
    hf_store *store;
    int victims = 0;

    (void)state;
    NEEDS(NEEDED | HF_CAP_SHARED | HF_CAP_FIFO);
    store = open_store();
    pthread_barrier_init(&ready, NULL, 3);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = i ? waiting_request("m") : read,
                                     .second = i ? read : waiting_request("m") };
        party_start(&parties[i]);
    }
    AWAIT(count_holders(store, "rw") == 1);
    CHECK(pthread_create(&writer, NULL, write_once, store) == 0);
    AWAIT(count_waiters(store, "rw") == 1);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        victims += parties[i].status == HF_DEADLOCK;
        CHECK(parties[i].status == HF_DEADLOCK || parties[i].status == HF_OK);
    }
    CHECK(victims == 1);
    CHECK(pthread_join(writer, NULL) == 0);
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* ---- alone ----------------------------------------------------------------------------------- */

static void *release_later(void *arg)
{
    struct attempt *helper = arg; /* `store` and `lease`; the waiter is the thread that waits for
                                   * "self" */

    AWAIT(count_waiters(helper->store, "self") == 1);
    for (int i = 0; i < 5; i++)
        CHECK(circles(helper->store) == 0);
    give(helper->lease);
    return NULL;
}

static void waiting_for_oneself(void **state)
{
    hf_acquire_request request = waiting_request("self");
    struct attempt helper = { .lease = NULL };
    hf_store *store, *second;
    hf_lease *none = NULL;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    second = open_store();
    helper.store = store;
    helper.lease = take(store, &request);
    request.wait_ms = HF_FOREVER;
    EXPECT(HF_DEADLOCK, hf_acquire(store, &request, &none, &contract_error));
    CHECK(strstr(contract_error.text, "this session holds it itself") != NULL);
    EXPECT(HF_DEADLOCK, hf_acquire(second, &request, &none, &contract_error)); /* the same store */
    request.wait_ms = 100;
    EXPECT(HF_TIMEOUT, hf_acquire(store, &request, &none, &contract_error)); /* as it asked */
    give(helper.lease);

    /* A lease for another thread to release is not ours. */
    request.flags = HF_FLAG_NO_DEADLOCK_CHECK;
    request.wait_ms = HF_FOREVER;
    helper.lease = take(store, &request);
    CHECK(pthread_create(&helper.thread, NULL, release_later, &helper) == 0);
    request.flags = HF_FLAG_STRICT; /* where it is seen: in the store */
    give(take(store, &request));
    CHECK(pthread_join(helper.thread, NULL) == 0);
    close_store(second);
    close_store(store);
}

/* The thread that gets what is yielded then wants what the yielding thread still holds. false: there was no circle, for it was
 * overtaken. A yielding thread that has waited in the local queue for `deadlock_check` goes to the store by itself, and the thread
 * before it, which was told to ask there, may not have come so far. */
static bool yield_into_a_circle(hf_store *store, hf_store *others)
{
    struct told told = { .total = 0 };
    hf_acquire_request held = mutex_request("a"), given = watched("b", &told);
    struct party taker = { .store = others,
                           .first = waiting_request("b"),
                           .second = waiting_request("a") };
    hf_lease *outer = take(store, &held), *lease = take(store, &given);
    pthread_barrier_t alone;
    uint64_t token = 0;
    hf_status status;

    pthread_barrier_init(&alone, NULL, 1);
    taker.ready = &alone;
    party_start(&taker);
    AWAIT(hf_lease_wanted(lease));
    status = hf_yield(&lease, LIMIT_MS, &contract_error);
    if (status == HF_DEADLOCK) {
        CHECK(lease == NULL && strstr(contract_error.text, "which we hold (token ") != NULL);
    } else {
        EXPECT(HF_YIELDED, status);
        token = hf_lease_token(lease);
        give(lease);
    }
    give(outer);
    CHECK(pthread_join(taker.thread, NULL) == 0);
    pthread_barrier_destroy(&alone);
    /* We have got it back after the taker only because that one gave up. */
    EXPECT(status == HF_YIELDED && taker.token < token ? HF_DEADLOCK : HF_OK, taker.status);
    return status == HF_DEADLOCK || taker.token < token;
}

static void circle_through_a_yield(void **state)
{
    hf_store *stores[2];

    (void)state;
    NEEDS(NEEDED | HF_CAP_WANTED | HF_CAP_FIFO);
    stores[0] = open_store();
    stores[1] = open_store();
    for (int round = 0; round < 2; round++) {
        AWAIT(yield_into_a_circle(stores[0], stores[0]));
        AWAIT(yield_into_a_circle(stores[0], stores[1]));
    }
    CHECK(circles(stores[0]) == 0);
    close_store(stores[1]);
    close_store(stores[0]);
}

int deadlock_threads(void)
{
    const struct CMUnitTest cases[] = {
        FOUND(two_threads),
        FOUND(circle_through_a_yield),
        FOUND(semaphore_knot),
        FOUND(semaphore_with_a_way_out),
        FOUND(upgrade),
        FOUND(reader_behind_writer),
        FOUND(waiting_for_oneself),
    };

    return cmocka_run_group_tests_name("deadlock_threads", cases, NULL, NULL);
}
