/* SPDX-License-Identifier: MIT */
/*
 * More asynchronous waiters than the library has threads, each for a name (or a cell) of its own: all of them wait in the
 * store, none holds up another, and each ends by itself.
 */
#include "loop.h"
#include "peer.h"

#include <stdio.h>
#include <string.h>

#define CROWD  40
#define FEW_MS 1500

struct waiter {
    char name[16];
    struct both both;
    hf_op *op;
};

struct crowd {
    hf_store *store, *other; /* that of the waiters; one that looks at them */
    struct peer peer;        /* holds all the names */
    struct waiter waiters[CROWD];
};

static void begin_all(struct crowd *crowd, int64_t wait_ms)
{
    for (int i = 0; i < CROWD; i++) {
        struct waiter *w = &crowd->waiters[i];
        hf_acquire_request request = mutex_request(w->name);

        request.wait_ms = wait_ms;
        memset(&w->both, 0, sizeof w->both);
        EXPECT(HF_OK, hf_acquire_async(crowd->store, &request, both_done, &w->both, &w->op,
                                       &contract_error));
    }
}

static void open_crowd(struct crowd *crowd)
{
    crowd->store = open_store();
    crowd->other = open_store();
    peer_start(&crowd->peer);
    for (int i = 0; i < CROWD; i++) {
        struct waiter *w = &crowd->waiters[i];
        hf_acquire_request request = mutex_request(w->name);

        snprintf(w->name, sizeof w->name, "crowd%d", i);
        EXPECT(HF_OK, peer_acquire(&crowd->peer, i, &request));
    }
}

static size_t queued(struct crowd *crowd)
{
    size_t count = 0;

    for (int i = 0; i < CROWD; i++)
        count += count_waiters(crowd->other, crowd->waiters[i].name);
    return count;
}

/* All of them wait in the store, as far as it can tell. */
static void await_queued(struct crowd *crowd, size_t count)
{
    if (has(HF_CAP_WAITERS))
        LOOP_UNTIL(crowd->store, queued(crowd) == count);
}

static void close_crowd(struct crowd *crowd)
{
    await_queued(crowd, 0);
    peer_stop(&crowd->peer);
    for (int i = 0; i < CROWD; i++) { /* and nothing of them is left */
        hf_acquire_request request = waiting_request(crowd->waiters[i].name);

        EXPECT(HF_OK, probe(crowd->other, &request));
    }
    close_store(crowd->other);
    if (crowd->store)
        close_store(crowd->store);
}

static void acquire_a_free_name(struct crowd *crowd)
{
    hf_acquire_request request = mutex_request("free");
    struct both both = { .done = false };

    EXPECT(HF_OK,
           hf_acquire_async(crowd->store, &request, both_done, &both, NULL, &contract_error));
    LOOP_UNTIL(crowd->store, both.done);
    EXPECT(HF_OK, both.result.status);
    give(both.result.lease);
}

static int count_done(struct crowd *crowd)
{
    int count = 0;

    for (int i = 0; i < CROWD; i++)
        count += crowd->waiters[i].both.done;
    return count;
}

/* The last one first: it does not depend on those that came before it. */
static void granted_in_any_order(void **state)
{
    struct crowd crowd;

    (void)state;
    NEEDS(HF_CAP_WAIT);
    open_crowd(&crowd);
    begin_all(&crowd, HF_FOREVER);
    await_queued(&crowd, CROWD);
    acquire_a_free_name(&crowd);
    for (int i = CROWD - 1; i >= 0; i--) {
        struct waiter *w = &crowd.waiters[i];

        CHECK(count_done(&crowd) == CROWD - 1 - i);
        EXPECT(HF_OK, peer_release(&crowd.peer, i));
        LOOP_UNTIL(crowd.store, w->both.done);
        EXPECT(HF_OK, w->both.result.status);
        give(w->both.result.lease);
    }
    close_crowd(&crowd);
}

static void cancelled_one_by_one(void **state)
{
    struct crowd crowd;

    (void)state;
    NEEDS(HF_CAP_WAIT);
    open_crowd(&crowd);
    begin_all(&crowd, HF_FOREVER);
    await_queued(&crowd, CROWD);
    for (int i = CROWD - 1; i >= 0; i--) {
        struct waiter *w = &crowd.waiters[i];

        CHECK(count_done(&crowd) == CROWD - 1 - i);
        EXPECT(HF_OK, hf_op_cancel(w->op));
        LOOP_UNTIL(crowd.store, w->both.done);
        EXPECT(HF_CANCELLED, w->both.result.status);
    }
    close_crowd(&crowd);
}

