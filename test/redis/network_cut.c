/* SPDX-License-Identifier: MIT */
/* A connection that is cut after any byte, of a request, a reply, or a message. */
#include "network.h"

#include <stdio.h>
#include <string.h>

/* What is cut: something that a store does, that is not to return anything false. */
typedef void step_fn(void);

static uint64_t last_token;

static void step_acquire(void)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = NULL;
    hf_status status = hf_acquire(store, &request, &lease, &contract_error);

    if (status == HF_OK) {
        CHECK(count_holders(other, "n") == 1);
        CHECK(hf_lease_token(lease) > last_token);
        last_token = hf_lease_token(lease);
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
    hf_acquire_request trying = mutex_request("n");
    hf_status status = hf_renew(held, 0, &contract_error);

    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
    /* It is ours, whatever became of the renewal. */
    CHECK(hf_lease_state(held) != HF_STATE_LOST && hf_lease_remaining_ms(held) > LIMIT_MS);
    EXPECT(HF_BUSY, probe(other, &trying));
    AWAIT(hf_renew(held, 0, NULL) == HF_OK);
    AWAIT(hf_lease_state(held) == HF_STATE_HELD);
    step_release(); /* the cut may come as late as this */
}

static void step_inspect(void)
{
    hf_view *view = NULL;
    hf_status status = hf_store_inspect(store, "n", HF_CSTRING, 0, &view, &contract_error);

    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
    if (status == HF_OK)
        CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
    hf_free(view);
    AWAIT(hf_renew(held, 0, NULL) == HF_OK);
    step_release();
}

static void prepare(bool with_held)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);

    settle();
    held = with_held ? take(store, &request) : NULL;
    last_token = held ? hf_lease_token(held) : last_token;
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

/* A waiter keeps waiting through the cut, and is granted. */
static void cut_wait(void **state)
{
    hf_acquire_request waiting = waiting_request("n"), request = mutex_request("n");

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
    hf_acquire_request waiting = waiting_request("n"), request = mutex_request("n");

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

/* ---- notes of local passes ----------------------------------------------------------------------- */

static uint64_t token_shown(const char *name)
{
    hf_view *view = NULL;
    uint64_t token = 0;

    EXPECT(HF_OK, hf_store_inspect(other, name, HF_CSTRING, 0, &view, &contract_error));
    if (hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1)
        token = hf_entry_holder(hf_view_entry(view, 0), 0)->token;
    hf_free(view);
    return token;
}

/* A pass whose note is lost on the way is known to the store all the same, soon or with the next renewal:
 * break ends the lease by the token that holds now, and by no other. */
static void lost_note(int64_t ttl_ms)
{
    hf_acquire_request request = with_ttl(waiting_request("n"), ttl_ms);
    struct attempt first, next;
    hf_lease *lease = take(store, &request);
    uint64_t old, token;

    attempt_start(&first, store, &request);
    attempt_settled(&first);
    attempt_start(&next, store, &request);
    attempt_settled(&next);
    give(lease);
    EXPECT(HF_OK, attempt_join(&first));
    old = hf_lease_token(first.lease);
    AWAIT(token_shown("n") == old);
    proxy_block(proxy, PROXY_UP, true);
    give(first.lease); /* here, without the store */
    EXPECT(HF_OK, attempt_join(&next));
    token = hf_lease_token(next.lease);
    CHECK(token == old + 1);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut(proxy);
    proxy_heal(proxy);
    AWAIT(token_shown("n") == token);
    EXPECT(HF_NOT_FOUND, hf_lease_break(other, "n", 1, old, &contract_error));
    CHECK(hf_lease_state(next.lease) != HF_STATE_LOST);
    CHECK(count_holders(other, "n") == 1);
    EXPECT(HF_OK, hf_lease_break(other, "n", 1, token, &contract_error));
    await_lost(next.lease);
    EXPECT(HF_LOST, hf_release(next.lease, &contract_error));
}

static void cut_note(void **state)
{
    (void)state;
    lost_note(LONG_MS); /* no renewal comes before the test is over */
}

static void cut_note_with_renewals(void **state)
{
    (void)state;
    lost_note(3000);
}

/* ---- released, or lost before? ------------------------------------------------------------------- */

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

/* A release is cut off and sent again; the store does not have the lease then. Was it the first copy, or was the
 * lease lost before? Nobody can tell, so nobody says OK. */
static void released_or_lost(bool broken, const char *query)
{
    hf_store *deaf = open_at(proxy_url(proxy, query));
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    struct releasing releasing = { .lease = take(deaf, &request) };
    pthread_t thread;

    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_DOWN, true); /* it does not hear that it was broken */
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, broken ? PROXY_UP : PROXY_DOWN, true);
    pthread_create(&thread, NULL, release_it, &releasing);
    AWAIT(proxy_held(proxy, broken ? PROXY_UP : PROXY_DOWN) > 0);
    if (broken)
        server_do(server, "DEL n hf:{n}"); /* or hf_lease_break(), or a failover */
    CHECK(server_do(server, "EXISTS n hf:{n}") == 0 || count_holders(other, "n") == 0);
    proxy_cut(proxy);
    proxy_heal(proxy);
    pthread_join(thread, NULL);
    EXPECT(HF_UNKNOWN, releasing.status);
    AWAIT(hf_close(deaf, 0) == HF_OK); /* it settles by itself */
}

static void released_twice(void **state)
{
    (void)state;
    released_or_lost(false, "?op_timeout=20s&ping=1m");
    released_or_lost(false, "?op_timeout=20s&ping=1m&wire=plain");
}

static void released_after_the_loss(void **state)
{
    (void)state;
    released_or_lost(true, "?op_timeout=20s&ping=1m");
    released_or_lost(true, "?op_timeout=20s&ping=1m&wire=redisson");
}

