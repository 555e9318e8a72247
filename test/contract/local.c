/* SPDX-License-Identifier: MIT */
/*
 * The local queue: threads of one process pass a lease on without the store,
 * each pass with its own token, and not for ever while others wait.
 */
#include "peer.h"

#include <string.h>

#define COHORT  64 /* the default bound */
#define THREADS 6

static hf_holder holder_of(hf_store *store, const char *name)
{
    hf_holder holder = { .token = 0 };
    hf_view *view = NULL;

    EXPECT(HF_OK, hf_store_inspect(store, name, strlen(name), 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
    holder = *hf_entry_holder(hf_view_entry(view, 0), 0);
    holder.label = NULL;
    hf_free(view);
    return holder;
}

/* The lock goes from one thread to the next; whatever is passed on, tokens grow by themselves. */
static void every_pass_has_its_token(void **state)
{
    hf_acquire_request request = mutex_request("pass");
    struct attempt attempts[4];
    uint64_t token;
    hf_store *store;
    hf_lease *lease;
    bool passed = false;

    (void)state;
    NEEDS(HF_CAP_TOKEN | HF_CAP_INSPECT);
    contract_param("cohort_time=0s");
    store = open_store();
    lease = take(store, &request);
    token = hf_lease_token(lease);
    CHECK(holder_of(store, "pass").token == token);
    request.wait_ms = LIMIT_MS;
    for (int i = 0; i < 4; i++) {
        attempt_start(&attempts[i], store, &request);
        attempt_settled(&attempts[i]);
    }
    give(lease);
    for (int i = 0; i < 4; i++) {
        hf_holder holder;

        EXPECT(HF_OK, attempt_join(&attempts[i]));
        CHECK(hf_lease_token(attempts[i].lease) > token);
        token = hf_lease_token(attempts[i].lease);
        holder = holder_of(store, "pass");
        CHECK(holder.token == token);
        CHECK(holder.first <= token && holder.first > 0);
        if (holder.first < token)
            passed = true;
        if (holder.tid)
            CHECK(holder.tid == attempts[i].tid);
        give(attempts[i].lease);
    }
    CHECK(passed == has(HF_CAP_PASS));
    CHECK(count_holders(store, "pass") == 0);
    close_store(store);
}

/* An old token of the block does not end the lease of the current holder. */
static void break_knows_the_block(void **state)
{
    hf_acquire_request request = mutex_request("pass");
    struct attempt first, next, after;
    uint64_t old, token;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_PASS | HF_CAP_BREAK | HF_CAP_INSPECT);
    contract_param("cohort_time=0s");
    store = open_store();
    lease = take(store, &request);
    request.wait_ms = LIMIT_MS;
    attempt_start(&first, store, &request);
    attempt_settled(&first);
    attempt_start(&next, store, &request);
    attempt_settled(&next);
    attempt_start(&after, store, &request);
    attempt_settled(&after);
    give(lease);
    EXPECT(HF_OK, attempt_join(&first));
    old = hf_lease_token(first.lease);
    give(first.lease);
    EXPECT(HF_OK, attempt_join(&next));
    token = hf_lease_token(next.lease);
    CHECK(holder_of(store, "pass").first <= old); /* it was passed on, or this tests nothing */

    EXPECT(HF_NOT_FOUND, hf_lease_break(store, "pass", 4, old, &contract_error));
    EXPECT(HF_NOT_FOUND, hf_lease_break(store, "pass", 4, token + 1, &contract_error));
    CHECK(hf_lease_state(next.lease) == HF_STATE_HELD);
    EXPECT(HF_OK, hf_lease_break(store, "pass", 4, token, &contract_error));
    await_lost(next.lease);

    /* Who waits behind a broken lease gets a new one from the store. */
    EXPECT(HF_OK, attempt_join(&after));
    CHECK(hf_lease_token(after.lease) > token);
    CHECK(holder_of(store, "pass").first > token);
    EXPECT(HF_LOST, hf_release(next.lease, &contract_error));
    CHECK(hf_lease_state(after.lease) == HF_STATE_HELD);
    give(after.lease);
    close_store(store);
}

struct crowd {
    hf_store *store;
    bool slow; /* hold it for a moment */
    _Atomic bool stop;
    _Atomic int turns;
    uint64_t last_token; /* under the lock */
};

static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    hf_acquire_request request = waiting_request("crowd");

    while (!crowd->stop) {
        hf_lease *lease = take(crowd->store, &request);
        uint64_t token = hf_lease_token(lease);

        CHECK(token > crowd->last_token || !has(HF_CAP_TOKEN));
        crowd->last_token = token;
        atomic_fetch_add(&crowd->turns, 1);
        if (crowd->slow)
            nap_ms(1);
        give(lease);
    }
    return NULL;
}

/* Does a request with that label wait for the name, or hold it? */
static bool is_there(hf_store *store, const char *name, const char *label)
{
    hf_view *view = NULL;
    bool found = false;

    EXPECT(HF_OK, hf_store_inspect(store, name, strlen(name), 0, &view, &contract_error));
    for (size_t i = 0; hf_view_count(view) && i < hf_view_entry(view, 0)->waiter_count; i++)
        if (strcmp(hf_entry_waiter(hf_view_entry(view, 0), i)->label, label) == 0)
            found = true;
    for (size_t i = 0; hf_view_count(view) && i < hf_view_entry(view, 0)->holder_count; i++)
        if (strcmp(hf_entry_holder(hf_view_entry(view, 0), i)->label, label) == 0)
            found = true;
    hf_free(view);
    return found;
}

/* Threads that want the lock again at once pass it among themselves, but only for a while if a peer
 * waits. */
