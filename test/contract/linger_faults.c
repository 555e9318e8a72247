/* SPDX-License-Identifier: MIT */
/*
 * Lingering leases, when the network loses or delays messages, and what they cost: requests, tokens, ttl. On the event-driven engine
 * in memory, whose network and server the test controls.
 */
#include "contract.h"

#include "mem_engine.h"

#include <stdio.h>
#include <string.h>

#define NAME "linger"

static hf_acquire_request lingering(int64_t linger_ms, int64_t ttl_ms)
{
    hf_acquire_request request = mutex_request(NAME);

    request.ttl_ms = ttl_ms;
    request.linger_ms = linger_ms;
    return request;
}

static uint64_t pair(hf_store *store, const hf_acquire_request *request, uint64_t before)
{
    hf_lease *lease = take(store, request);
    uint64_t token = hf_lease_token(lease);

    CHECK(token > before);
    give(lease);
    return token;
}

/* What the store shows of the only holder. false: there is none. */
static bool look(hf_store *store, hf_holder *ret_holder)
{
    hf_view *view = NULL;
    const hf_entry *entry;
    bool found;

    EXPECT(HF_OK, hf_store_inspect(store, NAME, HF_CSTRING, 0, &view, &contract_error));
    entry = hf_view_count(view) > 0 ? hf_view_entry(view, 0) : NULL;
    found = entry && entry->holder_count == 1;
    if (found)
        *ret_holder = *hf_entry_holder(entry, 0);
    hf_free(view);
    return found;
}

static void costs_no_request(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS);
    hf_store *store = open_store();
    uint64_t token = 0;

    (void)state;
    for (int i = 0; i < 5000; i++)
        token = pair(store, &request, token);
    CHECK(mem_count(contract_server(), MEM_ACQUIRE) == 1 &&
          mem_count(contract_server(), MEM_RELEASE) == 0);
    CHECK(mem_count(contract_server(), MEM_RENEW) <
          100); /* each block is larger than the one before */
    EXPECT(HF_OK, hf_idle_release(store, &contract_error));
    CHECK(mem_count(contract_server(), MEM_RELEASE) == 1);
    close_store(store);
}

/* Blocks of two tokens: every other acquire waits for the next one, and the lease is never given away. */
static void block_is_used_up(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS);
    hf_store *store = open_store();
    uint64_t token = 0;

    (void)state;
    mem_set_block(contract_server(), 2);
    for (int i = 0; i < 200; i++)
        token = pair(store, &request, token);
    CHECK(mem_count(contract_server(), MEM_ACQUIRE) == 1 &&
          mem_count(contract_server(), MEM_RENEW) >= 99);
    close_store(store);
}

/* The answer with the tokens does not come: they are never used, and the store is asked anew. */
static void tokens_are_lost(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS);
    hf_store *store;
    uint64_t token = 0;

    (void)state;
    contract_param("call=100ms");
    store = open_store();
    mem_set_block(contract_server(), 2);
    for (int i = 0; i < 30; i++) {
        if (i % 10 == 5)
            mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_RENEW, 1, 0);
        request.wait_ms = LIMIT_MS;
        token = pair(store, &request, token);
    }
    close_store(store);
}

/* The next heartbeat of the waiter repeats it. */
static void recall_is_lost(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), waits = waiting_request(NAME);
    hf_store *store = open_store(), *second = open_store();
    uint64_t token = pair(store, &request, 0);

    (void)state;
    mem_fault(contract_server(), MEM_LOSE_PUSH, MEM_VERBS, 1, 0);
    (void)pair(second, &waits, token);
    close_store(second);
    close_store(store);
}

/* The answer to a renewal was under way when the recall came: the recall is the newer one. */
static void recall_crosses_a_renewal(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), waits = waiting_request(NAME);
    hf_store *store = open_store(), *second = open_store();
    struct both both = { .done = false };
    struct attempt attempt;
    hf_lease *lease;
    unsigned long renewals;

    (void)state;
    request.flags = HF_FLAG_WATCH;
    lease = take(store, &request);
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_RENEW, 1, 300);
    renewals = mem_count(contract_server(), MEM_RENEW);
    EXPECT(HF_OK, hf_renew_async(lease, 0, both_done, &both, NULL, &contract_error));
    AWAIT(mem_count(contract_server(), MEM_RENEW) > renewals);
    attempt_start(&attempt, second, &waits);
    AWAIT(hf_lease_wanted(lease));
    while (!both.done) {
        (void)hf_store_process(store);
        nap_ms(1);
    }
    CHECK(hf_lease_wanted(lease));
    give(lease); /* it does not linger */
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

