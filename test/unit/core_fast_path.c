/* SPDX-License-Identifier: MIT */
/*
 * What an uncontended acquire and release cost in core, on an engine that does everything in
 * submit(): one lock each, no allocation, and the clock is read only if the caller has a time
 * limit. The program's own pthread_mutex_lock(), malloc() and clock_gettime() override those of
 * libc, and count.
 */
#include "unit.h"

#include "core/registry.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define PAIRS 1000

static struct {
    bool on;
    unsigned long locks, allocations, clocks, coarse;
} counted;

/* ---- what is counted --------------------------------------------------------------------------- */

#define VISIBLE \
    __attribute__((visibility("default"))) /* for the library: see its calls come here */

static void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);

    if (!next)
        abort();
    return next;
}

VISIBLE int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);

    if (!next)
        *(void **)&next = next_of("pthread_mutex_lock");
    counted.locks += counted.on;
    return next(mutex);
}

VISIBLE int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static int (*next)(clockid_t, struct timespec *);

    if (!next)
        *(void **)&next = next_of("clock_gettime");
    if (clock ==
        CLOCK_MONOTONIC_COARSE) /* a load from memory: when a hold ended, for hf_stats_get() */
        counted.coarse += counted.on;
    else
        counted.clocks += counted.on;
    return next(clock, ret_time);
}

/* libc's own names for them: dlsym() may allocate. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

VISIBLE void *malloc(size_t size)
{
    counted.allocations += counted.on;
    return __libc_malloc(size);
}

VISIBLE void *calloc(size_t count, size_t size)
{
    counted.allocations += counted.on;
    return __libc_calloc(count, size);
}

VISIBLE void *realloc(void *memory, size_t size)
{
    counted.allocations += counted.on;
    return __libc_realloc(memory, size);
}

/* ---- an engine without any cost ------------------------------------------------------------------ */

static hf_status null_open(void *store, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    (void)store, (void)conf, (void)host, (void)err;
    return HF_OK;
}

static void null_close(void *store)
{
    (void)store;
}

static void null_submit(void *store, struct hfi_op *op)
{
    static uint64_t token;

    (void)store;
    if (op->kind == HFI_OP_ACQUIRE) {
        op->claim->token = ++token;
        op->claim->tokens = 1;
        op->claim->granted_ttl_ms = 0;
        op->claim->sent_ms = 1;
    }
    hfi_op_finish(op, HF_OK);
}

static void null_cancel(void *store, struct hfi_op *op, hf_status status)
{
    (void)store, (void)op, (void)status;
}

static void null_wait(void *store, struct hfi_op *op, int64_t until_ms)
{
    (void)store, (void)op, (void)until_ms;
}

static const struct hfi_form null_forms[] = { { .scheme = "null" }, { .scheme = NULL } };
static const struct hfi_param null_params[] = { { .name = NULL } };
static const struct hfi_conf_type null_conf = { sizeof(struct hfi_conf), null_forms, null_params };

static const struct hfi_engine null_engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_INLINE, .wait = null_wait },
    .promises = &(const struct hfi_promises){ .name = "null",
                                              .schemes = "null",
                                              .caps = HF_CAP_PROCESS | HF_CAP_TOKEN },
    .open = null_open,
    .close = null_close,
    .conf = &null_conf,
    .submit = null_submit,
    .cancel = null_cancel,
};

/* ---- the cases --------------------------------------------------------------------------------------- */

static hf_store *open_null(void)
{
    hf_store *store;

    hfi_registry_add(&null_engine);
    assert_int_equal(hf_open("null:", NULL, &store, NULL), HF_OK);
    return store;
}

static void pair(hf_store *store, int64_t wait_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = "name";
    request.name_len = HF_CSTRING;
    request.name_len = 4;
    request.wait_ms = wait_ms;
    assert_int_equal(hf_acquire(store, &request, &lease, &err), HF_OK);
    assert_int_equal(hf_release(lease, &err), HF_OK);
}

static void count_pairs(hf_store *store, int64_t wait_ms)
{
    pair(store, wait_ms); /* the first makes what later ones use again */
    memset(&counted, 0, sizeof counted);
    counted.on = true;
    for (int i = 0; i < PAIRS; i++)
        pair(store, wait_ms);
    counted.on = false;
}

static void test_try(void **state)
{
    hf_store *store = open_null();

    (void)state;
    count_pairs(store, 0);
    assert_int_equal(counted.locks, 2 * PAIRS);
    assert_int_equal(counted.allocations, 0);
    assert_int_equal(counted.clocks, 0);
    assert_int_equal(counted.coarse, PAIRS);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

static void test_for_ever(void **state)
{
    hf_store *store = open_null();

    (void)state;
    count_pairs(store, HF_FOREVER);
    assert_int_equal(counted.locks, 2 * PAIRS);
    assert_int_equal(counted.allocations, 0);
    assert_int_equal(counted.clocks, 0);
    assert_int_equal(counted.coarse, PAIRS);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

static void test_for_a_while(void **state)
{
    hf_store *store = open_null();

    (void)state;
    count_pairs(store, 1000);
    assert_int_equal(counted.locks, 2 * PAIRS);
    assert_int_equal(counted.allocations, 0);
    assert_int_equal(counted.clocks, PAIRS);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_for_ever),
        cmocka_unit_test(test_for_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
