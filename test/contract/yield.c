/* SPDX-License-Identifier: MIT */
/*
 * hf_yield(): a holder gives its lease to those that wait, and queues for it again (HF_CAP_WANTED). The waiter gets it, then it is
 * ours again with a larger token; whatever stops that leaves nothing held.
 */
#include "loop.h"
#include "peer.h"
#include "watched.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void nobody_waits(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), plain = mutex_request("plain");
    hf_store *store;
    hf_lease *lease, *first, *old, *none = NULL;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    request.flags |= HF_FLAG_REENTRANT;
    first = lease = take(store, &request);
    token = hf_lease_token(lease);
    EXPECT(HF_OK, hf_yield(&lease, LIMIT_MS, &contract_error));
    CHECK(lease == first && hf_lease_token(lease) == token);
    EXPECT(HF_INVALID, hf_yield(NULL, 0, &contract_error));
    EXPECT(HF_INVALID, hf_yield(&none, 0, &contract_error));
    old = lease;
    give(lease);
    EXPECT(HF_INVALID, hf_yield(&old, 0, &contract_error));
    CHECK(old == first);
    lease = take(store, &plain);
    EXPECT(HF_INVALID, hf_yield(&lease, 0, &contract_error));
    CHECK(strstr(contract_error.text, "HF_FLAG_WATCH") && hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

/* The waiter gets it, and then it is ours again, with a larger token. */
static void goes_and_comes_back(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), other = waiting_request("wanted");
    uint64_t token, between, again;
    hf_lease *lease, *old;
    struct peer peer;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_FIFO | HF_CAP_WAITERS);
    store = open_store();
    peer_start(&peer);
    request.label = "a worker";
    lease = old = take(store, &request);
    for (int round = 0; round < 3; round++) {
        struct attempt yielder;

        token = hf_lease_token(lease);
        peer_begin(&peer, 0, &other);
        AWAIT(hf_lease_wanted(lease));
        yielder_start(&yielder, lease, LIMIT_MS);
        EXPECT(HF_OK, peer_join(&peer, 0, &between));
        AWAIT(count_waiters(store, "wanted") == 1);
        CHECK(!yielder.ended);
        EXPECT(HF_OK, peer_release(&peer, 0));
        EXPECT(HF_YIELDED, attempt_join(&yielder));
        lease = yielder.lease;
        again = hf_lease_token(lease);
        CHECK(lease != old && hf_lease_state(old) == HF_STATE_LOST);
        if (has(HF_CAP_TOKEN))
            CHECK(token < between && between < again);
        AWAIT(!hf_lease_wanted(lease));
        old = lease;
    }
    give(lease);
    peer_stop(&peer);
    close_store(store);
}

/* The waiter keeps it for longer than we wait: nothing is held. */
static void not_granted_again(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), other = waiting_request("wanted");
    struct peer peer;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_FIFO);
    store = open_store();
    peer_start(&peer);
    for (int64_t wait_ms = 0; wait_ms <= 200; wait_ms += 200) {
        lease = take(store, &request);
        peer_begin(&peer, 0, &other);
        AWAIT(hf_lease_wanted(lease));
        EXPECT(wait_ms ? HF_TIMEOUT : HF_BUSY, hf_yield(&lease, wait_ms, &contract_error));
        CHECK(lease == NULL);
        EXPECT(HF_OK, peer_join(&peer, 0, NULL));
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    peer_stop(&peer);
    EXPECT(HF_OK, hf_close(store, 0)); /* nothing is left */
}

static void in_use(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease, *again;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    request.flags |= HF_FLAG_REENTRANT;
    lease = take(store, &request);
    again = take(store, &request);
    waiter_start(&waiter, second, mutex_request("wanted"));
    AWAIT(hf_lease_wanted(lease));
    EXPECT(HF_IN_USE, hf_yield(&again, LIMIT_MS, &contract_error));
    CHECK(again == lease && hf_lease_state(lease) == HF_STATE_HELD);
    give(again);
    give(lease);
    waiter_granted(&waiter);
    close_store(second);
    close_store(store);
}

