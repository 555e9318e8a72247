/* SPDX-License-Identifier: MIT */
/* Several names at once: all or nothing, a token each, and never a circle. */
#include "peer.h"

#include <stdio.h>
#include <string.h>

static hf_acquire_request numbered(int number, char name[16])
{
    snprintf(name, 16, "several%d", number);
    return mutex_request(name);
}

static void all_or_nothing(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request requests[3] = { mutex_request("c"), mutex_request("a"), mutex_request("b") };
    hf_lease *leases[3] = { NULL, NULL, NULL }, *untouched[3] = { NULL, NULL, NULL };
    hf_lease_info info = HF_LEASE_INFO_INIT;
    struct peer peer;

    (void)state;
    peer_start(&peer);
    EXPECT(HF_OK, hf_acquire_all(store, requests, 3, leases, &contract_error));
    for (int i = 0; i < 3; i++) { /* in the order of the caller, and each as it was asked for */
        EXPECT(HF_OK, hf_lease_get(leases[i], &info));
        CHECK(info.name_len == 1 && memcmp(info.name, requests[i].name, 1) == 0);
        CHECK(info.token > 0 || !has(HF_CAP_TOKEN));
        EXPECT(HF_BUSY, peer_acquire(&peer, 0, &requests[i]));
    }
    EXPECT(HF_OK, hf_release_all(leases, 3, &contract_error));
    EXPECT(HF_INVALID, hf_release_all(leases, 3, &contract_error));

    /* One of them is busy, whichever: nothing is held afterwards. */
    for (int busy = 0; busy < 3; busy++) {
        EXPECT(HF_OK, peer_acquire(&peer, 0, &requests[busy]));
        for (int wait = 0; wait < 2; wait++) {
            for (int i = 0; i < 3; i++)
                requests[i].wait_ms = wait ? 30 : 0;
            EXPECT(wait ? HF_TIMEOUT : HF_BUSY,
                   hf_acquire_all(store, requests, 3, untouched, &contract_error));
            CHECK(strstr(contract_error.text, requests[busy].name) != NULL);
            CHECK(!untouched[0] && !untouched[1] && !untouched[2]);
            for (int i = 0; i < 3; i++) {
                requests[i].wait_ms = 0;
                EXPECT(i == busy ? HF_BUSY : HF_OK, probe(store, &requests[i]));
            }
        }
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    peer_stop(&peer);
    close_store(store);
}

/* It waits for one, and has the others meanwhile. */
static void *release_when_waited(void *arg)
{
    struct peer *peer = arg;

    nap_ms(20);
    EXPECT(HF_OK, peer_release(peer, 0));
    return NULL;
}

static void one_deadline(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request requests[2] = { waiting_request("a"), waiting_request("b") };
    hf_lease *leases[2];
    struct peer peer;
    pthread_t thread;

    (void)state;
    peer_start(&peer);
    for (int busy = 0; busy < 2; busy++) {
        hf_acquire_request one = mutex_request(busy ? "b" : "a");

        EXPECT(HF_OK, peer_acquire(&peer, 0, &one));
        CHECK(pthread_create(&thread, NULL, release_when_waited, &peer) == 0);
        EXPECT(HF_OK, hf_acquire_all(store, requests, 2, leases, &contract_error));
        CHECK(pthread_join(thread, NULL) == 0);
        EXPECT(HF_OK, hf_release_all(leases, 2, &contract_error));
    }
    peer_stop(&peer);
    close_store(store);
}

static void cancelled(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request requests[2] = { waiting_request("a"), waiting_request("b") };
    hf_lease *leases[2] = { NULL, NULL };
    hf_cancel *cancel;

    (void)state;
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    requests[0].cancel = requests[1].cancel = cancel;
    EXPECT(HF_CANCELLED, hf_acquire_all(store, requests, 2, leases, &contract_error));
    CHECK(!leases[0] && !leases[1]);
    EXPECT(HF_OK, hf_cancel_close(cancel));
    close_store(store);
}

static void refused(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request requests[3] = { mutex_request("a"), mutex_request("b"), mutex_request("a") };
    hf_lease *leases[3] = { NULL, NULL, NULL };

    (void)state;
    EXPECT(HF_INVALID, hf_acquire_all(store, requests, 3, leases, &contract_error));
    CHECK(strstr(contract_error.text, "requests[") && strstr(contract_error.text, "name"));
    EXPECT(HF_INVALID, hf_acquire_all(store, requests, 0, leases, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_all(store, NULL, 1, leases, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_all(store, requests, 2, NULL, &contract_error));
    EXPECT(HF_INVALID,
           hf_acquire_all(store, requests, HF_ACQUIRE_ALL_MAX + 1, leases, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_all(NULL, requests, 2, leases, &contract_error));
    requests[1].wait_ms = 5;
    EXPECT(HF_INVALID, hf_acquire_all(store, requests, 2, leases, &contract_error));
    CHECK(strstr(contract_error.text, "requests[1]: wait_ms") != NULL);
    requests[1].wait_ms = 0;
    requests[1].name = "";
    requests[1].name_len = HF_CSTRING;
    EXPECT(HF_INVALID, hf_acquire_all(store, requests, 2, leases, &contract_error));
    CHECK(strstr(contract_error.text, "requests[1]") != NULL);
    EXPECT(HF_INVALID, hf_release_all(NULL, 1, &contract_error));
    EXPECT(HF_OK, hf_release_all(NULL, 0, &contract_error));
    EXPECT(HF_OK, probe(store, &requests[0]));
    close_store(store);
}

/* Of different kinds; and the loss of one leaves the others as they are. */
static void kinds_and_loss(void **state)
{
    hf_acquire_request requests[3] = { mutex_request("m"), mutex_request("r"), mutex_request("s") };
    hf_lease *leases[3];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    requests[1].kind = HF_KIND_SHARED;
    requests[2].kind = HF_KIND_SEMAPHORE;
    requests[2].capacity = 3;
    requests[2].permits = 2;
    EXPECT(HF_OK, hf_acquire_all(store, requests, 3, leases, &contract_error));
    EXPECT(HF_BUSY, probe(store, &requests[2]));
    EXPECT(HF_OK, probe(store, &requests[1])); /* another reader */
    EXPECT(HF_OK, hf_lease_break(store, "r", 1, hf_lease_token(leases[1]), &contract_error));
    await_lost(leases[1]);
    CHECK(hf_lease_state(leases[0]) == HF_STATE_HELD && hf_lease_state(leases[2]) == HF_STATE_HELD);
    EXPECT(HF_LOST, hf_release_all(leases, 3, &contract_error));
    CHECK(contract_error.status == HF_LOST && strstr(contract_error.text, "'r'") != NULL);
    EXPECT(HF_OK, probe(store, &requests[0]));
    EXPECT(HF_OK, probe(store, &requests[2]));
    close_store(store);
}

/* ---- many, in any order --------------------------------------------------------------------- */

#define NAMES   6
#define THREADS 4

struct crowd {
    hf_store *store;
    unsigned seed;
    int rounds;
    int (*inside)[NAMES]; /* how many hold each name: changed under its lock only */
    pthread_t thread;
};

static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;

    for (int round = 0; round < crowd->rounds; round++) {
        hf_acquire_request requests[NAMES];
        hf_lease *leases[NAMES];
        char names[NAMES][16];
        int order[NAMES], count = 0;

        for (int i = 0; i < NAMES; i++) { /* some of them, shuffled */
            unsigned at;

            crowd->seed = crowd->seed * 1103515245u + 12345u;
            if (crowd->seed >> 16 & 1)
                continue;
            at = (crowd->seed >> 18) % (unsigned)(count + 1);
            memmove(order + at + 1, order + at, ((unsigned)count - at) * sizeof *order);
            order[at] = i;
            count++;
        }
        if (count == 0)
            continue;
        for (int i = 0; i < count; i++) {
            requests[i] = numbered(order[i], names[i]);
            requests[i].wait_ms = LIMIT_MS;
        }
        EXPECT(HF_OK,
               hf_acquire_all(crowd->store, requests, (size_t)count, leases, &contract_error));
        for (int i = 0; i < count; i++)
            CHECK(++(*crowd->inside)[order[i]] == 1);
        for (int i = 0; i < count; i++)
            (*crowd->inside)[order[i]]--;
        EXPECT(HF_OK, hf_release_all(leases, (size_t)count, &contract_error));
    }
    return NULL;
}

/* Checks for deadlocks run all the time, and find none. */
static void any_order(void **state)
{
    int inside[NAMES] = { 0 };
    struct crowd crowd[THREADS];
    hf_store *stores[2];

    (void)state;
    contract_param("deadlock_check=5ms");
    stores[0] = open_store();
    stores[1] = open_store();
    for (unsigned i = 0; i < THREADS; i++) {
        crowd[i] =
            (struct crowd){ .store = stores[i % 2], .seed = i, .rounds = 15, .inside = &inside };
        CHECK(pthread_create(&crowd[i].thread, NULL, crowd_run, &crowd[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(crowd[i].thread, NULL) == 0);
    close_store(stores[1]);
    close_store(stores[0]);
}

/* Handles that have ended, or were never one, keep no other from being released. */
static void some_have_ended(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("held");

    (void)state;
    for (int place = 0; place < 3; place++) {
        hf_lease *leases[3] = { NULL, NULL, NULL };

        leases[(place + 1) % 3] = take(store, &request);
        give(leases[(place + 1) % 3]);
        leases[place] = take(store, &request);
        EXPECT(HF_INVALID, hf_release_all(leases, 3, &contract_error));
        CHECK(contract_error.status == HF_INVALID);
        EXPECT(HF_OK, probe(store, &request));
    }
    close_store(store);
}

int contract_several(void)
{
    const struct CMUnitTest cases[] = {
        CASE(all_or_nothing), CASE(one_deadline), CASE(cancelled),       CASE(refused),
        CASE(kinds_and_loss), CASE(any_order),    CASE(some_have_ended),
    };

    return cmocka_run_group_tests_name("several", cases, NULL, NULL);
}
