/* SPDX-License-Identifier: MIT */
/* Leases: their state, ttl, renewal, max_hold, min_valid, lock_delay. */
#include "peer.h"

#include <string.h>

#define LONG_MS (10 * 60 * 1000)

static hf_acquire_request ttl_request(const char *name, int64_t ttl_ms, uint64_t flags)
{
    hf_acquire_request request = mutex_request(name);

    request.ttl_ms = ttl_ms;
    request.flags = flags;
    return request;
}

/* A ttl of `times` LONG_MS is granted in full, or as much as this store ever grants. */
static bool lasts(hf_lease *lease, int64_t times)
{
    int64_t max_ms = contract_info.max_ttl_ms;

    if (max_ms > 0 && max_ms < times * LONG_MS)
        return hf_lease_remaining_ms(lease) > max_ms / 4 && hf_lease_remaining_ms(lease) < max_ms;
    return hf_lease_remaining_ms(lease) > times * LONG_MS - LONG_MS / 2;
}

static hf_lease_info info_of(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    return info;
}

static void tells_about_itself(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("self");
    hf_lease *lease = take(store, &request);
    hf_lease_info info = info_of(lease);

    (void)state;
    CHECK(info.token == hf_lease_token(lease));
    CHECK(info.state == HF_STATE_HELD);
    CHECK(info.holds == 1);
    CHECK(info.name_len == 4 && memcmp(info.name, "self", 4) == 0);
    CHECK(info.age_ms >= 0);
    CHECK(info.ttl_ms == contract_info.default_ttl_ms);
    if (contract_info.default_ttl_ms)
        CHECK(info.remaining_ms > 0 && info.remaining_ms < contract_info.default_ttl_ms);
    else
        CHECK(info.remaining_ms == INT64_MAX && hf_lease_remaining_ms(lease) == INT64_MAX);
    nap_ms(20);
    CHECK(info_of(lease).age_ms >= info.age_ms + 20);
    CHECK(hf_lease_fd(lease) >= 0);
    CHECK(hf_lease_fd(lease) == hf_lease_fd(lease));
    give(lease);
    close_store(store);
}

static void validity_is_below_ttl(void **state)
{
    hf_acquire_request request = ttl_request("ttl", LONG_MS, HF_FLAG_NO_RENEW);
    hf_lease *lease;
    hf_store *store;
    int64_t remaining_ms;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    lease = take(store, &request);
    CHECK(info_of(lease).ttl_ms == LONG_MS);
    remaining_ms = hf_lease_remaining_ms(lease);
    CHECK(remaining_ms > 0);
    CHECK(remaining_ms <= LONG_MS - LONG_MS / 100); /* the drift is taken off */
    nap_ms(20);
    CHECK(hf_lease_remaining_ms(lease) <= remaining_ms - 20);
    give(lease);
    close_store(store);
}

static void expires_without_renewal(void **state)
{
    hf_acquire_request request, wait = waiting_request("ttl");
    int64_t begin_ms, ttl_ms = contract_info.min_ttl_ms > 1000 ? contract_info.min_ttl_ms : 1000;
    hf_store *store, *second;
    hf_lease *lease, *next;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    second = open_store();
    request = ttl_request("ttl", ttl_ms, HF_FLAG_NO_RENEW);
    begin_ms = now_ms();
    lease = take_short(store, &request);
    next = take(second, &wait);
    /* Nobody gets the name before the ttl has ended, and then the first holder knows of its
     * loss. */
    CHECK(now_ms() - begin_ms >= ttl_ms);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_remaining_ms(lease) == 0);
    CHECK(info_of(lease).state == HF_STATE_LOST);
    if (has(HF_CAP_TOKEN))
        CHECK(hf_lease_token(next) > hf_lease_token(lease));
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(next) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(store, &request)); /* the late release freed nothing */
    give(next);
    close_store(second);
    close_store(store);
}

