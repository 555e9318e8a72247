/* SPDX-License-Identifier: MIT */
/* Any one of several names: the first that comes free, in turn in every queue, and nothing is left in the others. */
#include "deadlock.h"
#include "peer.h"

#include <string.h>

/* Waits on a thread of its own. */
struct chooser {
    hf_store *store;
    hf_acquire_request requests[3];
    size_t count, index;
    hf_lease *lease;
    hf_status status;
    hf_error err;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
    pthread_barrier_t *ready; /* of those that hold something */
};

static void *chooser_run(void *arg)
{
    struct chooser *chooser = arg;

    chooser->tid = thread_id();
    chooser->status = hf_acquire_any(chooser->store, chooser->requests, chooser->count,
                                     &chooser->index, &chooser->lease, &chooser->err);
    chooser->ended = true;
    return NULL;
}

/* Returns when it waits. */
static void chooser_start(struct chooser *chooser)
{
    chooser->index = SIZE_MAX;
    chooser->lease = NULL;
    chooser->ended = false;
    chooser->tid = 0;
    CHECK(pthread_create(&chooser->thread, NULL, chooser_run, chooser) == 0);
    if (has(HF_CAP_WAITERS))
        for (size_t i = 0; i < chooser->count; i++)
            AWAIT(chooser->ended || count_waiters(chooser->store, chooser->requests[i].name) > 0);
    else if (!contract_pumped)
        thread_settled(&chooser->tid, &chooser->ended);
}

static hf_status chooser_join(struct chooser *chooser)
{
    CHECK(pthread_join(chooser->thread, NULL) == 0);
    return chooser->status;
}

/* Nobody waits, and every name is free. */
static void nothing_is_left(hf_store *store, const struct chooser *chooser)
{
    for (size_t i = 0; i < chooser->count; i++) {
        hf_acquire_request try = chooser->requests[i];

        try.wait_ms = 0;
        try.cancel = NULL;
        if (has(HF_CAP_WAITERS))
            AWAIT(count_waiters(store, try.name) == 0);
        EXPECT(HF_OK, probe(store, &try));
    }
}

static struct chooser choose_ab(hf_store *store, int64_t wait_ms)
{
    struct chooser chooser = { .store = store,
                               .requests = { mutex_request("a"), mutex_request("b") },
                               .count = 2 };

    chooser.requests[0].wait_ms = chooser.requests[1].wait_ms = wait_ms;
    return chooser;
}

/* ---- cases --------------------------------------------------------------------------------------- */

static void in_the_order_given(void **state)
{
    hf_store *store = open_store();
    struct chooser chooser = choose_ab(store, 0);
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_lease *lease = NULL;
    struct peer peer;
    size_t index = 7;

    (void)state;
    peer_start(&peer);
    EXPECT(HF_OK, hf_acquire_any(store, chooser.requests, 2, &index, &lease, &contract_error));
    CHECK(index == 0);
    EXPECT(HF_OK, hf_lease_get(lease, &info));
    CHECK(info.name_len == 1 && info.name[0] == 'a');
    EXPECT(HF_OK, peer_acquire(&peer, 0, &chooser.requests[1])); /* the others were not touched */
    give(lease);
    EXPECT(HF_OK, peer_release(&peer, 0));

    EXPECT(HF_OK, peer_acquire(&peer, 0, &chooser.requests[0]));
    EXPECT(HF_OK, hf_acquire_any(store, chooser.requests, 2, &index, &lease, &contract_error));
    CHECK(index == 1);
    EXPECT(HF_BUSY, peer_acquire(&peer, 1, &chooser.requests[1]));
    give(lease);
    EXPECT(HF_OK, peer_acquire(&peer, 1, &chooser.requests[1]));
    lease = NULL;
    EXPECT(HF_BUSY, hf_acquire_any(store, chooser.requests, 2, &index, &lease, &contract_error));
    CHECK(lease == NULL && index == 1);
    chooser.requests[0].wait_ms = chooser.requests[1].wait_ms = 30;
    EXPECT(HF_TIMEOUT, hf_acquire_any(store, chooser.requests, 2, &index, &lease, &contract_error));
    CHECK(lease == NULL && strstr(contract_error.text, "any of 2 names") != NULL);
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, peer_release(&peer, 1));
    nothing_is_left(store, &chooser);

    EXPECT(HF_OK, hf_acquire_any(store, chooser.requests, 1, &index, &lease, &contract_error));
    CHECK(index == 0); /* one is enough */
    give(lease);
    peer_stop(&peer);
    close_store(store);
}

