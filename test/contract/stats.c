/* SPDX-License-Identifier: MIT */
/* What a store has done, as numbers and as it happens: observe.h. */
#include "peer.h"

#include "holdfast/observe.h"

#include <string.h>

static hf_stats stats_of(hf_store *store)
{
    hf_stats stats = HF_STATS_INIT;

    EXPECT(HF_OK, hf_stats_get(store, &stats));
    return stats;
}

static uint64_t sum(const hf_histogram *histogram)
{
    uint64_t all = 0;

    for (size_t i = 0; i < HF_HISTOGRAM_BUCKETS; i++)
        all += histogram->buckets[i];
    return all;
}

/* What is true of every hf_stats. */
static void check_sums(const hf_stats *stats)
{
    CHECK(sum(&stats->waits) == stats->waits.count);
    CHECK(stats->waits.count == stats->granted);
    CHECK(sum(&stats->holds) == stats->holds.count);
    CHECK(stats->holds.count + stats->held == stats->granted);
}

static uint64_t losses(const hf_stats *stats)
{
    uint64_t all = 0;

    for (size_t i = 0; i < HF_LOSSES_MAX; i++)
        all += stats->losses[i];
    return all;
}

static void free_names(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("free");
    hf_stats stats = stats_of(store);
    hf_lease *lease;

    (void)state;
    CHECK(stats.granted == 0 && stats.held == 0 && losses(&stats) == 0);
    lease = take(store, &request);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.granted == 1 && stats.held == 1 && stats.holds.count == 0);
    give(lease);
    for (int i = 0; i < 9; i++)
        give(take(store, &request));
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.granted == 10 && stats.held == 0 && stats.holds.count == 10);
    CHECK(stats.busy + stats.timeouts + stats.cancelled + stats.deadlocks + stats.unknown +
              stats.failed + stats.reentries + stats.handovers + stats.passes + losses(&stats) ==
          0);
    close_store(store);
}

static void refusals(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("taken");
    hf_cancel *cancel;
    struct attempt attempt;
    struct peer peer;
    hf_lease *lease;
    hf_stats stats;

    (void)state;
    peer_start(&peer);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    EXPECT(HF_BUSY, hf_acquire(store, &request, &lease, &contract_error));
    request.wait_ms = 20;
    EXPECT(HF_TIMEOUT, hf_acquire(store, &request, &lease, &contract_error));
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    request.wait_ms = LIMIT_MS;
    request.cancel = cancel;
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    EXPECT(HF_CANCELLED, attempt_join(&attempt));
    EXPECT(HF_OK, hf_cancel_close(cancel));
    EXPECT(HF_OK, peer_release(&peer, 0));
    peer_stop(&peer);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.busy == 1 && stats.timeouts == 1 && stats.cancelled == 1);
    CHECK(stats.granted == 0 && stats.failed == 0 && stats.unknown == 0);
    close_store(store);
}

static void handed_over(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("handed");
    struct attempt attempt;
    struct peer peer;
    hf_stats stats;

    (void)state;
    peer_start(&peer);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &request);
    if (has(HF_CAP_WAITERS))
        AWAIT(count_waiters(store, "handed") == 1);
    else
        attempt_settled(&attempt);
    nap_ms(40); /* so the wait is in another bucket than 0, on a slow machine too */
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, attempt_join(&attempt));
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.granted == 1);
    CHECK(stats.waits.sum_ms >= 30 && stats.waits.buckets[0] == 0);
    if (has(HF_CAP_WAITERS))
        CHECK(stats.handovers == 1);
    give(attempt.lease);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.granted == 1 && stats.passes == 0);
    peer_stop(&peer);
    close_store(store);
}

/* The second waiter gets what the first one releases, without the store. */
static void passed_on(void **state)
{
    hf_store *store;
    hf_acquire_request request = waiting_request("passed");
    struct attempt first, second;
    hf_lease *lease;
    hf_stats stats;

    (void)state;
    NEEDS(HF_CAP_PASS);
    contract_param("cohort_time=0s");
    store = open_store();
    lease = take(store, &request);
    attempt_start(&first, store, &request);
    attempt_settled(&first);
    attempt_start(&second, store, &request);
    attempt_settled(&second);
    give(lease);
    EXPECT(HF_OK, attempt_join(&first));
    give(first.lease);
    EXPECT(HF_OK, attempt_join(&second));
    give(second.lease);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.granted == 3 && stats.passes == 1 && stats.holds.count == 3);
    close_store(store);
}

