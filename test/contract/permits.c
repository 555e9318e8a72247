/* SPDX-License-Identifier: MIT */
/* Shared and exclusive, semaphores, barging, and one meaning per name. */
#include "contract.h"

#include <string.h>

static hf_acquire_request rw_request(hf_kind kind, int64_t wait_ms)
{
    hf_acquire_request request = mutex_request("rw");

    request.kind = kind;
    request.wait_ms = wait_ms;
    return request;
}

#define MODEST_CAPACITY 1000 /* every engine with semaphores supports this capacity */

static hf_acquire_request slots_request(uint32_t capacity, uint32_t permits, int64_t wait_ms)
{
    hf_acquire_request request = mutex_request("slots");

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = capacity;
    request.permits = permits;
    request.wait_ms = wait_ms;
    return request;
}

/* Start an acquire that has to wait, and see it in the queue as number `position`. */
static void queue_up(struct attempt *attempt, hf_store *store, const hf_acquire_request *request,
                     size_t position)
{
    attempt_start(attempt, store, request);
    if (has(HF_CAP_WAITERS))
        AWAIT(count_waiters(store, request->name) == position);
    else
        attempt_settled(attempt);
}

static void readers_share(void **state)
{
    hf_acquire_request reader = rw_request(HF_KIND_SHARED, 0),
                       writer = rw_request(HF_KIND_EXCLUSIVE, 0);
    hf_store *store, *second;
    hf_lease *leases[4], *lease;

    (void)state;
    NEEDS(HF_CAP_SHARED);
    store = open_store();
    second = open_store();
    for (int i = 0; i < 4; i++) {
        leases[i] = take(i % 2 ? second : store, &reader);
        EXPECT(HF_BUSY, probe(store, &writer));
    }
    for (int i = 0; i < 4; i++) {
        EXPECT(HF_BUSY, probe(second, &writer));
        give(leases[i]);
    }
    lease = take(store, &writer);
    EXPECT(HF_BUSY, probe(store, &reader));
    EXPECT(HF_BUSY, probe(second, &reader));
    EXPECT(HF_BUSY, probe(second, &writer));
    give(lease);
    EXPECT(HF_OK, probe(second, &reader));
    close_store(second);
    close_store(store);
}

static void writers_do_not_starve(void **state)
{
    hf_acquire_request reader = rw_request(HF_KIND_SHARED, 0),
                       writer = rw_request(HF_KIND_EXCLUSIVE, LIMIT_MS);
    struct attempt waiting_writer, late_readers[2];
    hf_store *store;
    hf_lease *first;

    (void)state;
    NEEDS(HF_CAP_SHARED | HF_CAP_FIFO);
    store = open_store();
    first = take(store, &reader);
    writer.flags = HF_FLAG_STRICT;
    queue_up(&waiting_writer, store, &writer, 1);

    /* With a writer in the queue no reader gets in, although there would be room. */
    EXPECT(HF_BUSY, probe(store, &reader));
    reader.wait_ms = LIMIT_MS;
    reader.flags = HF_FLAG_STRICT;
    queue_up(&late_readers[0], store, &reader, 2);
    queue_up(&late_readers[1], store, &reader, 3);

    give(first);
    EXPECT(HF_OK, attempt_join(&waiting_writer));
    CHECK(!late_readers[0].ended && !late_readers[1].ended);
    give(waiting_writer.lease);
    EXPECT(HF_OK, attempt_join(&late_readers[0])); /* both, and at once */
    EXPECT(HF_OK, attempt_join(&late_readers[1]));
    give(late_readers[0].lease);
    give(late_readers[1].lease);
    close_store(store);
}

