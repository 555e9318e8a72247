/* SPDX-License-Identifier: MIT */
/*
 * Messages to a holder that others wait, when the network loses or delays them; and the events of a lease at risk. On the
 * event-driven engine in memory, whose network the test controls.
 */
#include "contract.h"

#include "mem_engine.h"

#include <stdio.h>
#include <string.h>

/* The events of a lease, in order: a letter each. */
struct told {
    char events[64];
    _Atomic int count;
    char why[HF_LABEL_MAX + 1]; /* of the last one that had a text */
};

static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    static const char letters[] = "?rhLwua"; /* AT_RISK, HELD, LOST, WANTED, UNWANTED, ASKED */
    struct told *told = arg;

    (void)lease;
    CHECK(told->count < (int)sizeof told->events - 1);
    told->events[told->count] = letters[event];
    if (text[0])
        snprintf(told->why, sizeof told->why, "%s", text);
    told->count++;
}

static hf_acquire_request watched(int64_t ttl_ms, struct told *told)
{
    hf_acquire_request request = mutex_request("wanted");

    request.flags = HF_FLAG_WATCH;
    request.ttl_ms = ttl_ms;
    request.on_event = on_event;
    request.on_event_arg = told;
    return request;
}

/* A waiter's heartbeat repeats a message that was lost, and so does the answer to a renewal. */
static void message_is_lost(void **state)
{
    (void)state;
    for (int renews = 0; renews < 2; renews++) {
        hf_store *store = open_store(), *second = open_store();
        struct told told = { .count = 0 };
        hf_acquire_request request = watched(10 * LIMIT_MS, &told), other = request;
        struct attempt attempt;
        hf_lease *lease = take(store, &request);

        other = waiting_request("wanted");
        mem_fault(contract_server(), MEM_LOSE_PUSH, MEM_VERBS, renews ? 1000 : 1, 0);
        attempt_start(&attempt, second, &other);
        AWAIT(count_waiters(second, "wanted") == 1);
        if (renews)
            EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
        AWAIT(told.count == 1);
        CHECK(told.events[0] == 'w' && hf_lease_wanted(lease));
        mem_heal(contract_server());
        give(lease);
        EXPECT(HF_OK, attempt_join(&attempt));
        give(attempt.lease);
        close_store(second);
        close_store(store);
    }
}