/* A thread of this process that waits gets it first. */
static void to_a_thread(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct attempt yielder;
    struct waiter waiter;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_FIFO);
    store = open_store();
    lease = take(store, &request);
    waiter_start(&waiter, store, request);
    AWAIT(hf_lease_wanted(lease));
    attempt_settled(&waiter.attempt);
    yielder_start(&yielder, lease, LIMIT_MS);
    EXPECT(HF_OK, attempt_join(&waiter.attempt));
    AWAIT(hf_lease_wanted(waiter.attempt.lease)); /* by us */
    give(waiter.attempt.lease);
    EXPECT(HF_OK, hf_cancel_close(waiter.cancel));
    EXPECT(HF_YIELDED, attempt_join(&yielder));
    give(yielder.lease);
    close_store(store);
}

struct yielded {
    hf_status status;
    hf_lease *lease;
    _Atomic bool done;
};

static void on_yielded(const hf_result *result, void *arg)
{
    struct yielded *yielded = arg;

    yielded->status = result->status;
    yielded->lease = result->lease;
    yielded->done = true;
}

static void in_the_loop(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct yielded yielded = { .done = false };
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease = NULL;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    EXPECT(HF_OK, hf_acquire_async(store, &request, keep_lease, &lease, NULL, &contract_error));
    LOOP_UNTIL(store, lease);
    EXPECT(HF_OK, hf_yield_async(lease, LIMIT_MS, on_yielded, &yielded, NULL, &contract_error));
    LOOP_UNTIL(store, yielded.done);
    CHECK(yielded.status == HF_OK && yielded.lease == lease);

    yielded.done = false;
    waiter_start(&waiter, second, mutex_request("wanted"));
    LOOP_UNTIL(store, told.wanted == 1);
    EXPECT(HF_OK, hf_yield_async(lease, LIMIT_MS, on_yielded, &yielded, NULL, &contract_error));
    LOOP_UNTIL(store, waiter.attempt.ended || yielded.done);
    /* Redlock: the first node tells of a waiter that the others may not have yet, and a majority of them gives us the lease
     * again. Then it is still wanted, and the next yield is for the waiter. */
    while (!waiter.attempt.ended && several_nodes()) {
        lease = yielded.lease;
        LOOP_UNTIL(store, hf_lease_wanted(lease));
        yielded.done = false;
        EXPECT(HF_OK, hf_yield_async(lease, LIMIT_MS, on_yielded, &yielded, NULL, &contract_error));
        LOOP_UNTIL(store, waiter.attempt.ended || yielded.done);
    }
    CHECK(waiter.attempt.ended);
    waiter_granted(&waiter);
    LOOP_UNTIL(store, yielded.done);
    CHECK(yielded.status == HF_YIELDED && yielded.lease && yielded.lease != lease);
    give(yielded.lease);
    close_store(second);
    close_store(store);
}

/* The waiter has it; then the yield is cancelled, or the store is closed: nothing is held, and nothing is queued. */
static void is_stopped(void **state)
{
    hf_acquire_request other = waiting_request("wanted");
    struct peer peer;
    hf_store *watcher;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_FIFO | HF_CAP_WAITERS);
    watcher = open_store();
    peer_start(&peer);
    for (int by_close = 0; by_close < 2; by_close++) {
        struct told told = { .total = 0 };
        hf_acquire_request request = watched("wanted", &told);
        struct yielded yielded = { .done = false };
        hf_store *store = open_store();
        hf_lease *lease = take(store, &request);
        hf_op *op;

        peer_begin(&peer, 0, &other);
        AWAIT(hf_lease_wanted(lease));
        EXPECT(HF_OK, hf_yield_async(lease, LIMIT_MS, on_yielded, &yielded, &op, &contract_error));
        CHECK(!hf_lease_wanted(lease) && hf_lease_state(lease) == HF_STATE_LOST);
        EXPECT(HF_INVALID, hf_yield(&lease, 0, &contract_error));
        LOOP_UNTIL(store, count_waiters(watcher, "wanted") == 1);
        if (!by_close) {
            EXPECT(HF_OK, hf_op_cancel(op));
            LOOP_UNTIL(store, yielded.done);
            EXPECT(HF_OK, hf_close(store, 0)); /* nothing is left */
        } else {
            EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
        }
        CHECK(yielded.done && yielded.lease == NULL && told.lost == 0);
        EXPECT(HF_CANCELLED, yielded.status);
        AWAIT(count_waiters(watcher, "wanted") == 0);
        EXPECT(HF_OK, peer_join(&peer, 0, NULL));
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    peer_stop(&peer);
    close_store(watcher);
}