static void semaphore_counts(void **state)
{
    hf_acquire_request one = slots_request(3, 1, 0), dflt = slots_request(3, 0, 0);
    hf_store *store;
    hf_lease *leases[3];

    (void)state;
    NEEDS(HF_CAP_SEMAPHORE);
    store = open_store();
    for (int i = 0; i < 3; i++)
        leases[i] = take(store, i ? &one : &dflt);
    EXPECT(HF_BUSY, probe(store, &one));
    give(leases[1]);
    leases[1] = take(store, &one);
    EXPECT(HF_BUSY, probe(store, &one));
    for (int i = 0; i < 3; i++)
        give(leases[i]);
    close_store(store);
}

static void several_permits(void **state)
{
    hf_acquire_request three = slots_request(5, 3, 0), two = slots_request(5, 2, 0),
                       one = slots_request(5, 1, 0), all = slots_request(5, 5, 0);
    hf_store *store;
    hf_lease *a, *b;

    (void)state;
    NEEDS(HF_CAP_SEMAPHORE);
    store = open_store();
    a = take(store, &three);
    EXPECT(HF_BUSY, probe(store, &three));
    b = take(store, &two);
    EXPECT(HF_BUSY, probe(store, &one));
    give(a);
    EXPECT(HF_OK, probe(store, &three));
    EXPECT(HF_BUSY, probe(store, &all));
    give(b);
    a = take(store, &all);
    EXPECT(HF_BUSY, probe(store, &one));
    give(a);
    close_store(store);
}

static void large_semaphore(void **state)
{
    hf_acquire_request most = slots_request(HF_CAPACITY_MAX, HF_CAPACITY_MAX - 1, 0);
    hf_acquire_request one = slots_request(HF_CAPACITY_MAX, 1, 0);
    hf_store *store;
    hf_lease *a, *b;

    (void)state;
    NEEDS(HF_CAP_SEMAPHORE);
    store = open_store();
    if (hf_acquire(store, &most, &a, &contract_error) == HF_UNSUPPORTED) {
        /* An engine may have a bound for one lease, if it names it. */
        CHECK(strstr(contract_error.text, "permits"));
        most = slots_request(MODEST_CAPACITY, MODEST_CAPACITY - 1, 0);
        one = slots_request(MODEST_CAPACITY, 1, 0);
        a = take(store, &most);
    } else {
        EXPECT(HF_OK, contract_error.status);
    }
    b = take(store, &one);
    EXPECT(HF_BUSY, probe(store, &one));
    give(a);
    give(b);
    close_store(store);
}

static void head_of_line_blocks(void **state)
{
    hf_acquire_request two = slots_request(3, 2, 0), one = slots_request(3, 1, 0);
    struct attempt big, small;
    hf_store *store;
    hf_lease *first, *overtaker;

    (void)state;
    NEEDS(HF_CAP_SEMAPHORE | HF_CAP_FIFO);
    store = open_store();
    first = take(store, &two);
    two.wait_ms = one.wait_ms = LIMIT_MS;
    queue_up(&big, store, &two, 1);

    /* One permit is free, but the first waiter needs two. */
    queue_up(&small, store, &one, 2);
    one.wait_ms = 0;
    EXPECT(HF_BUSY, probe(store, &one));
    CHECK(!big.ended && !small.ended);

    one.flags = HF_FLAG_BARGE;
    if (has(HF_CAP_BARGE)) {
        overtaker = take(store, &one);
        EXPECT(HF_BUSY, probe(store, &one));
        give(overtaker);
    } else
        EXPECT(HF_UNSUPPORTED, probe(store, &one));

    give(first);
    EXPECT(HF_OK, attempt_join(&big));
    EXPECT(HF_OK, attempt_join(&small));
    give(big.lease);
    give(small.lease);
    close_store(store);
}

