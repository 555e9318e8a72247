/* SPDX-License-Identifier: MIT */
/* Checked requests: what is asked of the store, and which requests use the local queue. */
#include "unit.h"

#include "core/local_queue.h"
#include "core/request.h"

#include <string.h>

#define ALL_CAPS 0xffffu

/* Like the embedded store, and like a server with leases. */
static const struct hfi_promises local = { .caps = ALL_CAPS, .min_ttl_ms = 1000 };
static const struct hfi_promises server = { .caps = ALL_CAPS,
                                            .default_ttl_ms = 30000,
                                            .min_ttl_ms = 2000 };

static struct hfi_checked_request want_of(const struct hfi_promises *engine,
                                          const hf_acquire_request *request)
{
    static hf_acquire_request whole;
    struct hfi_checked_request want;
    hf_error err;

    memset(&want, 0xee, sizeof want);
    assert_int_equal(hfi_request_check(engine, true, request, &whole, &want, &err), HF_OK);
    return want;
}

static hf_status refused(const struct hfi_promises *engine, const hf_acquire_request *request,
                         const char *field)
{
    struct hfi_checked_request want;
    hf_acquire_request whole;
    hf_error err = { .text = "" };
    hf_status status = hfi_request_check(engine, true, request, &whole, &want, &err);

    assert_non_null(strstr(err.text, field));
    assert_int_equal(err.status, status);
    return status;
}

static void kinds_are_permits(void **state)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    struct hfi_checked_request want;

    (void)state;
    request.name = "x";
    request.name_len = HF_CSTRING;
    want = want_of(&local, &request);
    assert_int_equal(want.mode, HFI_MODE_MUTEX);
    assert_int_equal(want.capacity, 1);
    assert_int_equal(want.permits, 1);
    request.kind = HF_KIND_SHARED;
    want = want_of(&local, &request);
    assert_int_equal(want.mode, HFI_MODE_RW);
    assert_int_equal(want.permits, 1);
    assert_false(want.pass);
    request.kind = HF_KIND_EXCLUSIVE;
    want = want_of(&local, &request);
    assert_int_equal(want.permits, want.capacity);
    assert_true(want.pass);
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 5;
    want = want_of(&local, &request);
    assert_int_equal(want.permits, 1);
    request.permits = 5;
    assert_false(want_of(&local, &request).pass); /* all of it, but a semaphore */
}

static void which_ttl(void **state)
{
    static const struct {
        const struct hfi_promises *engine;
        int64_t ttl_ms, max_hold_ms;
        int64_t want_ms;
        bool renew;
    } rows[] = {
        { &local, 0, 0, 0, false },         { &local, 5000, 0, 5000, true },
        { &local, 0, 7000, 7000, false }, /* the ttl is max_hold, once */
        { &local, 0, 5, 1000, false },    /* not less than the engine takes */
        { &local, 5000, 3000, 3000, true }, { &local, 5000, 60000, 5000, true },
        { &server, 0, 0, 30000, true },     { &server, 0, 10000, 10000, true },
        { &server, 0, 5, 2000, true },      { &server, 2000, 0, 2000, true },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
        struct hfi_checked_request want;

        request.name = "x";
        request.name_len = HF_CSTRING;
        request.ttl_ms = rows[i].ttl_ms;
        request.max_hold_ms = rows[i].max_hold_ms;
        want = want_of(rows[i].engine, &request);
        assert_int_equal(want.ttl_ms, rows[i].want_ms);
        assert_int_equal(want.renew, rows[i].renew);
        request.flags = HF_FLAG_NO_RENEW;
        assert_false(want_of(rows[i].engine, &request).renew);
    }
}

static void who_may_be_passed_to(void **state)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    (void)state;
    request.name = "x";
    request.name_len = HF_CSTRING;
    request.ttl_ms = 5000;
    assert_true(want_of(&local, &request).pass);
    request.flags = HF_FLAG_BARGE | HF_FLAG_REENTRANT;
    assert_true(want_of(&local, &request).pass);
    request.flags = HF_FLAG_STRICT;
    assert_false(want_of(&local, &request).pass);
    request.flags = HF_FLAG_DETACHED;
    assert_false(want_of(&local, &request).pass);
    request.flags = HF_FLAG_NO_RENEW; /* the next would get what is left */
    assert_false(want_of(&local, &request).pass);
    request.flags = 0;
    request.max_hold_ms = 10000;
    assert_false(want_of(&local, &request).pass);
}

