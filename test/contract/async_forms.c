/* SPDX-License-Identifier: MIT */
/* Every asynchronous form, under way at once and seen from inside its callback; and a release beside a callback that runs. */
#include "async.h"
#include "loop.h"

/* ---- every form ---------------------------------------------------------------------------------- */

enum form {
    FORM_ACQUIRE,
    FORM_ALL,
    FORM_RELEASE,
    FORM_RELEASE_ALL,
    FORM_RENEW,
    FORM_ADOPT,
    FORM_BREAK,
    FORM_RESIZE,
    FORM_ASK,
    FORM_INSPECT,
    FORM_WAIT,
    FORM_CHECK,
    FORM_DEADLOCKS,
    FORMS
};

static hf_status begin_form(enum form form, hf_store *store, hf_lease *lease, hf_done_fn *done,
                            void *arg, hf_op **ret_op)
{
    hf_acquire_request requests[2] = { waiting_request("busy"), waiting_request("another") };
    hf_adopt_request adopt = HF_ADOPT_REQUEST_INIT;
    hf_error *err = &contract_error;

    adopt.name = "none";
    adopt.name_len = HF_CSTRING;
    adopt.text = "0123456789abcdef0123456789abcdef-1";
    requests[0].flags = requests[1].flags = HF_FLAG_STRICT;
    switch (form) {
    case FORM_ACQUIRE:
        return hf_acquire_async(store, requests, done, arg, ret_op, err);
    case FORM_ALL:
        return hf_acquire_all_async(store, requests, 2, done, arg, ret_op, err);
    case FORM_RELEASE:
        return hf_release_async(lease, done, arg, ret_op, err);
    case FORM_RELEASE_ALL:
        return hf_release_all_async(&lease, 1, done, arg, ret_op, err);
    case FORM_RENEW:
        return hf_renew_async(lease, 0, done, arg, ret_op, err);
    case FORM_ADOPT:
        return hf_lease_adopt_async(store, &adopt, done, arg, ret_op, err);
    case FORM_BREAK:
        return hf_lease_break_async(store, "none", 4, 1, done, arg, ret_op, err);
    case FORM_RESIZE:
        return hf_semaphore_resize_async(store, "none", 4, 0, done, arg, ret_op, err);
    case FORM_ASK:
        return hf_ask_async(store, "none", 4, "please", done, arg, ret_op, err);
    case FORM_INSPECT:
        return hf_store_inspect_async(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, done, arg, ret_op,
                                      err);
    case FORM_WAIT:
        return hf_store_wait_async(store, 0, HF_FOREVER, NULL, done, arg, ret_op, err);
    case FORM_CHECK:
        return hf_store_check_async(store, done, arg, ret_op, err);
    case FORM_DEADLOCKS:
        return hf_deadlock_list_async(store, done, arg, ret_op, err);
    case FORMS:
        break;
    }
    return HF_INTERNAL;
}

/* What a callback may do, and what it may not: see the library from inside it. */
struct inside {
    hf_store *store;
    hf_op *op;
    int calls;
    bool closing; /* hf_close() calls it */
    hf_status status;
};

static void on_inside(const hf_result *result, void *arg)
{
    struct inside *inside = arg;
    hf_status closed = inside->closing ? HF_INVALID : HF_IN_USE;

    inside->calls++;
    inside->status = result->status;
    CHECK(result->error && result->error->status == result->status);
    CHECK((result->error->text[0] == 0) == (result->status == HF_OK));
    CHECK(hf_close(inside->store, 0) == closed);
    CHECK(hf_close(inside->store, HF_CLOSE_FLAG_RELEASE) == closed);
    CHECK(hf_store_process(inside->store) == (inside->closing ? HF_INVALID : HF_OK));
    CHECK(hf_op_cancel(inside->op) == HF_INVALID);
    if (result->lease)
        EXPECT(HF_OK, hf_release(result->lease, &contract_error));
    hf_free(result->view);
    hf_free(result->report);
    hf_free(result->deadlocks);
}