static void whichever_comes_free(void **state)
{
    hf_store *store = open_store();
    struct peer peer;

    (void)state;
    peer_start(&peer);
    for (int round = 0; round < 6; round++) {
        struct chooser chooser = choose_ab(store, LIMIT_MS);
        int free = round % 2;

        chooser.requests[0].wait_ms = 0;
        EXPECT(HF_OK, peer_acquire(&peer, 0, &chooser.requests[0]));
        chooser.requests[1].wait_ms = 0;
        EXPECT(HF_OK, peer_acquire(&peer, 1, &chooser.requests[1]));
        chooser.requests[0].wait_ms = chooser.requests[1].wait_ms = LIMIT_MS;
        chooser_start(&chooser);
        CHECK(!chooser.ended);
        EXPECT(HF_OK, peer_release(&peer, free));
        if (round > 3)
            EXPECT(HF_OK, peer_release(&peer, !free)); /* almost at once: only one is kept */
        EXPECT(HF_OK, chooser_join(&chooser));
        CHECK(round > 3 || chooser.index == (size_t)free);
        if (has(HF_CAP_WAITERS))
            AWAIT(count_waiters(store, "a") == 0 && count_waiters(store, "b") == 0);
        give(chooser.lease);
        if (round <= 3)
            EXPECT(HF_OK, peer_release(&peer, !free));
        nothing_is_left(store, &chooser);
    }
    peer_stop(&peer);
    close_store(store);
}

/* Both are released in one go: of what is granted one is kept, and the other one is free again. */
static void both_at_once(void **state)
{
    hf_store *store = open_store(), *other = open_store();

    (void)state;
    for (int round = 0; round < 20; round++) {
        hf_acquire_request two[2] = { mutex_request("a"), mutex_request("b") };
        struct chooser chooser = choose_ab(store, LIMIT_MS);
        hf_lease *held[2];

        EXPECT(HF_OK, (hf_acquire_all)(other, two, 2, held, &contract_error));
        chooser_start(&chooser);
        EXPECT(HF_OK, (hf_release_all)(held, 2, &contract_error));
        EXPECT(HF_OK, chooser_join(&chooser));
        give(chooser.lease);
        nothing_is_left(store, &chooser);
    }
    close_store(other);
    close_store(store);
}

/* It has its place in each queue: whoever comes later does not overtake it. */
static void in_turn(void **state)
{
    hf_store *store;
    struct chooser chooser;
    hf_acquire_request late = waiting_request("b");
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_WAITERS);
    store = open_store();
    chooser = choose_ab(store, LIMIT_MS);
    peer_start(&peer);
    for (int i = 0; i < 2; i++) {
        hf_acquire_request one = mutex_request(i ? "b" : "a");

        EXPECT(HF_OK, peer_acquire(&peer, i, &one));
    }
    chooser_start(&chooser);
    {
        struct peer other;

        peer_start(&other);
        peer_begin(&other, 0, &late);
        AWAIT(count_waiters(store, "b") == 2);
        EXPECT(HF_OK, peer_release(&peer, 1));
        EXPECT(HF_OK, chooser_join(&chooser));
        CHECK(chooser.index == 1);
        give(chooser.lease);
        EXPECT(HF_OK, peer_join(&other, 0, NULL));
        EXPECT(HF_OK, peer_release(&other, 0));
        peer_stop(&other);
    }
    EXPECT(HF_OK, peer_release(&peer, 0));
    nothing_is_left(store, &chooser);
    peer_stop(&peer);
    close_store(store);
}

