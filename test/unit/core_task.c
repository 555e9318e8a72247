/* SPDX-License-Identifier: MIT */
/*
 * Tasks without a thread (core/task.h), on an engine that does everything in submit(): many steps
 * need no deep stack, and a pause ends exactly once, whatever ends it first.
 */
#include "unit.h"

#include "core/registry.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <poll.h>
#include <pthread.h>

/* ---- an engine -------------------------------------------------------------------------------------- */

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
    (void)store;
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

static const struct hfi_form null_forms[] = { { .scheme = "nulltask" }, { .scheme = NULL } };
static const struct hfi_param null_params[] = { { .name = NULL } };
static const struct hfi_conf_type null_conf = { sizeof(struct hfi_conf), null_forms, null_params };

static const struct hfi_engine null_engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_INLINE, .wait = null_wait },
    .promises = &(const struct hfi_promises){ .name = "nulltask",
                                              .schemes = "nulltask",
                                              .caps = HF_CAP_PROCESS | HF_CAP_CLOCK },
    .open = null_open,
    .close = null_close,
    .conf = &null_conf,
    .submit = null_submit,
    .cancel = null_cancel,
};

static hf_store *open_null(void)
{
    hf_store *store = NULL;
    hf_error err;

    assert_int_equal(hf_open("nulltask:", NULL, &store, &err), HF_OK);
    return store;
}

/* ---- tasks -------------------------------------------------------------------------------------------- */

struct walk {
    struct hfi_task task;
    int steps;        /* left */
    int64_t pause_ms; /* HFI_NEVER: an op instead */
};

struct heard {
    _Atomic int calls;
    hf_status status;
};

static void on_done(const hf_result *result, void *arg)
{
    struct heard *heard = arg;

    heard->status = result->status;
    heard->calls++;
}

static hf_status walk_step(struct hfi_task *task, hf_status got)
{
    struct walk *walk = (struct walk *)task;
    static const struct hfi_name name = { .bytes = (const unsigned char *)"n", .len = 1 };
    struct hfi_op *op;

    if (got != HF_OK || walk->steps-- == 0)
        return got;
    if (walk->pause_ms != HFI_NEVER)
        return hfi_task_pause(task, hfi_now_ms() + walk->pause_ms, 0);
    op = hfi_task_op(task, HFI_OP_TIME);
    assert_non_null(op);
    op->u.time.name = hfi_task_name(task, &name);
    return hfi_task_submit(task, HFI_NEVER, 0);
}

static struct walk *new_walk(hf_store *handle, int steps, int64_t pause_ms, hf_cancel *cancel)
{
    struct walk *walk = hfi_malloc(sizeof *walk);
    struct hfi_store *store;
    hf_error err;

    assert_non_null(walk);
    assert_int_equal(hfi_store_enter(handle, &store, &err), HF_OK);
    hfi_task_init(&walk->task, store, walk_step);
    walk->task.free = hfi_task_free_entered;
    walk->task.cancel = cancel;
    walk->steps = steps;
    walk->pause_ms = pause_ms;
    return walk;
}

static void await_done(hf_store *store, struct heard *heard)
{
    struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };

    while (heard->calls == 0) {
        assert_true(poll(&fd, 1, 60000) > 0);
        assert_int_equal(hf_store_process(store), HF_OK);
    }
}

/* On a stack that has no room for a frame per step. */
static void *walk_far(void *arg)
{
    struct heard *heard = arg;
    hf_store *store = open_null();
    struct walk *walk;
    hf_error err;

    walk = new_walk(store, 100000, HFI_NEVER, NULL);
    assert_int_equal(hfi_task_begin_entered(&walk->task, on_done, heard, NULL, &err), HF_OK);
    await_done(store, heard);
    assert_int_equal(hf_close(store, 0), HF_OK);
    return NULL;
}

static void many_steps_are_no_deep_stack(void **state)
{
    struct heard heard = { .calls = 0 };
    pthread_attr_t attr;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 512 * 1024), 0);
    assert_int_equal(pthread_create(&thread, &attr, walk_far, &heard), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_attr_destroy(&attr), 0);
    assert_int_equal(heard.status, HF_OK);
    assert_int_equal(heard.calls, 1);
}

/* ---- a pause that others end ---------------------------------------------------------------------------- */

#define PAUSES 3000

struct firing {
    _Atomic(hf_cancel *) next; /* to be fired; NULL: not yet */
    _Atomic bool over;
};

static void *fire_all(void *arg)
{
    struct firing *firing = arg;
    hf_cancel *cancel;

    while (!firing->over)
        if ((cancel = atomic_exchange(&firing->next, NULL)))
            (void)hf_cancel_fire(cancel);
    return NULL;
}

/* The canceller is fired while the task begins its pause, an instant sooner or later each time. */
static void a_pause_is_stopped_while_it_begins(void **state)
{
    hf_store *store = open_null();
    struct firing firing = { .over = false };
    struct heard heard;
    pthread_t thread;
    hf_error err;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, fire_all, &firing), 0);
    for (int i = 0; i < PAUSES; i++) {
        hf_cancel *cancel = NULL;
        struct walk *walk;
        hf_status status;

        assert_int_equal(hf_cancel_open(&cancel), HF_OK);
        walk = new_walk(store, 1000, i % 3, cancel);
        heard = (struct heard){ .calls = 0 };
        firing.next = cancel;
        for (volatile int spin = i % 500; spin > 0; spin--)
            ;
        status = hfi_task_begin_entered(&walk->task, on_done, &heard, NULL, &err);
        if (status == HF_OK)
            await_done(store, &heard);
        else
            assert_int_equal(status, HF_CANCELLED); /* it was quicker */
        assert_true(status != HF_OK || heard.calls == 1);
        while (firing.next)
            ;
        while (hf_cancel_close(cancel) == HF_IN_USE)
            ;
    }
    firing.over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(hf_close(store, 0), HF_OK); /* and nothing of them is left */
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(many_steps_are_no_deep_stack),
        cmocka_unit_test(a_pause_is_stopped_while_it_begins),
    };

    hfi_registry_add(&null_engine);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
