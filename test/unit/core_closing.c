/* SPDX-License-Identifier: MIT */
/*
 * hf_close() sleeps until what it has stopped has ended. Here each thing that it waits for ends long after it was stopped,
 * and alone: if it did not wake hf_close(), nothing else would, and the alarm would end this test.
 */
#include "unit.h"

#include "core/registry.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* ---- an engine whose acquires take their time to end after a cancel -------------------------------------- */

static struct {
    _Atomic bool waiting, cancelled;
    hf_status answer; /* of an acquire that was cancelled */
} server;

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static hf_status slow_open(void *store, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    (void)store, (void)conf, (void)host, (void)err;
    server.waiting = server.cancelled = false;
    return HF_OK;
}

static void slow_close(void *store)
{
    (void)store;
}

static void slow_submit(void *store, struct hfi_op *op)
{
    (void)store;
    if (op->kind == HFI_OP_ACQUIRE && op->may_wait) {
        server.waiting = true;
        while (!server.cancelled)
            sched_yield();
        nap(); /* hf_close() has nothing left to do by now, and sleeps */
        hfi_op_finish(op, server.answer);
        return;
    }
    hfi_op_finish(op, HF_OK);
}

static void slow_cancel(void *store, struct hfi_op *op, hf_status status)
{
    (void)store, (void)op, (void)status;
    server.cancelled = true;
}

static const struct hfi_form slow_forms[] = { { .scheme = "slowend" }, { .scheme = NULL } };
static const struct hfi_param slow_params[] = { { .name = NULL } };
static const struct hfi_conf_type slow_conf = { sizeof(struct hfi_conf), slow_forms, slow_params };

static const struct hfi_engine slow_engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_BLOCKING },
    .promises = &(const struct hfi_promises){ .name = "slowend",
                                              .schemes = "slowend",
                                              .caps = HF_CAP_PROCESS | HF_CAP_WAIT },
    .store_size = 1,
    .open = slow_open,
    .close = slow_close,
    .conf = &slow_conf,
    .submit = slow_submit,
    .cancel = slow_cancel,
};

/* ---- what hf_close() waits for --------------------------------------------------------------------------- */

struct waiter {
    hf_store *store;
    bool several; /* by hf_acquire_all() */
    hf_lease *lease;
    hf_status status;
};

static void *acquire(void *arg)
{
    struct waiter *waiter = arg;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_error err;

    request.name = "n";
    request.name_len = 1;
    request.wait_ms = HF_FOREVER;
    waiter->status = waiter->several
                         ? hf_acquire_all(waiter->store, &request, 1, &waiter->lease, &err)
                         : hf_acquire(waiter->store, &request, &waiter->lease, &err);
    return NULL;
}

static void close_while_it_waits(hf_status answer, bool several)
{
    struct waiter waiter = { .several = several };
    pthread_t thread;
    hf_error err;

    alarm(60);
    server.answer = answer;
    assert_int_equal(hf_open("slowend:", NULL, &waiter.store, &err), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, acquire, &waiter), 0);
    while (!server.waiting)
        sched_yield();
    assert_int_equal(hf_close(waiter.store, HF_CLOSE_FLAG_RELEASE), HF_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (waiter.status == HF_OK)
        assert_int_equal(hf_release(waiter.lease, &err), HF_LOST);
    else
        assert_int_equal(waiter.status, several && answer == HF_OK ? HF_LOST : HF_CANCELLED);
    alarm(0);
}

static void a_waiter_leaves(void **state)
{
    (void)state;
    close_while_it_waits(HF_CANCELLED, false);
}

/* The grant came first: the lease is lost, and lets the store be closed. */
static void a_waiter_is_granted(void **state)
{
    (void)state;
    close_while_it_waits(HF_OK, false);
}

static void a_task_ends(void **state)
{
    (void)state;
    close_while_it_waits(HF_CANCELLED, true);
    close_while_it_waits(HF_OK, true);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_waiter_leaves),
        cmocka_unit_test(a_waiter_is_granted),
        cmocka_unit_test(a_task_ends),
    };

    hfi_registry_add(&slow_engine);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
