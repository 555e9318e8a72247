/* SPDX-License-Identifier: MIT */
/*
 * Faults of the network: messages lost, late or repeated, the server gone or without memory. Core
 * must never assume an outcome, must tell the holder in time, and must leave nothing held that
 * nobody can release. On the event-driven engine in memory, whose network the test controls.
 */
#include "contract.h"

#include "mem_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_MS \
    8000 /* longer than a caller with a limit of 20 ms waits: 20 ms, and two seconds for its
          * cancel */
#define CALL_MS 300 /* an answer that takes longer makes the outcome unknown */

/* The server's name: the text between "memevent:" and "?". */
static hf_acquire_request ttl_request(const char *name, int64_t ttl_ms)
{
    hf_acquire_request request = mutex_request(name);

    request.ttl_ms = ttl_ms;
    return request;
}

/* A mutex whose ttl does not end during the test: another can get it only after a release. */
static hf_acquire_request long_request(const char *name)
{
    return ttl_request(name, 10 * LIMIT_MS);
}

static void check_given_back(hf_store *store, const char *name)
{
    hf_acquire_request request = waiting_request(name);

    EXPECT(HF_OK, probe(store, &request));
}

static void request_is_lost(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;

    (void)state;
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_ACQUIRE, 1, 0);
    EXPECT(HF_UNKNOWN, hf_acquire(store, &request, &lease, &contract_error));
    CHECK(lease == NULL);
    CHECK(contract_error.status == HF_UNKNOWN);
    AWAIT(mem_count(contract_server(), MEM_RELEASE) >= 1); /* it asks: release by owner */
    check_given_back(store, "job");
    close_store(store);
}

static void reply_is_lost(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;

    (void)state;
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_ACQUIRE, 1, 0);
    EXPECT(HF_UNKNOWN, hf_acquire(store, &request, &lease, &contract_error));
    CHECK(lease == NULL);
    AWAIT(count_holders(second, "job") == 0); /* granted, and given back in the background */
    CHECK(mem_count(contract_server(), MEM_RELEASE) >= 1);
    check_given_back(second, "job");
    close_store(second);
    close_store(store);
}

/* A conversion whose outcome is unknown: nobody can use the new lease, so the old one is lost, and before the new one is given back. */
static void conversion_is_lost(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease, *same;

    (void)state;
    request.kind = HF_KIND_EXCLUSIVE;
    for (int lose_reply = 0; lose_reply < 2; lose_reply++) {
        same = lease = take(store, &request);
        mem_fault(contract_server(), lose_reply ? MEM_LOSE_REPLY : MEM_LOSE_REQUEST, MEM_ACQUIRE, 1,
                  0);
        EXPECT(HF_UNKNOWN, hf_convert(&lease, HF_KIND_SHARED, LIMIT_MS, &contract_error));
        CHECK(lease == same && hf_lease_state(lease) == HF_STATE_LOST);
        EXPECT(HF_LOST, hf_release(lease, NULL));
        AWAIT(count_holders(second, "job") == 0);
        EXPECT(HF_OK, probe(second, &request));
    }
    close_store(second);
    close_store(store);
}

/* Several names: all are asked for before any is answered; and if one answer is lost, nothing stays held. */
static void several_and_lost_replies(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request requests[3] = { long_request("a"), long_request("b"), long_request("c") };

    (void)state;
    for (unsigned lost = 1; lost <= 3; lost += 2) {
        hf_lease *leases[3] = { NULL, NULL, NULL };
        unsigned long asked = mem_count(contract_server(), MEM_ACQUIRE);

        mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_ACQUIRE, lost, 0);
        EXPECT(HF_UNKNOWN, hf_acquire_all(store, requests, 3, leases, &contract_error));
        CHECK(mem_count(contract_server(), MEM_ACQUIRE) == asked + 3);
        CHECK(!leases[0] && !leases[1] && !leases[2]);
        for (int i = 0; i < 3; i++) {
            AWAIT(count_holders(second, requests[i].name) == 0);
            check_given_back(second, requests[i].name);
        }
    }
    close_store(second);
    close_store(store);
}

