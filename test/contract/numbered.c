/* SPDX-License-Identifier: MIT */
/* The slots of a semaphore have numbers (HF_FLAG_NUMBERED, HF_CAP_NUMBERED). */
#include "calls.h"
#include "peer.h"

#include <string.h>

#define LONG_MS (10 * 60 * 1000)

static hf_acquire_request slots_request(uint32_t capacity, uint32_t permits, int64_t wait_ms)
{
    hf_acquire_request request = mutex_request("slots");

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = capacity;
    request.permits = permits;
    request.flags = HF_FLAG_NUMBERED | HF_FLAG_NO_DEADLOCK_CHECK; /* one thread, several parts */
    request.wait_ms = wait_ms;
    return request;
}

static hf_lease_info info_of(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    return info;
}

/* Does the lease have exactly these numbers? On Redlock: so many. It promises that no two holders have the same one
 * (each_has_its_own), and not the lowest: whoever did not ask for numbers has some there too, and after a split vote any may come. */
static bool has_slots(hf_lease *lease, uint32_t count, const uint32_t *slots)
{
    hf_lease_info info = info_of(lease);

    for (uint32_t i = 1; i < info.slot_count; i++)
        CHECK(info.slots[i - 1] < info.slots[i]);
    return info.slot_count == count &&
           (several_nodes() || count == 0 || memcmp(info.slots, slots, count * sizeof *slots) == 0);
}

/* Does it still have the numbers that it had then? */
static bool same_slots(hf_lease *lease, const hf_lease_info *before)
{
    hf_lease_info info = info_of(lease);

    return info.slot_count == before->slot_count &&
           memcmp(info.slots, before->slots, sizeof info.slots) == 0;
}
#define HAS(lease, ...)                                                      \
    has_slots(lease, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), \
              (uint32_t[]){ __VA_ARGS__ })

static void refusals(void **state)
{
    hf_acquire_request request = slots_request(40, 1, 0), many = slots_request(40, 17, 0),
                       mutex = mutex_request("mutex");
    hf_store *store = open_store();
    hf_lease *lease = NULL;

    (void)state;
    mutex.flags = HF_FLAG_NUMBERED;
    EXPECT(HF_INVALID, hf_acquire(store, &mutex, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "HF_FLAG_NUMBERED"));
    if (has(HF_CAP_SEMAPHORE) && !has(HF_CAP_NUMBERED)) {
        EXPECT(HF_UNSUPPORTED, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "HF_FLAG_NUMBERED"));
    }
    if (has(HF_CAP_NUMBERED)) {
        EXPECT(HF_INVALID, hf_acquire(store, &many, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "permits") && strstr(contract_error.text, "16"));
    }
    CHECK(!lease);
    close_store(store);
}

/* Distinct, the lowest that is free, and free again after the release. Without the flag: none. */
static void lowest_that_is_free(void **state)
{
    hf_acquire_request one = slots_request(5, 1, 0), two = slots_request(5, 2, 0), plain = one;
    hf_store *store, *second;
    hf_lease *a, *b, *c, *d;

    (void)state;
    NEEDS(HF_CAP_NUMBERED);
    plain.flags &= ~HF_FLAG_NUMBERED;
    store = open_store();
    second = open_store();
    a = take(store, &one);
    b = take(second, &two);
    CHECK(HAS(a, 0));
    CHECK(HAS(b, 1, 2));
    c = take(store, &one);
    CHECK(HAS(c, 3));
    give(a);
    d = take(store, &plain);
    CHECK(has_slots(d, 0, NULL)); /* it costs a permit, and no number */
    a = take(second, &one);
    CHECK(HAS(a, 0));
    EXPECT(HF_BUSY, probe(store, &one));
    give(b);
    give(d);
    b = take(second, &one);
    CHECK(HAS(b, 1));
    d = take(store, &two);
    CHECK(HAS(d, 2, 4)); /* around the one that is held */
    give(a);
    give(b);
    give(c);
    give(d);
    a = take(store, &one);
    CHECK(HAS(a, 0));
    give(a);
    close_store(second);
    close_store(store);
}

static void as_many_as_there_may_be(void **state)
{
    hf_acquire_request request = slots_request(2 * HF_SLOTS_MAX, HF_SLOTS_MAX, 0);
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_lease *leases[2];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_NUMBERED);
    store = open_store();
    for (uint32_t i = 0; i < 2; i++) {
        leases[i] = take(store, &request);
        EXPECT(HF_OK, hf_lease_get(leases[i], &info));
        CHECK(info.slot_count == HF_SLOTS_MAX);
        for (uint32_t k = 0; k < HF_SLOTS_MAX; k++)
            CHECK(info.slots[k] == i * HF_SLOTS_MAX + k || several_nodes());
    }
    give(leases[0]);
    give(leases[1]);
    close_store(store);
}

