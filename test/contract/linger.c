/* SPDX-License-Identifier: MIT */
/*
 * Leases that stay with their process after a release (HF_CAP_LINGER): taken again, called back by waiters and tries of others,
 * ended by time, by close, by break and by death. Each acquisition has a larger token than all before.
 */
#include "peer.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "linger"

/* Longer than any case takes: only a recall or an end ends it. */
static hf_acquire_request lingering(int64_t linger_ms)
{
    hf_acquire_request request = mutex_request(NAME);

    request.ttl_ms = 2 * LIMIT_MS;
    request.linger_ms = linger_ms;
    return request;
}

static hf_acquire_request plain(int64_t wait_ms)
{
    hf_acquire_request request = mutex_request(NAME);

    request.ttl_ms = 2 * LIMIT_MS;
    request.wait_ms = wait_ms;
    return request;
}

/* Take it and give it back until it lingers: the line on which a recall comes may not be up at first. Returns the last token. */
static uint64_t make_idle(hf_store *store, const hf_acquire_request *request, hf_store *other)
{
    int64_t until_ms = now_ms() + LIMIT_MS;
    uint64_t token;

    do {
        hf_lease *lease = take(store, request);

        token = hf_lease_token(lease);
        give(lease);
        CHECK(now_ms() < until_ms);
    } while (count_holders(other, request->name) == 0);
    return token;
}

/* What the store shows of the only holder; its label is not kept. false: nobody holds. */
static bool holder_of(hf_store *store, const char *name, hf_holder *ret_holder)
{
    hf_view *view = NULL;
    bool found;

    EXPECT(HF_OK, hf_store_inspect(store, name, HF_CSTRING, 0, &view, &contract_error));
    found = hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1;
    if (found)
        *ret_holder = *hf_entry_holder(hf_view_entry(view, 0), 0);
    ret_holder->label = NULL;
    hf_free(view);
    return found;
}

/* What another client is granted has a larger token. */
static uint64_t granted_after(hf_store *store, const hf_acquire_request *request, uint64_t token)
{
    hf_lease *lease = take(store, request);
    uint64_t mine = hf_lease_token(lease);

    CHECK(mine > token);
    give(lease);
    return mine;
}

static void undeclared_is_refused(void **state)
{
    hf_acquire_request request = mutex_request(NAME);
    hf_store *store = open_store();
    hf_lease *lease;

    (void)state;
    request.linger_ms = 200;
    if (!has(HF_CAP_LINGER)) {
        EXPECT(HF_UNSUPPORTED, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "linger_ms"));
        request.linger_ms = HF_LINGER_NEVER;
        give(take(store, &request));
        close_store(store);
        return;
    }
    request.linger_ms = -2;
    EXPECT(HF_INVALID, hf_acquire(store, &request, &lease, &contract_error));
    request.ttl_ms = 10000;
    request.linger_ms = 5001;
    EXPECT(HF_INVALID, hf_acquire(store, &request, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "linger_ms"));
    request.linger_ms = 200;
    if (has(HF_CAP_SHARED)) {
        request.kind = HF_KIND_SHARED;
        EXPECT(HF_UNSUPPORTED, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "linger_ms: only for exclusive"));
    }
    close_store(store);
}

static void stays_and_is_taken_again(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS);
    hf_store *store, *second;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    for (int i = 0; i < 3000; i++) {
        hf_lease *lease = take(store, &request);

        CHECK(hf_lease_token(lease) > token && hf_lease_state(lease) == HF_STATE_HELD);
        token = hf_lease_token(lease);
        give(lease);
    }
    CHECK(count_holders(second, NAME) == 1);
    EXPECT(HF_OK, hf_idle_release(store, &contract_error));
    CHECK(count_holders(second, NAME) == 0);
    (void)granted_after(second, &request, token);
    close_store(second);
    close_store(store);
}

