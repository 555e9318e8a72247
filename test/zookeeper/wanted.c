/* SPDX-License-Identifier: MIT */
/*
 * A holder learns that others wait, on one server: over a lost connection, beside tries and other holders, and at a cost that
 * does not grow with the number of waiters.
 */
#include "zk_bed.h"

#include <stdio.h>
#include <string.h>

struct told {
    _Atomic int wanted, unwanted, asked;
    char text[HF_LABEL_MAX + 1];
};

static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    struct told *told = arg;

    (void)lease;
    if (event == HF_EVENT_ASKED)
        snprintf(told->text, sizeof told->text, "%s", text);
    told->asked += event == HF_EVENT_ASKED;
    told->wanted += event == HF_EVENT_WANTED;
    told->unwanted += event == HF_EVENT_UNWANTED;
}

static hf_acquire_request watched(hf_acquire_request request, struct told *told)
{
    request.flags |= HF_FLAG_WATCH;
    request.on_event = on_event;
    request.on_event_arg = told;
    return request;
}

/* It waits until it is cancelled. */
struct waiter {
    hf_cancel *cancel;
    struct attempt attempt;
};

static void waiter_start(struct waiter *waiter, hf_store *store, hf_acquire_request request)
{
    EXPECT(HF_OK, hf_cancel_open(&waiter->cancel));
    request.cancel = waiter->cancel;
    request.wait_ms = LIMIT_MS;
    attempt_start(&waiter->attempt, store, &request);
}

static void waiter_cancel(struct waiter *waiter)
{
    EXPECT(HF_OK, hf_cancel_fire(waiter->cancel));
    EXPECT(HF_CANCELLED, attempt_join(&waiter->attempt));
    EXPECT(HF_OK, hf_cancel_close(waiter->cancel));
}

/* While the connection is down nobody knows. What happened meanwhile is told afterwards. */
static void over_a_cut(void **state)
{
    hf_store *store = open_through(), *other = open_direct();
    struct told told = { 0 };
    hf_acquire_request request = watched(mutex_request("cut"), &told);
    hf_lease *lease = take(store, &request);
    struct waiter waiter;

    (void)state;
    for (int round = 1; round <= 3; round++) {
        proxy_refuse(proxy, true);
        proxy_cut(proxy);
        AWAIT(hf_lease_state(lease) == HF_STATE_AT_RISK);
        waiter_start(&waiter, other, mutex_request("cut"));
        AWAIT(count_waiters(other, "cut") == 1);
        CHECK(!hf_lease_wanted(lease));
        proxy_refuse(proxy, false);
        AWAIT(told.wanted == 2 * round - 1);

        proxy_refuse(proxy, true);
        proxy_cut(proxy);
        AWAIT(told.unwanted == 2 * round - 1);
        CHECK(!hf_lease_wanted(lease));
        EXPECT(HF_OK, hf_ask(other, "cut", HF_CSTRING, "meanwhile", &contract_error));
        proxy_refuse(proxy, false);
        AWAIT(told.asked == round && strcmp(told.text, "meanwhile") == 0);
        AWAIT(told.wanted == 2 * round);
        waiter_cancel(&waiter);
        AWAIT(told.unwanted == 2 * round);
        nap_ms(1100); /* a second ask within a second is not told */
    }
    give(lease);
    close_store(other);
    close_store(store);
}

/* A text is told once, however often the node is read. */
static void asked_once(void **state)
{
    hf_store *store = open_through(), *other = open_direct();
    struct told told = { 0 };
    hf_acquire_request request = watched(mutex_request("once"), &told);
    hf_lease *lease = take(store, &request);

    (void)state;
    EXPECT(HF_OK, hf_ask(other, "once", HF_CSTRING, "please", &contract_error));
    AWAIT(told.asked == 1);
    for (int i = 0; i < 3; i++) {
        unsigned before = proxy_connections(proxy);

        nap_ms(1100);
        proxy_cut(proxy);
        AWAIT(proxy_connections(proxy) > before);
        AWAIT(hf_lease_state(lease) == HF_STATE_HELD);
    }
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    CHECK(told.asked == 1);
    give(lease);
    close_store(other);
    close_store(store);
}