/* When a waiter leaves, those behind it that fit are granted. */
static void cancelled_head_unblocks(void **state)
{
    hf_acquire_request two = slots_request(3, 2, 0), one = slots_request(3, 1, LIMIT_MS);
    struct attempt big, small;
    hf_store *store;
    hf_lease *first;

    (void)state;
    NEEDS(HF_CAP_SEMAPHORE | HF_CAP_FIFO);
    store = open_store();
    first = take(store, &two);
    two.wait_ms = LIMIT_MS;
    EXPECT(HF_OK, hf_cancel_open(&two.cancel));
    queue_up(&big, store, &two, 1);
    queue_up(&small, store, &one, 2);
    EXPECT(HF_OK, hf_cancel_fire(two.cancel));
    EXPECT(HF_CANCELLED, attempt_join(&big));
    EXPECT(HF_OK, attempt_join(&small));
    EXPECT(HF_OK, hf_cancel_close(two.cancel));
    give(small.lease);
    give(first);
    close_store(store);
}

/* When a writer gives up, the readers behind it are granted. */
static void writer_gives_up(void **state)
{
    hf_acquire_request reader = rw_request(HF_KIND_SHARED, 0),
                       writer = rw_request(HF_KIND_EXCLUSIVE, LIMIT_MS);
    struct attempt waiting_writer, late_reader;
    hf_store *store;
    hf_lease *first;

    (void)state;
    NEEDS(HF_CAP_SHARED | HF_CAP_FIFO);
    store = open_store();
    first = take(store, &reader);
    EXPECT(HF_OK, hf_cancel_open(&writer.cancel));
    queue_up(&waiting_writer, store, &writer, 1);
    reader.wait_ms = LIMIT_MS;
    queue_up(&late_reader, store, &reader, 2);
    EXPECT(HF_OK, hf_cancel_fire(writer.cancel));
    EXPECT(HF_CANCELLED, attempt_join(&waiting_writer));
    EXPECT(HF_OK, attempt_join(&late_reader));
    EXPECT(HF_OK, hf_cancel_close(writer.cancel));
    give(late_reader.lease);
    give(first);
    close_store(store);
}

/* Whoever is refused is told what the name is in use as. */
static void one_meaning_per_name(void **state)
{
    static const char *const words[5] = { "a mutex", "a read-write lock", "a semaphore of 1",
                                          "a semaphore of 2", "a semaphore of 3" };
    hf_store *store;
    hf_acquire_request forms[5];
    hf_lease *lease;
    hf_status status;

    (void)state;
    NEEDS(HF_CAP_SHARED | HF_CAP_SEMAPHORE);
    store = open_store();
    for (int i = 0; i < 5; i++)
        forms[i] = mutex_request("form");
    forms[1].kind = HF_KIND_SHARED;
    forms[2].kind = HF_KIND_SEMAPHORE, forms[2].capacity = 1;
    forms[3].kind = HF_KIND_SEMAPHORE, forms[3].capacity = 2;
    forms[4].kind = HF_KIND_SEMAPHORE, forms[4].capacity = 3;

    for (int held = 0; held < 5; held++) {
        lease = take(store, &forms[held]);
        for (int asked = 0; asked < 5; asked++) {
            forms[asked].wait_ms = asked % 2 ? LIMIT_MS : 0;
            if (asked != held) {
                /* A node of Redlock that was late may still hold, and name, the form of before for a moment. */
                AWAIT(((status = probe(store, &forms[asked])) == HF_MISMATCH &&
                       strstr(contract_error.text, words[held])) ||
                      !several_nodes());
                check_status(HF_MISMATCH, status, "probe", __FILE__, __LINE__);
                if (!strstr(contract_error.text, words[held]))
                    fail_msg("no '%s' in: %s", words[held], contract_error.text);
            }
            forms[asked].wait_ms = 0;
        }
        give(lease); /* then the name may mean something else */
    }
    close_store(store);
}

int contract_permits(void)
{
    const struct CMUnitTest cases[] = {
        CASE(readers_share),           CASE(writers_do_not_starve), CASE(semaphore_counts),
        CASE(several_permits),         CASE(large_semaphore),       CASE(head_of_line_blocks),
        CASE(cancelled_head_unblocks), CASE(writer_gives_up),       CASE(one_meaning_per_name),
    };

    return cmocka_run_group_tests_name("permits", cases, NULL, NULL);
}