/* A lost lease is not yielded: nothing is queued for. */
static void is_lost(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct yielded yielded = { .done = false };
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease, *old;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_BREAK);
    store = open_store();
    second = open_store();
    lease = old = take(store, &request);
    waiter_start(&waiter, second, mutex_request("wanted"));
    AWAIT(hf_lease_wanted(lease));
    EXPECT(HF_OK, hf_lease_break(second, "wanted", 6, hf_lease_token(lease), &contract_error));
    waiter_granted(&waiter);
    AWAIT(told.lost == 1);
    EXPECT(HF_LOST, hf_yield(&lease, LIMIT_MS, &contract_error));
    CHECK(lease == old && contract_error.status == HF_LOST);
    EXPECT(HF_LOST, hf_yield_async(lease, LIMIT_MS, on_yielded, &yielded, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_yield(&lease, -2, &contract_error));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(second);
    close_store(store);
}

/* Each time that it is wanted: on Redlock it may come back before the waiter has had it, and is wanted again. */
static void yield_inside(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    struct yielded *yielded = arg;
    hf_status status;

    (void)text;
    if (event != HF_EVENT_WANTED)
        return;
    yielded->done = false;
    status = hf_yield(&lease, LIMIT_MS, NULL);
    if (status != HF_OK)
        yielded->status = status;
    yielded->lease = lease;
    yielded->done = true;
}

/* The callback that learns of the waiter yields. */
static void in_a_callback(void **state)
{
    hf_acquire_request request = mutex_request("wanted");
    hf_store *store, *second;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    for (int round = 0; round < 5; round++) {
        struct yielded yielded = { .done = false };
        struct waiter waiter;

        request.flags = HF_FLAG_WATCH;
        request.on_event = yield_inside;
        request.on_event_arg = &yielded;
        (void)take(store, &request);
        waiter_start(&waiter, round % 2 ? store : second, mutex_request("wanted"));
        waiter_granted(&waiter);
        AWAIT(yielded.done);
        EXPECT(HF_YIELDED, yielded.status);
        give(yielded.lease);
    }
    close_store(second);
    close_store(store);
}

/* A process that forks while one of its threads yields: the child has nothing and ends nothing, and the yield goes on. */
static void fork_meanwhile(void **state)
{
    struct told told = { .total = 0 }, unused = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), more = watched("more", &unused);
    hf_acquire_request other = waiting_request("wanted");
    struct attempt yielder;
    struct peer peer;
    hf_lease *lease, *kept;
    hf_store *store;
    int status = -1;
    pid_t pid;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_FIFO | HF_CAP_WAITERS);
    store = open_store();
    peer_start(&peer);
    lease = take(store, &request);
    kept = take(store, &more);
    peer_begin(&peer, 0, &other);
    AWAIT(hf_lease_wanted(lease));
    yielder_start(&yielder, lease, LIMIT_MS);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    AWAIT(count_waiters(store, "wanted") == 1);
    pid = fork();
    if (pid == 0) {
        hf_lease *mine = kept;

        if (hf_yield(&mine, 0, NULL) != HF_FORKED || mine != kept ||
            hf_yield_async(mine, 0, both_done, NULL, NULL, NULL) != HF_FORKED ||
            hf_lease_wanted(mine))
            _exit(1);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(!yielder.ended && hf_lease_state(kept) == HF_STATE_HELD);
    CHECK(count_waiters(store, "wanted") == 1 && count_holders(store, "more") == 1);
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_YIELDED, attempt_join(&yielder));
    give(yielder.lease);
    give(kept);
    peer_stop(&peer);
    EXPECT(HF_OK, hf_close(store, 0));
}

int contract_yield(void)
{
    const struct CMUnitTest cases[] = {
        CASE(nobody_waits),  CASE(goes_and_comes_back), CASE(not_granted_again), CASE(in_use),
        CASE(to_a_thread),   CASE(in_the_loop),         CASE(is_stopped),        CASE(is_lost),
        CASE(in_a_callback), CASE(fork_meanwhile),
    };

    return cmocka_run_group_tests_name("yield", cases, NULL, NULL);
}
