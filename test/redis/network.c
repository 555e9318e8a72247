/* SPDX-License-Identifier: MIT */
/*
 * Networks that are slow, cut a request or a reply anywhere, swallow one direction, or deliver
 * late what was sent by one who has given up: no lease is returned that is not ours, and whatever
 * happened the name is free again soon, long before any ttl (LONG_MS) would free it.
 */
#include "bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 300000 /* beyond LIMIT_MS: no expiry helps */

/* Reached only through the proxy; `other` looks on, directly. */
static hf_store *store, *other;

static int setup(void **state)
{
    hf_request request = mutex_request("warm");

    bed_setup(state);
    store = open_at(proxy_url(proxy, "?op_timeout=1s&connect_timeout=1s"));
    other = open_direct();
    EXPECT(HF_OK, probe(store, &request)); /* the scripts are there, the connections are made */
    EXPECT(HF_OK, probe(other, &request));
    proxy_choose(proxy, PROXY_CALLS);
    return 0;
}

static int teardown(void **state)
{
    proxy_heal(proxy);
    if (hf_close(store, HF_CLOSE_RELEASE) != HF_OK || hf_close(other, HF_CLOSE_RELEASE) != HF_OK)
        return -1;
    return bed_teardown(state);
}

static bool is_settled_later(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

/* Nobody holds it, nobody waits for it, and it can be had: by somebody's release, not by a ttl. */
static void is_free_again(const char *name, uint64_t after)
{
    hf_request trying = mutex_request(name);
    hf_lease *lease = NULL;

    AWAIT(count_holders(other, name) == 0 && count_waiters(other, name) == 0);
    AWAIT(hf_acquire(other, &trying, &lease, &contract_error) == HF_OK);
    CHECK(hf_token(lease) > after);
    give(lease);
}

/* ---- slow ------------------------------------------------------------------------------- */

static void slow_network(void **state)
{
    hf_request request = with_ttl(mutex_request("n"), 3000), trying = mutex_request("n");
    hf_lease *lease;
    int64_t until_ms;

    (void)state;
    proxy_choose(proxy, PROXY_ANY);
    proxy_delay(proxy, PROXY_UP, 150);
    proxy_delay(proxy, PROXY_DOWN, 150);
    lease = take(store, &request);
    /* Counted from before the send: what the way took is gone. */
    CHECK(hf_remaining_ms(lease) <= 3000 - 300);
    until_ms = now_ms() + 4500;
    while (now_ms() < until_ms) {
        CHECK(probe(other, &trying) == HF_BUSY || hf_lease_state(lease) == HF_STATE_LOST);
        nap_ms(50);
    }
    hf_release(lease, NULL);
    is_free_again("n", 0);
}

/* The answer takes longer than the ttl: it is worth nothing, and nothing is returned. */
static void slower_than_the_ttl(void **state)
{
    hf_request request = with_ttl(mutex_request("n"), 1000);
    hf_lease *lease = NULL;
    hf_store *patient = open_at(proxy_url(proxy, "?op_timeout=30s"));
    hf_status status;

    (void)state;
    EXPECT(HF_OK, probe(patient, &request));
    proxy_delay(proxy, PROXY_DOWN, 1500);
    status = hf_acquire(patient, &request, &lease, &contract_error);
    if (status == HF_OK || lease)
        fail_msg("%s: a lease with %lld ms", hf_status_name(status),
                 (long long)hf_remaining_ms(lease));
    proxy_heal(proxy);
    is_free_again("n", 0);
    close_hard(patient);
}

static void drip(void **state)
{
    hf_request request = waiting_request("n");

    (void)state;
    proxy_choose(proxy, PROXY_ANY);
    proxy_drip(proxy, PROXY_UP, 3);
    proxy_drip(proxy, PROXY_DOWN, 1);
    for (int i = 0; i < 3; i++)
        give(take(store, &request));
    is_free_again("n", 0);
}

/* ---- cut anywhere ---------------------------------------------------------------------------- */

/* What is cut: something that a store does, that is not to return anything false. */
typedef void step_fn(void);

static uint64_t last_token;

static void step_acquire(void)
{
    hf_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = NULL;
    hf_status status = hf_acquire(store, &request, &lease, &contract_error);

    if (status == HF_OK) {
        CHECK(count_holders(other, "n") == 1);
        CHECK(hf_token(lease) > last_token);
        last_token = hf_token(lease);
        status = hf_release(lease, &contract_error);
    }
    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
}

static hf_lease *held; /* taken before the cut */

static void step_release(void)
{
    hf_status status = hf_release(held, &contract_error);

    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
}

static void step_renew(void)
{
    hf_request trying = mutex_request("n");
    hf_status status = hf_renew(held, 0, &contract_error);

    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
    /* It is ours, whatever became of the renewal. */
    CHECK(hf_lease_state(held) != HF_STATE_LOST && hf_remaining_ms(held) > LIMIT_MS);
    EXPECT(HF_BUSY, probe(other, &trying));
    AWAIT(hf_renew(held, 0, NULL) == HF_OK);
    AWAIT(hf_lease_state(held) == HF_STATE_HELD);
    give(held);
}

static void step_inspect(void)
{
    hf_view *view = NULL;
    hf_status status = hf_inspect(store, "n", 0, 0, &view, &contract_error);

    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
    if (status == HF_OK)
        CHECK(view->count == 1 && view->entries[0].holder_count == 1);
    hf_view_free(view);
    AWAIT(hf_renew(held, 0, NULL) == HF_OK);
    give(held);
}

/* Leave it when the store's connection is known to be there again. */
static void settle(void)
{
    hf_request request = mutex_request("warm");

    AWAIT(probe(store, &request) == HF_OK);
}

static void prepare(bool with_held)
{
    hf_request request = with_ttl(mutex_request("n"), LONG_MS);

    settle();
    held = with_held ? take(store, &request) : NULL;
    last_token = held ? hf_token(held) : last_token;
}

/* How many bytes the step takes in that direction when nothing is wrong. */
static int64_t length_of(step_fn *step, bool with_held, enum proxy_way way)
{
    int64_t before;

    prepare(with_held);
    before = proxy_bytes(proxy, way);
    step();
    return proxy_bytes(proxy, way) - before;
}

/* Points to cut at: all near the ends, some between. A reply is short and is cut everywhere. */
static int64_t next_point(int64_t at, int64_t length)
{
    return length <= 64 || at < 4 || at > length - 4 ? at + 1 : at + (length - 8) / 12 + 1;
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
            is_free_again("n", last_token);
        }
    }
    printf("%u cuts\n", cuts);
    CHECK(cuts >= 20);
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

