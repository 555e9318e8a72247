/* SPDX-License-Identifier: MIT */
/*
 * hf_convert(): a writer becomes a reader and an upgradeable reader the writer, and nobody else writes in between
 * (HF_CAP_CONVERT).
 */
#include "contract.h"

#include <string.h>

static hf_acquire_request rw(hf_kind kind, int64_t wait_ms)
{
    hf_acquire_request request = mutex_request("rw");

    request.kind = kind;
    request.wait_ms = wait_ms;
    return request;
}

static hf_lease *take_kind(hf_store *store, hf_kind kind)
{
    hf_acquire_request request = rw(kind, 0);

    request.flags = HF_FLAG_NO_DEADLOCK_CHECK; /* one thread plays several parts */
    return take(store, &request);
}

static hf_status probe_kind(hf_store *store, hf_kind kind)
{
    hf_acquire_request request = rw(kind, 0);

    return probe(store, &request);
}

static hf_kind kind_of(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    CHECK(info.state == HF_STATE_HELD);
    return info.kind;
}

/* An acquire that waits, and is seen as number `position` in the queue. */
static void queue_up(struct attempt *attempt, hf_store *store, hf_kind kind, size_t position)
{
    hf_acquire_request request = rw(kind, LIMIT_MS);

    attempt_start(attempt, store, &request);
    if (has(HF_CAP_WAITERS))
        AWAIT(count_waiters(store, "rw") == position);
    else
        attempt_settled(attempt);
}

/* A conversion on a thread of its own. */
static void *convert_run(void *arg)
{
    struct attempt *attempt = arg;

    attempt->tid = thread_id();
    attempt->status =
        hf_convert(&attempt->lease, HF_KIND_EXCLUSIVE, attempt->request.wait_ms, &contract_error);
    attempt->ended = true;
    return NULL;
}

static void upgrade_start(struct attempt *attempt, hf_store *store, hf_lease *lease)
{
    *attempt =
        (struct attempt){ .store = store, .lease = lease, .request = { .wait_ms = LIMIT_MS } };
    CHECK(pthread_create(&attempt->thread, NULL, convert_run, attempt) == 0);
}

/* ---- cases ------------------------------------------------------------------------------------- */

static void undeclared_is_refused(void **state)
{
    hf_acquire_request request = rw(HF_KIND_UPGRADEABLE, 0), writer = rw(HF_KIND_EXCLUSIVE, 0);
    hf_store *store = open_store();
    hf_lease *lease, *same;

    (void)state;
    if (!has(HF_CAP_CONVERT)) {
        EXPECT(HF_UNSUPPORTED, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "kind"));
    }
    if (!has(HF_CAP_CONVERT) && has(HF_CAP_SHARED)) {
        same = lease = take(store, &writer);
        EXPECT(HF_UNSUPPORTED, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
        CHECK(lease == same && hf_lease_state(lease) == HF_STATE_HELD);
        give(lease);
    }
    close_store(store);
}

static void bad_input(void **state)
{
    hf_acquire_request mutex = mutex_request("mutex");
    hf_store *store;
    hf_lease *lease, *same;

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    store = open_store();
    EXPECT(HF_INVALID, (hf_convert)(NULL, HF_KIND_SHARED, 0, &contract_error));
    same = lease = take_kind(store, HF_KIND_SHARED);
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_EXCLUSIVE, 0, &contract_error));
    CHECK(strstr(contract_error.text, "HF_KIND_UPGRADEABLE"));
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_UPGRADEABLE, 0, &contract_error));
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_MUTEX, 0, &contract_error));
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_SEMAPHORE, 0, &contract_error));
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_SHARED, -2, &contract_error));
    CHECK(strstr(contract_error.text, "wait_ms"));
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error)); /* as it is */
    CHECK(lease == same && kind_of(lease) == HF_KIND_SHARED);
    give(lease);
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));

    lease = take(store, &mutex);
    EXPECT(HF_INVALID, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
    CHECK(strstr(contract_error.text, "read-write"));
    give(lease);
    close_store(store);
}