static void passing_is_bounded(void **state)
{
    struct crowd crowd = { .slow = true };
    hf_acquire_request request = waiting_request("crowd");
    pthread_t threads[THREADS];
    hf_store *watcher;
    struct peer peer;
    int turns;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_WAITERS);
    contract_param("cohort_time=0s");
    crowd.store = open_store();
    watcher = open_store();
    peer_start(&peer);
    request.label = "outsider";
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, crowd_run, &crowd) == 0);
    for (int round = 0; round < 6; round++) {
        turns = crowd.turns;
        AWAIT(crowd.turns > turns + 2 * THREADS); /* they are passing it on */
        peer_begin(&peer, 0, &request);
        AWAIT(is_there(watcher, "crowd", "outsider"));
        turns = crowd.turns; /* from here on it is their last block */
        EXPECT(HF_OK, peer_join(&peer, 0, NULL));
        turns = crowd.turns - turns; /* no thread proceeds while the outsider holds */
        CHECK(turns <= COHORT + THREADS);
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    crowd.stop = true;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    peer_stop(&peer);
    close_store(watcher);
    close_store(crowd.store);
}

/* A claim that is older than cohort_time goes to the peer that waits, although a thread of ours has waited for longer and the
 * block of tokens is not used up. */
static void passing_is_bounded_by_time(void **state)
{
    hf_acquire_request request = waiting_request("aged");
    struct attempt first, next;
    hf_store *store;
    hf_lease *lease;
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_PASS | HF_CAP_FIFO | HF_CAP_WAITERS);
    contract_param("cohort_time=20ms");
    store = open_store();
    peer_start(&peer);
    lease = take(store, &request);
    attempt_start(&first, store, &request);
    attempt_settled(&first);
    attempt_start(&next, store, &request);
    attempt_settled(&next);
    give(lease); /* `first` asks the store for a block, since `next` waits behind it */
    EXPECT(HF_OK, attempt_join(&first));
    peer_begin(&peer, 0, &request);
    AWAIT(count_waiters(store, "aged") == 1);
    nap_ms(21); /* at least */
    give(first.lease);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    CHECK(!next.ended);
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, attempt_join(&next));
    give(next.lease);
    peer_stop(&peer);
    close_store(store);
}

/* Two processes full of threads: tokens grow over all of it and nobody is starved. */
static void crowds_take_turns(void **state)
{
    struct crowd crowd = { .stop = false };
    hf_acquire_request request = waiting_request("crowd");
    pthread_t threads[THREADS];
    struct peer peer;
    uint64_t token, last = 0;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_TOKEN);
    crowd.store = open_store();
    peer_start(&peer);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, crowd_run, &crowd) == 0);
    for (int i = 0; i < 30; i++) {
        peer_begin(&peer, 0, &request);
        EXPECT(HF_OK, peer_join(&peer, 0, &token));
        CHECK(token > last);
        last = token;
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    crowd.stop = true;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    peer_stop(&peer);
    close_store(crowd.store);
}

/* Each waiter gets what it asked for, not what the one before it had. */
static void options_are_not_mixed(void **state)
{
    static const int64_t ttls[] = { 600000, 600000, 300000, 600000 };
    struct attempt attempts[4];
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL);
    store = open_store();
    lease = take(store, &(hf_acquire_request){ .size = sizeof(hf_acquire_request),
                                               .name = "mix",
                                               .name_len = HF_CSTRING,
                                               .ttl_ms = 600000 });
    for (int i = 0; i < 4; i++) {
        hf_acquire_request request = waiting_request("mix");

        request.ttl_ms = ttls[i];
        attempt_start(&attempts[i], store, &request);
        attempt_settled(&attempts[i]);
    }
    give(lease);
    for (int left = 4; left > 0;) /* equal requests may be served together */
        for (int i = 0; i < 4; i++)
            if (attempts[i].ended && attempts[i].lease) {
                EXPECT(HF_OK, attempts[i].status);
                EXPECT(HF_OK, hf_lease_get(attempts[i].lease, &info));
                CHECK(info.ttl_ms == ttls[i]);
                CHECK(info.remaining_ms <= ttls[i]);
                give(attempts[i].lease);
                attempts[i].lease = NULL;
                left--;
            }
    for (int i = 0; i < 4; i++)
        EXPECT(HF_OK, attempt_join(&attempts[i]));
    close_store(store);
}

/* A local waiter that times out or is cancelled leaves the queue, also at its head. */
static void leaving_the_local_queue(void **state)
{
    hf_acquire_request request = mutex_request("leave"), wait = waiting_request("leave");
    struct attempt attempts[3];
    hf_store *store = open_store();
    hf_lease *lease = take(store, &request);

    (void)state;
    EXPECT(HF_OK, hf_cancel_open(&wait.cancel));
    attempt_start(&attempts[0], store, &wait);
    attempt_settled(&attempts[0]);
    request.wait_ms = 100;
    attempt_start(&attempts[1], store, &request);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempts[2], store, &request);
    attempt_settled(&attempts[2]);
    EXPECT(HF_OK, hf_cancel_fire(wait.cancel));
    EXPECT(HF_CANCELLED, attempt_join(&attempts[0]));
    EXPECT(HF_TIMEOUT, attempt_join(&attempts[1]));
    CHECK(!attempts[2].ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempts[2]));
    give(attempts[2].lease);
    EXPECT(HF_OK, hf_cancel_close(wait.cancel));
    close_store(store);
}

int contract_local(void)
{
    const struct CMUnitTest cases[] = {
        CASE(every_pass_has_its_token),   CASE(break_knows_the_block), CASE(passing_is_bounded),
        CASE(passing_is_bounded_by_time), CASE(crowds_take_turns),     CASE(options_are_not_mixed),
        CASE(leaving_the_local_queue),
    };

    return cmocka_run_group_tests_name("local", cases, NULL, NULL);
}