static void how_often_it_is_passed(void **state)
{
    (void)state;
    assert_false(hfi_local_queue_may_pass(0, 1, 64)); /* no block */
    assert_false(hfi_local_queue_may_pass(0, 65, 0)); /* strict FIFO */
    assert_true(hfi_local_queue_may_pass(0, 65, 64));
    assert_true(hfi_local_queue_may_pass(63, 65, 64));
    assert_false(hfi_local_queue_may_pass(64, 65, 64));
    assert_false(hfi_local_queue_may_pass(64, 1000, 64));
    assert_false(hfi_local_queue_may_pass(3, 4, 64)); /* the engine gave fewer */
}

static void unsupported_names_the_field(void **state)
{
    struct hfi_promises bare = local;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    (void)state;
    bare.caps = 0;
    request.name = "x";
    request.name_len = HF_CSTRING;
    request.kind = HF_KIND_SHARED;
    assert_int_equal(refused(&bare, &request, "kind"), HF_UNSUPPORTED);
    request.kind = HF_KIND_MUTEX;
    request.flags = HF_FLAG_BARGE;
    assert_int_equal(refused(&bare, &request, "flags"), HF_UNSUPPORTED);
    request.flags = HF_FLAG_DETACHED;
    assert_int_equal(refused(&bare, &request, "flags"), HF_UNSUPPORTED);
    request.flags = 0;
    request.ttl_ms = 5000;
    assert_int_equal(refused(&bare, &request, "ttl_ms"), HF_UNSUPPORTED);
    request.ttl_ms = 0;
    request.max_hold_ms = 5000;
    assert_int_equal(refused(&bare, &request, "max_hold_ms"), HF_UNSUPPORTED);
    request.max_hold_ms = 0;
    request.lock_delay_ms = 5;
    assert_int_equal(refused(&bare, &request, "lock_delay_ms"), HF_UNSUPPORTED);
    request.lock_delay_ms = 0;
    request.min_hold_ms = 5;
    assert_int_equal(refused(&bare, &request, "min_hold_ms"), HF_UNSUPPORTED);
    request.min_hold_ms = 0;
    request.flags = HF_FLAG_DETACHED;
    assert_int_equal(refused(&local, &request, "ttl_ms"), HF_INVALID);
    request.flags = 0;
    request.ttl_ms = 1999;
    assert_int_equal(refused(&server, &request, "ttl_ms"), HF_INVALID);
}

static void structs_of_other_sizes(void **state)
{
    char given[64] = "abc", whole[16];

    (void)state;
    memset(whole, 'z', sizeof whole);
    assert_true(hfi_struct_copy(whole, sizeof whole, given, 8, 8));
    assert_memory_equal(whole, "abc\0\0\0\0\0\0\0\0\0\0\0\0\0", sizeof whole);
    assert_false(hfi_struct_copy(whole, sizeof whole, given, 7, 8));
    assert_true(hfi_struct_copy(whole, sizeof whole, given, sizeof given, 8));
    given[40] = 1;
    assert_false(hfi_struct_copy(whole, sizeof whole, given, sizeof given, 8));
    assert_false(hfi_struct_copy(whole, sizeof whole, given, HFI_STRUCT_MAX + 1, 8));
}

static void labels_are_cut_between_characters(void **state)
{
    char label[400];

    (void)state;
    assert_int_equal(hfi_label_len("", HF_LABEL_MAX), 0);
    memset(label, 'a', sizeof label);
    label[sizeof label - 1] = 0;
    assert_int_equal(hfi_label_len(label, HF_LABEL_MAX), HF_LABEL_MAX);
    memcpy(label + HF_LABEL_MAX - 1, "\xc3\xa4", 2); /* half of it would fit */
    assert_int_equal(hfi_label_len(label, HF_LABEL_MAX), HF_LABEL_MAX - 1);
}

static void settling_backs_off(void **state)
{
    (void)state;
    assert_int_equal(hfi_settle_pause(0), HFI_SETTLE_FIRST_MS);
    for (uint32_t tries = 1; tries < 100; tries++) {
        assert_true(hfi_settle_pause(tries) >= hfi_settle_pause(tries - 1));
        assert_true(hfi_settle_pause(tries) <= HFI_SETTLE_LAST_MS);
    }
    assert_int_equal(hfi_settle_pause(UINT32_MAX), HFI_SETTLE_LAST_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_permits),
        cmocka_unit_test(which_ttl),
        cmocka_unit_test(who_may_be_passed_to),
        cmocka_unit_test(how_often_it_is_passed),
        cmocka_unit_test(unsupported_names_the_field),
        cmocka_unit_test(structs_of_other_sizes),
        cmocka_unit_test(labels_are_cut_between_characters),
        cmocka_unit_test(settling_backs_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