static void stopped(void **state)
{
    hf_store *store = open_store();
    struct chooser chooser = choose_ab(store, HF_FOREVER);
    hf_cancel *cancel;
    struct peer peer;

    (void)state;
    peer_start(&peer);
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    for (int i = 0; i < 2; i++) {
        hf_acquire_request one = mutex_request(i ? "b" : "a");

        EXPECT(HF_OK, peer_acquire(&peer, i, &one));
        chooser.requests[i].cancel = cancel;
    }
    chooser_start(&chooser);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    EXPECT(HF_CANCELLED, chooser_join(&chooser));
    CHECK(chooser.lease == NULL);
    EXPECT(HF_OK, hf_cancel_close(cancel));
    for (int i = 0; i < 2; i++)
        EXPECT(HF_OK, peer_release(&peer, i));
    nothing_is_left(store, &chooser);
    peer_stop(&peer);
    close_store(store);
}

/* hf_close() ends the waiting. */
static void closed(void **state)
{
    hf_store *store = open_store(), *other = open_store();
    struct chooser chooser = choose_ab(other, HF_FOREVER);
    hf_lease *held[2];

    (void)state;
    if (!contract_pumped) {
        for (int i = 0; i < 2; i++) {
            hf_acquire_request one = mutex_request(i ? "b" : "a");

            held[i] = take(store, &one);
        }
        chooser_start(&chooser);
        EXPECT(HF_IN_USE, hf_close(other, 0));
        EXPECT(HF_OK, hf_close(other, HF_CLOSE_FLAG_RELEASE));
        EXPECT(HF_CANCELLED, chooser_join(&chooser));
        give(held[0]);
        give(held[1]);
        nothing_is_left(store, &chooser);
    } else {
        close_store(other);
    }
    close_store(store);
}

