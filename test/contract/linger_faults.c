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

static const char *server(void)
{
    static char name[128];
    const char *url = strchr(contract_url(), ':') + 1;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(url, "?"), url);
    return name;
}

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
    CHECK(mem_count(server(), MEM_ACQUIRE) == 1 && mem_count(server(), MEM_RELEASE) == 0);
    CHECK(mem_count(server(), MEM_RENEW) < 100); /* each block is larger than the one before */
    EXPECT(HF_OK, hf_idle_release(store, &contract_error));
    CHECK(mem_count(server(), MEM_RELEASE) == 1);
    close_store(store);
}

/* Blocks of two tokens: every other acquire waits for the next one, and the lease is never given away. */
static void block_is_used_up(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS, 2 * LIMIT_MS);
    hf_store *store = open_store();
    uint64_t token = 0;

    (void)state;
    mem_set_block(server(), 2);
    for (int i = 0; i < 200; i++)
        token = pair(store, &request, token);
    CHECK(mem_count(server(), MEM_ACQUIRE) == 1 && mem_count(server(), MEM_RENEW) >= 99);
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
    mem_set_block(server(), 2);
    for (int i = 0; i < 30; i++) {
        if (i % 10 == 5)
            mem_fault(server(), MEM_LOSE_REPLY, MEM_RENEW, 1, 0);
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
    mem_fault(server(), MEM_LOSE_PUSH, MEM_VERBS, 1, 0);
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
    mem_fault(server(), MEM_DELAY_REPLY, MEM_RENEW, 1, 300);
    renewals = mem_count(server(), MEM_RENEW);
    EXPECT(HF_OK, hf_renew_async(lease, 0, both_done, &both, NULL, &contract_error));
    AWAIT(mem_count(server(), MEM_RENEW) > renewals);
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
    mem_cut(server(), true);
    nap_ms(20);
    mem_cut(server(), false);
    (void)pair(second, &waits, token);
    close_store(second);
    close_store(store);
}

/* While no hold lasts, renewals ask for a short ttl; when one does, for the whole. */
static void ttl_is_short(void **state)
{
    hf_acquire_request request = lingering(500, 60000);
    hf_store *store = open_store(), *second = open_store();
    hf_holder holder;
    hf_lease *lease;
    uint64_t token = 0;

    (void)state;
    mem_set_block(server(), 2);
    for (int i = 0; i < 20; i++)
        token = pair(store, &request, token);
    lease = take(store, &request);
    CHECK(look(second, &holder) && holder.ttl_ms <= 3000);
    AWAIT(look(second, &holder) && holder.ttl_ms > 3000);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(costs_no_request),         CASE(block_is_used_up), CASE(tokens_are_lost),
        CASE(recall_is_lost),           CASE(line_is_lost),     CASE(ttl_is_short),
        CASE(recall_crosses_a_renewal), CASE(shown_as_idle),    CASE(ping_pong),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}", false);
    return cmocka_run_group_tests_name("linger_faults", tests, NULL, NULL) ? 1 : 0;
}