static void renews_by_itself(void **state)
{
    hf_acquire_request request = ttl_request("ttl", 4000, 0), other = mutex_request("ttl");
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    AWAIT(info_of(lease).age_ms > 6000);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    CHECK(hf_lease_remaining_ms(lease) > 0);
    EXPECT(HF_BUSY, probe(second, &other));
    give(lease);
    EXPECT(HF_OK, probe(second, &other));
    close_store(second);
    close_store(store);
}

static void renews_when_told(void **state)
{
    hf_acquire_request request = ttl_request("ttl", LONG_MS, HF_FLAG_NO_RENEW);
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_OK, hf_renew(lease, 3 * LONG_MS, &contract_error));
    CHECK(lasts(lease, 3));
    CHECK(info_of(lease).ttl_ms == 3 * LONG_MS);
    nap_ms(20);
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error)); /* as before */
    CHECK(lasts(lease, 3));
    EXPECT(HF_OK, hf_renew(lease, LONG_MS, &contract_error)); /* shorter is fine too */
    CHECK(hf_lease_remaining_ms(lease) <= LONG_MS);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);

    EXPECT(HF_INVALID, hf_renew(lease, -1, &contract_error));
    EXPECT(HF_INVALID, hf_renew(lease, HF_DURATION_MAX_MS + 1, &contract_error));
    if (contract_info.min_ttl_ms > 1)
        EXPECT(HF_INVALID, hf_renew(lease, contract_info.min_ttl_ms - 1, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    EXPECT(HF_INVALID, hf_renew(lease, 0, &contract_error));
    close_store(store);
}

static void longest_times(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("long");
    hf_lease *lease;

    (void)state;
    request.wait_ms = HF_DURATION_MAX_MS;
    if (has(HF_CAP_TTL))
        request.ttl_ms = request.max_hold_ms = HF_DURATION_MAX_MS;
    if (has(HF_CAP_LOCK_DELAY))
        request.lock_delay_ms = HF_DURATION_MAX_MS;
    if (hf_acquire(store, &request, &lease, &contract_error) == HF_INVALID) {
        CHECK(
            strstr(contract_error.text, "ttl_ms")); /* an engine may have a bound, if it names it */
        close_store(store);
        return;
    }
    EXPECT(HF_OK, contract_error.status);
    CHECK(hf_lease_remaining_ms(lease) > HF_DURATION_MAX_MS / 2 || contract_info.max_ttl_ms > 0);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    request.wait_ms = 0;
    EXPECT(HF_BUSY, probe(store, &request));
    give(lease);
    close_store(store);
}

/* Tokens keep growing after nobody had the store open for a while. */
static void tokens_outlive_stores(void **state)
{
    hf_acquire_request request = mutex_request("token");
    uint64_t last = 0;

    (void)state;
    NEEDS(HF_CAP_TOKEN);
    for (int i = 0; i < 5; i++) {
        hf_store *store = open_store();
        hf_lease *lease = take(store, &request);

        CHECK(hf_lease_token(lease) > last);
        last = hf_lease_token(lease);
        give(lease);
        close_store(store);
    }
}

static void without_ttl_there_is_nothing_to_renew(void **state)
{
    hf_acquire_request request = mutex_request("ttl");
    hf_store *store;
    hf_lease *lease;

    (void)state;
    if (contract_info.default_ttl_ms)
        return;
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_UNSUPPORTED, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

static void max_hold_ends_it(void **state)
{
    hf_store *store, *second;
    hf_acquire_request request = mutex_request("max"), wait = waiting_request("max");
    int64_t begin_ms;
    hf_lease *lease, *next;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    second = open_store();
    begin_ms = now_ms();
    request.max_hold_ms = 300;
    lease = take_short(store, &request);
    CHECK(hf_lease_remaining_ms(lease) <= 300);
    next = take(second, &wait); /* max_hold has freed it in the store too */
    CHECK(now_ms() - begin_ms >= 300);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(next) == HF_STATE_HELD);
    give(next);

    request.max_hold_ms = LONG_MS;
    lease = take(store, &request);
    CHECK(hf_lease_remaining_ms(lease) > 0 && hf_lease_remaining_ms(lease) <= LONG_MS);
    give(lease);
    close_store(second);
    close_store(store);
}

static void min_valid_gives_back(void **state)
{
    hf_acquire_request request = ttl_request("valid", 5000, 0), plain = mutex_request("valid");
    hf_lease *lease = NULL;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    request.min_valid_ms = 5000; /* a ttl of 5 s is never valid for quite 5 s */
    EXPECT(HF_TOO_SHORT, hf_acquire(store, &request, &lease, &contract_error));
    CHECK(lease == NULL);
    EXPECT(HF_OK, probe(store, &plain));
    request.ttl_ms = LONG_MS;
    lease = take(store, &request);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

/* An engine may hand over for less than the ttl at first; a caller that needs more gets it before
 * the call returns. */
static void min_valid_when_handed_over(void **state)
{
    hf_acquire_request request = ttl_request("valid", LONG_MS, 0);
    struct attempt attempt;
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    request.wait_ms = LIMIT_MS;
    request.min_valid_ms = LONG_MS / 2;
    if (contract_info.max_ttl_ms > 0) /* most of what can be had */
        request.min_valid_ms = contract_info.max_ttl_ms * 8 / 10;
    attempt_start(&attempt, second, &request);
    if (has(HF_CAP_WAITERS))
        AWAIT(count_waiters(store, "valid") == 1);
    else
        attempt_settled(&attempt);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    CHECK(hf_lease_remaining_ms(attempt.lease) > request.min_valid_ms / 2);
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

static void lock_delay_after_unclean_loss(void **state)
{
    hf_acquire_request request = ttl_request("delay", 1000, HF_FLAG_NO_RENEW),
                       wait = waiting_request("delay");
    hf_store *store, *second;
    hf_lease *lease, *next;
    int64_t begin_ms;

    (void)state;
    NEEDS(HF_CAP_TTL | HF_CAP_LOCK_DELAY);
    store = open_store();
    second = open_store();
    request.lock_delay_ms = 1200;
    begin_ms = now_ms();
    lease = take_short(store, &request);
    next = take(second, &wait);
    CHECK(now_ms() - begin_ms >= 1000 + 1200);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    give(next);

    /* After a clean release there is no delay. */
    request = ttl_request("delay", LONG_MS, 0);
    request.lock_delay_ms = LONG_MS;
    lease = take(store, &request);
    give(lease);
    request.wait_ms = 0;
    EXPECT(HF_OK, probe(second, &request));
    close_store(second);
    close_store(store);
}

/* While a lock_delay keeps a name closed, inspection shows that, and a try reports it. */
static void lock_delay_is_shown(void **state)
{
    hf_acquire_request request = ttl_request("delay", 1000, HF_FLAG_NO_RENEW),
                       try = mutex_request("delay");
    hf_view *view = NULL;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL | HF_CAP_LOCK_DELAY | HF_CAP_INSPECT);
    store = open_store();
    request.lock_delay_ms = LONG_MS;
    lease = take(store, &request);
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    /* Our clock says lost a little before the store's does. */
    AWAIT(count_holders(store, "delay") == 0);
    EXPECT(HF_BUSY, probe(store, &try));
    EXPECT(HF_OK, hf_store_inspect(store, "delay", 5, 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1);
    CHECK(hf_view_entry(view, 0)->holder_count == 0);
    CHECK(hf_view_entry(view, 0)->closed_ms > 0 && hf_view_entry(view, 0)->closed_ms <= LONG_MS);
    hf_free(view);
    close_store(store);
}

int contract_lease(void)
{
    const struct CMUnitTest cases[] = {
        CASE(tells_about_itself),
        CASE(validity_is_below_ttl),
        CASE(expires_without_renewal),
        CASE(renews_by_itself),
        CASE(renews_when_told),
        CASE(without_ttl_there_is_nothing_to_renew),
        CASE(longest_times),
        CASE(tokens_outlive_stores),
        CASE(max_hold_ends_it),
        CASE(min_valid_gives_back),
        CASE(min_valid_when_handed_over),
        CASE(lock_delay_after_unclean_loss),
        CASE(lock_delay_is_shown),
    };

    return cmocka_run_group_tests_name("lease", cases, NULL, NULL);
}