/* All under way at once, those that wait and those that do not: ended by hf_op_cancel(), or by hf_close(). */
static void every_form(void **state)
{
    hf_acquire_request busy = mutex_request("busy"), own = mutex_request("own");

    (void)state;
    for (int closing = 0; closing < 2; closing++) {
        hf_store *store = open_store(), *second = open_store();
        hf_lease *held = take(second, &busy);
        struct inside inside[FORMS] = { 0 };
        bool begun[FORMS] = { false };

        for (int form = 0; form < FORMS; form++) {
            char name[] = { 'l', (char)('a' + form), 0 };
            hf_lease *lease;
            hf_status status;

            own.name = name;
            lease = take(store, &own);
            status = begin_form((enum form)form, store, lease, NULL, NULL, NULL);
            CHECK(status == HF_INVALID || status == HF_UNSUPPORTED);
            CHECK(hf_lease_state(lease) == HF_STATE_HELD);
            inside[form].store = store;
            inside[form].closing = closing;
            status = begin_form((enum form)form, store, lease, on_inside, &inside[form],
                                &inside[form].op);
            begun[form] = status == HF_OK;
            CHECK(status == HF_OK || status == HF_UNSUPPORTED);
            CHECK(inside[form].calls == 0);
            if (form != FORM_RELEASE && form != FORM_RELEASE_ALL && !closing && form != FORM_RENEW)
                give(lease);
        }
        EXPECT(HF_IN_USE, hf_close(store, 0));
        if (closing)
            EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
        for (int form = 0; form < FORMS && !closing; form++) {
            int64_t until_ms = now_ms() + LIMIT_MS;

            if (begun[form] && inside[form].calls == 0)
                EXPECT(HF_OK, hf_op_cancel(inside[form].op));
            while (begun[form] && inside[form].calls == 0) {
                CHECK(now_ms() < until_ms);
                loop_turn(store, 50);
            }
        }
        for (int form = 0; form < FORMS; form++) {
            CHECK(inside[form].calls == begun[form]);
            if (begun[form] && form == FORM_WAIT)
                CHECK(inside[form].status == HF_CANCELLED || inside[form].status == HF_OK);
            if (begun[form] && (form == FORM_ACQUIRE || form == FORM_ALL))
                EXPECT(HF_CANCELLED, inside[form].status);
        }
        if (!closing)
            EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
        for (int form = 0; form < FORMS; form++) {
            hf_status status =
                begin_form((enum form)form, store, NULL, on_inside, &inside[form], NULL);

            EXPECT(HF_INVALID, status);
        }
        give(held);
        close_store(second);
    }
}

/* ---- releasing what is lost -------------------------------------------------------------------------- */

struct slow_notice {
    _Atomic bool begun, released, seen, ended, done;
};

/* Waits for the release to return, which must not wait for it. */
static void wait_for_release(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct slow_notice *notice = arg;
    int64_t until_ms = now_ms() + LIMIT_MS / 6;

    (void)lease, (void)why;
    if (event != HF_EVENT_LOST)
        return;
    notice->begun = true;
    while (!notice->released && now_ms() < until_ms)
        nap_ms(2);
    notice->seen = notice->released;
    nap_ms(50);
    notice->ended = true;
}

static void on_released(const hf_result *result, void *arg)
{
    struct slow_notice *notice = arg;

    CHECK(result->status == HF_LOST);
    CHECK(notice->ended); /* so that what the callback has may be freed now */
    notice->done = true;
}

/* hf_release_async() returns while the callback runs, on the thread of its own; `done` comes after that. */
static void release_beside_a_callback(void **state)
{
    hf_acquire_request request = mutex_request("lost");
    struct slow_notice notice = { .begun = false };
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_TTL); /* max_hold stands on it */
    store = open_store();
    request.on_event = wait_for_release;
    request.on_event_arg = &notice;
    request.max_hold_ms = 1000;
    lease = take_short(store, &request);
    AWAIT(notice.begun);
    EXPECT(HF_OK, hf_release_async(lease, on_released, &notice, NULL, &contract_error));
    notice.released = true;
    for (int64_t until_ms = now_ms() + LIMIT_MS; !notice.done; loop_turn(store, 100))
        CHECK(now_ms() < until_ms);
    CHECK(notice.seen);
    close_store(store);
}

int async_forms(void)
{
    const struct CMUnitTest cases[] = {
        CASE(every_form),
        CASE(release_beside_a_callback),
    };

    return cmocka_run_group_tests_name("async_forms", cases, NULL, NULL);
}