static void refused(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request requests[3] = { mutex_request("a"), mutex_request("b"), mutex_request("a") };
    hf_lease *lease = NULL;
    size_t index = 5;

    (void)state;
    EXPECT(HF_INVALID, hf_acquire_any(store, requests, 3, &index, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "requests[2]: name") != NULL);
    EXPECT(HF_INVALID, hf_acquire_any(store, requests, 0, &index, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_any(store, NULL, 1, &index, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_any(store, requests, 2, NULL, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_any(store, requests, 2, &index, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_any(store, requests, HF_ACQUIRE_ALL_MAX + 1, &index, &lease,
                                      &contract_error));
    EXPECT(HF_INVALID, hf_acquire_any(NULL, requests, 2, &index, &lease, &contract_error));
    requests[1].wait_ms = 5;
    EXPECT(HF_INVALID, hf_acquire_any(store, requests, 2, &index, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "requests[1]: wait_ms") != NULL);
    CHECK(lease == NULL && index == 5);
    close_store(store);
}

/* ---- many ----------------------------------------------------------------------------------------- */

#define NAMES   3
#define THREADS 6

struct crowd {
    hf_store *store;
    unsigned seed;
    int (*inside)[NAMES]; /* how many hold each name: changed under its lock only */
    pthread_t thread;
};

static void *crowd_run(void *arg)
{
    static const char *const names[NAMES] = { "a", "b", "c" };
    struct crowd *crowd = arg;

    for (int round = 0; round < 20; round++) {
        hf_acquire_request requests[NAMES];
        hf_lease *lease;
        size_t index;

        crowd->seed = crowd->seed * 1103515245u + 12345u;
        for (unsigned i = 0; i < NAMES; i++)
            requests[i] = waiting_request(names[(i + (crowd->seed >> 16)) % NAMES]);
        EXPECT(HF_OK,
               hf_acquire_any(crowd->store, requests, NAMES - 1, &index, &lease, &contract_error));
        index = (index + (crowd->seed >> 16)) % NAMES;
        CHECK(++(*crowd->inside)[index] == 1);
        (*crowd->inside)[index]--;
        give(lease);
    }
    return NULL;
}

/* Checks for deadlocks run all the time, and find none. */
static void many(void **state)
{
    int inside[NAMES] = { 0 };
    struct crowd crowd[THREADS];
    hf_store *stores[2];

    (void)state;
    contract_param("deadlock_check=5ms");
    stores[0] = open_store();
    stores[1] = open_store();
    for (unsigned i = 0; i < THREADS; i++) {
        crowd[i] = (struct crowd){ .store = stores[i % 2], .seed = i, .inside = &inside };
        CHECK(pthread_create(&crowd[i].thread, NULL, crowd_run, &crowd[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(crowd[i].thread, NULL) == 0);
    close_store(stores[1]);
    close_store(stores[0]);
}

/* ---- deadlocks ------------------------------------------------------------------------------------- */

static void *hold_and_choose(void *arg)
{
    struct chooser *chooser = arg;
    hf_acquire_request first = waiting_request("x");
    hf_lease *held = take(chooser->store, &first);

    pthread_barrier_wait(chooser->ready);
    (void)chooser_run(chooser);
    if (chooser->status == HF_OK)
        give(chooser->lease);
    give(held);
    return NULL;
}

/*
 * x is held by a thread that waits for any of a and b. a is held by one that waits for x: that alone is no deadlock. If the
 * holder of b waits for x too, it is one.
 */
static void stuck_only_if_all_are(void **state)
{
    for (int stuck = 0; stuck < 2; stuck++) {
        hf_store *store;
        pthread_barrier_t ready;
        struct party parties[2];
        struct chooser chooser;
        hf_acquire_request one = mutex_request("b");
        hf_lease *held = NULL;
        int failed = 0;

        (void)state;
        NEEDS(NEEDED);
        if (contract_pumped)
            return; /* asynchronous requests belong to no thread's session */
        store = open_store();
        chooser = choose_ab(store, LIMIT_MS);
        chooser.ready = &ready;
        pthread_barrier_init(&ready, NULL, stuck ? 4 : 3);
        if (!stuck)
            held = take(store, &one);
        for (int i = 0; i < 1 + stuck; i++) {
            parties[i] = (struct party){ .store = store,
                                         .first = waiting_request(i ? "b" : "a"),
                                         .second = waiting_request("x"),
                                         .ready = &ready };
            parties[i].first.flags |= HF_FLAG_STRICT;
        }
        CHECK(pthread_create(&chooser.thread, NULL, hold_and_choose, &chooser) == 0);
        for (int i = 0; i < 1 + stuck; i++)
            party_start(&parties[i]);
        pthread_barrier_wait(&ready);
        if (!stuck) {
            for (int i = 0; i < 20; i++, nap_ms(20)) /* many checks */
                CHECK(circles(store) == 0);
            CHECK(!chooser.ended && !parties[0].ended);
            give(held);
        }
        CHECK(pthread_join(chooser.thread, NULL) == 0);
        failed += chooser.status == HF_DEADLOCK;
        for (int i = 0; i < 1 + stuck; i++) {
            CHECK(pthread_join(parties[i].thread, NULL) == 0);
            CHECK(parties[i].status == HF_OK || parties[i].status == HF_DEADLOCK);
            failed += parties[i].status == HF_DEADLOCK;
        }
        CHECK(chooser.status == HF_OK || chooser.status == HF_DEADLOCK);
        CHECK(failed == stuck);
        CHECK(circles(store) == 0);
        pthread_barrier_destroy(&ready);
        close_store(store);
    }
}

int contract_any(void)
{
    const struct CMUnitTest cases[] = {
        CASE(in_the_order_given),
        CASE(whichever_comes_free),
        CASE(both_at_once),
        CASE(in_turn),
        CASE(stopped),
        CASE(closed),
        CASE(refused),
        CASE(many),
        FOUND(stuck_only_if_all_are),
    };

    return cmocka_run_group_tests_name("any", cases, NULL, NULL);
}