static void cut_inspect(void **state)
{
    (void)state;
    cut_everywhere(step_inspect, true);
}

/* One who waits goes on waiting through the cut, and is granted. */
static void cut_wait(void **state)
{
    hf_request waiting = waiting_request("n"), request = mutex_request("n");

    (void)state;
    for (int64_t at = 0; at < 200; at += 23) {
        struct attempt attempt;
        hf_lease *lease = take(other, &request);

        settle();
        proxy_cut_after(proxy, at % 2 ? PROXY_DOWN : PROXY_UP, at / (at % 2 ? 10 : 1));
        attempt_start(&attempt, store, &waiting);
        AWAIT(count_waiters(other, "n") == 1);
        give(lease);
        EXPECT(HF_OK, attempt_join(&attempt));
        give(attempt.lease);
        proxy_heal(proxy);
    }
    is_free_again("n", 0);
}

/* The message that is the grant is cut, or swallowed: the next heartbeat finds it. */
static void cut_message(void **state)
{
    hf_request waiting = waiting_request("n"), request = mutex_request("n");

    (void)state;
    proxy_choose(proxy, PROXY_PUSH);
    for (int64_t at = -1; at < 60; at += 20) {
        struct attempt attempt;
        hf_lease *lease = take(other, &request);

        attempt_start(&attempt, store, &waiting);
        AWAIT(count_waiters(other, "n") == 1);
        if (at < 0)
            proxy_block(proxy, PROXY_DOWN, true);
        else
            proxy_cut_after(proxy, PROXY_DOWN, at);
        give(lease);
        EXPECT(HF_OK, attempt_join(&attempt));
        give(attempt.lease);
        proxy_heal(proxy);
    }
    is_free_again("n", 0);
}

