/* SPDX-License-Identifier: MIT */
/* Losing a lease: by hf_lease_break() with the exact token, and how the holder learns of it. */
#include "loop.h"
#include "peer.h"

#include <poll.h>
#include <string.h>

struct notice {
    _Atomic int count;
    hf_lease *lease;
    bool has_why, release, ok;
    hf_status released;
};

static void on_lost(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct notice *notice = arg;

    if (event != HF_EVENT_LOST)
        return;
    notice->lease = lease;
    notice->has_why = why && why[0];
    notice->ok = hf_lease_state(lease) == HF_STATE_LOST;
    if (notice->release)
        notice->released = hf_release(lease, NULL);
    atomic_fetch_add(&notice->count, 1);
}

static hf_status break_lease(hf_store *store, const char *name, uint64_t token)
{
    return hf_lease_break(store, name, strlen(name), token, &contract_error);
}

static void holder_is_told(void **state)
{
    hf_acquire_request request = mutex_request("break"), try = mutex_request("break");
    struct notice notice = { .count = 0 };
    hf_store *store, *second;
    struct pollfd fd;
    hf_lease *lease, *next;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    second = open_store();
    request.on_event = on_lost;
    request.on_event_arg = &notice;
    if (has(HF_CAP_TTL))
        request.ttl_ms = 10 * LIMIT_MS; /* no renewal comes by in time to learn it */
    lease = take(store, &request);
    fd = (struct pollfd){ .fd = hf_lease_fd(lease), .events = POLLIN };
    CHECK(poll(&fd, 1, 0) == 0);

    EXPECT(HF_OK, break_lease(second, "break", hf_lease_token(lease)));
    await_lost(lease);
    AWAIT(notice.count == 1);
    CHECK(notice.lease == lease && notice.has_why && notice.ok);
    CHECK(hf_lease_remaining_ms(lease) == 0);
    CHECK(hf_lease_token(lease) > 0); /* for the log */

    next = take(second, &try);
    CHECK(hf_lease_token(next) > hf_lease_token(lease));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    CHECK(notice.count == 1);
    EXPECT(HF_BUSY, probe(store, &try));
    give(next);
    close_store(second);
    close_store(store);
}