/* ---- semaphores: numbers, and a size that is set ------------------------------------------------- */

static hf_acquire_request numbered_request(uint32_t permits)
{
    hf_acquire_request request = with_ttl(waiting_request("n"), LONG_MS);

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 4;
    request.permits = permits;
    request.flags |= HF_FLAG_NUMBERED;
    return request;
}

/* The lease has the numbers from `first` on, and the store shows the same. */
static void has_numbers(hf_lease *lease, uint32_t first, uint32_t count)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_view *view = NULL;
    unsigned shown = 0;

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    CHECK(info.slot_count == count);
    for (uint32_t i = 0; i < count; i++)
        CHECK(info.slots[i] == first + i);
    EXPECT(HF_OK, hf_store_inspect(other, "n", HF_CSTRING, 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1);
    for (size_t i = 0; i < hf_view_entry(view, 0)->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(hf_view_entry(view, 0), i);

        if (holder->token != info.token)
            continue;
        shown++;
        CHECK(holder->slot_count == count);
        CHECK(memcmp(holder->slots, info.slots, count * sizeof *info.slots) == 0);
    }
    CHECK(shown == 1);
    hf_free(view);
}

/* An answer that was lost is asked for again: the same numbers, and not the next. */
static void step_numbered(void)
{
    hf_acquire_request one = numbered_request(1), two = numbered_request(2);
    hf_lease *before = take(other, &one), *lease = NULL;
    hf_status status;

    two.wait_ms = 0;
    status = hf_acquire(store, &two, &lease, &contract_error);
    if (status == HF_OK) {
        has_numbers(lease, 1, 2);
        last_token = hf_lease_token(lease);
        status = hf_release(lease, &contract_error);
    }
    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
    give(before);
}

static void cut_numbered(void **state)
{
    (void)state;
    cut_everywhere(step_numbered, false);
}

/* The message has the numbers; if it is lost, a heartbeat finds them. */
static void cut_message_with_numbers(void **state)
{
    hf_acquire_request one = numbered_request(1), most = numbered_request(3);

    (void)state;
    proxy_choose(proxy, PROXY_PUSH);
    for (int64_t at = -2; at < 100; at += at < 0 ? 1 : 33) {
        hf_lease *first = take(other, &one), *rest = take(other, &most);
        struct attempt attempt;

        attempt_start(&attempt, store, &most);
        AWAIT(count_waiters(other, "n") == 1);
        if (at == -1)
            proxy_block(proxy, PROXY_DOWN, true);
        else if (at >= 0)
            proxy_cut_after(proxy, PROXY_DOWN, at);
        give(rest);
        EXPECT(HF_OK, attempt_join(&attempt));
        has_numbers(attempt.lease, 1, 3);
        give(attempt.lease);
        give(first);
        proxy_heal(proxy);
    }
    is_free_again("n", 0);
}

static uint32_t size_shown(const char *name)
{
    hf_view *view = NULL;
    uint32_t size;

    EXPECT(HF_OK, hf_store_inspect(other, name, HF_CSTRING, 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->resized);
    size = hf_view_entry(view, 0)->capacity;
    hf_free(view);
    return size;
}

/* Nobody knows whether it was set: to set it again is right in both cases. */
static void step_resize(void)
{
    static uint32_t size;
    hf_status status;

    size = size % 9 + 1;
    status = hf_semaphore_resize(store, "s", HF_CSTRING, size, &contract_error);
    check_true(status == HF_OK || is_settled_later(status), contract_error.text, __FILE__,
               __LINE__);
    AWAIT(hf_semaphore_resize(store, "s", HF_CSTRING, size, NULL) == HF_OK);
    CHECK(size_shown("s") == size);
}

static void cut_resize(void **state)
{
    (void)state;
    cut_everywhere(step_resize, false);
}

struct sizing {
    hf_store *store;
    hf_status status;
};

static void *set_size(void *arg)
{
    struct sizing *s = arg;

    s->status = hf_semaphore_resize(s->store, "s", HF_CSTRING, 5, &contract_error);
    return NULL;
}

/* A size that was cut off after its first byte is not sent again: it could undo what somebody else has set since. */
static void resized_or_not(void **state)
{
    hf_store *deaf = open_at(proxy_url(proxy, "?op_timeout=20s&ping=1m"));
    struct sizing sizing = { .store = deaf };
    pthread_t thread;

    (void)state;
    EXPECT(HF_OK, hf_semaphore_resize(deaf, "s", HF_CSTRING, 2, &contract_error));
    proxy_block(proxy, PROXY_DOWN, true);
    pthread_create(&thread, NULL, set_size, &sizing);
    AWAIT(proxy_held(proxy, PROXY_DOWN) > 0);
    CHECK(size_shown("s") == 5);
    EXPECT(HF_OK, hf_semaphore_resize(other, "s", HF_CSTRING, 7, &contract_error));
    proxy_cut(proxy);
    proxy_heal(proxy);
    pthread_join(thread, NULL);
    EXPECT(HF_UNKNOWN, sizing.status);
    CHECK(size_shown("s") == 7);
    EXPECT(HF_OK, hf_close(deaf, 0));
}

int network_cut(void)
{
    const struct CMUnitTest tests[] = {
        NET(cut_acquire),    NET(cut_release),
        NET(cut_renew),      NET(cut_inspect),
        NET(cut_wait),       NET(cut_message),
        NET(cut_note),       NET(cut_note_with_renewals),
        NET(released_twice), NET(released_after_the_loss),
        NET(cut_numbered),   NET(cut_message_with_numbers),
        NET(cut_resize),     NET(resized_or_not),
    };

    return BED_RUN(tests);
}