/* The answer comes after the outcome was reported as unknown: nobody may use that grant. */
static void reply_is_late(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;

    (void)state;
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_ACQUIRE, 1, 2 * CALL_MS);
    EXPECT(HF_UNKNOWN, hf_acquire(store, &request, &lease, &contract_error));
    AWAIT(count_holders(second, "job") == 0);
    lease = take(second, &request);
    nap_ms(3 * CALL_MS);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    CHECK(count_holders(second, "job") == 1);
    give(lease);
    close_store(second);
    close_store(store);
}

/* A request that arrives after we gave it up must not leave a lease behind. */
static void request_is_late(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;
    unsigned long acquires;

    (void)state;
    acquires = mem_count(contract_server(), MEM_ACQUIRE);
    mem_fault(contract_server(), MEM_DELAY_REQUEST, MEM_ACQUIRE, 1, 2 * CALL_MS);
    EXPECT(HF_UNKNOWN, hf_acquire(store, &request, &lease, &contract_error));
    AWAIT(count_holders(second, "job") == 0 &&
          mem_count(contract_server(), MEM_ACQUIRE) > acquires);
    check_given_back(second, "job");
    close_store(second);
    close_store(store);
}

/* The store is silent until the caller has given up, cancelled or not, and then grants the name: it
 * is released. */
static void granted_after_the_grace(void **state)
{
    hf_store *store = NULL, *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;
    unsigned long released;
    char url[200];

    (void)state;
    snprintf(url, sizeof url, "memevent:%s?call=%ds", contract_server(),
             LIMIT_MS / 1000); /* it never gives up */
    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    request.wait_ms = 20;
    released = mem_count(contract_server(), MEM_RELEASE);
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_ACQUIRE, 1, SILENT_MS);
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_CANCEL, 1, 0);
    EXPECT(HF_UNKNOWN, hf_acquire(store, &request, &lease, &contract_error));
    CHECK(lease == NULL && contract_error.status == HF_UNKNOWN);
    CHECK(mem_count(contract_server(), MEM_RELEASE) == released); /* nothing has come yet */
    CHECK(count_holders(second, "job") == 1);
    AWAIT(count_holders(second, "job") == 0);
    CHECK(mem_count(contract_server(), MEM_RELEASE) > released);
    check_given_back(second, "job");
    close_store(second);
    close_store(store);
}

static void messages_come_twice(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease;

    (void)state;
    mem_fault(contract_server(), MEM_REPEAT_REQUEST, MEM_VERBS, 1000, 30);
    mem_fault(contract_server(), MEM_REPEAT_REPLY, MEM_VERBS, 1000, 0);
    for (int i = 0; i < 20; i++) {
        lease = take(i % 2 ? store : second, &request);
        EXPECT(HF_BUSY, probe(store, &request));
        give(lease);
    }
    mem_heal(contract_server());
    nap_ms(60); /* the last copies */
    EXPECT(HF_OK, probe(store, &request));
    close_store(second);
    close_store(store);
}

/* The message of a hand-off is lost: the heartbeat finds the grant. */
static void grant_message_is_lost(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job"), wait = long_request("job");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;

    (void)state;
    wait.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "job") == 1);
    mem_fault(contract_server(), MEM_LOSE_PUSH, MEM_VERBS, 1, 0);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

/* "In every case the handle has ended"; the library goes on trying. */
static void release_is_unknown(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease;

    (void)state;
    for (int lose_reply = 0; lose_reply < 2; lose_reply++) {
        lease = take(store, &request);
        mem_fault(contract_server(), lose_reply ? MEM_LOSE_REPLY : MEM_LOSE_REQUEST, MEM_RELEASE, 1,
                  0);
        EXPECT(HF_UNKNOWN, hf_release(lease, &contract_error));
        EXPECT(HF_INVALID, hf_release(lease, &contract_error));
        CHECK(hf_lease_state(lease) == HF_STATE_LOST);
        check_given_back(second, "job");
    }
    close_store(second);
    close_store(store);
}

