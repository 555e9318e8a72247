/* SPDX-License-Identifier: MIT */
/* Latches: each participant counts once, waiters are woken, and the loss of a participant that
 * joined is noticed. */
#include "both.h"

#include "agree.h"
#include "calls.h"
#include "holdfast/primitives.h"

#include <string.h>

#define WAITERS 3

static hf_status down(hf_store *store, const char *who, uint32_t *ret_left)
{
    return hf_latch_count_down(store, "gate", HF_CSTRING, who, ret_left, &contract_error);
}

static hf_status wait_for(hf_store *store, int64_t wait_ms)
{
    return call_latch_wait(store, "gate", 4, wait_ms, NULL, &contract_error);
}

static hf_lease *join(hf_store *store, const char *who)
{
    hf_lease *lease = NULL;

    EXPECT(HF_OK, call_latch_join(store, "gate", HF_CSTRING, who, LIMIT_MS, NULL, &lease,
                                  &contract_error));
    CHECK(lease);
    return lease;
}

static void needs_cells(void **state)
{
    static const char long_name[HF_NAME_MAX] = { 'x' };
    char who[HF_PARTICIPANT_MAX + 2] = { 0 };
    hf_store *store = open_store();
    hf_lease *lease;
    uint32_t left;

    (void)state;
    if (!has(HF_CAP_CELLS)) {
        EXPECT(HF_UNSUPPORTED, hf_latch_create(store, "gate", HF_CSTRING, 1, &contract_error));
        EXPECT(HF_UNSUPPORTED, down(store, "a", &left));
        EXPECT(HF_UNSUPPORTED, wait_for(store, 0));
        EXPECT(HF_UNSUPPORTED,
               call_latch_join(store, "gate", HF_CSTRING, "a", 0, NULL, &lease, &contract_error));
        EXPECT(HF_UNSUPPORTED,
               hf_latch_get(store, "gate", HF_CSTRING, NULL, NULL, &contract_error));
        EXPECT(HF_UNSUPPORTED, hf_latch_delete(store, "gate", HF_CSTRING, &contract_error));
        close_store(store);
        return;
    }
    EXPECT(HF_NOT_FOUND, down(store, "a", &left));
    EXPECT(HF_NOT_FOUND, wait_for(store, LIMIT_MS));
    EXPECT(HF_NOT_FOUND, hf_latch_delete(store, "gate", HF_CSTRING, &contract_error));
    EXPECT(HF_NOT_FOUND,
           call_latch_join(store, "gate", HF_CSTRING, "a", 0, NULL, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_latch_create(store, "gate", HF_CSTRING, 0, &contract_error));
    EXPECT(HF_INVALID,
           hf_latch_create(store, "gate", HF_CSTRING, HF_PARTICIPANTS_MAX + 1, &contract_error));
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 2, &contract_error));
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 2, &contract_error));
    EXPECT(HF_MISMATCH, hf_latch_create(store, "gate", HF_CSTRING, 3, &contract_error));
    EXPECT(HF_INVALID, down(store, NULL, &left));
    EXPECT(HF_INVALID, down(store, "", &left));
    memset(who, 'w', HF_PARTICIPANT_MAX + 1);
    EXPECT(HF_INVALID, down(store, who, &left));
    who[HF_PARTICIPANT_MAX] = 0;
    EXPECT(HF_OK, down(store, who, &left));
    EXPECT(HF_INVALID, wait_for(store, -2));
    EXPECT(HF_OK, hf_latch_create(store, long_name, sizeof long_name, 1, &contract_error));
    EXPECT(HF_INVALID,
           hf_latch_count_down(store, long_name, sizeof long_name, "a", NULL, &contract_error));
    EXPECT(HF_OK, hf_guard_set(store, "gate2", HF_CSTRING, 1, "x", 1, &contract_error));
    EXPECT(HF_MISMATCH, call_latch_wait(store, "gate2", HF_CSTRING, 0, NULL, &contract_error));
    close_store(store);
}