/* Nobody could call them back any more: idle leases end with the line. */
static void line_is_lost(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), waits = waiting_request(NAME);
    hf_store *store, *second;
    uint64_t token;

    (void)state;
    contract_param("call=100ms");
    store = open_store();
    second = open_store();
    token = pair(store, &request, 0);
    CHECK(count_holders(second, NAME) == 1);
    mem_cut(contract_server(), true);
    nap_ms(20);
    mem_cut(contract_server(), false);
    (void)pair(second, &waits, token);
    close_store(second);
    close_store(store);
}

/* While no hold lasts, renewals ask for a short ttl, of four times the linger time; when one does, for the whole. */
static void ttl_is_short(void **state)
{
    hf_acquire_request request = lingering(2000, 60000);
    hf_store *store = open_store(), *second = open_store();
    int64_t until_ms = now_ms() + LIMIT_MS;
    hf_holder holder;
    hf_lease *lease;
    uint64_t token = 0;

    (void)state;
    mem_set_block(contract_server(), 2);
    request.wait_ms = LIMIT_MS;
    do {
        for (int i = 0; i < 20; i++)
            token = pair(store, &request, token);
        CHECK(now_ms() < until_ms);
    } while (!look(second, &holder) || holder.ttl_ms > 8000);
    lease = take(store, &request);
    AWAIT(look(second, &holder) && holder.ttl_ms > 8000);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(second);
    close_store(store);
}

/* The store shows that it is idle, after a while, and that it is used again. */
static void shown_as_idle(void **state)
{
    hf_acquire_request request = lingering(1000, 60000);
    hf_store *store = open_store(), *second = open_store();
    hf_holder holder;
    hf_lease *lease;

    (void)state;
    (void)pair(store, &request, 0);
    CHECK(look(second, &holder) && holder.lingers);
    AWAIT(!look(second, &holder) || holder.idle);
    lease = take(store, &request);
    CHECK(look(second, &holder) && holder.lingers && !holder.idle);
    give(lease);
    close_store(second);
    close_store(store);
}

/* Two that hand it to and fro: soon their claims are made without lingering. */
static void ping_pong(void **state)
{
    hf_acquire_request request = lingering(200, 60000);
    hf_store *stores[2] = { open_store(), open_store() };
    hf_holder holder = { .lingers = true };
    uint64_t token = 0;

    (void)state;
    request.wait_ms = LIMIT_MS;
    for (int i = 0; i < 200 && holder.lingers; i++) {
        hf_lease *lease = take(stores[i % 2], &request);

        CHECK(hf_lease_token(lease) > token);
        token = hf_lease_token(lease);
        CHECK(look(stores[0], &holder));
        give(lease);
    }
    CHECK(!holder.lingers);
    close_store(stores[0]);
    close_store(stores[1]);
}

/* ---- data loss ------------------------------------------------------------------------ */

static void release_it(void *arg)
{
    hf_status status = hf_release(arg, NULL);

    CHECK(status == HF_OK || status == HF_LOST);
}

/* The server has lost its data, and another client has the name: it is not idle here any more. */
static void check_forgotten(hf_store *store, const hf_acquire_request *request)
{
    hf_store *second = open_store();
    hf_acquire_request waits = waiting_request(NAME);
    hf_lease *lease = take(second, &waits);

    EXPECT(HF_BUSY, probe(store, request));
    give(lease);
    close_store(second);
}

static void data_is_lost(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS);
    hf_store *store = open_store();

    (void)state;
    (void)pair(store, &request, 0);
    mem_forget(contract_server());
    mem_doubt(contract_server(), NULL, NULL);
    check_forgotten(store, &request);
    close_store(store);
}

/* It is released while core hears of the loss. */
static void released_in_doubt(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS);
    hf_store *store = open_store();
    hf_lease *lease = take(store, &request);

    (void)state;
    mem_forget(contract_server());
    mem_doubt(contract_server(), release_it, lease);
    check_forgotten(store, &request);
    close_store(store);
}

/* ---- whose lease it is -------------------------------------------------------------------- */

#define SLOTS 40

static void name_request(hf_acquire_request *request, char name[16], int number)
{
    snprintf(name, 16, "slot-%d", number);
    request->name = name;
}

/* It ends while tokens are asked for, and its slot begins another lease: that asks for none, and is renewed when it is due. */
static void slot_is_used_again(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 10 * LIMIT_MS), plain = mutex_request(NAME);
    hf_store *store = open_store(), *second;
    hf_lease *leases[SLOTS], *lease;
    hf_acquire_request ends;
    unsigned long renewals;
    char name[16];

    (void)state;
    mem_set_block(contract_server(), 1);
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_RENEW, SLOTS, 200);
    for (int i = 0; i < SLOTS; i++) {
        name_request(&request, name, i);
        (void)pair(store, &request, 0);
    }
    second = open_store();
    EXPECT(HF_OK, hf_idle_release(store, &contract_error));
    close_store(store); /* and with it the threads that kept its slots */
    mem_heal(contract_server());

    plain.ttl_ms = 10 * LIMIT_MS;
    for (int i = 0; i < SLOTS; i++) {
        name_request(&plain, name, i);
        leases[i] = take(second, &plain);
        EXPECT(HF_OK, hf_renew(leases[i], 0, &contract_error));
    }
    renewals = mem_count(contract_server(), MEM_RENEW);
    ends = mutex_request(NAME);
    ends.ttl_ms = 1000;
    ends.flags = HF_FLAG_NO_RENEW;
    lease = take_short(second, &ends);
    await_lost(lease); /* the keeper has done all that was due */
    CHECK(mem_count(contract_server(), MEM_RENEW) == renewals);
    EXPECT(HF_LOST, hf_release(lease, NULL));
    for (int i = 0; i < SLOTS; i++)
        give(leases[i]);
    close_store(second);
}

