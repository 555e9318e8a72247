/* SPDX-License-Identifier: MIT */
/* Opt-in reentrancy: by thread, or by scope; hold counts. */
#include "peer.h"

#include <string.h>

static hf_acquire_request again_request(uint64_t scope)
{
    hf_acquire_request request = mutex_request("again");

    request.flags = HF_FLAG_REENTRANT;
    request.scope = scope;
    return request;
}

static uint32_t holds_of(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    return info.holds;
}

static void same_thread(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = again_request(0), plain = mutex_request("again");
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);
    struct peer peer;

    (void)state;
    peer_start(&peer);
    for (uint32_t i = 2; i <= 5; i++) {
        CHECK(take(store, &request) == lease);
        CHECK(holds_of(lease) == i);
        CHECK(hf_lease_token(lease) == token);
    }
    for (uint32_t i = 5; i >= 1; i--) {
        CHECK(holds_of(lease) == i);
        EXPECT(HF_BUSY, peer_acquire(&peer, 0, &plain));
        give(lease);
    }
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    EXPECT(HF_OK, peer_acquire(&peer, 0, &plain));
    EXPECT(HF_BUSY, probe(store, &request));
    EXPECT(HF_OK, peer_release(&peer, 0));
    peer_stop(&peer);
    close_store(store);
}

static void only_by_asking(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request reentrant = again_request(0), plain = mutex_request("again");
    hf_lease *lease = take(store, &reentrant);

    (void)state;
    EXPECT(HF_BUSY, probe(store, &plain));      /* did not ask for it */
    EXPECT(HF_BUSY, probe(second, &reentrant)); /* another handle */
    give(lease);
    lease = take(store, &plain);
    EXPECT(HF_BUSY, probe(store, &reentrant)); /* the first one did not ask for it */
    give(lease);
    close_store(second);
    close_store(store);
}

static void other_thread_waits(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = again_request(0);
    hf_lease *lease = take(store, &request);
    struct attempt attempt;

    (void)state;
    CHECK(take(store, &request) == lease);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    give(lease);
    attempt_settled(&attempt);
    CHECK(!attempt.ended); /* one hold is left */
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(holds_of(attempt.lease) == 1);
    give(attempt.lease);
    close_store(store);
}

static void scopes(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request seven = again_request(7), eight = again_request(8),
                       thread = again_request(0);
    hf_lease *lease = take(store, &seven);
    struct attempt attempt;

    (void)state;
    attempt_start(&attempt, store, &seven); /* another thread, the same scope */
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(attempt.lease == lease);
    CHECK(holds_of(lease) == 2);
    EXPECT(HF_BUSY, probe(store, &eight));
    EXPECT(HF_BUSY, probe(store, &thread));
    give(lease);
    give(lease);
    EXPECT(HF_OK, probe(store, &eight));
    close_store(store);
}

static void names_count_apart(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request a = again_request(0), b = again_request(0);
    hf_lease *first = take(store, &a), *second;

    (void)state;
    b.name = "again2";
    b.name_len = HF_CSTRING;
    second = take(store, &b);
    CHECK(first != second);
    CHECK(take(store, &a) == first);
    CHECK(holds_of(first) == 2 && holds_of(second) == 1);
    give(first);
    give(second);
    give(first);
    close_store(store);
}

static void writer_and_semaphore_too(void **state)
{
    hf_acquire_request request = again_request(0), slots = again_request(0);
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_SHARED | HF_CAP_SEMAPHORE);
    store = open_store();
    request.kind = HF_KIND_EXCLUSIVE;
    lease = take(store, &request);
    CHECK(take(store, &request) == lease);
    EXPECT(HF_MISMATCH, probe(store, &slots)); /* the same thread, but another kind */
    CHECK(strstr(contract_error.text, "a read-write lock"));
    give(lease);
    give(lease);
    slots.kind = HF_KIND_SEMAPHORE;
    slots.capacity = 2;
    lease = take(store, &slots);
    CHECK(take(store, &slots) == lease);
    EXPECT(HF_OK, probe(store, &(hf_acquire_request){ .size = sizeof slots,
                                                      .name = "again",
                                                      .name_len = HF_CSTRING,
                                                      .kind = HF_KIND_SEMAPHORE,
                                                      .capacity = 2 }));
    give(lease);
    give(lease);
    close_store(store);
}

/* All holds are lost together, and each release says so. */
static void loss_of_all_holds(void **state)
{
    hf_acquire_request request = again_request(0);
    hf_store *store;
    hf_lease *lease, *fresh;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    lease = take(store, &request);
    CHECK(take(store, &request) == lease);
    EXPECT(HF_OK, hf_lease_break(store, "again", 5, hf_lease_token(lease), &contract_error));
    await_lost(lease);

    /* A lost lease is not re-entered: this is a new one. */
    fresh = take(store, &request);
    CHECK(fresh != lease);
    CHECK(hf_lease_token(fresh) > hf_lease_token(lease));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(fresh) == HF_STATE_HELD);
    give(fresh);
    close_store(store);
}

int contract_reentry(void)
{
    const struct CMUnitTest cases[] = {
        CASE(same_thread),        CASE(only_by_asking),
        CASE(other_thread_waits), CASE(scopes),
        CASE(names_count_apart),  CASE(writer_and_semaphore_too),
        CASE(loss_of_all_holds),
    };

    return cmocka_run_group_tests_name("reentry", cases, NULL, NULL);
}