/* An old caller's struct ends before the numbers: nothing is written behind it. */
static void caller_of_before(void **state)
{
    hf_acquire_request one = slots_request(2, 1, 0);
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_NUMBERED);
    store = open_store();
    lease = take(store, &one);
    info.size = offsetof(hf_lease_info, slot_count);
    info.slot_count = 77;
    EXPECT(HF_OK, hf_lease_get(lease, &info));
    CHECK(info.slot_count == 77 && info.size == offsetof(hf_lease_info, slot_count));
    give(lease);
    close_store(store);
}

static void renewals_keep_them(void **state)
{
    hf_acquire_request one = slots_request(3, 1, 0), two = slots_request(3, 2, 0);
    hf_lease_info before;
    hf_store *store;
    hf_lease *first, *lease;

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_TTL);
    one.ttl_ms = two.ttl_ms = LONG_MS;
    store = open_store();
    first = take(store, &one);
    lease = take(store, &two);
    before = info_of(lease);
    give(first);
    EXPECT(HF_OK, hf_renew(lease, 2 * LONG_MS, &contract_error));
    CHECK(HAS(lease, 1, 2) && same_slots(lease, &before));
    first = take(store, &one);
    CHECK(HAS(first, 0));
    give(first);
    give(lease);
    close_store(store);
}

/* A waiter gets the numbers of the one that has left, by the hand-over. */
static void handed_over(void **state)
{
    hf_acquire_request two = slots_request(3, 2, 0), one = slots_request(3, 1, 0),
                       wait = slots_request(3, 2, LIMIT_MS), next = slots_request(3, 1, LIMIT_MS);
    struct attempt attempt, behind;
    hf_store *store, *second;
    hf_lease *a, *b;

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_WAIT | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    a = take(store, &two);
    b = take(store, &one);
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "slots") == 1);
    attempt_start(&behind, second, &next);
    AWAIT(count_waiters(store, "slots") == 2);
    give(a);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(HAS(attempt.lease, 0, 1));
    give(b);
    EXPECT(HF_OK, attempt_join(&behind));
    CHECK(HAS(behind.lease, 2));
    CHECK(HAS(attempt.lease, 0, 1));
    give(attempt.lease);
    give(behind.lease);
    close_store(second);
    close_store(store);
}

/* The number of a process that died comes back, with the end of its lease and not before. */
static void holder_dies(void **state)
{
    hf_acquire_request one = slots_request(3, 1, 0), wait = slots_request(3, 3, LIMIT_MS);
    hf_store *store;
    hf_lease *mine, *all;
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_WAIT);
    if (!contract_processes)
        return;
    if (!has(HF_CAP_PROCESS))
        one.ttl_ms = 2000;
    store = open_store();
    peer_start(&peer);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &one));
    mine = take(store, &one);
    CHECK(HAS(mine, 1));
    peer_kill(&peer);
    give(mine);
    all = take(store, &wait);
    CHECK(HAS(all, 0, 1, 2));
    give(all);
    close_store(store);
}

static void adopted(void **state)
{
    hf_acquire_request one = slots_request(4, 1, 0), two = slots_request(4, 2, 0);
    char text[HF_LEASE_TEXT_MAX];
    hf_lease_info before;
    hf_store *store;
    hf_lease *first, *lease;

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_DETACHED);
    two.flags |= HF_FLAG_DETACHED;
    two.ttl_ms = LONG_MS;
    store = open_store();
    first = take(store, &one);
    lease = take(store, &two);
    before = info_of(lease);
    EXPECT(HF_OK, hf_lease_export(lease, text));
    give(first);
    EXPECT(HF_OK, hf_close(store, 0));

    store = open_store();
    first = take(store, &one);
    CHECK(HAS(first, 0));
    EXPECT(HF_OK, call_lease_adopt(store, "slots", 5, text, 0, 0, &lease, &contract_error));
    CHECK(HAS(lease, 1, 2) && same_slots(lease, &before));
    give(first);
    give(lease);
    first = take(store, &one);
    CHECK(HAS(first, 0));
    give(first);
    close_store(store);
}

struct passing {
    hf_store *store;
    _Atomic bool done;
};

static void *pass_through(void *arg)
{
    struct passing *passing = arg;
    hf_acquire_request wait = slots_request(2, 1, LIMIT_MS);
    hf_lease *lease = take(passing->store, &wait);

    CHECK(HAS(lease, 0));
    give(lease);
    passing->done = true;
    return NULL;
}

/* A lease that is yielded comes back with numbers. */
static void yielded(void **state)
{
    hf_acquire_request all = slots_request(2, 2, 0);
    hf_store *store, *second;
    struct passing passing = { 0 };
    hf_lease *lease;
    pthread_t thread;

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_WANTED);
    all.flags |= HF_FLAG_WATCH;
    store = open_store();
    second = open_store();
    lease = take(store, &all);
    passing.store = second;
    CHECK(pthread_create(&thread, NULL, pass_through, &passing) == 0);
    AWAIT(hf_lease_wanted(lease));
    EXPECT(HF_YIELDED, hf_yield(&lease, LIMIT_MS, &contract_error));
    while (several_nodes() && !passing.done) { /* it may come back before the waiter has had it */
        hf_status status = hf_yield(&lease, LIMIT_MS, &contract_error);

        CHECK(status == HF_OK || status == HF_YIELDED);
        nap_ms(1);
    }
    CHECK(HAS(lease, 0, 1));
    CHECK(pthread_join(thread, NULL) == 0);
    give(lease);
    close_store(second);
    close_store(store);
}