/* Others see that it lingers, and after a while that it is idle; then that it is held again. */
static void shown_as_idle(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS);
    hf_store *store, *second;
    hf_holder holder;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_LINGER | HF_CAP_INSPECT);
    store = open_store();
    second = open_store();
    (void)make_idle(store, &request, second);
    AWAIT(holder_of(second, NAME, &holder) && holder.lingers && holder.idle && holder.tid == 0);
    lease = take(store, &request);
    AWAIT(holder_of(second, NAME, &holder) && holder.lingers && !holder.idle &&
          holder.token == hf_lease_token(lease));
    give(lease);
    close_store(second);
    close_store(store);
}

static void *give_when_granted(void *arg)
{
    struct attempt *attempt = arg;

    EXPECT(HF_OK, attempt_join(attempt));
    give(attempt->lease);
    return NULL;
}

/* What a yield gets back is what was asked for at first: it does not linger because the URL says so. */
static void yielded_as_it_was(void **state)
{
    hf_acquire_request request = plain(LIMIT_MS), waits = plain(LIMIT_MS);
    struct attempt attempt;
    hf_store *store, *second;
    hf_lease *lease;
    pthread_t thread;

    (void)state;
    NEEDS(HF_CAP_LINGER | HF_CAP_WANTED);
    contract_param("linger=20s");
    store = open_store();
    second = open_store();
    request.flags = HF_FLAG_WATCH;
    request.linger_ms = waits.linger_ms = HF_LINGER_NEVER;
    lease = take(store, &request);
    attempt_start(&attempt, second, &waits);
    AWAIT(hf_lease_wanted(lease));
    CHECK(pthread_create(&thread, NULL, give_when_granted, &attempt) == 0);
    EXPECT(HF_YIELDED, hf_yield(&lease, LIMIT_MS, &contract_error));
    give(lease);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(count_holders(second, NAME) == 0);
    close_store(second);
    close_store(store);
}

/* The holder may have shortened its ttl: it waits for the lease again all the same. */
static void yielded_with_a_shorter_ttl(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), waits = plain(LIMIT_MS);
    struct attempt attempt;
    hf_store *store, *second;
    hf_lease *lease;
    pthread_t thread;

    (void)state;
    NEEDS(HF_CAP_LINGER | HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    request.flags = HF_FLAG_WATCH;
    lease = take(store, &request);
    EXPECT(HF_OK, hf_renew(lease, LIMIT_MS, &contract_error));
    attempt_start(&attempt, second, &waits);
    AWAIT(hf_lease_wanted(lease));
    CHECK(pthread_create(&thread, NULL, give_when_granted, &attempt) == 0);
    EXPECT(HF_YIELDED, hf_yield(&lease, LIMIT_MS, &contract_error));
    give(lease);
    CHECK(pthread_join(thread, NULL) == 0);
    close_store(second);
    close_store(store);
}

/* A claim that lingers is kept on a short ttl, but not below a holder: the validity that it was granted with stays its own. */
static void holder_keeps_its_validity(void **state)
{
    hf_acquire_request request = lingering(50);
    hf_store *store;
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    request.min_valid_ms = LIMIT_MS;
    for (int i = 0; i < 2000; i++) { /* among them are some that fetch more tokens */
        int64_t until_ms;

        lease = take(store, &request);
        EXPECT(HF_OK, hf_lease_get(lease, &info));
        until_ms = now_ms() + info.remaining_ms;
        if (i % 50 == 0)
            nap_ms(20);
        EXPECT(HF_OK, hf_lease_get(lease, &info));
        CHECK(now_ms() + info.remaining_ms + 1000 >= until_ms);
        give(lease);
    }
    close_store(store);
}

static void waiter_calls_it_back(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), waits = plain(LIMIT_MS);
    hf_store *store, *second;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    for (int i = 0; i < 3; i++) {
        token = make_idle(store, &request, second);
        token = granted_after(second, &waits, token);
        request.wait_ms = LIMIT_MS;
        token = granted_after(store, &request, token);
        request.wait_ms = 0;
    }
    close_store(second);
    close_store(store);
}

