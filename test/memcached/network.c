/* SPDX-License-Identifier: MIT */
/*
 * A server that is stopped, and networks that cut a request or a reply anywhere, swallow one
 * direction, or deliver late what was sent by a client that has given up: no lease is returned that
 * is not ours, calls end in time, and whatever happened the name is free again soon, long before
 * any ttl (LONG_MS) would free it.
 */
#include "calls.h"
#include "memcached_bed.h"

#include <stdio.h>
#include <string.h>

/* ---- cut anywhere ------------------------------------------------------------------------------ */

typedef void step_fn(void);

static hf_lease *held; /* taken before the cut */

static void is_fine(hf_status status)
{
    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
}

static void step_acquire(void)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = NULL;
    hf_status status = hf_acquire(store, &request, &lease, &contract_error);

    if (status == HF_OK) {
        CHECK(count_holders(other, "n") == 1);
        status = hf_release(lease, &contract_error);
    }
    is_fine(status);
}

static void step_release(void)
{
    is_fine(hf_release(held, &contract_error));
}

static void step_renew(void)
{
    hf_acquire_request trying = mutex_request("n");

    is_fine(hf_renew(held, 0, &contract_error));
    /* It is ours, whatever became of the renewal. */
    CHECK(hf_lease_state(held) != HF_STATE_LOST && hf_lease_remaining_ms(held) > LIMIT_MS);
    EXPECT(HF_BUSY, probe(other, &trying));
    AWAIT(hf_renew(held, 0, NULL) == HF_OK);
    give(held);
}

static void prepare(bool with_held)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);

    settle();
    held = with_held ? take(store, &request) : NULL;
}

static int64_t length_of(step_fn *step, bool with_held, enum proxy_way way)
{
    int64_t before;

    prepare(with_held);
    before = proxy_bytes(proxy, way);
    step();
    return proxy_bytes(proxy, way) - before;
}

/* Points to cut at: all near the ends, some between. */
static int64_t next_point(int64_t at, int64_t length)
{
    return length <= 32 || at < 4 || at > length - 4 ? at + 1 : at + (length - 8) / 12 + 1;
}

static void cut_everywhere(step_fn *step, bool with_held)
{
    unsigned cuts = 0;

    for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++) {
        int64_t length = length_of(step, with_held, way);

        CHECK(length > 0);
        for (int64_t at = 0; at < length; at = next_point(at, length)) {
            prepare(with_held);
            proxy_cut_after(proxy, way, at);
            step();
            cuts += proxy_has_cut(proxy);
            proxy_heal(proxy);
            is_free_again("n");
        }
    }
    CHECK(cuts >= 15);
}

static void cut_acquire(void **state)
{
    (void)state;
    cut_everywhere(step_acquire, false);
}

static void cut_release(void **state)
{
    (void)state;
    cut_everywhere(step_release, true);
}

static void cut_renew(void **state)
{
    (void)state;
    cut_everywhere(step_renew, true);
}

/* A waiter keeps waiting through the cuts, and is granted. */
static void cut_wait(void **state)
{
    hf_acquire_request waiting = waiting_request("n"), request = mutex_request("n");
    struct attempt attempt;
    hf_lease *lease = take(other, &request);

    (void)state;
    attempt_start(&attempt, store, &waiting);
    attempt_settled(&attempt);
    for (int i = 0; i < 10; i++) {
        unsigned connections = proxy_connections(proxy);

        proxy_cut(proxy);
        AWAIT(proxy_connections(proxy) > connections);
    }
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    is_free_again("n");
}

/* ---- late ---------------------------------------------------------------------------------------- */

static bool has_item(const char *name)
{
    return is_there(name);
}

/*
 * The client gave its add up; the server reads it later. What it makes belongs to nobody, and the
 * client that sent it takes it away.
 */