/* ---- one direction is swallowed ----------------------------------------------------------------- */

static void hole(enum proxy_way way)
{
    hf_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = NULL;
    hf_status status;

    proxy_choose(proxy, PROXY_ANY);
    proxy_block(proxy, way, true);
    status = hf_acquire(store, &request, &lease, &contract_error);
    check_true(is_settled_later(status), contract_error.text, __FILE__, __LINE__);
    proxy_heal(proxy); /* what was held back arrives now, however late */
    is_free_again("n", 0);
    settle();
    is_free_again("n", 0);
}

static void requests_vanish(void **state)
{
    (void)state;
    hole(PROXY_UP);
}

static void replies_vanish(void **state)
{
    (void)state;
    hole(PROXY_DOWN);
}

/* A holder behind the hole: told in time, and nobody is in before. */
static void holder_behind_a_hole(void **state)
{
    (void)state;
    for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++) {
        hf_request request = with_ttl(mutex_request("n"), 1500), waiting = waiting_request("n");
        hf_lease *lease = take(store, &request), *his;

        proxy_choose(proxy, PROXY_ANY);
        proxy_block(proxy, way, true);
        his = take(other, &waiting);
        CHECK(hf_remaining_ms(lease) == 0);
        CHECK(hf_lease_state(lease) == HF_STATE_LOST);
        proxy_heal(proxy);
        EXPECT(HF_LOST, hf_release(lease, &contract_error));
        settle();
        CHECK(hf_lease_state(his) == HF_STATE_HELD);
        CHECK(count_holders(other, "n") == 1);
        give(his);
        is_free_again("n", 0);
    }
}

/* ---- executed late ------------------------------------------------------------------------------- */

/* Begin something whose bytes stay on the way; then the connection is lost, for us. */
static void lose_on_the_way(struct attempt *attempt, const hf_request *request)
{
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(attempt, store, request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
}

/* A request that was given up, and settled, is executed after that. */
static void late_acquire(void **state)
{
    hf_request request = with_ttl(mutex_request("n"), LONG_MS), trying = mutex_request("n");
    struct attempt attempt;

    (void)state;
    lose_on_the_way(&attempt, &request);
    attempt_join(&attempt);
    if (attempt.status == HF_OK)
        give(attempt.lease); /* asked again, which is as good */
    else
        CHECK(is_settled_later(attempt.status));
    settle(); /* so that what it does in the background is done before, too */
    nap_ms(300);
    proxy_deliver(proxy);
    AWAIT(count_holders(other, "n") == 0);
    EXPECT(HF_OK, probe(other, &trying));
}

/* The same while somebody else holds it: then what comes late must not stand in line either. */
static void late_wait(void **state)
{
    hf_request request = with_wait(mutex_request("n"), 1500), trying = mutex_request("n");
    hf_lease *lease = take(other, &trying);
    struct attempt attempt;

    (void)state;
    lose_on_the_way(&attempt, &request);
    attempt_join(&attempt);
    CHECK(attempt.status == HF_TIMEOUT || is_settled_later(attempt.status));
    settle();
    nap_ms(300);
    proxy_deliver(proxy);
    AWAIT(count_waiters(other, "n") == 0);
    give(lease);
    AWAIT(count_holders(other, "n") == 0);
    EXPECT(HF_OK, probe(other, &trying));
}

/* A renewal that comes when another holds it neither disturbs him nor revives the old lease. */
static void late_renewal(void **state)
{
    hf_request request = with_ttl(mutex_request("n"), 1000), waiting = waiting_request("n");
    hf_lease *lease = take(store, &request), *his;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0); /* the keeper renews */
    proxy_cut_late(proxy);
    proxy_refuse(proxy, true);
    his = take(other, &waiting);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    proxy_deliver(proxy);
    CHECK(count_holders(other, "n") == 1);
    proxy_heal(proxy);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(count_holders(other, "n") == 1);
    EXPECT(HF_OK, hf_renew(his, 0, &contract_error));
    give(his);
    is_free_again("n", 0);
}

