/* SPDX-License-Identifier: MIT */
/* See network.h. Here: slow networks, one direction that is swallowed, and what reviews found. */
#include "network.h"

#include <string.h>

hf_store *store, *other;

int network_setup(void **state)
{
    hf_acquire_request request = mutex_request("warm");

    bed_setup(state);
    store = open_at(proxy_url(proxy, "?op_timeout=1s&connect_timeout=1s&cohort_time=0s"));
    other = open_direct();
    EXPECT(HF_OK, probe(store, &request)); /* the scripts are there, the connections are made */
    EXPECT(HF_OK, probe(other, &request));
    proxy_choose(proxy, PROXY_CALLS);
    return 0;
}

int network_teardown(void **state)
{
    proxy_heal(proxy);
    if (hf_close(store, HF_CLOSE_FLAG_RELEASE) != HF_OK ||
        hf_close(other, HF_CLOSE_FLAG_RELEASE) != HF_OK)
        return -1;
    return bed_teardown(state);
}

bool is_settled_later(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

void is_free_again(const char *name, uint64_t after)
{
    hf_acquire_request trying = mutex_request(name);
    hf_lease *lease = NULL;

    AWAIT(count_holders(other, name) == 0 && count_waiters(other, name) == 0);
    AWAIT(hf_acquire(other, &trying, &lease, &contract_error) == HF_OK);
    CHECK(hf_lease_token(lease) > after);
    give(lease);
}

void settle(void)
{
    hf_acquire_request request = mutex_request("warm");

    AWAIT(probe(store, &request) == HF_OK);
}

/* ---- slow ------------------------------------------------------------------------------- */

static void slow_network(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 3000), trying = mutex_request("n");
    hf_lease *lease;
    int64_t until_ms;

    (void)state;
    proxy_choose(proxy, PROXY_ANY);
    proxy_delay(proxy, PROXY_UP, 150);
    proxy_delay(proxy, PROXY_DOWN, 150);
    lease = take(store, &request);
    /* Counted from before the send: what the way took is gone. */
    CHECK(hf_lease_remaining_ms(lease) <= 3000 - 300);
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
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000);
    hf_lease *lease = NULL;
    hf_store *patient = open_at(proxy_url(proxy, "?op_timeout=30s"));
    hf_status status;

    (void)state;
    EXPECT(HF_OK, probe(patient, &request));
    proxy_delay(proxy, PROXY_DOWN, 1500);
    status = hf_acquire(patient, &request, &lease, &contract_error);
    if (status == HF_OK || lease)
        fail_msg("%s: a lease with %lld ms", hf_status_name(status),
                 (long long)hf_lease_remaining_ms(lease));
    proxy_heal(proxy);
    is_free_again("n", 0);
    close_hard(patient);
}

static void drip(void **state)
{
    hf_acquire_request request = waiting_request("n");

    (void)state;
    proxy_choose(proxy, PROXY_ANY);
    proxy_drip(proxy, PROXY_UP, 3);
    proxy_drip(proxy, PROXY_DOWN, 1);
    for (int i = 0; i < 3; i++)
        give(take(store, &request));
    is_free_again("n", 0);
}

/* ---- one direction is swallowed ----------------------------------------------------------------- */

static void hole(enum proxy_way way)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
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
        hf_acquire_request request = with_ttl(mutex_request("n"), 1500),
                           waiting = waiting_request("n");
        hf_lease *lease = take(store, &request), *his;

        proxy_choose(proxy, PROXY_ANY);
        proxy_block(proxy, way, true);
        his = take(other, &waiting);
        CHECK(hf_lease_remaining_ms(lease) == 0);
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

/* ---- review ---------------------------------------------------------------------------------- */

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
    hf_acquire_request request = waiting_request(passing->name);
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
    hf_acquire_request request = waiting_request("n");
    hf_store *plain = open_at(proxy_url(proxy, "?wire=plain&op_timeout=1s&connect_timeout=1s"));
    struct attempt attempt;
    int64_t until_ms;

    (void)state;
    request.wait_ms = HF_FOREVER;
    EXPECT(HF_OK, hf_cancel_open(&request.cancel));
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
    hf_cancel_close(request.cancel);
    close_hard(plain);
}

static void note_end(const hf_result *result, void *arg)
{
    *(hf_status *)arg = result->status;
}

/* Cancel an acquire whose request was sent, or was even granted, and whose answer does not come. A call that waited for the connection's own
 * time limit would not end in time. */
static void cancelled_and_no_answer(void **state)
{
    static const enum proxy_way ways[] = { PROXY_UP, PROXY_DOWN };
    hf_acquire_request request = with_ttl(waiting_request("n"), LONG_MS);
    struct attempt attempt;

    (void)state;
    request.wait_ms = HF_FOREVER;
    for (int i = 0; i < 4; i++) {
        hf_store *through = open_at(proxy_url(proxy, "?op_timeout=5m"));
        hf_status status = HF_INTERNAL;
        hf_op *op = NULL;

        settle();
        proxy_choose(proxy, PROXY_ANY);
        proxy_block(proxy, ways[i % 2], true);
        request.cancel = NULL;
        if (i < 2) {
            EXPECT(HF_OK, hf_cancel_open(&request.cancel));
            attempt_start(&attempt, through, &request);
        } else {
            EXPECT(HF_OK,
                   hf_acquire_async(through, &request, note_end, &status, &op, &contract_error));
        }
        AWAIT(proxy_held(proxy, ways[i % 2]) > 0);
        if (i < 2) {
            EXPECT(HF_OK, hf_cancel_fire(request.cancel));
            AWAIT(attempt.ended);
            status = attempt_join(&attempt);
            hf_cancel_close(request.cancel);
        } else {
            EXPECT(HF_OK, hf_op_cancel(op));
            for (int64_t until_ms = now_ms() + LIMIT_MS; status == HF_INTERNAL; nap_ms(1)) {
                CHECK(now_ms() < until_ms);
                EXPECT(HF_OK, hf_store_process(through));
            }
        }
        CHECK(status == HF_UNKNOWN || status == HF_CANCELLED);
        proxy_heal(proxy);
        is_free_again("n", 0); /* a grant is given back in the background */
        close_hard(through);
    }
}