static void cancel_is_unknown(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job"), wait = long_request("job");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    hf_status status;

    (void)state;
    EXPECT(HF_OK, hf_cancel_open(&wait.cancel));
    wait.flags = HF_FLAG_STRICT;
    wait.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "job") == 1);
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_CANCEL, 1, 0);
    EXPECT(HF_OK, hf_cancel_fire(wait.cancel));
    status = attempt_join(&attempt);
    CHECK(status == HF_UNKNOWN || status == HF_CANCELLED);
    EXPECT(HF_OK, hf_cancel_close(wait.cancel));
    AWAIT(count_waiters(store, "job") == 0);
    give(lease);
    check_given_back(store, "job");
    close_store(second);
    close_store(store);
}

/* A deadline that passes while the first answer is still under way. */
static void deadline_before_the_answer(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;
    hf_status status;

    (void)state;
    request.wait_ms = CALL_MS / 3;
    mem_fault(contract_server(), MEM_DELAY_REQUEST, MEM_ACQUIRE, 1, 2 * CALL_MS);
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status == HF_TIMEOUT || status == HF_UNKNOWN);
    CHECK(lease == NULL);
    nap_ms(3 * CALL_MS);
    AWAIT(count_holders(store, "job") == 0 && count_waiters(store, "job") == 0);
    check_given_back(store, "job");
    close_store(store);
}

static void line_is_cut(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = NULL;
    hf_view *view = NULL;

    (void)state;
    mem_cut(contract_server(), true);
    EXPECT(HF_UNAVAILABLE, hf_acquire(store, &request, &lease, &contract_error));
    EXPECT(HF_UNAVAILABLE,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    EXPECT(HF_UNAVAILABLE, hf_lease_break(store, "job", 3, 1, &contract_error));
    CHECK(lease == NULL && view == NULL);
    mem_heal(contract_server());
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

static void line_is_cut_while_waiting(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job"), wait = long_request("job");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    hf_status status;

    (void)state;
    wait.flags = HF_FLAG_STRICT;
    wait.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "job") == 1);
    mem_cut(contract_server(), true);
    status = attempt_join(&attempt);
    CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE);
    mem_heal(contract_server());
    AWAIT(count_waiters(store, "job") == 0);
    give(lease);
    check_given_back(store, "job");
    close_store(second);
    close_store(store);
}

static void at_risk_and_back(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = ttl_request("job", 12000);
    hf_lease *lease = take(store, &request);

    (void)state;
    mem_cut(contract_server(), true);
    EXPECT(HF_UNAVAILABLE, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_AT_RISK);
    CHECK(hf_lease_remaining_ms(lease) > 0);
    mem_heal(contract_server());
    AWAIT(hf_lease_state(lease) != HF_STATE_AT_RISK);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

static void at_risk_by_itself(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = ttl_request("job", 6000);
    hf_lease *lease = take(store, &request);

    (void)state;
    mem_cut(contract_server(), true);
    AWAIT(hf_lease_state(lease) != HF_STATE_HELD);
    CHECK(hf_lease_state(lease) == HF_STATE_AT_RISK);
    await_lost(lease); /* nothing came back in time */
    mem_heal(contract_server());
    nap_ms(CALL_MS);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    check_given_back(store, "job");
    close_store(store);
}

/* The server is silent: no answer, no closed connection, and the time limit of a request is longer than what is left of the lease. */
static void at_risk_before_a_silent_end(void **state)
{
    hf_acquire_request request = ttl_request("job", 7000);
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_store *store;
    hf_lease *lease;
    char url[100];

    (void)state;
    snprintf(url, sizeof url, "memevent:%s?call=6s", contract_server());
    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    lease = take(store, &request);
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_RENEW, 1000, 0);
    AWAIT(hf_lease_state(lease) != HF_STATE_HELD);
    EXPECT(HF_OK, hf_lease_get(lease, &info));
    CHECK(info.state == HF_STATE_AT_RISK);
    await_lost(lease);
    mem_heal(contract_server());
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* A renewal that is under way does not put the end off, and its late yes changes nothing. */
static void lost_while_renewing(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = ttl_request("job", 3000);
    hf_lease *lease;

    (void)state;
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_RENEW, 100, 4000);
    lease = take(store, &request);
    await_lost(lease);
    CHECK(mem_count(contract_server(), MEM_RENEW) >= 1);
    CHECK(hf_lease_remaining_ms(lease) == 0);
    nap_ms(3000);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    mem_heal(contract_server());
    check_given_back(store, "job");
    close_store(store);
}

