/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session: waiting in the server's own queue, and leaving it; see holds.h. */
#include "locks.h"

#include <pthread.h>

/* ---- until a deadline ---------------------------------------------------------------------------------- */

static void times_out(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_acquire_request request = mutex_request("late");
    hf_lease *lease = take(store, &request), *none = NULL;
    int64_t begin_ms;

    for (int i = 0; i < 3; i++) {
        request.wait_ms = 1 + 60 * i;
        begin_ms = now_ms();
        EXPECT(HF_TIMEOUT, hf_acquire(second, &request, &none, &contract_error));
        CHECK(now_ms() - begin_ms >= request.wait_ms);
        CHECK(locks_waiting() == 0);
    }
    request.wait_ms = 0;
    give(lease);
    EXPECT(HF_OK, probe(store, &request)); /* the one that gave up did not get it */
    close_store(second);
    close_store(store);
}

static void deadline(void **state)
{
    (void)state;
    BOTH_MODES(times_out);
}

/* ---- hand-over ------------------------------------------------------------------------------------------ */

static void comes_in_turn(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *others[3];
    hf_acquire_request request = mutex_request("turn"), wait = waiting_request("turn");
    struct attempt attempts[3];
    hf_lease *lease = take(store, &request);

    for (int i = 0; i < 3; i++) {
        others[i] = locks_open(mode, "");
        attempt_start(&attempts[i], others[i], &wait);
        AWAIT(locks_waiting() == i + 1);
    }
    give(lease);
    for (int i = 0; i < 3; i++) {
        int next = -1;

        AWAIT((next = attempts[0].ended   ? 0
                      : attempts[1].ended ? 1
                      : attempts[2].ended ? 2
                                          : -1) >= 0);
        EXPECT(HF_OK, attempt_join(&attempts[next]));
        AWAIT(locks_waiting() == 2 - i); /* the others still stand there: one holds at a time */
        give(attempts[next].lease);
        attempts[next].ended = false;
    }
    for (int i = 0; i < 3; i++)
        close_store(others[i]);
    close_store(store);
}

static void hand_over(void **state)
{
    (void)state;
    BOTH_MODES(comes_in_turn);
}

/* ---- cancelled ------------------------------------------------------------------------------------------- */

static void is_cancelled(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_acquire_request request = mutex_request("cancel"), wait = waiting_request("cancel");
    struct attempt attempt;
    hf_lease *lease = take(store, &request);

    wait.wait_ms = HF_FOREVER;
    EXPECT(HF_OK, hf_cancel_open(&wait.cancel));
    attempt_start(&attempt, second, &wait);
    AWAIT(locks_waiting() == 1);
    EXPECT(HF_OK, hf_cancel_fire(wait.cancel));
    EXPECT(HF_CANCELLED, attempt_join(&attempt));
    CHECK(locks_waiting() == 0);
    EXPECT(HF_OK, hf_cancel_close(wait.cancel));
    give(lease);
    close_store(second);
    close_store(store);
}

static void cancelled(void **state)
{
    (void)state;
    BOTH_MODES(is_cancelled);
}

static void *fire(void *arg)
{
    EXPECT(HF_OK, hf_cancel_fire(arg));
    return NULL;
}

/*
 * The end of a wait races with its grant. In either case the name is held by the caller that got
 * HF_OK, or by nobody: if a grant to a caller that got HF_CANCELLED stayed, nobody would get the
 * name any more.
 */
static void races(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_acquire_request request = waiting_request("race"), wait = waiting_request("race");
    struct attempt attempt;
    pthread_t thread;
    hf_status status;

    for (int i = 0; i < 25; i++) {
        hf_lease *lease = take(store, &request);

        EXPECT(HF_OK, hf_cancel_open(&wait.cancel));
        attempt_start(&attempt, second, &wait);
        if (i % 3)
            AWAIT(locks_waiting() == 1);
        CHECK(pthread_create(&thread, NULL, fire, wait.cancel) == 0);
        if (i % 2)
            nap_ms(i % 5);
        give(lease);
        pthread_join(thread, NULL);
        status = attempt_join(&attempt);
        CHECK(status == HF_OK || status == HF_CANCELLED);
        if (status == HF_OK)
            give(attempt.lease);
        EXPECT(HF_OK, hf_cancel_close(wait.cancel));
        lease = take(i % 2 ? store : second, &request);
        give(lease);
    }
    close_store(second);
    close_store(store);
}

static void cancel_races_with_the_grant(void **state)
{
    (void)state;
    BOTH_MODES(races);
}

/* Two handles that are closed while they wait, and threads of one of them that share its connections. */
static void is_closed(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "&connections=3");
    hf_acquire_request request = mutex_request("closed"), wait = waiting_request("closed"),
                       other = waiting_request("closed-2");
    hf_acquire_request hold = mutex_request("closed-2");
    struct attempt attempts[4];
    hf_lease *leases[2] = { take(store, &request), take(store, &hold) };

    for (int i = 0; i < 4; i++)
        attempt_start(&attempts[i], second, i % 2 ? &wait : &other);
    AWAIT(locks_waiting() == 2);
    for (int i = 0; i < 4; i++) /* those that wait for a connection have begun, too */
        attempt_settled(&attempts[i]);
    EXPECT(HF_OK, hf_close(second, HF_CLOSE_FLAG_RELEASE));
    for (int i = 0; i < 4; i++)
        EXPECT(HF_CANCELLED, attempt_join(&attempts[i]));
    AWAIT(locks_waiting() == 0);
    give(leases[0]);
    give(leases[1]);
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

static void closed_while_waiting(void **state)
{
    (void)state;
    BOTH_MODES(is_closed);
}

const struct CMUnitTest locks_wait_cases[] = {
    cmocka_unit_test(deadline),
    cmocka_unit_test(hand_over),
    cmocka_unit_test(cancelled),
    cmocka_unit_test(cancel_races_with_the_grant),
    cmocka_unit_test(closed_while_waiting),
};
const size_t locks_wait_count = sizeof locks_wait_cases / sizeof *locks_wait_cases;