static void one_upgradeable_reader(void **state)
{
    hf_store *store, *second;
    hf_lease *reader, *lease;

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    store = open_store();
    second = open_store();
    reader = take_kind(second, HF_KIND_SHARED);
    lease = take_kind(store, HF_KIND_UPGRADEABLE);
    CHECK(kind_of(lease) == HF_KIND_UPGRADEABLE);
    EXPECT(HF_OK, probe_kind(second, HF_KIND_SHARED));
    EXPECT(HF_BUSY, probe_kind(second, HF_KIND_UPGRADEABLE));
    EXPECT(HF_BUSY, probe_kind(second, HF_KIND_EXCLUSIVE));
    give(lease);
    EXPECT(HF_OK, probe_kind(second, HF_KIND_UPGRADEABLE));
    give(reader);
    close_store(second);
    close_store(store);
}

static void writer_becomes_reader(void **state)
{
    struct attempt writer, reader;
    hf_store *store, *second;
    hf_lease *lease, *old;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    store = open_store();
    second = open_store();
    old = lease = take_kind(store, HF_KIND_EXCLUSIVE);
    token = hf_lease_token(lease);
    queue_up(&reader, second, HF_KIND_SHARED, 1);
    queue_up(&writer, second, HF_KIND_EXCLUSIVE, 2);

    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
    CHECK(lease != old && kind_of(lease) == HF_KIND_SHARED);
    EXPECT(HF_INVALID, hf_release(old, NULL));
    if (has(HF_CAP_TOKEN))
        CHECK(hf_lease_token(lease) > token);
    EXPECT(HF_OK, attempt_join(&reader)); /* it comes in beside us ... */
    CHECK(!writer.ended);                 /* ... and the writer does not */
    EXPECT(HF_BUSY, probe_kind(store, HF_KIND_EXCLUSIVE));
    give(reader.lease);
    CHECK(!writer.ended && kind_of(lease) == HF_KIND_SHARED);
    give(lease);
    EXPECT(HF_OK, attempt_join(&writer));
    give(writer.lease);
    close_store(second);
    close_store(store);
}

/* EXCLUSIVE -> UPGRADEABLE -> EXCLUSIVE -> SHARED, alone and with a reader beside it. */
static void there_and_back(void **state)
{
    hf_store *store, *second;
    hf_lease *lease, *reader, *same;

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    store = open_store();
    second = open_store();
    lease = take_kind(store, HF_KIND_EXCLUSIVE);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_UPGRADEABLE, 0, &contract_error));
    CHECK(kind_of(lease) == HF_KIND_UPGRADEABLE);
    EXPECT(HF_BUSY, probe_kind(second, HF_KIND_UPGRADEABLE));
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_EXCLUSIVE, HF_FOREVER, &contract_error));
    EXPECT(HF_BUSY, probe_kind(second, HF_KIND_SHARED));
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_UPGRADEABLE, 0, &contract_error));

    reader = take_kind(second, HF_KIND_SHARED);
    same = lease;
    EXPECT(HF_BUSY, hf_convert(&lease, HF_KIND_EXCLUSIVE, 0, &contract_error));
    CHECK(lease == same && kind_of(lease) == HF_KIND_UPGRADEABLE);
    EXPECT(HF_BUSY, probe_kind(second, HF_KIND_EXCLUSIVE));
    EXPECT(HF_OK, probe_kind(second, HF_KIND_SHARED)); /* nothing of the try is left */
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
    CHECK(kind_of(lease) == HF_KIND_SHARED);
    EXPECT(HF_OK, probe_kind(second, HF_KIND_UPGRADEABLE));
    give(lease);
    give(reader);
    EXPECT(HF_OK, probe_kind(second, HF_KIND_EXCLUSIVE));
    close_store(second);
    close_store(store);
}