struct renewer {
    hf_lease *lease;
    hf_status status;
};

static void *renew_once(void *arg)
{
    struct renewer *renewer = arg;

    renewer->status = hf_renew(renewer->lease, 0, &contract_error);
    return NULL;
}

/* The lease was renewed, then broken; the yes to the renewal comes last, and changes nothing. */
static void yes_comes_after_the_loss(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = long_request("job");
    struct renewer renewer = { .lease = take(store, &request) };
    pthread_t thread;

    (void)state;
    mem_fault(contract_server(), MEM_DELAY_REPLY, MEM_RENEW, 1, CALL_MS * 2 / 3);
    CHECK(pthread_create(&thread, NULL, renew_once, &renewer) == 0);
    AWAIT(mem_count(contract_server(), MEM_RENEW) == 1);
    EXPECT(HF_OK, hf_lease_break(second, "job", 3, hf_lease_token(renewer.lease), &contract_error));
    CHECK(pthread_join(thread, NULL) == 0);
    await_lost(renewer.lease);
    CHECK(renewer.status == HF_LOST || renewer.status == HF_OK || renewer.status == HF_UNKNOWN);
    EXPECT(HF_LOST, hf_renew(renewer.lease, 0, &contract_error));
    CHECK(hf_lease_remaining_ms(renewer.lease) == 0);
    EXPECT(HF_LOST, hf_release(renewer.lease, &contract_error));
    check_given_back(store, "job");
    close_store(second);
    close_store(store);
}

static void server_forgets(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = ttl_request("job", 3000);
    hf_lease *lease = take(store, &request), *next;

    (void)state;
    mem_forget(contract_server());
    await_lost(lease); /* the next renewal learns it */
    next = take(store, &request);
    CHECK(hf_lease_token(next) > hf_lease_token(lease));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(next) == HF_STATE_HELD);
    give(next);
    close_store(store);
}

static void tokens_run_out(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = long_request("job"), wait = long_request("job");
    hf_lease *lease = take(store, &request), *none = NULL;
    struct attempt attempt;

    (void)state;
    wait.flags = HF_FLAG_STRICT;
    wait.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &wait);
    AWAIT(count_waiters(store, "job") == 1);
    mem_set_token(contract_server(), HFI_TOKEN_LIMIT - 1);
    give(lease);
    EXPECT(HF_FULL, attempt_join(&attempt));
    EXPECT(HF_FULL, hf_acquire(store, &request, &none, &contract_error));
    CHECK(none == NULL);
    close_store(store);
}

#define FLOCK 100

/* Many leases are renewed with few messages. */
static void renewals_are_batched(void **state)
{
    hf_store *store = open_store();
    hf_lease *leases[FLOCK];
    char name[16];

    (void)state;
    for (int i = 0; i < FLOCK; i++) {
        hf_acquire_request request = ttl_request(name, 6000);

        snprintf(name, sizeof name, "flock-%d", i);
        leases[i] = take(store, &request);
    }
    /* Those that were renewed together are due together: batches only grow. On a slow machine, where
     * they were acquired far apart, it takes some rounds. */
    AWAIT(mem_count(contract_server(), MEM_RENEW) >= FLOCK &&
          mem_largest(contract_server(), MEM_RENEW) >= 10);
    for (int i = 0; i < FLOCK; i++)
        give(leases[i]);
    close_store(store);
}