static void late_add(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = NULL;
    struct attempt attempt;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(&attempt, store, &request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_block(proxy, PROXY_UP, false);
    /* It settles the matter on a new connection: it may get it there, or not. */
    if (attempt_join(&attempt) == HF_OK)
        give(attempt.lease);
    else
        CHECK(is_settled_later(attempt.status));
    CHECK(!has_item("n"));
    proxy_deliver(proxy);
    is_free_again("n");
    AWAIT(hf_acquire(other, &request, &lease, &contract_error) == HF_OK);
    give(lease);
}

/* The client's release arrives when the name is somebody else's: it does nothing. */
static void late_release(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = take(store, &request), *next;
    hf_status status;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    proxy_refuse(proxy, true);
    status = hf_release(lease, &contract_error); /* gives up after op_timeout */
    CHECK(is_settled_later(status));
    proxy_cut_late(proxy);
    proxy_block(proxy, PROXY_UP, false);
    proxy_refuse(proxy, false);
    AWAIT(hf_acquire(other, &request, &next, &contract_error) == HF_OK); /* settled by now */
    proxy_deliver(proxy);
    CHECK(has_item("n"));
    EXPECT(HF_OK, hf_renew(next, 0, &contract_error));
    give(next);
}

/* A renewal that arrives late cannot bring back, or shorten, anything. */
static void late_renewal(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = take(store, &request), *next;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    CHECK(is_settled_later(hf_renew(lease, 0, &contract_error)));
    proxy_cut_late(proxy);
    proxy_block(proxy, PROXY_UP, false);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK);
    give(lease);
    next = take(other, &request);
    proxy_deliver(proxy);
    EXPECT(HF_OK, hf_renew(next, 0, &contract_error));
    give(next);
    CHECK(!has_item("n"));
}

/* ---- stopped --------------------------------------------------------------------------------------- */

/* Calls end while it is stopped, and it is not continued before they have. */
static void stopped_server(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS), waiting = request;
    hf_acquire_request short_one = with_ttl(mutex_request("short"), 1000);
    hf_lease *lease = take(store, &request), *brief = take_short(store, &short_one);
    struct attempt tries[2];
    hf_view *view = NULL;

    (void)state;
    waiting.wait_ms = 500;
    waiting.name = request.name = "m";
    waiting.name_len = HF_CSTRING;
    cache_pause(cache);
    attempt_start(&tries[0], store, &waiting);
    attempt_start(&tries[1], store, &request);
    CHECK(is_settled_later(hf_renew(lease, 0, &contract_error)));
    CHECK(hf_lease_state(lease) == HF_STATE_AT_RISK && hf_lease_remaining_ms(lease) > LIMIT_MS);
    await_lost(brief); /* by our own clock */
    CHECK(is_settled_later(hf_store_inspect(store, "n", 1, 0, &view, &contract_error)));
    attempt_join(&tries[0]);
    CHECK(tries[0].status == HF_TIMEOUT || is_settled_later(tries[0].status));
    attempt_join(&tries[1]);
    CHECK(is_settled_later(tries[1].status));
    CHECK(is_settled_later(hf_release(lease, &contract_error)));
    hf_release(brief, NULL);
    cache_continue(cache);
    is_free_again("n"); /* in the background */
    is_free_again("m");
    is_free_again("short");
    settle();
}

/*
 * memcached executes what came while it was stopped before its clock ticks again: what it stores then
 * ends early, by as long as it was stopped. We must not count on it: whenever the item is gone, the
 * lease is known to be lost.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void *renew_shorter(void *arg)
{
    IGNORE(hf_renew(arg, 3000, &contract_error));
    return NULL;
}

static void never_held_without_item(hf_lease *lease, const char *name)
{
    hf_state state_now;

    do {
        bool there = is_there(name); /* first: what is gone now was gone before we ask */

        state_now = hf_lease_state(lease);
        CHECK(there || state_now == HF_STATE_LOST);
        nap_ms(20);
    } while (state_now != HF_STATE_LOST);
    hf_release(lease, NULL);
}