/* A try that stays in the queue, because its process was stopped, is no waiter. One that waits behind it is. */
static void tries_are_no_waiters(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    struct told told = { 0 };
    hf_acquire_request request = watched(mutex_request("tries"), &told);
    hf_lease *lease = take(store, &request);
    struct waiter waiter;

    (void)state;
    for (int i = 0; i < 20; i++)
        EXPECT(HF_BUSY, probe(other, &request));
    queue_node("tries", "1 10000t\nstopped");
    for (int round = 1; round <= 3; round++) {
        waiter_start(&waiter, other, mutex_request("tries"));
        AWAIT(told.wanted == round);
        waiter_cancel(&waiter);
        AWAIT(told.unwanted == round);
    }
    queue_node("tries", "1 10000\nold"); /* of a version that did not say what it does */
    AWAIT(told.wanted == 4);
    give(lease);
    close_store(other);
    close_store(store);
}

/* A waiter that gets what another holder gives back waits no longer, and its node is still there. */
static void granted_beside(void **state)
{
    hf_store *store = open_direct(), *other = open_direct(), *third = open_direct();
    struct told told = { 0 };
    hf_acquire_request request = watched(kind_request("beside", HF_KIND_SEMAPHORE, 3, 0), &told);
    hf_acquire_request two = kind_request("beside", HF_KIND_SEMAPHORE, 3, LIMIT_MS);
    hf_lease *lease = take(store, &request), *beside;
    struct attempt attempt;

    (void)state;
    two.permits = 2;
    beside = take(other, &two);
    attempt_start(&attempt, third, &two);
    AWAIT(told.wanted == 1);
    give(beside);
    EXPECT(HF_OK, attempt_join(&attempt));
    AWAIT(told.unwanted == 1);
    CHECK(!hf_lease_wanted(lease) && told.wanted == 1);
    give(attempt.lease);
    give(lease);
    close_store(third);
    close_store(other);
    close_store(store);
}

#define CROWD 12

/* Once it knows that others wait it watches the first of them, and not those that come and go behind it. */
static void no_herd(void **state)
{
    hf_store *store = open_through(), *other = open_direct();
    struct told told = { 0 };
    hf_acquire_request request = watched(mutex_request("herd"), &told);
    hf_lease *lease = take(store, &request);
    struct waiter first, behind[CROWD];
    int64_t bytes;

    (void)state;
    waiter_start(&first, other, mutex_request("herd"));
    AWAIT(told.wanted == 1);
    bytes = proxy_bytes(proxy, PROXY_DOWN);
    for (int i = 0; i < CROWD; i++) {
        waiter_start(&behind[i], other, mutex_request("herd"));
        AWAIT(count_waiters(other, "herd") == (size_t)i + 2);
    }
    for (int i = 0; i < CROWD; i++)
        waiter_cancel(&behind[i]);
    /* A list of them all has about 900 bytes, and there were 24 changes: heartbeats are small beside that. */
    CHECK(proxy_bytes(proxy, PROXY_DOWN) - bytes < 5000);
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error)); /* which says it again */
    CHECK(hf_lease_wanted(lease) && told.unwanted == 0);
    waiter_cancel(&first);
    AWAIT(told.unwanted == 1);
    give(lease);
    close_store(other);
    close_store(store);
}

/* Asking writes, and so needs the right to. */
static void ask_is_denied(void **state)
{
    char ours[256], theirs[256];
    hf_store *store, *other;
    struct told told = { 0 };
    hf_acquire_request request = watched(mutex_request("mine"), &told);
    hf_lease *lease;

    (void)state;
    snprintf(ours, sizeof ours, "zk://us:sesame@127.0.0.1:%u%s",
             (unsigned)ensemble->servers[0].port, root("acl=read"));
    snprintf(theirs, sizeof theirs, "zk://127.0.0.1:%u%s", (unsigned)ensemble->servers[0].port,
             root(""));
    store = open_at(ours);
    other = open_at(theirs);
    lease = take(store, &request);
    EXPECT(HF_DENIED, hf_ask(other, "mine", HF_CSTRING, "please", &contract_error));
    EXPECT(HF_OK, hf_ask(store, "mine", HF_CSTRING, "ourselves", &contract_error));
    AWAIT(told.asked == 1);
    CHECK(strcmp(told.text, "ourselves") == 0);
    give(lease);
    close_store(other);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(over_a_cut),     TEST(asked_once), TEST(tries_are_no_waiters),
        TEST(granted_beside), TEST(no_herd),    TEST(ask_is_denied),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    bed_begin(1, 10, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
