/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session: deadlocks within this process are found, and what is none is left alone; see holds.h. */
#include "holds.h"

#include <pthread.h>

#define QUICK "&deadlock_check=20ms"

/* A thread that takes one name, meets the others, and takes a second one. */
struct party {
    hf_store *store;
    hf_request first, second;
    pthread_barrier_t *ready;
    hf_lease *lease; /* of the first */
    hf_status status;
    hf_error err;
    _Atomic bool holds, ended;
    pthread_t thread;
};

static void *party_run(void *arg)
{
    struct party *party = arg;
    hf_lease *second = NULL;

    party->lease = take(party->store, &party->first);
    party->holds = true;
    pthread_barrier_wait(party->ready);
    party->status = hf_acquire(party->store, &party->second, &second, &party->err);
    if (party->status == HF_OK)
        give(second);
    party->ended = true;
    return NULL;
}

static void party_start(struct party *party, hf_store *store, const char *first, const char *second,
                        pthread_barrier_t *ready)
{
    *party = (struct party){ .store = store,
                             .first = waiting_request(first),
                             .second = waiting_request(second),
                             .ready = ready };
    CHECK(pthread_create(&party->thread, NULL, party_run, party) == 0);
}

static void party_end(struct party *party)
{
    CHECK(pthread_join(party->thread, NULL) == 0);
}

/* ---- circles ----------------------------------------------------------------------------------------------- */

/* Each of `count` has a name and wants the next one's: one gives up, and the others go on. */
static void goes_round(hf_store *const *stores, int count)
{
    static const char *const names[] = { "a", "b", "c" };
    struct party parties[3];
    pthread_barrier_t ready;
    int given_up = 0, done = 0;

    CHECK(pthread_barrier_init(&ready, NULL, (unsigned)count) == 0);
    for (int i = 0; i < count; i++)
        party_start(&parties[i], stores[i], names[i], names[(i + 1) % count], &ready);
    while (done < count) /* whoever has ended gives back what it held: the next one goes on */
        for (int i = 0; i < count; i++)
            if (parties[i].ended && parties[i].lease) {
                given_up += parties[i].status == HF_DEADLOCK;
                CHECK(parties[i].status == HF_DEADLOCK || parties[i].status == HF_OK);
                party_end(&parties[i]);
                give(parties[i].lease);
                parties[i].lease = NULL;
                done++;
            } else {
                nap_ms(1);
            }
    CHECK(given_up == 1);
    pthread_barrier_destroy(&ready);
}

static void circle_in(const char *mode)
{
    for (int tokens = 0; tokens < 2; tokens++) {
        const char *more = tokens ? QUICK "&tokens=on" : QUICK;
        hf_store *stores[3] = { holds_open(mode, more) };

        stores[1] = stores[2] = stores[0];
        goes_round(stores, 2);
        goes_round(stores, 3);
        stores[1] = holds_open(mode, more); /* another handle of the same store */
        goes_round(stores, 2);
        close_store(stores[1]);
        close_store(stores[0]);
    }
}

static void circles_end(void **state)
{
    (void)state;
    BOTH_MODES(circle_in);
}

/* Who holds a name and waits for it without end waits for itself. */
static void for_itself(const char *mode)
{
    hf_store *store = holds_open(mode, QUICK);
    hf_request request = mutex_request("own");
    hf_lease *lease = take(store, &request), *none = NULL;

    request.wait_ms = HF_FOREVER;
    EXPECT(HF_DEADLOCK, hf_acquire(store, &request, &none, &contract_error));
    give(lease);
    close_store(store);
}

static void waits_for_itself(void **state)
{
    (void)state;
    BOTH_MODES(for_itself);
}

/* ---- no circles -------------------------------------------------------------------------------------------- */

/*
 * The first holds "a" and waits for "b"; the second holds "b" and waits for "a". But "a" is not the first's any more: its lease
 * was released from here while it waited, and is somebody else's, who does not wait.
 */
static void passed_by_another(const char *mode)
{
    hf_store *store = holds_open(mode, QUICK);
    hf_request request = mutex_request("a");
    pthread_barrier_t at_once, later;
    struct party first, second;
    hf_lease *lease;

    CHECK(pthread_barrier_init(&at_once, NULL, 1) == 0);
    CHECK(pthread_barrier_init(&later, NULL, 2) == 0);
    party_start(&second, store, "b", "a", &later);
    AWAIT(second.holds);
    party_start(&first, store, "a", "b", &at_once);
    AWAIT(holds_waiting() == 1);
    give(first.lease);
    lease = take(store, &request); /* it is ours now */
    pthread_barrier_wait(&later);
    AWAIT(holds_waiting() == 2);
    nap_ms(300); /* the detector looks many times */
    CHECK(!first.ended && !second.ended);
    give(lease);
    party_end(&second);
    EXPECT(HF_OK, second.status);
    give(second.lease);
    party_end(&first);
    EXPECT(HF_OK, first.status);
    pthread_barrier_destroy(&at_once);
    pthread_barrier_destroy(&later);
    close_store(store);
}

static void no_circle(void **state)
{
    (void)state;
    BOTH_MODES(passed_by_another);
}

const struct CMUnitTest holds_circle_cases[] = {
    cmocka_unit_test(circles_end),
    cmocka_unit_test(waits_for_itself),
    cmocka_unit_test(no_circle),
};
const size_t holds_circle_count = sizeof holds_circle_cases / sizeof *holds_circle_cases;