static void try_gets_what_nobody_uses(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), tries = plain(0);
    hf_store *store, *second;
    hf_lease *lease = NULL;
    uint64_t token;
    hf_status status;
    int64_t until_ms = now_ms() + LIMIT_MS;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    contract_param("try_wait=60s"); /* the hand-over has all the time that it needs */
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    while ((status = hf_acquire(second, &tries, &lease, &contract_error)) == HF_BUSY)
        CHECK(now_ms() < until_ms);
    EXPECT(HF_OK, status);
    CHECK(hf_lease_token(lease) > token);
    give(lease);
    close_store(second);
    close_store(store);
}

/* A try that gets it by asking twice is a request like any other: ids of detached leases are drawn each by itself, and so one handle
 * says nothing about the next. */
static void detached_tries_have_ids_of_their_own(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), tries = plain(0);
    int64_t until_ms = now_ms() + LIMIT_MS;
    char handles[2][HF_LEASE_TEXT_MAX];
    hf_store *store, *second;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    NEEDS(HF_CAP_DETACHED);
    contract_param("try_wait=60s");
    tries.flags = HF_FLAG_DETACHED;
    store = open_store();
    second = open_store();
    for (int i = 0; i < 2; i++) {
        hf_lease *lease = NULL;
        hf_status status;

        (void)make_idle(store, &request, second);
        while ((status = hf_acquire(second, &tries, &lease, &contract_error)) == HF_BUSY)
            CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, status);
        EXPECT(HF_OK, hf_lease_export(lease, handles[i]));
        give(lease);
    }
    CHECK(memcmp(handles[0], handles[1], 16) !=
          0); /* 32 hex digits; ids in a row share half of them */
    CHECK(memcmp(handles[0] + 16, handles[1] + 16, 16) != 0);
    close_store(second);
    close_store(store);
}

static void try_is_busy_while_it_is_used(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), tries = plain(0);
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    (void)make_idle(store, &request, second);
    lease = take(store, &request);
    EXPECT(HF_BUSY, probe(second, &tries));
    EXPECT(HF_BUSY, probe(store, &tries)); /* of this process too */
    give(lease);
    close_store(second);
    close_store(store);
}

static void goes_to_those_that_wait(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), waits = plain(LIMIT_MS);
    struct attempt attempt;
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_LINGER | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    (void)make_idle(store, &request, second);
    lease = take(store, &request);
    attempt_start(&attempt, second, &waits);
    AWAIT(count_waiters(store, NAME) == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

/* Whoever asked has left: the lease is released or lingers, and is there for the next one. */
static void asker_leaves(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), waits = plain(LIMIT_MS);
    struct attempt attempt;
    hf_store *store, *second;
    hf_cancel *cancel;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_LINGER | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    (void)make_idle(store, &request, second);
    lease = take(store, &request);
    waits.cancel = cancel;
    attempt_start(&attempt, second, &waits);
    AWAIT(count_waiters(store, NAME) == 1);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    EXPECT(HF_CANCELLED, attempt_join(&attempt));
    give(lease);
    waits.cancel = NULL;
    (void)granted_after(store, &request, 0);
    (void)granted_after(second, &waits, 0);
    EXPECT(HF_OK, hf_cancel_close(cancel));
    close_store(second);
    close_store(store);
}

static void ends_by_itself(void **state)
{
    hf_acquire_request request = lingering(50);
    hf_store *store, *second;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    for (int i = 0; i < 20; i++)
        give(take(store, &request));
    AWAIT(count_holders(second, NAME) == 0);
    close_store(second);
    close_store(store);
}

