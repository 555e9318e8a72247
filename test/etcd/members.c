/* SPDX-License-Identifier: MIT */
/*
 * Three members, of which one is killed, stopped or left without the others: waiting, hand-over and
 * renewal go on while a majority lives; without one nothing is granted, and holders are told in time.
 */
#include "etcd_bed.h"

#include <stdio.h>
#include <string.h>

#define TTL_MS 8000

static bool was_refused(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN || status == HF_TIMEOUT;
}

/* One holds, one waits, both through the leader; it goes; they go on. */
static void goes_on(void (*strike)(struct etcd_cluster *, size_t))
{
    size_t leader = etcd_leader(etcd, 0, -1);
    hf_store *holders = open_with(IMPATIENT), *waiters = open_with(IMPATIENT);
    hf_acquire_request request = with_ttl(mutex_request("n"), TTL_MS);
    hf_lease *lease = take(holders, &request);
    uint64_t token = hf_lease_token(lease);
    struct attempt attempt;
    int64_t begin_ms;

    request = with_ttl(waiting_request("n"), TTL_MS);
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "n") == 1);
    strike(etcd, leader);
    begin_ms = now_ms();
    etcd_leader(etcd, (leader + 1) % 3, (int)leader);
    /* Renewals find their way, again and again. */
    AWAIT(now_ms() > begin_ms + TTL_MS + 1000 || hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_state(lease) != HF_STATE_LOST);
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > token);
    give(attempt.lease);
    close_hard(waiters);
    close_hard(holders);
}

static void leader_killed(void **state)
{
    (void)state;
    goes_on(etcd_kill);
}

static void leader_stopped(void **state)
{
    (void)state;
    goes_on(etcd_pause);
}

/* The name was granted again under another leader while the old leader was stopped: when that wakes
 * up, its answers must not be trusted. */
static void old_leader_wakes_up(void **state)
{
    size_t leader = etcd_leader(etcd, 0, -1), next;
    hf_store *old = open_member(leader, IMPATIENT), *others;
    hf_acquire_request request = with_ttl(mutex_request("n"), 3000), wait = waiting_request("n");
    hf_lease *lease = take(old, &request), *his;

    (void)state;
    etcd_pause(etcd, leader);
    next = etcd_leader(etcd, (leader + 1) % 3, (int)leader);
    others = open_member(next, "");
    his = take(others, &wait); /* its ttl has ended for the majority */
    CHECK(hf_lease_remaining_ms(lease) == 0);
    etcd_continue(etcd, leader);
    nap_ms(500);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(his) == HF_STATE_HELD);
    EXPECT(HF_OK, hf_renew(his, 0, &contract_error));
    give(his);
    close_hard(others);
    close_hard(old);
}

/* The leader without the others: nothing is granted, and a holder connected to it is told in
 * time. */
static void minority(void **state)
{
    size_t leader = etcd_leader(etcd, 0, -1);
    hf_store *store = open_member(leader, IMPATIENT);
    hf_acquire_request request = with_ttl(mutex_request("n"), 3000), try = mutex_request("m");
    hf_lease *lease = take(store, &request);
    int64_t cut_ms;

    (void)state;
    etcd_pause(etcd, (leader + 1) % 3);
    etcd_pause(etcd, (leader + 2) % 3);
    cut_ms = now_ms();
    CHECK(was_refused(probe(store, &try)));
    for (hf_state now = HF_STATE_HELD; now != HF_STATE_LOST; nap_ms(10)) {
        int64_t at_ms = now_ms();

        now = hf_lease_state(lease);
        /* A keepalive that the lonely leader still answered is not believed: without the
         * majority nothing is confirmed after the cut. */
        CHECK(at_ms < cut_ms + 3000 || now == HF_STATE_LOST);
        CHECK(at_ms < cut_ms + LIMIT_MS);
    }
    etcd_continue(etcd, (leader + 1) % 3);
    etcd_continue(etcd, (leader + 2) % 3);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    gets_free(store, "n", hf_lease_token(lease));
    AWAIT(probe(store, &try) == HF_OK);
    close_hard(store);
}

/* A member that is down when we come; and one after another is restarted. */
static void rolling_restart(void **state)
{
    hf_store *store, *other;
    hf_acquire_request request = with_ttl(mutex_request("n"), 30000), wait = waiting_request("n");
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    etcd_kill(etcd, 0);
    store = open_with(IMPATIENT);
    other = open_with(IMPATIENT);
    lease = take(store, &request);
    attempt_start(&attempt, other, &wait);
    AWAIT(count_waiters(store, "n") == 1);
    etcd_restart(etcd, 0);
    for (size_t i = 1; i < 3; i++) {
        etcd_kill(etcd, i);
        etcd_leader(etcd, 0, (int)i);
        etcd_restart(etcd, i);
    }
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(other);
    close_hard(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CLUSTER(leader_killed),       TEST_CLUSTER(leader_stopped),
        TEST_CLUSTER(old_leader_wakes_up), TEST_CLUSTER(minority),
        TEST_CLUSTER(rolling_restart),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