struct releasing {
    hf_lease *lease;
    hf_status status;
};

static void *release_it(void *arg)
{
    struct releasing *r = arg;

    r->status = hf_release(r->lease, &contract_error);
    return NULL;
}

/* A release that comes after the name went on to others frees nothing of theirs. */
static void late_release(void **state)
{
    hf_request request = with_ttl(mutex_request("n"), LONG_MS), waiting = waiting_request("n");
    struct releasing releasing = { .lease = take(store, &request) };
    pthread_t thread;
    hf_lease *his;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    pthread_create(&thread, NULL, release_it, &releasing);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    his = take(other, &waiting); /* by a second release, of another connection */
    pthread_join(thread, NULL);
    CHECK(releasing.status == HF_OK || is_settled_later(releasing.status));
    proxy_deliver(proxy);
    CHECK(count_holders(other, "n") == 1);
    EXPECT(HF_OK, hf_renew(his, 0, &contract_error));
    give(his);
    is_free_again("n", 0);
}

/* ---- review ---------------------------------------------------------------------------------- */

/* A grant to the first copy of an acquire lapses unheard; the second copy stands in line again; and
 * then the old message comes. It is no grant. */
static void old_message(void **state)
{
    hf_request request = with_ttl(waiting_request("n"), 1000),
               trying = with_ttl(mutex_request("n"), LONG_MS), waiting = waiting_request("n");
    hf_store *deaf = open_at(proxy_url(proxy, "?op_timeout=1s&connect_timeout=1s&ping=1m"));
    hf_lease *lease = take(other, &trying), *his;
    struct attempt attempt;

    (void)state;
    waiting.ttl_ms = LONG_MS;
    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_DOWN, true);
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_DOWN, true);
    attempt_start(&attempt, deaf, &request);
    AWAIT(count_waiters(other, "n") == 1);
    give(lease);                 /* it is granted to the waiter, which does not hear of it ... */
    his = take(other, &waiting); /* ... and is passed over after its window */
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_DOWN, false);
    AWAIT(count_waiters(other, "n") == 1); /* the second copy */
    nap_ms(300);
    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_DOWN, false); /* now the message */
    nap_ms(700);
    CHECK(hf_lease_state(his) == HF_STATE_HELD);
    CHECK(count_holders(other, "n") == 1);
    if (count_waiters(other, "n") != 1 || attempt.lease)
        fail_msg("two hold it: %s",
                 attempt.lease ? "the waiter was granted it by an old message" : "?");
    give(his);
    EXPECT(HF_OK, attempt_join(&attempt));
    hf_release(attempt.lease, NULL);
    close_hard(deaf);
}

/* Leases of two names are passed on and given back, while the store is yet to be told of the passes:
 * what was given back is not spoken of any more. */
struct passing {
    hf_store *store;
    const char *name;
    _Atomic bool *stop;
    pthread_t thread;
};

static void *pass_on(void *arg)
{
    struct passing *passing = arg;
    hf_request request = waiting_request(passing->name);
    hf_lease *lease = NULL;

    while (!*passing->stop)
        if (hf_acquire(passing->store, &request, &lease, NULL) == HF_OK)
            hf_release(lease, NULL);
    return NULL;
}