static void peer_is_told(void **state)
{
    hf_acquire_request request = mutex_request("break");
    hf_store *store;
    hf_view *view = NULL;
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_INSPECT | HF_CAP_TOKEN);
    store = open_store();
    peer_start(&peer);
    if (has(HF_CAP_TTL))
        request.ttl_ms = 10 * LIMIT_MS;
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    EXPECT(HF_OK, hf_store_inspect(store, "break", 5, 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
    EXPECT(HF_OK, break_lease(store, "break", hf_entry_holder(hf_view_entry(view, 0), 0)->token));
    hf_free(view);
    EXPECT(HF_OK, probe(store, &request));
    AWAIT(peer_state(&peer, 0) == HF_STATE_LOST);
    EXPECT(HF_LOST, peer_release(&peer, 0));
    peer_stop(&peer);
    close_store(store);
}

static void only_the_exact_token(void **state)
{
    hf_acquire_request request = mutex_request("break"), other = mutex_request("other");
    hf_store *store;
    hf_lease *lease, *elsewhere;
    uint64_t old, token;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    lease = take(store, &request);
    old = hf_lease_token(lease);
    give(lease);
    elsewhere = take(store, &other);
    lease = take(store, &request);
    token = hf_lease_token(lease);
    EXPECT(HF_NOT_FOUND, break_lease(store, "break", old));
    EXPECT(HF_NOT_FOUND, break_lease(store, "break", token + 1));
    EXPECT(HF_NOT_FOUND, break_lease(store, "break", token - 1));
    EXPECT(HF_NOT_FOUND, break_lease(store, "nobody", token));
    EXPECT(HF_NOT_FOUND, break_lease(store, "break", (UINT64_C(1) << 53) - 1));
    EXPECT(HF_INVALID, break_lease(store, "break", UINT64_C(1) << 53)); /* never a token */
    EXPECT(HF_INVALID, break_lease(store, "break", 0));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    CHECK(hf_lease_state(elsewhere) == HF_STATE_HELD);
    EXPECT(HF_OK, break_lease(store, "break", token));
    EXPECT(HF_NOT_FOUND, break_lease(store, "break", token));
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    give(elsewhere);
    close_store(store);
}

static void on_broken(const hf_result *result, void *arg)
{
    struct notice *broken = arg;

    EXPECT(HF_OK, result->status);
    CHECK(hf_lease_state(broken->lease) == HF_STATE_LOST);
    broken->count++;
}

static void break_in_loop(hf_store *store, const char *name, hf_lease *lease)
{
    struct notice broken = { .lease = lease };

    EXPECT(HF_OK, hf_lease_break_async(store, name, strlen(name), hf_lease_token(lease), on_broken,
                                       &broken, NULL, &contract_error));
    LOOP_UNTIL(store, broken.count == 1);
}

/* A thread breaks its own lease: it is lost when the call returns (the callback of the asynchronous form comes). The thread may ask for the
 * name again at once, without a limit, and is no deadlock. */
static void own_lease_is_lost_at_once(void **state)
{
    hf_acquire_request request = waiting_request("own");
    struct notice notice = { .count = 0 };
    hf_store *store;
    hf_lease *lease, *next;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    request.wait_ms = HF_FOREVER;
    request.on_event = on_lost;
    request.on_event_arg = &notice;
    lease = take(store, &request);
    for (int i = 1; i <= 50; i++) {
        if (i % 2)
            EXPECT(HF_OK, break_lease(store, "own", hf_lease_token(lease)));
        else
            break_in_loop(store, "own", lease);
        CHECK(hf_lease_state(lease) == HF_STATE_LOST);
        next = take(store, &request);
        AWAIT(notice.count == i);
        CHECK(notice.lease == lease && notice.has_why && notice.ok);
        EXPECT(HF_LOST, hf_release(lease, &contract_error));
        CHECK(hf_lease_state(next) == HF_STATE_HELD);
        lease = next;
    }
    give(lease);
    close_store(store);
}

/* One of several holders, and only that one. */
static void one_of_many_holders(void **state)
{
    hf_acquire_request request = mutex_request("many");
    hf_lease *leases[3];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_SEMAPHORE | HF_CAP_TOKEN);
    store = open_store();
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 3;
    for (int i = 0; i < 3; i++)
        leases[i] = take(store, &request);
    EXPECT(HF_OK, break_lease(store, "many", hf_lease_token(leases[1])));
    await_lost(leases[1]);
    CHECK(hf_lease_state(leases[0]) == HF_STATE_HELD);
    CHECK(hf_lease_state(leases[2]) == HF_STATE_HELD);
    EXPECT(HF_OK, probe(store, &request));
    EXPECT(HF_LOST, hf_release(leases[1], &contract_error));
    give(leases[0]);
    give(leases[2]);
    close_store(store);
}

static void break_hands_off(void **state)
{
    hf_acquire_request request = mutex_request("break"), wait = waiting_request("break");
    struct attempt attempt;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    lease = take(store, &request);
    wait.flags = HF_FLAG_STRICT;
    attempt_start(&attempt, store, &wait);
    attempt_settled(&attempt);
    EXPECT(HF_OK, break_lease(store, "break", hf_lease_token(lease)));
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > hf_lease_token(lease));
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    give(attempt.lease);
    close_store(store);
}

static void callback_may_release(void **state)
{
    hf_acquire_request request = mutex_request("break");
    struct notice notice = { .release = true };
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    request.on_event = on_lost;
    request.on_event_arg = &notice;
    lease = take(store, &request);
    EXPECT(HF_OK, break_lease(store, "break", hf_lease_token(lease)));
    AWAIT(notice.count == 1);
    EXPECT(HF_LOST, notice.released);
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    close_store(store);
}

struct retaker {
    struct notice notice;
    hf_store *store;
    hf_status status;
    hf_lease *lease;
};

