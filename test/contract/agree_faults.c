/* SPDX-License-Identifier: MIT */
/*
 * Faults of the network for primitives on cells: lost answers, and lost, late or overtaken
 * requests. Every call finds out the outcome of its write, and nothing counts twice. On the engine
 * in memory, whose network the test controls.
 */
#include "contract.h"

#include "calls.h"
#include "holdfast/primitives.h"
#include "mem_engine.h"

#include <stdio.h>
#include <string.h>

static uint32_t down(hf_store *store, const char *who)
{
    uint32_t left = 99;

    EXPECT(HF_OK, hf_latch_count_down(store, "gate", HF_CSTRING, who, &left, &contract_error));
    return left;
}

static void nothing_counts_twice(void **state)
{
    hf_store *store = open_store();

    (void)state;
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 4, &contract_error));
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    CHECK(down(store, "a") == 3);
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_CELL_SWAP, 1, 0);
    CHECK(down(store, "b") == 2);
    mem_fault(contract_server(), MEM_DELAY_REQUEST, MEM_CELL_SWAP, 1,
              300); /* later than we wait for it */
    CHECK(down(store, "c") == 1);
    AWAIT(down(store, "a") == 1 && mem_count(contract_server(), MEM_CELL_SWAP) >= 5);
    CHECK(down(store, "c") == 1);
    close_store(store);
}

struct counter {
    hf_store *store;
    uint32_t left;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *count_there(void *arg)
{
    struct counter *counter = arg;

    counter->tid = thread_id();
    counter->left = down(counter->store, "slow");
    counter->ended = true;
    return NULL;
}

/* While its write is under way another client writes: it begins again. */
static void who_is_overtaken_begins_again(void **state)
{
    struct counter counter = { .store = open_store() };
    hf_store *store = open_store();

    (void)state;
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 2, &contract_error));
    mem_fault(contract_server(), MEM_DELAY_REQUEST, MEM_CELL_SWAP, 1, 80);
    CHECK(pthread_create(&counter.thread, NULL, count_there, &counter) == 0);
    AWAIT(counter.tid != 0 && mem_count(contract_server(), MEM_CELL_READ) > 1);
    CHECK(down(store, "quick") <= 1);
    CHECK(pthread_join(counter.thread, NULL) == 0);
    EXPECT(HF_OK, call_latch_wait(store, "gate", HF_CSTRING, 0, NULL, &contract_error));
    close_store(counter.store);
    close_store(store);
}

static hf_status pass(hf_store *store, const char *who)
{
    return call_barrier_wait(store, "ring", HF_CSTRING, 2, who, LIMIT_MS, NULL, &contract_error);
}

static void *come_often(void *arg)
{
    for (int round = 0; round < 3; round++)
        EXPECT(HF_OK, pass(arg, "a"));
    return NULL;
}

/* Its answer is lost, whether it completes the barrier or not: all pass, in the same generation. */
static void arrivals_are_found(void **state)
{
    static const enum mem_fault faults[3] = { MEM_LOSE_REPLY, MEM_LOSE_REQUEST, MEM_LOSE_REPLY };
    hf_store *store = open_store(), *other = open_store();
    hf_lease *party;
    pthread_t thread;

    (void)state;
    CHECK(pthread_create(&thread, NULL, come_often, other) == 0);
    for (int round = 0; round < 3; round++) {
        mem_fault(contract_server(), faults[round], MEM_CELL_SWAP, 1, 0);
        EXPECT(HF_OK, pass(store, "b"));
    }
    CHECK(pthread_join(thread, NULL) == 0);

    EXPECT(HF_OK, call_barrier_enter(store, "double", HF_CSTRING, 1, "a", 0, NULL, &party,
                                     &contract_error));
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_OK, hf_barrier_leave(party, LIMIT_MS, NULL, &contract_error));
    close_store(store);
    close_store(other);
}

static void marks_and_words_are_found(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease = NULL;
    hf_leader *seen;

    (void)state;
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_OK, hf_once_begin(store, &request, 0, &lease, NULL, &contract_error));
    CHECK(lease);
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_OK, hf_once_finish(lease, &contract_error));
    give(lease);
    EXPECT(HF_DONE, hf_once_begin(store, &request, 0, &lease, NULL, &contract_error));
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_OK, hf_once_delete(store, "job", HF_CSTRING, &contract_error));

    request.name = "chair";
    request.name_len = HF_CSTRING;
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_OK, hf_election_campaign(store, &request, "ada", 3, &lease, &contract_error));
    EXPECT(HF_OK,
           call_election_wait(store, "chair", HF_CSTRING, NULL, 0, NULL, &seen, &contract_error));
    CHECK(seen->leads && strcmp(seen->value, "ada") == 0);
    hf_free(seen);
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_OK, hf_election_resign(lease, &contract_error));
    close_store(store);
}