static void notes_of_what_is_gone(void **state)
{
    char names[3][120]; /* long ones are not kept in the lease itself */
    struct passing passings[9];
    _Atomic bool stop;

    (void)state;
    for (int i = 0; i < 3; i++) {
        memset(names[i], 'a' + i, sizeof names[i] - 1);
        names[i][sizeof names[i] - 1] = 0;
    }
    for (int round = 0; round < 20; round++) {
        stop = false;
        for (int i = 0; i < 9; i++) {
            passings[i] = (struct passing){ other, names[i % 3], &stop, 0 };
            CHECK(pthread_create(&passings[i].thread, NULL, pass_on, &passings[i]) == 0);
        }
        nap_ms(100);
        stop = true;
        for (int i = 0; i < 9; i++)
            pthread_join(passings[i].thread, NULL);
        nap_ms(60); /* the notes leave */
    }
}

/* A waiter on a foreign wire that is cancelled while its question is under way ends, although the
 * server never comes back. */
static void foreign_cancel(void **state)
{
    hf_request request = waiting_request("n");
    hf_store *plain = open_at(proxy_url(proxy, "?wire=plain&op_timeout=1s&connect_timeout=1s"));
    struct attempt attempt;
    int64_t until_ms;

    (void)state;
    request.wait_ms = HF_FOREVER;
    EXPECT(HF_OK, hf_cancel_new(&request.cancel));
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(&attempt, plain, &request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    hf_cancel_fire(request.cancel);
    proxy_choose(proxy, PROXY_ANY);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    until_ms = now_ms() + 6000;
    while (!attempt.ended && now_ms() < until_ms)
        nap_ms(20);
    CHECK(attempt.ended);
    proxy_heal(proxy);
    CHECK(attempt_join(&attempt) == HF_UNKNOWN || attempt.status == HF_CANCELLED);
    hf_cancel_free(request.cancel);
    close_hard(plain);
}

/* A grant comes as a message while a second copy of the acquire is on its way; that copy comes
 * after the release, and is refused. */
static void late_copy_after_a_message(void **state)
{
    hf_request request = with_ttl(waiting_request("n"), LONG_MS), trying = mutex_request("n");
    hf_lease *lease = take(other, &trying);
    struct attempt attempt;
    int64_t bytes;

    (void)state;
    proxy_block(proxy, PROXY_DOWN, true);
    attempt_start(&attempt, store, &request);
    AWAIT(count_waiters(other, "n") == 1); /* the first copy, and no answer to it */
    bytes = proxy_bytes(proxy, PROXY_UP);
    proxy_delay(proxy, PROXY_UP, 200);
    proxy_cut(proxy);
    proxy_block(proxy, PROXY_DOWN, false);
    AWAIT(proxy_bytes(proxy, PROXY_UP) >
          bytes + 5000); /* the greeting, and the second with its script */
    proxy_block(proxy, PROXY_UP, true);
    give(lease); /* the message */
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(proxy_held(proxy, PROXY_UP) > 5000);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    give(attempt.lease);
    proxy_deliver(proxy);
    CHECK(count_holders(other, "n") == 0);
    EXPECT(HF_OK, probe(other, &trying));
}

#define NET(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NET(slow_network),   NET(slower_than_the_ttl),
        NET(drip),           NET(cut_acquire),
        NET(cut_release),    NET(cut_renew),
        NET(cut_inspect),    NET(cut_wait),
        NET(cut_message),    NET(requests_vanish),
        NET(replies_vanish), NET(holder_behind_a_hole),
        NET(late_acquire),   NET(late_wait),
        NET(late_renewal),   NET(late_release),
        NET(old_message),    NET(notes_of_what_is_gone),
        NET(foreign_cancel), NET(late_copy_after_a_message),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
