/* SPDX-License-Identifier: MIT */
/* A connection that is cut after any byte, of a request, a reply, or a message. */
#include "network.h"

#include <stdio.h>

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

int network_cut(void)
{
    const struct CMUnitTest tests[] = {
        NET(cut_acquire), NET(cut_release), NET(cut_renew),
        NET(cut_inspect), NET(cut_wait),    NET(cut_message),
    };

    return BED_RUN(tests);
}