static void entered_again(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("again");
    hf_lease *lease;
    hf_stats stats;

    (void)state;
    request.flags = HF_FLAG_REENTRANT;
    lease = take(store, &request);
    CHECK(take(store, &request) == lease);
    CHECK(take(store, &request) == lease);
    stats = stats_of(store);
    CHECK(stats.granted == 1 && stats.reentries == 2 && stats.held == 1);
    for (int i = 0; i < 3; i++)
        give(lease);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.granted == 1 && stats.reentries == 2 && stats.holds.count == 1);
    close_store(store);
}

static void expired(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("expires");
    hf_lease *lease;
    hf_stats stats;

    (void)state;
    NEEDS(HF_CAP_TTL);
    request.ttl_ms = contract_info.min_ttl_ms;
    request.flags = HF_FLAG_NO_RENEW;
    lease = take_short(store, &request);
    await_lost(lease);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(losses(&stats) >= 1 && stats.held == 0);
    /* After a stall of this process the store may be the first to say so. */
    CHECK(stats.losses[HF_LOSS_EXPIRED] + stats.losses[HF_LOSS_BROKEN] == losses(&stats));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(stats_of(store).holds.count == stats.holds.count); /* it is counted once */
    close_store(store);
}

static void broken(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("breaks");
    hf_lease *lease;
    hf_stats stats;

    (void)state;
    NEEDS(HF_CAP_BREAK);
    lease = take(store, &request);
    EXPECT(HF_OK,
           hf_lease_break(store, "breaks", HF_CSTRING, hf_lease_token(lease), &contract_error));
    await_lost(lease);
    stats = stats_of(store);
    check_sums(&stats);
    CHECK(stats.losses[HF_LOSS_BROKEN] + stats.losses[HF_LOSS_FORGOTTEN] == 1);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

static void renewed(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("renews");
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL);
    request.ttl_ms = 60000;
    lease = take(store, &request);
    EXPECT(HF_OK, (hf_renew)(lease, 0, &contract_error));
    CHECK(stats_of(store).renewals >= 1);
    CHECK(stats_of(store).renewals_failed == 0);
    give(lease);
    close_store(store);
}

/* ---- the observer ---------------------------------------------------------------------- */

#define SEEN_MAX 64

static struct {
    pthread_mutex_t lock;
    size_t count;
    hf_observation of[SEEN_MAX];
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_event(const hf_observation *observation, void *arg)
{
    pthread_mutex_lock(&seen.lock);
    if (arg == &seen && seen.count < SEEN_MAX)
        seen.of[seen.count++] = *observation;
    pthread_mutex_unlock(&seen.lock);
}

static void expect_seen(size_t at, hf_observed what, hf_store *store)
{
    CHECK(at < seen.count);
    CHECK(seen.of[at].what == what);
    CHECK(seen.of[at].store == store);
    CHECK(seen.of[at].size == sizeof(hf_observation));
    CHECK(seen.of[at].name_len == strlen("seen"));
    CHECK(seen.of[at].text != NULL && seen.of[at].location != NULL);
}

static void observed(void **state)
{
    hf_observer observer = HF_OBSERVER_INIT;
    hf_store *store = open_store(); /* it was open before there was an observer */
    hf_acquire_request request = mutex_request("seen");
    uint64_t token;
    hf_lease *lease;
    struct peer peer;

    (void)state;
    EXPECT(HF_INVALID, hf_observer_set(&observer));
    peer_start(&peer);
    seen.count = 0;
    observer.on_event = on_event;
    observer.arg = &seen;
    EXPECT(HF_OK, hf_observer_set(&observer));
    lease = take(store, &request);
    token = hf_lease_token(lease);
    give(lease);
    EXPECT(HF_OK, hf_observer_set(NULL));
    give(take(store, &request));
    expect_seen(0, HF_OBSERVED_BEGIN, store);
    expect_seen(1, HF_OBSERVED_GRANTED, store);
    expect_seen(2, HF_OBSERVED_RELEASED, store);
    CHECK(seen.count == 3);
    CHECK(seen.of[0].id > 0 && seen.of[0].id == seen.of[1].id && seen.of[1].id == seen.of[2].id);
    CHECK(seen.of[0].kind == HF_KIND_MUTEX && seen.of[0].token == 0);
    CHECK(seen.of[1].token == token && seen.of[2].token == token);

    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    EXPECT(HF_OK, hf_observer_set(&observer));
    EXPECT(HF_BUSY, hf_acquire(store, &request, &lease, &contract_error));
    EXPECT(HF_OK, hf_observer_set(NULL));
    expect_seen(3, HF_OBSERVED_BEGIN, store);
    expect_seen(4, HF_OBSERVED_FAILED, store);
    CHECK(seen.of[4].status == HF_BUSY && seen.of[4].id == seen.of[3].id);
    CHECK(seen.of[3].id != seen.of[0].id);
    EXPECT(HF_OK, peer_release(&peer, 0));
    peer_stop(&peer);
    close_store(store);
}

static void observed_loss(void **state)
{
    hf_observer observer = HF_OBSERVER_INIT;
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("seen");
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_BREAK);
    seen.count = 0;
    observer.on_event = on_event;
    observer.arg = &seen;
    EXPECT(HF_OK, hf_observer_set(&observer));
    lease = take(store, &request);
    EXPECT(HF_OK,
           hf_lease_break(store, "seen", HF_CSTRING, hf_lease_token(lease), &contract_error));
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_OK, hf_observer_set(NULL));
    expect_seen(seen.count - 1, HF_OBSERVED_LOST, store); /* and no RELEASED after it */
    CHECK(seen.of[seen.count - 1].id == seen.of[0].id);
    CHECK(seen.of[seen.count - 1].loss == HF_LOSS_BROKEN ||
          seen.of[seen.count - 1].loss == HF_LOSS_FORGOTTEN);
    close_store(store);
}