/* The upgrade stands before a writer and a reader that came earlier. */
static void upgrade_comes_first(void **state)
{
    struct attempt writer, reader, upgrade;
    hf_store *store, *second;
    hf_lease *lease, *before;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    lease = take_kind(store, HF_KIND_UPGRADEABLE);
    before = take_kind(second, HF_KIND_SHARED);
    queue_up(&writer, second, HF_KIND_EXCLUSIVE, 1);
    queue_up(&reader, second, HF_KIND_SHARED, 2);
    upgrade_start(&upgrade, store, lease);
    AWAIT(count_waiters(store, "rw") == 3);
    CHECK(!upgrade.ended && !writer.ended && !reader.ended);

    give(before);
    EXPECT(HF_OK, attempt_join(&upgrade));
    CHECK(kind_of(upgrade.lease) == HF_KIND_EXCLUSIVE);
    CHECK(!writer.ended && !reader.ended);
    CHECK(count_waiters(store, "rw") == 2 && count_holders(store, "rw") == 1);
    give(upgrade.lease);
    EXPECT(HF_OK, attempt_join(&writer));
    CHECK(!has(HF_CAP_TOKEN) || hf_lease_token(writer.lease) > 0);
    CHECK(!reader.ended);
    give(writer.lease);
    EXPECT(HF_OK, attempt_join(&reader));
    give(reader.lease);
    close_store(second);
    close_store(store);
}

/* It gives up: it is an upgradeable reader as before, and the next in the queue has its turn. */
static void upgrade_times_out(void **state)
{
    struct attempt reader;
    hf_store *store, *second;
    hf_lease *lease, *before, *same;

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    store = open_store();
    second = open_store();
    same = lease = take_kind(store, HF_KIND_UPGRADEABLE);
    before = take_kind(second, HF_KIND_SHARED);
    EXPECT(HF_TIMEOUT, hf_convert(&lease, HF_KIND_EXCLUSIVE, 50, &contract_error));
    CHECK(lease == same && kind_of(lease) == HF_KIND_UPGRADEABLE);
    {
        hf_acquire_request request = rw(HF_KIND_SHARED, LIMIT_MS);

        attempt_start(&reader, second, &request); /* nobody waits before it any more */
    }
    EXPECT(HF_OK, attempt_join(&reader));
    give(reader.lease);
    give(before);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_EXCLUSIVE, LIMIT_MS, &contract_error));
    give(lease);
    close_store(second);
    close_store(store);
}

/* The lease is renewed while its upgrade waits, for longer than its ttl. */
static void renewed_while_it_waits(void **state)
{
    hf_acquire_request request = rw(HF_KIND_UPGRADEABLE, 0);
    struct attempt upgrade;
    hf_store *store, *second;
    hf_lease *lease, *before;
    hf_store_info info = HF_STORE_INFO_INIT;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_TTL);
    store = open_store();
    second = open_store();
    EXPECT(HF_OK, hf_store_get(store, &info));
    request.ttl_ms = info.min_ttl_ms > HF_TTL_MIN_MS ? info.min_ttl_ms : HF_TTL_MIN_MS;
    lease = take(store, &request);
    before = take_kind(second, HF_KIND_SHARED);
    upgrade_start(&upgrade, store, lease);
    nap_ms(2 * request.ttl_ms);
    CHECK(!upgrade.ended && kind_of(lease) == HF_KIND_UPGRADEABLE);
    EXPECT(HF_BUSY, probe_kind(second, HF_KIND_UPGRADEABLE));
    give(before);
    EXPECT(HF_OK, attempt_join(&upgrade));
    nap_ms(2 * request.ttl_ms);
    CHECK(kind_of(upgrade.lease) == HF_KIND_EXCLUSIVE);
    give(upgrade.lease);
    close_store(second);
    close_store(store);
}

/* It is broken while its upgrade waits: the grant that comes then is nobody's. */
static void lost_while_it_waits(void **state)
{
    struct attempt upgrade;
    hf_store *store, *second;
    hf_lease *lease, *before;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_BREAK | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    lease = take_kind(store, HF_KIND_UPGRADEABLE);
    before = take_kind(second, HF_KIND_SHARED);
    upgrade_start(&upgrade, store, lease);
    AWAIT(count_waiters(second, "rw") == 1);
    EXPECT(HF_OK, hf_lease_break(second, "rw", 2, hf_lease_token(lease), &contract_error));
    await_lost(lease);
    give(before);
    EXPECT(HF_LOST, attempt_join(&upgrade));
    CHECK(upgrade.lease == lease && hf_lease_state(lease) == HF_STATE_LOST);
    AWAIT(probe_kind(second, HF_KIND_EXCLUSIVE) == HF_OK);
    EXPECT(HF_LOST, hf_release(lease, NULL));
    close_store(second);
    close_store(store);
}