static void clock_stands_still(void **state)
{
    hf_store *patient = open_at(cache_url(cache->port, "?op_timeout=1m&connect_timeout=1m"));
    hf_acquire_request request = with_ttl(mutex_request("renewed"), LONG_MS);
    hf_lease *lease;
    struct attempt attempt;
    pthread_t renewer;

    (void)state;
    request.flags = HF_FLAG_NO_RENEW;
    lease = take(patient, &request);
    request = with_ttl(mutex_request("taken"), 3000);
    request.flags = HF_FLAG_NO_RENEW;
    cache_pause(cache);
    nap_ms(3500); /* its clock is late by this time */
    attempt_start(&attempt, patient, &request);
    CHECK(pthread_create(&renewer, NULL, renew_shorter, lease) == 0);
    nap_ms(1000); /* longer than MEMCACHED_STALL_MS, shorter than what we asked for */
    cache_continue(cache);
    pthread_join(renewer, NULL);
    if (attempt_join(&attempt) == HF_OK)
        never_held_without_item(attempt.lease, "taken");
    never_held_without_item(lease, "renewed");
    EXPECT(HF_OK, hf_close(patient, HF_CLOSE_FLAG_RELEASE));
}

#endif

/* A cancel ends a wait while the server is stopped, and before anything else would. */
static void cancelled_while_stopped(void **state)
{
    hf_store *patient = open_at(cache_url(proxy_port(proxy), "?op_timeout=5m&connect_timeout=5m"));
    hf_acquire_request waiting = with_ttl(waiting_request("n"), LONG_MS);
    hf_cancel *cancel = NULL;
    struct attempt attempt;

    (void)state;
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    waiting.cancel = cancel;
    cache_pause(cache);
    attempt_start(&attempt, patient, &waiting);
    attempt_settled(&attempt);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    attempt_join(&attempt);
    CHECK(attempt.status == HF_CANCELLED || attempt.status == HF_UNKNOWN);
    cache_continue(cache);
    is_free_again("n");
    EXPECT(HF_OK, hf_close(patient, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_OK, hf_cancel_close(cancel));
}

/* The answer was slow, so the grant is to be renewed before it counts; meanwhile its time is up. */
static void timed_out_before_it_counts(void **state)
{
    hf_store *patient = open_at(cache_url(cache->port, "?op_timeout=1m&connect_timeout=1m"));
    hf_acquire_request waiting = with_wait(with_ttl(mutex_request("n"), LONG_MS), 1100);
    struct attempt attempt;

    (void)state;
    cache_pause(cache);
    attempt_start(&attempt, patient, &waiting);
    nap_ms(700); /* longer than MEMCACHED_STALL_MS */
    cache_continue(cache);
    if (attempt_join(&attempt) == HF_OK) /* on a machine that stalls itself */
        give(attempt.lease);
    else
        CHECK(attempt.status == HF_TIMEOUT || attempt.status == HF_UNKNOWN);
    is_free_again("n");
    EXPECT(HF_OK, hf_close(patient, HF_CLOSE_FLAG_RELEASE));
}

/* A server that is not there: opening says so, and in time. */
static void nobody_there(void **state)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *none = NULL;

    (void)state;
    options.open_wait_ms = 200;
    EXPECT(HF_UNAVAILABLE, hf_open(cache_url(free_port(), ""), &options, &none, &contract_error));
    cache_pause(cache);
    EXPECT(HF_UNAVAILABLE, hf_open(cache_url(cache->port, ""), &options, &none, &contract_error));
    cache_continue(cache);
    CHECK(none == NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(cut_acquire),
        TEST(cut_release),
        TEST(cut_renew),
        TEST(cut_wait),
        TEST(late_add),
        TEST(late_release),
        TEST(late_renewal),
        TEST(stopped_server),
        TEST(cancelled_while_stopped),
        TEST(nobody_there),
        TEST(timed_out_before_it_counts),
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* it is long, and of no use there */
        TEST(clock_stands_still),
#endif

    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