static void other_requests_end_it(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), other = plain(LIMIT_MS);
    hf_store *store, *second;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    other.ttl_ms = LIMIT_MS; /* another ttl */
    token = granted_after(store, &other, token);
    CHECK(count_holders(second, NAME) == 0);
    token = make_idle(store, &request, second);
    other = plain(LIMIT_MS);
    other.flags = HF_FLAG_STRICT;
    token = granted_after(store, &other, token);
    CHECK(count_holders(second, NAME) == 0);
    token = make_idle(store, &request, second);
    other = plain(0); /* equal: it takes the idle one, and gives it back at once */
    (void)granted_after(store, &other, token);
    CHECK(count_holders(second, NAME) == 0);
    close_store(second);
    close_store(store);
}

static void reentered(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS);
    hf_store *store, *second;
    hf_lease *outer, *inner;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    request.flags = HF_FLAG_REENTRANT;
    (void)make_idle(store, &request, second);
    for (int i = 0; i < 3; i++) {
        outer = take(store, &request);
        inner = take(store, &request);
        CHECK(inner == outer);
        give(inner);
        CHECK(hf_lease_state(outer) == HF_STATE_HELD);
        give(outer);
    }
    CHECK(count_holders(second, NAME) == 1);
    close_store(second);
    close_store(store);
}

static void broken_while_idle(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS);
    hf_store *store, *second;
    hf_lease *lease;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_LINGER | HF_CAP_BREAK);
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    EXPECT(HF_OK, hf_lease_break(second, NAME, HF_CSTRING, token, &contract_error));
    token = granted_after(second, &request, token);
    request.wait_ms = LIMIT_MS;
    lease = take(store, &request);
    if (hf_lease_token(lease) <
        token) { /* it has not heard of it yet: it has a lease that is lost */
        await_lost(lease);
        EXPECT(HF_LOST, hf_release(lease, NULL));
        lease = take(store, &request);
    }
    CHECK(hf_lease_token(lease) > token);
    give(lease);
    close_store(second);
    close_store(store);
}

/* An idle lease does not keep a store open, and is given back when that is closed. */
static void closed_while_idle(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS), tries = plain(0);
    hf_store *store, *second;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    EXPECT(HF_OK, hf_close(store, 0));
    (void)granted_after(second, &tries, token);
    close_store(second);
}

static void forked_while_idle(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS);
    hf_store *store, *second;
    hf_lease *lease;
    uint64_t token;
    int status;
    pid_t child;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(hf_acquire(store, &request, &lease, NULL) == HF_FORKED &&
                      hf_idle_release(store, NULL) == HF_FORKED
                  ? 0
                  : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    (void)granted_after(store, &request, token);
    close_store(second);
    close_store(store);
}

/* A dead process costs its ttl, and no more. */
static void holder_dies(void **state)
{
    hf_acquire_request request = plain(0), waits = plain(LIMIT_MS);
    struct peer peer;
    hf_store *store;
    int64_t until_ms = now_ms() + LIMIT_MS;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    if (!contract_processes)
        return;
    contract_param("linger=500ms");
    store = open_store();
    peer_start(&peer);
    request.ttl_ms = 2000;
    do {
        EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
        EXPECT(HF_OK, peer_release(&peer, 0));
        CHECK(now_ms() < until_ms);
    } while (count_holders(store, NAME) == 0);
    peer_kill(&peer);
    (void)granted_after(store, &waits, 0);
    close_store(store);
}

/* Two processes, or stores, of two threads each: never two at once, and tokens only grow. */
struct crowd {
    hf_store *store;
    pthread_t thread;
    int rounds;
};
static _Atomic int inside;
static _Atomic uint64_t highest;

static void *use(void *arg)
{
    struct crowd *crowd = arg;
    hf_acquire_request request = lingering(200);

    request.wait_ms = LIMIT_MS;
    for (int i = 0; i < crowd->rounds; i++) {
        hf_lease *lease = take(crowd->store, &request);
        uint64_t token = hf_lease_token(lease), before = atomic_exchange(&highest, token);

        CHECK(atomic_fetch_add(&inside, 1) == 0);
        CHECK(token > before);
        if (i % 100 == 0)
            nap_ms(1);
        atomic_fetch_sub(&inside, 1);
        give(lease);
    }
    return NULL;
}