static void mark(const hf_result *result, void *arg)
{
    CHECK(result->status == HF_LOST);
    *(_Atomic bool *)arg = true;
}

/* A program whose loop releases what is lost: the server, which is silent, does not hold the loop up. A release
 * that waits takes 5 s. */
static void lost_and_no_answer(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000);
    hf_store *through = open_at(proxy_url(proxy, "?op_timeout=20s"));
    _Atomic bool done = false;
    int64_t begun_ms;
    hf_lease *lease = take_short(through, &request);

    (void)state;
    proxy_choose(proxy, PROXY_ANY);
    proxy_block(proxy, PROXY_UP, true);
    proxy_block(proxy, PROXY_DOWN, true);
    await_lost(lease);
    begun_ms = now_ms();
    EXPECT(HF_OK, hf_release_async(lease, mark, (void *)&done, NULL, &contract_error));
    EXPECT(HF_OK, hf_store_process(through));
    CHECK(now_ms() - begun_ms < 4000);
    proxy_heal(proxy);
    for (int64_t until_ms = now_ms() + LIMIT_MS; !atomic_load(&done); nap_ms(1)) {
        CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, hf_store_process(through));
    }
    gets_free(other, "n", 0);
    close_hard(through);
}

/* ---- waiters that are gone ------------------------------------------------------------------ */

#define DEAD 3

/* Of how many processes does the server know? */
static size_t inboxes(void)
{
    redisReply *reply = server_ask(server, "PUBSUB CHANNELS hf:inbox:*");
    size_t count = reply->elements;

    freeReplyObject(reply);
    return count;
}

/* The first waiters are dead, and the server knows it, because their connections are closed: the
 * name goes to the first live waiter, long before a claim window (10 s here) has ended; and if only
 * dead ones wait, to the next client that asks. */
static void dead_heirs_are_passed_over(void **state)
{
    hf_acquire_request trying = with_ttl(mutex_request("n"), LONG_MS), also = trying,
                       waiting = waiting_request("n"), doomed = waiting;
    hf_lease *lease = take(other, &trying), *second;
    struct peer peers[DEAD];
    struct attempt attempt;
    int64_t given_ms;

    (void)state;
    also.name = "m";
    also.name_len = HF_CSTRING;
    second = take(other, &also);
    for (unsigned i = 0; i < DEAD; i++) {
        peer_start(&peers[i]);
        doomed.name = "n";
        doomed.name_len = HF_CSTRING;
        peer_begin(&peers[i], 0, &doomed);
        AWAIT(count_waiters(other, "n") == i + 1);
        doomed.name = "m";
        doomed.name_len = HF_CSTRING;
        peer_begin(&peers[i], 1, &doomed);
        AWAIT(count_waiters(other, "m") == i + 1);
    }
    attempt_start(&attempt, store, &waiting);
    AWAIT(count_waiters(other, "n") == DEAD + 1);
    for (unsigned i = 0; i < DEAD; i++)
        peer_kill(&peers[i]);
    AWAIT(inboxes() == 2);
    nap_ms(150); /* the server does not check clients that sent something just now */
    CHECK(count_waiters(other, "n") == DEAD + 1);
    given_ms = now_ms();
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(now_ms() - given_ms < 9000); /* less than the claim window of 10 s */
    give(attempt.lease);
    CHECK(count_waiters(other, "m") == DEAD);
    give(second);
    EXPECT(HF_OK, probe(store, &also));
    CHECK(count_waiters(other, "m") == DEAD);
}

/* One that lives but does not hear keeps its place, and learns of its turn by a heartbeat. */
static void deaf_heir_keeps_its_place(void **state)
{
    hf_acquire_request trying = with_ttl(mutex_request("n"), LONG_MS),
                       waiting = waiting_request("n");
    hf_lease *lease = take(other, &trying);
    struct attempt first, second;

    (void)state;
    attempt_start(&first, store, &waiting);
    AWAIT(count_waiters(other, "n") == 1);
    proxy_choose(proxy, PROXY_PUSH);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    AWAIT(inboxes() == 1);
    give(lease); /* to nobody yet, or to the first by a heartbeat just now */
    EXPECT(HF_OK, attempt_join(&first));
    attempt_start(&second, other, &waiting);
    AWAIT(count_waiters(other, "n") == 1);
    give(first.lease);
    EXPECT(HF_OK, attempt_join(&second));
    attempt_start(&first, store, &waiting);
    AWAIT(count_waiters(other, "n") == 1);
    give(second.lease);
    EXPECT(HF_OK,
           attempt_join(&first)); /* it did not hear when it asked, and was granted all the same */
    give(first.lease);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NET(slow_network),
        NET(slower_than_the_ttl),
        NET(drip),
        NET(requests_vanish),
        NET(replies_vanish),
        NET(holder_behind_a_hole),
        NET(foreign_cancel),
        NET(notes_of_what_is_gone),
        NET(dead_heirs_are_passed_over),
        NET(deaf_heir_keeps_its_place),
        NET(lost_and_no_answer),
        NET(cancelled_and_no_answer),
    };

    bed_main(argc, argv);
    return BED_RUN(tests) + network_cut() + network_late();
}