struct waiter {
    hf_store *store;
    hf_status status;
    char text[HF_ERROR_TEXT_MAX];
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *wait_there(void *arg)
{
    struct waiter *waiter = arg;

    waiter->tid = thread_id();
    waiter->status = wait_for(waiter->store, HF_FOREVER);
    memcpy(waiter->text, contract_error.text, sizeof waiter->text);
    waiter->ended = true;
    return NULL;
}

static void start(struct waiter *waiter, hf_store *store)
{
    *waiter = (struct waiter){ .store = store };
    CHECK(pthread_create(&waiter->thread, NULL, wait_there, waiter) == 0);
    thread_settled(&waiter->tid, &waiter->ended);
}

static void each_counts_once(void **state)
{
    struct waiter waiters[WAITERS];
    hf_store *store, *other;
    uint32_t left = 9, count = 9;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    other = open_store();
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 2, &contract_error));
    for (int i = 0; i < WAITERS; i++)
        start(&waiters[i], i ? store : other);
    EXPECT(HF_OK, down(store, "a", &left));
    CHECK(left == 1);
    EXPECT(HF_OK, down(other, "a", &left)); /* a retry, by another handle even */
    CHECK(left == 1);
    EXPECT(HF_TIMEOUT, wait_for(store, 1));
    CHECK(!strstr(contract_error.text, "granted")); /* nothing is granted here */
    EXPECT(HF_OK, hf_latch_get(store, "gate", HF_CSTRING, &count, &left, &contract_error));
    CHECK(count == 2 && left == 1);
    for (int i = 0; i < WAITERS; i++)
        CHECK(!waiters[i].ended);
    EXPECT(HF_OK, down(store, "b", NULL));
    for (int i = 0; i < WAITERS; i++) {
        CHECK(pthread_join(waiters[i].thread, NULL) == 0);
        EXPECT(HF_OK, waiters[i].status);
    }
    EXPECT(HF_OK, wait_for(other, 0)); /* late */
    EXPECT(HF_OK, down(store, "c", &left));
    CHECK(left == 0);
    EXPECT(HF_OK, hf_latch_delete(store, "gate", HF_CSTRING, &contract_error));
    EXPECT(HF_NOT_FOUND, wait_for(other, 0));
    close_store(store);
    close_store(other);
}

/* Gone without having counted down: a release counts like a death. */
static void who_joined_is_missed(void **state)
{
    struct waiter waiters[2];
    hf_store *store, *other;
    hf_lease *a, *b;
    hf_status back;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    other = open_store();
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 3, &contract_error));
    a = join(store, "ada");
    b = join(other, "bob");
    start(&waiters[0], store);
    start(&waiters[1], other);
    EXPECT(HF_OK, down(store, "ada", NULL));
    give(a); /* it has done its part */
    give(b);
    back = call_latch_join(store, "gate", HF_CSTRING, "bob", LIMIT_MS, NULL, &b, &contract_error);
    CHECK(back == HF_OK || back == HF_BROKEN); /* before or after anybody missed it */
    for (int i = 0; i < 2; i++)
        CHECK(waiters[i].ended == false || waiters[i].status == HF_BROKEN);
    if (back == HF_OK)
        give(b);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(waiters[i].thread, NULL) == 0);
        EXPECT(HF_BROKEN, waiters[i].status);
        CHECK(strstr(waiters[i].text, "'bob'"));
    }
    EXPECT(HF_BROKEN, wait_for(store, 0));
    EXPECT(HF_BROKEN, down(store, "carol", NULL));
    EXPECT(HF_BROKEN, hf_latch_get(store, "gate", HF_CSTRING, NULL, NULL, &contract_error));
    close_store(store);
    close_store(other);
}

static void waiting_can_be_cancelled(void **state)
{
    hf_cancel *cancel;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 1, &contract_error));
    CHECK(hf_cancel_open(&cancel) == HF_OK);
    CHECK(hf_cancel_fire(cancel) == HF_OK);
    EXPECT(HF_CANCELLED,
           call_latch_wait(store, "gate", HF_CSTRING, HF_FOREVER, cancel, &contract_error));
    CHECK(hf_cancel_close(cancel) == HF_OK);
    close_store(store);
}

int agree_latch(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),
        CASE(each_counts_once),
        CASE(who_joined_is_missed),
        CASE(waiting_can_be_cancelled),
    };

    return cmocka_run_group_tests_name("latch", cases, NULL, NULL);
}