/* While the line is down nobody knows: that counts as not wanted. When it is up again, a heartbeat tells. */
static void line_is_cut(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    struct told told = { .count = 0 };
    hf_acquire_request request = watched(10 * LIMIT_MS, &told), other = waiting_request("wanted");
    struct attempt attempt;
    hf_lease *lease = take(store, &request);

    (void)state;
    attempt_start(&attempt, second, &other);
    AWAIT(told.count == 1);
    CHECK(hf_lease_wanted(lease));
    mem_cut(contract_server(), true);
    AWAIT(!hf_lease_wanted(lease));
    AWAIT(told.count == 2);
    CHECK(strcmp(told.events, "wu") == 0);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    (void)attempt_join(&attempt); /* its outcome is not known */
    mem_heal(contract_server());

    attempt_start(&attempt, second, &other);
    AWAIT(hf_lease_wanted(lease));
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

/* A message may be so late that its lease has ended: it says nothing about the next one. */
static void message_is_late(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    struct told told = { .count = 0 };
    hf_acquire_request request = watched(10 * LIMIT_MS, &told), other = waiting_request("wanted");
    struct attempt attempt;
    hf_lease *lease = take(store, &request);

    (void)state;
    mem_fault(contract_server(), MEM_DELAY_PUSH, MEM_VERBS, 1, 500);
    attempt_start(&attempt, second, &other);
    AWAIT(count_waiters(second, "wanted") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    lease = take(store, &request);
    nap_ms(1000);
    CHECK(!hf_lease_wanted(lease) && told.count == 0);
    give(lease);
    close_store(second);
    close_store(store);
}

/* A lease is granted, and its holder does not know that yet: what it is asked meanwhile it hears with the grant. */
static void asked_before_the_grant_is_heard(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    struct told told = { .count = 0 };
    hf_acquire_request request = watched(10 * LIMIT_MS, &told), other = mutex_request("wanted");
    struct attempt attempt;
    hf_lease *lease = take(second, &other);

    (void)state;
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &request);
    AWAIT(count_waiters(second, "wanted") == 1);
    mem_fault(contract_server(), MEM_DELAY_PUSH, MEM_VERBS, 1, 1000);
    give(lease);
    AWAIT(count_holders(second, "wanted") == 1);
    EXPECT(HF_OK, hf_ask(second, "wanted", HF_CSTRING, "a stranger", &contract_error));
    EXPECT(HF_OK, attempt_join(&attempt));
    AWAIT(told.count == 1);
    CHECK(told.events[0] == 'a' && strcmp(told.why, "a stranger") == 0);
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

/* AT_RISK and HELD are events too, and LOST is the last one. */
static void at_risk_is_told(void **state)
{
    hf_store *store = open_store();
    struct told told = { .count = 0 };
    hf_acquire_request request = watched(6000, &told);
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_lease *lease = take(store, &request);

    (void)state;
    CHECK(hf_lease_fd(lease) >= 0);
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_RENEW, 1, 0);
    EXPECT(HF_UNKNOWN, hf_renew(lease, 0, &contract_error));
    AWAIT(told.count >= 1);
    CHECK(told.events[0] == 'r' && told.why[0]);
    EXPECT(HF_OK, hf_lease_get(lease, &info));
    AWAIT(told.count >= 2);
    CHECK(told.events[1] == 'h');

    mem_cut(contract_server(), true);
    await_lost(lease);
    AWAIT(told.count >= 4);
    CHECK(strcmp(told.events, "rhrL") == 0);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    mem_heal(contract_server());
    close_store(store);
}

/* ---- yielding ---------------------------------------------------------------------------------- */

static void *yield_run(void *arg)
{
    struct attempt *attempt = arg;

    attempt->status = hf_yield(&attempt->lease, LIMIT_MS, &contract_error);
    return NULL;
}

/* The release is lost, or its answer is: it is repeated until the store has it. The waiter gets the lease, then it is ours again. */
static void release_of_a_yield(void **state)
{
    static const enum mem_fault faults[] = { MEM_LOSE_REQUEST, MEM_LOSE_REPLY, MEM_DELAY_REQUEST,
                                             MEM_REPEAT_REQUEST };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        hf_store *store = open_store(), *second = open_store();
        struct told told = { .count = 0 };
        hf_acquire_request request = watched(10 * LIMIT_MS, &told),
                           other = waiting_request("wanted");
        struct attempt waiter, yielder = { .lease = take(store, &request) };
        uint64_t token = hf_lease_token(yielder.lease), between;

        attempt_start(&waiter, second, &other);
        AWAIT(hf_lease_wanted(yielder.lease));
        mem_fault(contract_server(), faults[i], MEM_RELEASE, 1, 500);
        CHECK(pthread_create(&yielder.thread, NULL, yield_run, &yielder) == 0);
        EXPECT(HF_OK, attempt_join(&waiter));
        between = hf_lease_token(waiter.lease);
        CHECK(between > token);
        give(waiter.lease);
        EXPECT(HF_YIELDED, attempt_join(&yielder));
        CHECK(hf_lease_token(yielder.lease) > between);
        nap_ms(600); /* what was delayed or repeated comes, and frees nothing */
        CHECK(count_holders(second, "wanted") == 1);
        CHECK(hf_lease_state(yielder.lease) == HF_STATE_HELD);
        give(yielder.lease);
        mem_heal(contract_server());
        EXPECT(HF_OK, hf_close(store, 0)); /* nothing is left */
        close_store(second);
    }
}

/* Nothing gets through: the yield ends without a lease, and when the line is up again nothing is held. */
static void yield_is_cut_off(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    struct told told = { .count = 0 };
    hf_acquire_request request = watched(10 * LIMIT_MS, &told), other = waiting_request("wanted");
    hf_lease *lease = take(store, &request);
    struct attempt waiter;
    hf_status status;

    (void)state;
    attempt_start(&waiter, second, &other);
    AWAIT(hf_lease_wanted(lease));
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_VERBS, 1000000, 0);
    status = hf_yield(&lease, 1000, &contract_error);
    CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE || status == HF_TIMEOUT);
    CHECK(lease == NULL);
    mem_heal(contract_server());
    if (attempt_join(&waiter) == HF_OK)
        give(waiter.lease);
    AWAIT(count_holders(second, "wanted") == 0 && count_waiters(second, "wanted") == 0);
    EXPECT(HF_OK, hf_close(store, 0));
    close_store(second);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(message_is_lost),  CASE(line_is_cut),
        CASE(message_is_late),  CASE(asked_before_the_grant_is_heard),
        CASE(at_risk_is_told),  CASE(release_of_a_yield),
        CASE(yield_is_cut_off),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}?call=300ms", false);
    return cmocka_run_group_tests_name("wanted_faults", cases, NULL, NULL) ? 1 : 0;
}