/* Somebody else has ended it: nothing is converted. */
static void broken_before(void **state)
{
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_BREAK);
    store = open_store();
    second = open_store();
    lease = take_kind(store, HF_KIND_UPGRADEABLE);
    EXPECT(HF_OK, hf_lease_break(second, "rw", 2, hf_lease_token(lease), &contract_error));
    EXPECT(HF_LOST, hf_convert(&lease, HF_KIND_EXCLUSIVE, LIMIT_MS, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, NULL));
    AWAIT(probe_kind(second, HF_KIND_EXCLUSIVE) == HF_OK);
    close_store(second);
    close_store(store);
}

static void held_twice(void **state)
{
    hf_acquire_request request = rw(HF_KIND_UPGRADEABLE, 0);
    hf_store *store;
    hf_lease *lease, *again;

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    store = open_store();
    request.flags = HF_FLAG_REENTRANT;
    lease = take(store, &request);
    again = take(store, &request);
    CHECK(again == lease);
    EXPECT(HF_IN_USE, hf_convert(&lease, HF_KIND_EXCLUSIVE, 0, &contract_error));
    give(again);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_EXCLUSIVE, 0, &contract_error));
    request.kind = HF_KIND_EXCLUSIVE;
    again = take(store, &request); /* it is reentrant as before */
    CHECK(again == lease);
    give(again);
    give(lease);
    close_store(store);
}

static void count_lost(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    (void)lease;
    (void)text;
    *(_Atomic int *)arg += event == HF_EVENT_LOST;
}

/* The callback goes with the lease: it hears nothing of the old handle, and the loss of the new one. */
static void events_go_along(void **state)
{
    hf_acquire_request request = rw(HF_KIND_EXCLUSIVE, 0);
    _Atomic int lost = 0;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_BREAK);
    store = open_store();
    request.on_event = count_lost;
    request.on_event_arg = (void *)(uintptr_t)&lost;
    lease = take(store, &request);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
    CHECK(lost == 0);
    EXPECT(HF_OK, hf_lease_break(store, "rw", 2, hf_lease_token(lease), &contract_error));
    AWAIT(lost == 1);
    EXPECT(HF_LOST, hf_release(lease, NULL));
    close_store(store);
}

/* Limits of the first lease go on, and none of them makes the store give back what it has converted. */
static void limits_go_on(void **state)
{
    hf_acquire_request request = rw(HF_KIND_EXCLUSIVE, 0);
    hf_store *store;
    hf_lease *lease;
    int64_t rest_ms;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_TTL);
    store = open_store();
    request.max_hold_ms = 20000;
    request.min_valid_ms = 19000;
    lease = take(store, &request);
    nap_ms(1500); /* less is left than min_valid_ms */
    rest_ms = hf_lease_remaining_ms(lease);
    CHECK(rest_ms < request.min_valid_ms);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
    CHECK(hf_lease_remaining_ms(lease) <= rest_ms + 100); /* rounding, and not a new max_hold */
    CHECK(count_holders(store, "rw") == 1);
    give(lease);
    close_store(store);
}

/* min_hold_ms: it stays for the rest of the time, and is no more detached than before. */
static void min_hold_goes_on(void **state)
{
    hf_acquire_request request = rw(HF_KIND_EXCLUSIVE, 0);
    char text[HF_LEASE_TEXT_MAX];
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_DETACHED);
    store = open_store();
    request.min_hold_ms = LIMIT_MS;
    lease = take(store, &request);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error));
    EXPECT(HF_UNSUPPORTED, hf_lease_export(lease, text));
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    EXPECT(HF_BUSY, probe_kind(store, HF_KIND_EXCLUSIVE));
    EXPECT(HF_OK, probe_kind(store, HF_KIND_SHARED));
    close_store(store);
}

/* The first converter has lost its lease and waits on; another one barges in and gives up its own conversion. What comes free then does not
 * cost the second one its lease. */