/* All at once, and at any moment of their beginning. */
static void cancelled_together(void **state)
{
    struct crowd crowd;

    (void)state;
    NEEDS(HF_CAP_WAIT);
    open_crowd(&crowd);
    begin_all(&crowd, HF_FOREVER);
    for (int i = 0; i < CROWD; i++)
        EXPECT(HF_OK, hf_op_cancel(crowd.waiters[i].op));
    LOOP_UNTIL(crowd.store, count_done(&crowd) == CROWD);
    for (int i = 0; i < CROWD; i++)
        EXPECT(HF_CANCELLED, crowd.waiters[i].both.result.status);
    close_crowd(&crowd);
}

static void timed_out(void **state)
{
    struct crowd crowd;

    (void)state;
    NEEDS(HF_CAP_WAIT);
    open_crowd(&crowd);
    begin_all(&crowd, FEW_MS);
    LOOP_UNTIL(crowd.store, count_done(&crowd) == CROWD);
    for (int i = 0; i < CROWD; i++)
        EXPECT(HF_TIMEOUT, crowd.waiters[i].both.result.status);
    close_crowd(&crowd);
}

static void closed_while_they_wait(void **state)
{
    struct crowd crowd;

    (void)state;
    NEEDS(HF_CAP_WAIT);
    open_crowd(&crowd);
    begin_all(&crowd, HF_FOREVER);
    await_queued(&crowd, CROWD);
    EXPECT(HF_OK, hf_close(crowd.store, HF_CLOSE_FLAG_RELEASE));
    crowd.store = NULL;
    for (int i = 0; i < CROWD; i++) {
        CHECK(crowd.waiters[i].both.done);
        EXPECT(HF_CANCELLED, crowd.waiters[i].both.result.status);
    }
    /* close_crowd() pumps a store that is open */
    if (has(HF_CAP_WAITERS))
        AWAIT(queued(&crowd) == 0);
    crowd.store = open_store();
    close_crowd(&crowd);
}

/* ---- cells ----------------------------------------------------------------------------------------------- */

static void cells_of_their_own(void **state)
{
    struct crowd crowd;
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    crowd.store = open_store();
    crowd.other = open_store();
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER;
    for (int i = 0; i < CROWD; i++) {
        struct waiter *w = &crowd.waiters[i];

        snprintf(w->name, sizeof w->name, "cell%d", i);
        memset(&w->both, 0, sizeof w->both);
        request.name = w->name;
        EXPECT(HF_OK, hf_cell_wait_async(crowd.store, &request, both_done, &w->both, &w->op,
                                         &contract_error));
    }
    acquire_a_free_name(&crowd);
    CHECK(count_done(&crowd) == 0);
    for (int i = CROWD - 1; i >= CROWD / 2; i--) {
        struct waiter *w = &crowd.waiters[i];

        request.name = w->name;
        request.bytes = "x";
        request.len = 1;
        EXPECT(HF_OK, hf_cell_set(crowd.other, &request, NULL, &contract_error));
        LOOP_UNTIL(crowd.store, w->both.done);
        EXPECT(HF_OK, w->both.result.status);
    }
    for (int i = 0; i < CROWD / 4; i++) {
        EXPECT(HF_OK, hf_op_cancel(crowd.waiters[i].op));
        LOOP_UNTIL(crowd.store, crowd.waiters[i].both.done);
        EXPECT(HF_CANCELLED, crowd.waiters[i].both.result.status);
    }
    CHECK(count_done(&crowd) == CROWD / 2 + CROWD / 4);
    EXPECT(HF_OK, hf_close(crowd.store, HF_CLOSE_FLAG_RELEASE));
    for (int i = CROWD / 4; i < CROWD / 2; i++)
        EXPECT(HF_CANCELLED, crowd.waiters[i].both.result.status);
    close_store(crowd.other);
}

int contract_crowd(void)
{
    const struct CMUnitTest tests[] = {
        CASE(granted_in_any_order),   CASE(cancelled_one_by_one),
        CASE(cancelled_together),     CASE(timed_out),
        CASE(closed_while_they_wait), CASE(cells_of_their_own),
    };

    return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