static void several_threads_and_stores(void **state)
{
    struct crowd crowd[6];
    hf_store *stores[3];

    (void)state;
    NEEDS(HF_CAP_LINGER);
    atomic_store(&highest, 0);
    for (int i = 0; i < 3; i++)
        stores[i] = open_store();
    for (int i = 0; i < 6; i++) {
        crowd[i] = (struct crowd){ .store = stores[i % 3], .rounds = 400 };
        CHECK(pthread_create(&crowd[i].thread, NULL, use, &crowd[i]) == 0);
    }
    for (int i = 0; i < 6; i++)
        CHECK(pthread_join(crowd[i].thread, NULL) == 0);
    for (int i = 0; i < 3; i++)
        close_store(stores[i]);
}

/* One name after the other, as hf_acquire_all() does, with those that are idle here among them. */
static void several_names(void **state)
{
    hf_acquire_request requests[3] = { lingering(LIMIT_MS), lingering(LIMIT_MS),
                                       lingering(LIMIT_MS) };
    static const char *const names[3] = { "linger-a", "linger-b", "linger-c" };
    hf_lease *leases[3];
    hf_store *store, *second;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    for (int i = 0; i < 3; i++)
        requests[i].name = names[i];
    (void)make_idle(store, &requests[1], second);
    for (int i = 0; i < 4; i++) {
        EXPECT(HF_OK, hf_acquire_all(store, requests, 3, leases, &contract_error));
        EXPECT(HF_OK, hf_release_all(leases, 3, &contract_error));
    }
    for (int i = 0; i < 3; i++)
        requests[i].wait_ms = LIMIT_MS;
    EXPECT(HF_OK, hf_acquire_all(second, requests, 3, leases, &contract_error));
    EXPECT(HF_OK, hf_release_all(leases, 3, &contract_error));
    close_store(second);
    close_store(store);
}

static void taken_asynchronously(void **state)
{
    hf_acquire_request request = lingering(LIMIT_MS);
    hf_store *store, *second;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_LINGER);
    store = open_store();
    second = open_store();
    token = make_idle(store, &request, second);
    for (int i = 0; i < 3; i++) {
        struct both both = { .done = false };

        EXPECT(HF_OK,
               both_end(store,
                        hf_acquire_async(store, &request, both_done, &both, NULL, &contract_error),
                        &both, &contract_error));
        CHECK(hf_lease_token(both.result.lease) > token);
        token = hf_lease_token(both.result.lease);
        give(both.result.lease);
    }
    CHECK(count_holders(second, NAME) == 1);
    close_store(second);
    close_store(store);
}

int contract_linger(void)
{
    const struct CMUnitTest tests[] = {
        CASE(undeclared_is_refused),
        CASE(stays_and_is_taken_again),
        CASE(shown_as_idle),
        CASE(yielded_as_it_was),
        CASE(yielded_with_a_shorter_ttl),
        CASE(holder_keeps_its_validity),
        CASE(waiter_calls_it_back),
        CASE(try_gets_what_nobody_uses),
        CASE(detached_tries_have_ids_of_their_own),
        CASE(try_is_busy_while_it_is_used),
        CASE(goes_to_those_that_wait),
        CASE(asker_leaves),
        CASE(ends_by_itself),
        CASE(other_requests_end_it),
        CASE(reentered),
        CASE(broken_while_idle),
        CASE(closed_while_idle),
        CASE(forked_while_idle),
        CASE(holder_dies),
        CASE(several_threads_and_stores),
        CASE(several_names),
        CASE(taken_asynchronously),
    };

    return cmocka_run_group_tests_name("linger", tests, NULL, NULL);
}