static void each_replaces_its_own(void **state)
{
    hf_acquire_request barge = rw(HF_KIND_UPGRADEABLE, 0);
    struct attempt upgrade;
    hf_store *store, *second;
    hf_lease *first, *other, *reader;

    (void)state;
    NEEDS(HF_CAP_CONVERT | HF_CAP_BARGE | HF_CAP_BREAK | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    first = take_kind(store, HF_KIND_UPGRADEABLE);
    reader = take_kind(second, HF_KIND_SHARED);
    upgrade_start(&upgrade, store, first);
    AWAIT(count_waiters(second, "rw") == 1);
    EXPECT(HF_OK, hf_lease_break(second, "rw", 2, hf_lease_token(first), &contract_error));
    barge.flags = HF_FLAG_BARGE | HF_FLAG_NO_DEADLOCK_CHECK;
    other = take(second, &barge);
    EXPECT(HF_TIMEOUT, hf_convert(&other, HF_KIND_EXCLUSIVE, 50, &contract_error));
    give(reader);
    CHECK(!upgrade.ended && count_holders(second, "rw") == 1);
    CHECK(kind_of(other) == HF_KIND_UPGRADEABLE);
    give(other);
    EXPECT(HF_LOST, attempt_join(&upgrade));
    AWAIT(probe_kind(second, HF_KIND_EXCLUSIVE) == HF_OK);
    EXPECT(HF_LOST, hf_release(first, NULL));
    close_store(second);
    close_store(store);
}

/* ---- many at once --------------------------------------------------------------------------- */

#define WORKERS 6
#define ROUNDS  40

struct shared {
    _Atomic int writers, readers;
    _Atomic uint64_t version;
};

struct worker {
    struct shared *shared;
    hf_store *store;
    int number;
    pthread_t thread;
};

static void write_here(struct shared *shared)
{
    CHECK(atomic_fetch_add(&shared->writers, 1) == 0 && shared->readers == 0);
    shared->version++;
    CHECK(atomic_fetch_sub(&shared->writers, 1) == 1);
}

/* Read, then write: what was read is still so when it writes. */
static void read_then_write(struct worker *worker)
{
    struct shared *shared = worker->shared;
    hf_acquire_request request = rw(HF_KIND_UPGRADEABLE, LIMIT_MS);
    hf_lease *lease = take(worker->store, &request);
    uint64_t seen = shared->version;

    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_EXCLUSIVE, LIMIT_MS, &contract_error));
    CHECK(shared->version == seen);
    write_here(shared);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_SHARED, LIMIT_MS, &contract_error));
    CHECK(shared->version == seen + 1 && shared->writers == 0);
    give(lease);
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    struct shared *shared = worker->shared;

    for (int i = 0; i < ROUNDS; i++) {
        hf_acquire_request request =
            rw((worker->number + i) % 3 ? HF_KIND_SHARED : HF_KIND_EXCLUSIVE, LIMIT_MS);
        hf_lease *lease;

        if (worker->number % 2) {
            read_then_write(worker);
            continue;
        }
        lease = take(worker->store, &request);
        if (request.kind == HF_KIND_EXCLUSIVE) {
            write_here(shared);
        } else {
            shared->readers++;
            CHECK(shared->writers == 0);
            shared->readers--;
        }
        give(lease);
    }
    return NULL;
}

static void many_convert(void **state)
{
    struct worker workers[WORKERS];
    struct shared shared = { .version = 1 };

    (void)state;
    NEEDS(HF_CAP_CONVERT);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){ .shared = &shared, .store = open_store(), .number = i };
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    for (int i = 0; i < WORKERS;
         i++) /* not before: by the asynchronous forms each worker drives all stores */
        close_store(workers[i].store);
    CHECK(shared.version > (uint64_t)WORKERS / 2 * ROUNDS);
}

int contract_convert(void)
{
    const struct CMUnitTest cases[] = {
        CASE(undeclared_is_refused),
        CASE(bad_input),
        CASE(one_upgradeable_reader),
        CASE(writer_becomes_reader),
        CASE(there_and_back),
        CASE(upgrade_comes_first),
        CASE(upgrade_times_out),
        CASE(renewed_while_it_waits),
        CASE(lost_while_it_waits),
        CASE(broken_before),
        CASE(held_twice),
        CASE(events_go_along),
        CASE(limits_go_on),
        CASE(min_hold_goes_on),
        CASE(each_replaces_its_own),
        CASE(many_convert),
    };

    return cmocka_run_group_tests_name("convert", cases, NULL, NULL);
}