/* A request with a lock_delay gets a lease that has one. */
static void delay_is_kept(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), delayed = request;
    hf_store *store = open_store(), *second = open_store();
    hf_holder holder;
    hf_lease *lease;

    (void)state;
    (void)pair(store, &request, 0);
    delayed.linger_ms = 0;
    delayed.lock_delay_ms = 1000;
    delayed.wait_ms = LIMIT_MS;
    lease = take(store, &delayed);
    CHECK(mem_count(contract_server(), MEM_ACQUIRE) > 1);
    CHECK(look(second, &holder) && !holder.lingers);
    give(lease);
    close_store(second);
    close_store(store);
}

/* ---- recalls and tries ----------------------------------------------------------------------- */

/* It is known that others wait: the lease is given back by the release itself, and not by the next recall. */
static void wanted_before_the_release(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), waits = waiting_request(NAME);
    hf_store *store = open_store(), *second = open_store();
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    request.flags = HF_FLAG_WATCH;
    lease = take(store, &request);
    attempt_start(&attempt, second, &waits);
    AWAIT(hf_lease_wanted(lease));
    mem_fault(contract_server(), MEM_LOSE_PUSH, MEM_VERBS, 1000,
              0); /* no recall is heard from now on */
    give(lease);
    CHECK(mem_count(contract_server(), MEM_RELEASE) == 1);
    mem_heal(contract_server());
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

static void try_asks_once_more(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), tries = mutex_request(NAME);
    hf_store *store, *second;

    (void)state;
    contract_param("try_wait=60s");
    store = open_store();
    second = open_store();
    (void)pair(store, &request, 0);
    EXPECT(HF_OK, probe(second, &tries));
    close_store(second);
    close_store(store);
}

/* A try waits for tokens, and the lease is called back meanwhile: in the store it is a try again, and stands in no queue. */
static void try_stays_a_try(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), waits = waiting_request(NAME);
    hf_store *store = open_store(), *second = open_store();
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    mem_set_block(contract_server(), 1);
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_RENEW, 1000, LIMIT_MS); /* no tokens */
    (void)pair(store, &request, 0);
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    lease = take(second, &waits);
    while (!atomic_load(&attempt.ended))
        CHECK(count_waiters(second, NAME) == 0);
    EXPECT(HF_BUSY, attempt_join(&attempt));
    mem_heal(contract_server());
    give(lease);
    close_store(second);
    close_store(store);
}

/* The line is lost while it is idle: it is not taken again, for nobody could call it back. */
static void line_lost_while_idle(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS), watched, waits;
    hf_store *store, *second;
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    contract_param("call=100ms");
    store = open_store();
    second = open_store();
    watched = waits = waiting_request("other");
    watched.flags = HF_FLAG_WATCH;
    lease = take(store, &watched);
    attempt_start(&attempt, second, &waits);
    AWAIT(hf_lease_wanted(lease));
    (void)pair(store, &request, 0);
    CHECK(count_holders(second, NAME) == 1);
    mem_cut(contract_server(), true);
    AWAIT(!hf_lease_wanted(lease)); /* core has heard of it */
    EXPECT(HF_UNAVAILABLE, probe(store, &request));
    mem_cut(contract_server(), false);
    give(lease);
    if (attempt_join(&attempt) == HF_OK) /* it may have lost its place with the line */
        give(attempt.lease);
    close_store(second);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(costs_no_request),
        CASE(block_is_used_up),
        CASE(tokens_are_lost),
        CASE(recall_is_lost),
        CASE(line_is_lost),
        CASE(ttl_is_short),
        CASE(recall_crosses_a_renewal),
        CASE(shown_as_idle),
        CASE(ping_pong),
        CASE(data_is_lost),
        CASE(released_in_doubt),
        CASE(slot_is_used_again),
        CASE(delay_is_kept),
        CASE(wanted_before_the_release),
        CASE(try_asks_once_more),
        CASE(try_stays_a_try),
        CASE(line_lost_while_idle),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}", false);
    return cmocka_run_group_tests_name("linger_faults", tests, NULL, NULL) ? 1 : 0;
}