static void retake(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct retaker *retaker = arg;
    hf_acquire_request request = waiting_request("break");

    if (event != HF_EVENT_LOST)
        return;
    retaker->status = hf_acquire(retaker->store, &request, &retaker->lease, NULL);
    on_lost(lease, event, why, &retaker->notice);
}

/* "It may call anything of this library but hf_close()": waiting calls too. */
static void callback_may_acquire(void **state)
{
    hf_acquire_request request = mutex_request("break");
    struct retaker retaker = { .notice = { .release = true } };
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_BREAK | HF_CAP_TOKEN);
    retaker.store = open_store();
    request.on_event = retake;
    request.on_event_arg = &retaker;
    lease = take(retaker.store, &request);
    EXPECT(HF_OK, break_lease(retaker.store, "break", hf_lease_token(lease)));
    AWAIT(retaker.notice.count == 1);
    EXPECT(HF_OK, retaker.status);
    CHECK(hf_lease_state(retaker.lease) == HF_STATE_HELD);
    give(retaker.lease);
    close_store(retaker.store);
}

/* By its own clock, without any other client: LOST comes on time, on the descriptor and as a
 * callback. */
static void expiry_is_told(void **state)
{
    hf_acquire_request request = mutex_request("expire");
    struct notice notice = { .count = 0 };
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    request.ttl_ms = 1000;
    request.flags = HF_FLAG_NO_RENEW;
    request.on_event = on_lost;
    request.on_event_arg = &notice;
    lease = take_short(store, &request);
    await_lost(lease);
    AWAIT(notice.count == 1);
    CHECK(notice.has_why);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* Who asks for the descriptor only after the loss finds it readable. */
static void descriptor_asked_for_late(void **state)
{
    hf_store *store;
    hf_acquire_request request = mutex_request("late");
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL); /* max_hold stands on it */
    store = open_store();
    request.max_hold_ms = 100;
    lease = take_short(store, &request);
    AWAIT(hf_lease_state(lease) == HF_STATE_LOST);
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_fd(lease) == -1);
    close_store(store);
}

static void max_hold_is_told(void **state)
{
    hf_store *store;
    hf_acquire_request request = mutex_request("max");
    struct notice notice = { .count = 0 };
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL); /* max_hold stands on it */
    store = open_store();
    request.max_hold_ms = 100;
    request.on_event = on_lost;
    request.on_event_arg = &notice;
    lease = take_short(store, &request);
    await_lost(lease);
    AWAIT(notice.count == 1);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* Released first is released: no callback comes later, however close the end was. */
static void released_is_not_lost(void **state)
{
    hf_acquire_request request = mutex_request("clean");
    struct notice notices[20] = { { .count = 0 } };
    hf_status statuses[20];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_TTL); /* max_hold stands on it */
    store = open_store();
    request.on_event = on_lost;
    for (int i = 0; i < 20; i++) {
        hf_lease *lease = NULL;

        request.max_hold_ms = 5 * i;
        request.on_event_arg = &notices[i];
        statuses[i] = hf_acquire(store, &request, &lease, &contract_error);
        if (statuses[i] == HF_TOO_SHORT)
            continue; /* ended before it could be given to us */
        EXPECT(HF_OK, statuses[i]);
        statuses[i] = hf_release(lease, NULL);
        CHECK(statuses[i] == HF_OK || statuses[i] == HF_LOST);
    }
    nap_ms(200);
    for (int i = 0; i < 20; i++)
        CHECK(statuses[i] == HF_LOST || notices[i].count == 0);
    close_store(store);
}

int contract_loss(void)
{
    const struct CMUnitTest cases[] = {
        CASE(holder_is_told),       CASE(peer_is_told),
        CASE(only_the_exact_token), CASE(one_of_many_holders),
        CASE(break_hands_off),      CASE(callback_may_release),
        CASE(callback_may_acquire), CASE(expiry_is_told),
        CASE(max_hold_is_told),     CASE(descriptor_asked_for_late),
        CASE(released_is_not_lost), CASE(own_lease_is_lost_at_once),
    };

    return cmocka_run_group_tests_name("loss", cases, NULL, NULL);
}
