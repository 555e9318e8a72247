/* SPDX-License-Identifier: MIT */
/* Handles that have ended, that never were, or that are of another sort: a status, not a crash. */
#include "calls.h"
#include "contract.h"

#include <stdlib.h>
#include <string.h>

static void release_twice(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("twice");
    hf_lease *lease = take(store, &request), *next;
    hf_lease_info info = HF_LEASE_INFO_INIT;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    give(lease);
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    CHECK(hf_lease_token(lease) == 0 && hf_lease_state(lease) == HF_STATE_LOST);
    next = take(store, &request);
    for (int i = 0; i < 3; i++)
        EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    CHECK(contract_error.text[0] != 0);
    CHECK(hf_lease_state(next) == HF_STATE_HELD); /* the other lease was not touched */
    EXPECT(HF_BUSY, probe(store, &request));

    CHECK(hf_lease_token(lease) == 0);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_remaining_ms(lease) == 0);
    CHECK(hf_lease_fd(lease) == -1);
    EXPECT(HF_INVALID, hf_lease_get(lease, &info));
    EXPECT(HF_INVALID, hf_renew(lease, 0, &contract_error));
    EXPECT(HF_INVALID, hf_lease_export(lease, handle));
    EXPECT(HF_INVALID, hf_release_async(lease, (hf_done_fn *)abort, NULL, NULL, &contract_error));
    give(next);
    close_store(store);
}

/* Old handles stay ended, however many new leases there are. */
static void old_handles_stay_ended(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("old");
    hf_lease *old[64];

    (void)state;
    for (int i = 0; i < 64; i++) {
        old[i] = take(store, &request);
        give(old[i]);
    }
    for (int round = 0; round < 2000; round++)
        give(take(store, &request));
    hf_lease *lease = take(store, &request);
    for (int i = 0; i < 64; i++)
        EXPECT(HF_INVALID, hf_release(old[i], &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

/* Every call of the header, with something that is not a handle. */
static void poke(void *garbage)
{
    hf_acquire_request request = mutex_request("garbage");
    hf_store_info store_info = HF_STORE_INFO_INIT;
    hf_lease_info lease_info = HF_LEASE_INFO_INIT;
    char handle[HF_LEASE_TEXT_MAX];
    hf_lease *lease = NULL;
    hf_report *report = NULL;
    hf_view *view = NULL;
    uint64_t seq = 0;

    EXPECT(HF_INVALID, hf_close(garbage, 0));
    EXPECT(HF_INVALID, hf_close(garbage, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_INVALID, hf_store_get(garbage, &store_info));
    EXPECT(HF_INVALID, hf_acquire(garbage, &request, &lease, &contract_error));
    EXPECT(HF_INVALID,
           hf_acquire_async(garbage, &request, (hf_done_fn *)abort, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_release(garbage, &contract_error));
    EXPECT(HF_INVALID, hf_release_async(garbage, (hf_done_fn *)abort, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_renew(garbage, 0, &contract_error));
    EXPECT(HF_INVALID, hf_cancel_fire(garbage));
    EXPECT(HF_INVALID, hf_cancel_close(garbage));
    EXPECT(HF_INVALID, hf_op_cancel(garbage));
    EXPECT(HF_INVALID, hf_lease_get(garbage, &lease_info));
    EXPECT(HF_INVALID, hf_lease_export(garbage, handle));
    EXPECT(HF_INVALID, call_lease_adopt(garbage, "x", 1, "y", 0, 0, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_store_inspect(garbage, "x", 1, 0, &view, &contract_error));
    EXPECT(HF_INVALID, hf_lease_break(garbage, "x", 1, 1, &contract_error));
    EXPECT(HF_INVALID, hf_store_wait(garbage, &seq, 0, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_store_check(garbage, &report, &contract_error));
    EXPECT(HF_INVALID, hf_store_process(garbage));
    CHECK(hf_store_fd(garbage) == -1);
    CHECK(hf_store_timeout_ms(garbage) == -1);
    CHECK(hf_lease_token(garbage) == 0);
    CHECK(hf_lease_state(garbage) == HF_STATE_LOST);
    CHECK(hf_lease_remaining_ms(garbage) == 0);
    CHECK(hf_lease_fd(garbage) == -1);
    CHECK(lease == NULL && view == NULL);
}

static void garbage_handles(void **state)
{
    hf_store *store = open_store();
    uint64_t on_stack[4] = { 1, 2, 3, 4 };
    void *freed = malloc(64);
    volatile uintptr_t nowhere = (uintptr_t)freed;

    (void)state;
    free(freed);
    poke(NULL);
    poke((void *)1);
    poke((void *)(uintptr_t)0x1234);
    poke((void *)UINTPTR_MAX);
    poke((void *)(UINTPTR_MAX / 2));
    poke((void *)((uintptr_t)store + 1));
    poke((void *)nowhere);
    poke(on_stack);
    for (unsigned bit = 0; bit < 64; bit++) { /* neighbours of a real handle */
        void *near = (void *)((uintptr_t)store ^ (UINT64_C(1) << bit));

        EXPECT(HF_INVALID, hf_release(near, &contract_error));
        CHECK(hf_store_fd(near) == -1);
    }
    close_store(store);
}

/* A handle of one sort is not one of another. */
static void wrong_sort(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("sort");
    hf_lease *lease = take(store, &request), *none = NULL;
    hf_cancel *cancel = NULL;

    (void)state;
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    EXPECT(HF_INVALID, hf_release((void *)store, &contract_error));
    EXPECT(HF_INVALID, hf_release((void *)cancel, &contract_error));
    EXPECT(HF_INVALID, hf_close((void *)lease, 0));
    EXPECT(HF_INVALID, hf_close((void *)cancel, 0));
    EXPECT(HF_INVALID, hf_cancel_close((void *)lease));
    EXPECT(HF_INVALID, hf_cancel_fire((void *)store));
    EXPECT(HF_INVALID, hf_op_cancel((void *)lease));
    EXPECT(HF_INVALID, hf_acquire((void *)lease, &request, &none, &contract_error));
    request.cancel = (void *)lease;
    EXPECT(HF_INVALID, hf_acquire(store, &request, &none, &contract_error));
    CHECK(none == NULL);
    EXPECT(HF_OK, hf_cancel_close(cancel));
    give(lease);
    close_store(store);
}

static void small_things(void **state)
{
    (void)state;
    hf_free(NULL);
    CHECK(strcmp(hf_status_name(HF_BUSY), "BUSY") == 0);
    CHECK(hf_status_text(HF_BUSY)[0] != 0);
    CHECK(hf_status_name((hf_status)9999) != NULL);
    CHECK(hf_status_text((hf_status)-1) != NULL);
    CHECK(hf_version()[0] != 0);
}

int contract_misuse(void)
{
    const struct CMUnitTest cases[] = {
        CASE(release_twice), CASE(old_handles_stay_ended), CASE(garbage_handles),
        CASE(wrong_sort),    CASE(small_things),
    };

    return cmocka_run_group_tests_name("misuse", cases, NULL, NULL);
}
