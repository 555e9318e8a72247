/* SPDX-License-Identifier: MIT */
/*
 * A short hammer: threads do everything at random on a few names, through two
 * handles, while what they hold is counted beside the library. The numbers
 * follow from HAMMER_SEED, which is printed; the schedule does not.
 */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8
#define ROUNDS  250
#define NAMES   3
#define SLOTS   3

struct ring {
    hf_store *stores[2];
    _Atomic int mutex[NAMES], readers[NAMES], writers[NAMES], slots[NAMES];
    _Atomic uint64_t token[NAMES][2];
    hf_cancel *cancel;
};

struct fighter {
    struct ring *ring;
    uint64_t random;
    pthread_t thread;
};

static unsigned roll(struct fighter *fighter, unsigned sides)
{
    fighter->random =
        fighter->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(fighter->random >> 33) % sides;
}

/* Tokens of exclusive leases of a name only ever grow. */
static void check_token(struct ring *ring, int n, int which, uint64_t token)
{
    if (!has(HF_CAP_TOKEN))
        return;
    CHECK(token > atomic_load(&ring->token[n][which]));
    atomic_store(&ring->token[n][which], token);
}

static void hold(struct ring *ring, struct fighter *fighter, int n, hf_kind kind, hf_lease *lease)
{
    bool pause = roll(fighter, 4) == 0;

    switch (kind) {
    case HF_KIND_MUTEX:
        CHECK(atomic_fetch_add(&ring->mutex[n], 1) == 0);
        check_token(ring, n, 0, hf_lease_token(lease));
        if (pause)
            sched_yield();
        CHECK(atomic_fetch_sub(&ring->mutex[n], 1) == 1);
        break;
    case HF_KIND_EXCLUSIVE:
        CHECK(atomic_fetch_add(&ring->writers[n], 1) == 0);
        CHECK(ring->readers[n] == 0);
        check_token(ring, n, 1, hf_lease_token(lease));
        if (pause)
            sched_yield();
        CHECK(ring->readers[n] == 0);
        CHECK(atomic_fetch_sub(&ring->writers[n], 1) == 1);
        break;
    case HF_KIND_UPGRADEABLE: /* it is a reader, until it is converted */
    case HF_KIND_SHARED:
        atomic_fetch_add(&ring->readers[n], 1);
        CHECK(ring->writers[n] == 0);
        if (pause)
            sched_yield();
        atomic_fetch_sub(&ring->readers[n], 1);
        break;
    case HF_KIND_SEMAPHORE:
        CHECK(atomic_fetch_add(&ring->slots[n], 1) < SLOTS);
        if (pause)
            sched_yield();
        atomic_fetch_sub(&ring->slots[n], 1);
        break;
    }
}

static hf_kind pick_kind(struct fighter *fighter)
{
    switch (roll(fighter, 4)) {
    case 1:
        return has(HF_CAP_SHARED) ? HF_KIND_SHARED : HF_KIND_MUTEX;
    case 2:
        return has(HF_CAP_SHARED) ? HF_KIND_EXCLUSIVE : HF_KIND_MUTEX;
    case 3:
        return has(HF_CAP_SEMAPHORE) ? HF_KIND_SEMAPHORE : HF_KIND_MUTEX;
    default:
        return HF_KIND_MUTEX;
    }
}

static void one_round(struct ring *ring, struct fighter *fighter)
{
    static const char *const kinds[] = { "mutex", "rw", "rw", "slots" };
    int n = (int)roll(fighter, NAMES);
    char name[16];
    hf_acquire_request request = mutex_request(name);
    hf_store *store = ring->stores[roll(fighter, 2)];
    hf_lease *lease = NULL;
    hf_status status;

    request.kind = pick_kind(fighter);
    snprintf(name, sizeof name, "%s-%d", kinds[request.kind], n);
    if (request.kind == HF_KIND_SEMAPHORE)
        request.capacity = SLOTS;
    request.wait_ms = (int64_t[]){ 0, 1, 5, LIMIT_MS, LIMIT_MS, HF_FOREVER }[roll(fighter, 6)];
    if (roll(fighter, 4) == 0)
        request.flags |= HF_FLAG_STRICT;
    if (has(HF_CAP_BARGE) && roll(fighter, 8) == 0)
        request.flags |= HF_FLAG_BARGE;
    if (has(HF_CAP_TTL) && roll(fighter, 4) == 0)
        request.ttl_ms = 10 * LIMIT_MS;
    contract_error.text[0] = 0;
    status = hf_acquire(store, &request, &lease, &contract_error);
    if (status == HF_OK) {
        hold(ring, fighter, n, request.kind, lease);
        if (request.ttl_ms && roll(fighter, 4) == 0)
            EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
        give(lease);
    } else if (!(status == HF_BUSY && request.wait_ms == 0) &&
               !(status == HF_TIMEOUT && request.wait_ms > 0))
        FAIL(contract_error.text);
    if (has(HF_CAP_INSPECT) && roll(fighter, 16) == 0) {
        hf_view *view = NULL;

        EXPECT(HF_OK,
               hf_store_inspect(store, "*", 1, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
        hf_free(view);
    }
}

static void *fight(void *arg)
{
    struct fighter *fighter = arg;

    for (int i = 0; i < ROUNDS; i++)
        one_round(fighter->ring, fighter);
    return NULL;
}

static void everything_at_once(void **state)
{
    struct ring ring = { .stores = { open_store(), open_store() } };
    struct fighter fighters[THREADS];
    const char *seed_text = getenv("HAMMER_SEED");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : (uint64_t)now_ms();
    hf_view *view = NULL;

    (void)state;
    printf("HAMMER_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < THREADS; i++) {
        fighters[i] = (struct fighter){ .ring = &ring, .random = seed + (uint64_t)i * 7919 };
        CHECK(pthread_create(&fighters[i].thread, NULL, fight, &fighters[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(fighters[i].thread, NULL) == 0);
    if (has(HF_CAP_INSPECT)) {
        EXPECT(HF_OK, hf_store_inspect(ring.stores[0], NULL, 0, HF_INSPECT_FLAG_PATTERN, &view,
                                       &contract_error));
        CHECK(hf_view_count(view) == 0); /* nothing is left over */
        hf_free(view);
    }
    close_store(ring.stores[1]);
    close_store(ring.stores[0]);
}

static void *open_and_close(void *arg)
{
    hf_acquire_request request = waiting_request("opened");

    (void)arg;
    for (int i = 0; i < 25; i++) {
        hf_store *store = open_store();

        if (i % 3 == 0)
            give(take(store, &request));
        close_store(store);
    }
    return NULL;
}

static void opened_by_many(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int contract_hammer(void)
{
    const struct CMUnitTest cases[] = { CASE(everything_at_once), CASE(opened_by_many) };

    return cmocka_run_group_tests_name("hammer", cases, NULL, NULL);
}