/* The waiter that a lease is passed on to keeps the id of its own request. */
static void observed_pass(void **state)
{
    hf_observer observer = HF_OBSERVER_INIT;
    hf_store *store;
    hf_acquire_request request = waiting_request("seen");
    struct attempt first, second;
    uint64_t ended[3] = { 0, 0, 0 };
    size_t ends = 0;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_PASS);
    contract_param("cohort_time=0s");
    store = open_store();
    seen.count = 0;
    observer.on_event = on_event;
    observer.arg = &seen;
    EXPECT(HF_OK, hf_observer_set(&observer));
    lease = take(store, &request);
    attempt_start(&first, store, &request);
    attempt_settled(&first);
    attempt_start(&second, store, &request);
    attempt_settled(&second);
    give(lease);
    EXPECT(HF_OK, attempt_join(&first));
    give(first.lease);
    EXPECT(HF_OK, attempt_join(&second));
    give(second.lease);
    EXPECT(HF_OK, hf_observer_set(NULL));
    for (size_t i = 0; i < seen.count; i++)
        if (seen.of[i].what == HF_OBSERVED_RELEASED && ends < 3)
            ended[ends++] = seen.of[i].id;
    CHECK(ends == 3 && ended[0] > 0 && ended[1] > ended[0] && ended[2] > ended[1]);
    close_store(store);
}

static void wrong(void **state)
{
    hf_store *store = open_store();
    hf_stats stats = HF_STATS_INIT;

    (void)state;
    EXPECT(HF_INVALID, hf_stats_get(NULL, &stats));
    EXPECT(HF_INVALID, hf_stats_get(store, NULL));
    stats.size = 3;
    EXPECT(HF_INVALID, hf_stats_get(store, &stats));
    stats.size = offsetof(hf_stats, waits); /* of an older version: no byte more is written */
    memset(&stats.waits, 0x5a, sizeof stats.waits);
    EXPECT(HF_OK, hf_stats_get(store, &stats));
    CHECK(stats.waits.count == UINT64_C(0x5a5a5a5a5a5a5a5a));
    close_store(store);
}

int contract_stats(void)
{
    const struct CMUnitTest cases[] = {
        CASE(free_names),    CASE(refusals),      CASE(handed_over),   CASE(passed_on),
        CASE(entered_again), CASE(expired),       CASE(broken),        CASE(renewed),
        CASE(observed),      CASE(observed_loss), CASE(observed_pass), CASE(wrong),
    };

    return cmocka_run_group_tests_name("stats", cases, NULL, NULL);
}