struct waiter {
    hf_store *store;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *wait_there(void *arg)
{
    struct waiter *waiter = arg;

    waiter->tid = thread_id();
    waiter->status =
        call_latch_wait(waiter->store, "gate", HF_CSTRING, HF_FOREVER, NULL, &contract_error);
    waiter->ended = true;
    return NULL;
}

static void a_wait_outlives_its_line(void **state)
{
    struct waiter waiter = { .store = open_store() };
    hf_store *store = open_store();
    hf_lease *lease; /* at which the waiter looks, also while the store is away */
    int64_t begun_ms;

    (void)state;
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 1, &contract_error));
    EXPECT(HF_OK,
           call_latch_join(store, "gate", HF_CSTRING, "a", 0, NULL, &lease, &contract_error));
    CHECK(pthread_create(&waiter.thread, NULL, wait_there, &waiter) == 0);
    thread_settled(&waiter.tid, &waiter.ended);
    mem_cut(contract_server(), true);
    begun_ms = now_ms();
    EXPECT(HF_UNAVAILABLE, call_latch_wait(store, "gate", HF_CSTRING, 500, NULL, &contract_error));
    CHECK(now_ms() - begun_ms >= 500);
    CHECK(!waiter.ended);
    mem_cut(contract_server(), false);
    CHECK(down(store, "a") == 0);
    CHECK(pthread_join(waiter.thread, NULL) == 0);
    EXPECT(HF_OK, waiter.status);
    give(lease);
    close_store(waiter.store);
    close_store(store);
}

/* A participant is gone. The waiter that notices cannot write that for longer than a call may take:
 * it reads again, and does not report the outcome of its own wait as unknown. */
static void a_break_is_tried_again(void **state)
{
    hf_store *store = open_store();
    hf_lease *lease;

    (void)state;
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 1, &contract_error));
    EXPECT(HF_OK,
           call_latch_join(store, "gate", HF_CSTRING, "a", 0, NULL, &lease, &contract_error));
    give(lease);
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_CELL_SWAP, 30,
              0); /* a call makes about 25 in its 5 s */
    EXPECT(HF_BROKEN, call_latch_wait(store, "gate", HF_CSTRING, LIMIT_MS, NULL, &contract_error));
    close_store(store);
}

static hf_store *open_patient(void)
{
    char url[160];
    hf_store *store = NULL;

    snprintf(url, sizeof url, "memevent:%s?call=3s", contract_server());
    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    return store;
}

static void *give_up_soon(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status =
        call_barrier_wait(waiter->store, "ring", HF_CSTRING, 2, "a", 500, NULL, &contract_error);
    return NULL;
}

static void *come_once(void *arg)
{
    EXPECT(HF_OK, pass(arg, "b"));
    return NULL;
}

/* It withdraws, and the answer is lost; two others pass before it reads again. It was not one of
 * them. */
static void who_withdrew_has_not_passed(void **state)
{
    struct waiter waiter = { .store = open_patient() };
    hf_store *store = open_store(), *other = open_store();
    unsigned long swaps;
    pthread_t thread;

    (void)state;
    CHECK(pthread_create(&waiter.thread, NULL, give_up_soon, &waiter) == 0);
    AWAIT((swaps = mem_count(contract_server(), MEM_CELL_SWAP)) > 0);
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    AWAIT(mem_count(contract_server(), MEM_CELL_SWAP) > swaps);
    CHECK(pthread_create(&thread, NULL, come_once, other) == 0);
    EXPECT(HF_OK, pass(store, "c"));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_join(waiter.thread, NULL) == 0);
    EXPECT(HF_TIMEOUT, waiter.status);
    close_store(waiter.store);
    close_store(store);
    close_store(other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(nothing_counts_twice),        CASE(who_is_overtaken_begins_again),
        CASE(arrivals_are_found),          CASE(marks_and_words_are_found),
        CASE(a_wait_outlives_its_line),    CASE(a_break_is_tried_again),
        CASE(who_withdrew_has_not_passed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}?call=200ms", false);
    return cmocka_run_group_tests_name("agree_faults", cases, NULL, NULL) ? 1 : 0;
}