/* Re-entry: the same lease with the same numbers; but not if it has none. */
static void entered_again(void **state)
{
    hf_acquire_request one = slots_request(3, 1, 0), plain = one;
    hf_store *store;
    hf_lease *lease, *again;

    (void)state;
    NEEDS(HF_CAP_NUMBERED);
    one.flags |= HF_FLAG_REENTRANT;
    plain.flags = HF_FLAG_REENTRANT;
    store = open_store();
    lease = take(store, &one);
    again = take(store, &plain);
    CHECK(HAS(again, 0));
    give(again);
    give(lease);
    lease = take(store, &plain);
    EXPECT(HF_MISMATCH, hf_acquire(store, &one, &again, &contract_error));
    CHECK(strstr(contract_error.text, "without numbers"));
    give(lease);
    close_store(store);
}

static void inspected(void **state)
{
    hf_acquire_request two = slots_request(4, 2, 0), plain = slots_request(4, 1, 0);
    hf_store *store;
    hf_lease *first, *second, *third;
    const hf_entry *entry;
    hf_lease_info info[2]; /* of one permit, and of two */
    unsigned seen = 0;
    hf_view *view;

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_INSPECT);
    plain.flags = HF_FLAG_NO_DEADLOCK_CHECK;
    store = open_store();
    first = take(store, &plain);
    second = take(store, &two);
    plain.flags |= HF_FLAG_NUMBERED;
    third = take(store, &plain);
    CHECK(HAS(second, 0, 1) && HAS(third, 2));
    info[0] = info_of(third);
    info[1] = info_of(second);
    for (unsigned pattern = 0; pattern < 2; pattern++) {
        EXPECT(HF_OK, hf_store_inspect(store, "slots", 5, pattern ? HF_INSPECT_FLAG_PATTERN : 0,
                                       &view, &contract_error));
        CHECK(hf_view_count(view) == 1);
        entry = hf_view_entry(view, 0);
        CHECK(entry->holder_count == 3 && !entry->resized && entry->capacity == 4);
        for (size_t i = 0; i < 3; i++) {
            const hf_holder *holder = hf_entry_holder(entry, i);

            CHECK(holder->permits == (holder->slot_count == 2 ? 2 : 1));
            if (holder->slot_count > 0)
                CHECK(memcmp(holder->slots, info[holder->slot_count - 1].slots,
                             holder->slot_count * sizeof *holder->slots) == 0);
            seen += 1u << (4 * holder->slot_count);
        }
        hf_free(view);
    }
    CHECK(seen == 2 * 0x111);
    give(first);
    give(second);
    give(third);
    close_store(store);
}

/* ---- many at once --------------------------------------------------------------------------------- */

#define WORKERS 6
#define ROUNDS  20
#define PLACES  4

struct worker {
    _Atomic int *places; /* how many have each number now */
    hf_store *store;
    pthread_t thread;
    uint32_t permits;
};

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    hf_acquire_request request = slots_request(PLACES, worker->permits, LIMIT_MS);
    hf_lease_info info = HF_LEASE_INFO_INIT;

    for (int round = 0; round < ROUNDS; round++) {
        hf_lease *lease = take(worker->store, &request);

        EXPECT(HF_OK, hf_lease_get(lease, &info));
        CHECK(info.slot_count == worker->permits);
        for (uint32_t i = 0; i < info.slot_count; i++) {
            CHECK(info.slots[i] < PLACES);
            CHECK(atomic_fetch_add(&worker->places[info.slots[i]], 1) == 0);
        }
        sched_yield();
        for (uint32_t i = 0; i < info.slot_count; i++)
            atomic_fetch_sub(&worker->places[info.slots[i]], 1);
        give(lease);
    }
    return NULL;
}

static void each_has_its_own(void **state)
{
    struct worker workers[WORKERS];
    _Atomic int places[PLACES] = { 0 };

    (void)state;
    NEEDS(HF_CAP_NUMBERED | HF_CAP_WAIT);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] =
            (struct worker){ .places = places, .store = open_store(), .permits = 1 + i % 2 };
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        close_store(workers[i].store);
    }
}

int contract_numbered(void)
{
    const struct CMUnitTest cases[] = {
        CASE(refusals),
        CASE(lowest_that_is_free),
        CASE(as_many_as_there_may_be),
        CASE(caller_of_before),
        CASE(renewals_keep_them),
        CASE(handed_over),
        CASE(holder_dies),
        CASE(adopted),
        CASE(yielded),
        CASE(entered_again),
        CASE(inspected),
        CASE(each_has_its_own),
    };

    return cmocka_run_group_tests_name("numbered", cases, NULL, NULL);
}