static void close_on_a_dead_line(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = long_request("job");
    hf_lease *lease = take(store, &request);
    hf_status status;

    (void)state;
    mem_cut(contract_server(), true);
    EXPECT(HF_IN_USE, hf_close(store, 0));
    status = hf_close(store, HF_CLOSE_FLAG_RELEASE); /* comes back, whatever it says */
    CHECK(status == HF_OK || status == HF_UNAVAILABLE || status == HF_UNKNOWN);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    mem_heal(contract_server());
}

/* ---- everything at once ------------------------------------------------------------- */

#define THREADS 6

struct storm {
    hf_store *stores[2];
    _Atomic int inside;
    uint64_t last_token; /* under the lock */
    _Atomic int granted;
};

struct sailor {
    struct storm *storm;
    int number;
};

static void *sail(void *arg)
{
    struct sailor *sailor = arg;
    struct storm *storm = sailor->storm;
    hf_acquire_request request = long_request("storm");

    request.wait_ms = 3000;
    for (int i = 0; i < 40; i++) {
        hf_lease *lease = NULL;
        hf_status status;

        request.flags = (i + sailor->number) % 2 ? HF_FLAG_STRICT : 0;
        status = hf_acquire(storm->stores[sailor->number % 2], &request, &lease, &contract_error);
        if (status != HF_OK) {
            CHECK(status == HF_UNKNOWN || status == HF_TIMEOUT);
            continue;
        }
        if (hf_lease_remaining_ms(lease) > 5000) { /* else it may end any moment, rightly */
            CHECK(atomic_fetch_add(&storm->inside, 1) == 0);
            CHECK(hf_lease_token(lease) > storm->last_token);
            storm->last_token = hf_lease_token(lease);
            atomic_fetch_add(&storm->granted, 1);
            CHECK(atomic_fetch_sub(&storm->inside, 1) == 1);
        }
        status = hf_release(lease, &contract_error);
        CHECK(status == HF_OK || status == HF_UNKNOWN || status == HF_LOST);
    }
    return NULL;
}

static void storm(void **state)
{
    struct storm weather = { .stores = { open_store(), open_store() } };
    struct sailor sailors[THREADS];
    pthread_t threads[THREADS];
    const char *seed_text = getenv("STORM_SEED");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : (uint64_t)now_ms();

    (void)state;
    printf("STORM_SEED=%llu\n", (unsigned long long)seed);
    mem_chaos(contract_server(), seed, 5, 40);
    for (int i = 0; i < THREADS; i++) {
        sailors[i] = (struct sailor){ &weather, i };
        CHECK(pthread_create(&threads[i], NULL, sail, &sailors[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    mem_heal(contract_server());
    CHECK(weather.granted > 0);
    AWAIT(count_holders(weather.stores[0], "storm") == 0);
    check_given_back(weather.stores[0], "storm");
    close_store(weather.stores[1]);
    close_store(weather.stores[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(request_is_lost),
        CASE(reply_is_lost),
        CASE(conversion_is_lost),
        CASE(several_and_lost_replies),
        CASE(reply_is_late),
        CASE(request_is_late),
        CASE(granted_after_the_grace),
        CASE(messages_come_twice),
        CASE(grant_message_is_lost),
        CASE(release_is_unknown),
        CASE(cancel_is_unknown),
        CASE(deadline_before_the_answer),
        CASE(line_is_cut),
        CASE(line_is_cut_while_waiting),
        CASE(at_risk_and_back),
        CASE(at_risk_by_itself),
        CASE(at_risk_before_a_silent_end),
        CASE(lost_while_renewing),
        CASE(yes_comes_after_the_loss),
        CASE(server_forgets),
        CASE(tokens_run_out),
        CASE(renewals_are_batched),
        CASE(close_on_a_dead_line),
        CASE(storm),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}?call=300ms", false);
    return cmocka_run_group_tests_name("faults", cases, NULL, NULL) ? 1 : 0;
}
