/* SPDX-License-Identifier: MIT */
/*
 * hf_store_inspect(): core's loop over pages and names (core/inspect.c), on an engine whose server says what a test wants
 * it to say: in all three drives, blocking and asynchronous.
 */
#include "unit.h"

#include "core/collection.h"
#include "core/registry.h"
#include "util/alloc.h"
#include "util/list.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* ---- an engine -------------------------------------------------------------------------------------- */

typedef hf_status answer_fn(struct hfi_op *op);

static struct {
    answer_fn *list, *look;
    pthread_mutex_t lock;
    struct hfi_op *queue; /* event: the newest first; linked by `core_next` in the room */
    int fd;
    bool silent;            /* event: do not answer */
    unsigned waiting, most; /* event: ops in the queue, and the most that there were */
    _Atomic unsigned lists, looks;
} server = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static hf_status page_open(void *store, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    (void)store, (void)conf, (void)host, (void)err;
    return HF_OK;
}

static void page_close(void *store)
{
    (void)store;
    assert_null(server.queue);
}

static void answer(struct hfi_op *op)
{
    hf_status status;

    if (op->kind == HFI_OP_LIST) {
        server.lists++;
        status = server.list(op);
    } else {
        server.looks++;
        status = server.look(op);
    }
    hfi_op_finish(op, status);
}

static void submit_here(void *store, struct hfi_op *op)
{
    (void)store;
    answer(op);
}

static void ring(void)
{
    assert_int_equal(eventfd_write(server.fd, 1), 0);
}

static void submit_event(void *store, struct hfi_op *op)
{
    (void)store;
    pthread_mutex_lock(&server.lock);
    *(struct hfi_op **)(void *)op->room = server.queue;
    server.queue = op;
    if (++server.waiting > server.most)
        server.most = server.waiting;
    pthread_mutex_unlock(&server.lock);
    ring();
}

static int event_fd(void *store)
{
    (void)store;
    return server.fd;
}

static int event_timeout_ms(void *store, int64_t now_ms)
{
    (void)store, (void)now_ms;
    return -1;
}

/* The newest is answered first. */
static void event_process(void *store, int64_t now_ms)
{
    eventfd_t count;
    struct hfi_op *op;

    (void)store, (void)now_ms;
    (void)eventfd_read(server.fd, &count);
    for (;;) {
        pthread_mutex_lock(&server.lock);
        op = server.silent ? NULL : server.queue;
        if (op) {
            server.queue = *(struct hfi_op **)(void *)op->room;
            server.waiting--;
        }
        pthread_mutex_unlock(&server.lock);
        if (!op)
            return;
        answer(op);
    }
}

static void page_cancel(void *store, struct hfi_op *op, hf_status status)
{
    (void)store, (void)op, (void)status;
}

static void page_wait(void *store, struct hfi_op *op, int64_t until_ms)
{
    (void)store, (void)op, (void)until_ms;
}

static const struct hfi_param no_params[] = { { .name = NULL } };

#define ENGINE(NAME, SUBMIT, ...)                                                               \
    {                                                                                           \
        .abi = HFI_ENGINE_ABI, .drive = &(const struct hfi_drive){ __VA_ARGS__ },               \
        .promises = &(const struct hfi_promises){ .name = NAME,                                 \
                                                  .schemes = NAME,                              \
                                                  .caps = HF_CAP_INSPECT | HF_CAP_WAITERS },    \
        .op_size = sizeof(void *), .open = page_open, .close = page_close,                      \
        .conf = &(const struct hfi_conf_type){ sizeof(struct hfi_conf),                         \
                                               (const struct hfi_form[]){ { .scheme = NAME },   \
                                                                          { .scheme = NULL } }, \
                                               no_params },                                     \
        .submit = SUBMIT, .cancel = page_cancel,                                                \
    }

static const struct hfi_engine engines[] = {
    ENGINE("pageinline", submit_here, .kind = HFI_INLINE, .wait = page_wait),
    ENGINE("pageblock", submit_here, .kind = HFI_BLOCKING),
    ENGINE("pageevent", submit_event, .kind = HFI_EVENT, .fd = event_fd,
           .timeout_ms = event_timeout_ms, .process = event_process),
};

#define DRIVES (sizeof engines / sizeof *engines)

/* ---- calls --------------------------------------------------------------------------------------------- */

static hf_store *open_page(size_t drive)
{
    hf_store *store = NULL;
    hf_error err;
    char url[32];

    snprintf(url, sizeof url, "%s:", engines[drive].promises->name);
    assert_int_equal(hf_open(url, NULL, &store, &err), HF_OK);
    return store;
}

static void serve(answer_fn *list, answer_fn *look)
{
    server.list = list;
    server.look = look;
    server.lists = server.looks = 0;
    server.most = 0;
}

struct heard {
    bool done;
    hf_status status;
    hf_view *view;
    hf_error error;
};

static void on_done(const hf_result *result, void *arg)
{
    *(struct heard *)arg = (struct heard){
        .done = true, .status = result->status, .view = result->view, .error = *result->error
    };
}

static void await_done(hf_store *store, const struct heard *heard)
{
    struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };

    while (!heard->done) {
        int timeout_ms = hf_store_timeout_ms(store);

        assert_true(poll(&fd, 1, timeout_ms) >= 0);
        assert_int_equal(hf_store_process(store), HF_OK);
    }
}

static hf_status inspect(hf_store *store, bool async, const char *pattern, hf_view **ret_view,
                         hf_error *err)
{
    struct heard heard = { .done = false };

    *ret_view = NULL;
    if (!async)
        return hf_store_inspect(store, pattern, HF_CSTRING, HF_INSPECT_FLAG_PATTERN, ret_view, err);
    assert_int_equal(hf_store_inspect_async(store, pattern, HF_CSTRING, HF_INSPECT_FLAG_PATTERN,
                                            on_done, &heard, NULL, err),
                     HF_OK);
    await_done(store, &heard);
    *ret_view = heard.view;
    *err = heard.error;
    return heard.status;
}

/* What a test does in every drive and both forms. */
static void in_all_forms(void (*test)(hf_store *store, bool async))
{
    for (size_t drive = 0; drive < DRIVES; drive++)
        for (int async = 0; async < 2; async++) {
            hf_store *store = open_page(drive);

            test(store, async);
            hf_close(store, 0);
        }
}

static bool put_entry(struct hfi_sink *sink, const void *name, size_t len, uint32_t taken)
{
    hf_entry entry = { .name = name,
                       .name_len = (uint32_t)len,
                       .kind = HF_KIND_MUTEX,
                       .capacity = 9,
                       .taken = taken };
    hf_holder holder = { .token = taken, .permits = 1, .label = "holder" };
    hf_waiter waiter = { .position = 1, .permits = 1, .label = "waiter" };

    return sink->entry(sink, &entry) && sink->holder(sink, &holder) && sink->waiter(sink, &waiter);
}

static void check_entry(const hf_view *view, size_t index, const char *name, uint32_t taken)
{
    const hf_entry *entry = hf_view_entry(view, index);

    assert_non_null(entry);
    assert_int_equal(entry->name_len, strlen(name));
    assert_memory_equal(entry->name, name, strlen(name));
    assert_int_equal(entry->taken, taken);
    assert_int_equal(entry->holder_count, 1);
    assert_int_equal(entry->waiter_count, 1);
    assert_int_equal(hf_entry_holder(entry, 0)->token, taken);
    assert_string_equal(hf_entry_holder(entry, 0)->label, "holder");
    assert_string_equal(hf_entry_waiter(entry, 0)->label, "waiter");
}

/* ---- pages of bare names --------------------------------------------------------------------------------- */

#define NAMES 500
#define PAGE  7

static size_t page_of(const struct hfi_op *op)
{
    size_t page = 0;

    if (op->u.list.cursor->len > 0)
        memcpy(&page, op->u.list.cursor->bytes, sizeof page);
    return page;
}

static void next_page(struct hfi_op *op, size_t page)
{
    memcpy(op->u.list.cursor->bytes, &page, sizeof page);
    op->u.list.cursor->len = sizeof page;
}

static hf_status put_name(struct hfi_op *op, const void *name, size_t len)
{
    return op->u.list.sink->name(op->u.list.sink, name, len) ? HF_OK : HF_NO_MEMORY;
}

/* Each name twice, on two pages; and on each page some that are no names, or not asked for. */
static hf_status list_twice(struct hfi_op *op)
{
    static const unsigned char junk[HF_NAME_MAX + 100] = "name-and much more";
    size_t page = page_of(op), first = page > 0 ? (page - 1) * PAGE : 0;
    char name[32];

    for (size_t i = first; i < (page + 1) * PAGE && i < NAMES; i++) {
        snprintf(name, sizeof name, "name-%03zu", i * 7919 % NAMES);
        put_name(op, name, strlen(name));
    }
    put_name(op, "", 0);
    put_name(op, junk, sizeof junk);
    put_name(op, junk, SIZE_MAX);
    put_name(op, "other", 5);
    put_entry(op->u.list.sink, "", 0, 1);
    put_entry(op->u.list.sink, junk, sizeof junk, 1);
    put_entry(op->u.list.sink, "other", 5, 1);
    op->u.list.cursor->len = 0;
    if (page * PAGE < NAMES)
        next_page(op, page + 1);
    return HF_OK;
}

static uint32_t number_of(const struct hfi_op *op)
{
    assert_int_equal(op->u.look.name.len, 8);
    return (uint32_t)(100 * (op->u.look.name.bytes[5] - '0') +
                      10 * (op->u.look.name.bytes[6] - '0') + (op->u.look.name.bytes[7] - '0'));
}

static hf_status look_plain(struct hfi_op *op)
{
    return put_entry(op->u.look.sink, op->u.look.name.bytes, op->u.look.name.len, number_of(op) + 1)
               ? HF_OK
               : HF_NO_MEMORY;
}

static void each_name_once(hf_store *store, bool async)
{
    hf_view *view;
    hf_error err;
    char name[32];

    serve(list_twice, look_plain);
    assert_int_equal(inspect(store, async, "name-*", &view, &err), HF_OK);
    assert_int_equal(hf_view_count(view), NAMES);
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "name-%03u", i);
        check_entry(view, i, name, i + 1);
    }
    hf_free(view);
    assert_int_equal(server.lists, (NAMES + PAGE - 1) / PAGE + 1);
    assert_int_equal(server.looks, NAMES); /* once each */
}

static void pages_and_twins(void **state)
{
    (void)state;
    in_all_forms(each_name_once);
}

/* So many LOOKs are under way together, and no more. */
static void sixty_four_at_a_time(void **state)
{
    hf_store *store = open_page(2);

    (void)state;
    each_name_once(store, false);
    assert_int_equal(server.most, 64);
    each_name_once(store, true);
    assert_int_equal(server.most, 64);
    hf_close(store, 0);
}

/* ---- what changes meanwhile --------------------------------------------------------------------------------- */

/* Every third is gone; every third is answered with another name before its own, and every ninth with only that. */
static hf_status look_some(struct hfi_op *op)
{
    uint32_t number = number_of(op);

    if (number % 3 == 0)
        return HF_OK;
    if (number % 3 == 1)
        put_entry(op->u.look.sink, "name-999", 8, 77);
    return number % 9 == 1 ? HF_OK : look_plain(op);
}

static void the_vanished_are_left_out(hf_store *store, bool async)
{
    hf_view *view;
    hf_error err;
    size_t at = 0;
    char name[32];

    serve(list_twice, look_some);
    assert_int_equal(inspect(store, async, "name-*", &view, &err), HF_OK);
    for (uint32_t i = 0; i < NAMES; i++)
        if (i % 3 != 0 && i % 9 != 1) {
            snprintf(name, sizeof name, "name-%03u", i);
            check_entry(view, at++, name, i + 1);
        }
    assert_int_equal(hf_view_count(view), at);
    hf_free(view);
}

static void names_that_vanish(void **state)
{
    (void)state;
    in_all_forms(the_vanished_are_left_out);
}

/* Whole entries and bare names; "b" and "c" come again. */
static hf_status list_mixed(struct hfi_op *op)
{
    struct hfi_sink *sink = op->u.list.sink;
    size_t page = page_of(op);

    if (page == 0) {
        put_entry(sink, "c", 1, 1);
        put_name(op, "d", 1);
        put_entry(sink, "b", 1, 1);
        next_page(op, 1);
    } else {
        put_entry(sink, "b", 1, 2);
        put_entry(sink, "a", 1, 1);
        put_name(op, "c", 1);
        op->u.list.cursor->len = 0;
    }
    return HF_OK;
}

static hf_status look_four(struct hfi_op *op)
{
    return put_entry(op->u.look.sink, op->u.look.name.bytes, op->u.look.name.len, 4) ? HF_OK
                                                                                     : HF_NO_MEMORY;
}

static void the_last_counts(hf_store *store, bool async)
{
    hf_view *view;
    hf_error err;

    serve(list_mixed, look_four);
    assert_int_equal(inspect(store, async, "*", &view, &err), HF_OK);
    assert_int_equal(hf_view_count(view), 4);
    check_entry(view, 0, "a", 1);
    check_entry(view, 1, "b", 2);
    check_entry(view, 2, "c", 4);
    check_entry(view, 3, "d", 4);
    hf_free(view);
    assert_int_equal(server.looks, 2);
}

static void entries_and_names(void **state)
{
    (void)state;
    in_all_forms(the_last_counts);
}

/* ---- what goes wrong -------------------------------------------------------------------------------------- */

static hf_status look_fails(struct hfi_op *op)
{
    if (number_of(op) % 100 != 50)
        return look_plain(op);
    op->error = (hf_error){ .status = HF_CORRUPT, .text = "it is not to be read" };
    return HF_CORRUPT;
}

static hf_status list_fails(struct hfi_op *op)
{
    hf_status status = list_twice(op);

    return page_of(op) == 9 ? HF_DENIED : status;
}

static void the_first_is_told(hf_store *store, bool async)
{
    hf_view *view;
    hf_error err;

    serve(list_twice, look_fails);
    assert_int_equal(inspect(store, async, "name-*", &view, &err), HF_CORRUPT);
    assert_null(view);
    assert_non_null(strstr(err.text, "it is not to be read"));
    assert_true(server.looks < NAMES); /* no more are begun */

    serve(list_fails, look_plain);
    assert_int_equal(inspect(store, async, "name-*", &view, &err), HF_DENIED);
    assert_null(view);
    assert_int_equal(server.looks, 0);
}

static void errors(void **state)
{
    (void)state;
    in_all_forms(the_first_is_told);
}

/* Always another place to go on from, always the same names. */
static hf_status list_endless(struct hfi_op *op)
{
    size_t page = page_of(op);

    list_twice(op);
    next_page(op, page % 50 + 1);
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return HF_OK;
}

/* Blocking and asynchronous at the same time: each is over some day. */
static void a_cursor_without_end(void **state)
{
    hf_store *store = open_page(2);
    struct heard heard = { .done = false };
    hf_view *view = NULL;
    hf_error err;

    (void)state;
    serve(list_endless, look_plain);
    assert_int_equal(
        hf_store_inspect_async(store, "*", 1, HF_INSPECT_FLAG_PATTERN, on_done, &heard, NULL, &err),
        HF_OK);
    assert_int_equal(inspect(store, false, "*", &view, &err), HF_UNAVAILABLE);
    assert_null(view);
    await_done(store, &heard);
    assert_int_equal(heard.status, HF_UNAVAILABLE);
    assert_null(heard.view);
    hf_close(store, 0);
}

static void cancelled(void **state)
{
    (void)state;
    for (size_t drive = 1; drive < DRIVES; drive++) {
        hf_store *store = open_page(drive);
        struct heard heard = { .done = false };
        hf_error err;
        hf_op *op = NULL;

        serve(list_endless, look_plain);
        assert_int_equal(hf_store_inspect_async(store, "*", 1, HF_INSPECT_FLAG_PATTERN, on_done,
                                                &heard, &op, &err),
                         HF_OK);
        assert_int_equal(hf_op_cancel(op), HF_OK);
        await_done(store, &heard);
        assert_int_equal(heard.status, HF_CANCELLED);
        hf_close(store, 0);
    }
}

/* The LOOKs are not answered before they have been given up; what comes then finds its memory. */
static hf_status list_then_silence(struct hfi_op *op)
{
    hf_status status = list_twice(op);

    pthread_mutex_lock(&server.lock);
    server.silent = op->u.list.cursor->len == 0;
    pthread_mutex_unlock(&server.lock);
    return status;
}

static void answered_too_late(void **state)
{
    hf_store *store = open_page(2);
    hf_view *view = NULL;
    hf_error err;
    bool empty = false;

    (void)state;
    serve(list_then_silence, look_plain);
    assert_int_equal(inspect(store, false, "name-*", &view, &err), HF_UNAVAILABLE);
    assert_null(view);
    assert_int_equal(server.looks, 0);
    pthread_mutex_lock(&server.lock);
    server.silent = false;
    pthread_mutex_unlock(&server.lock);
    while (!empty) { /* the store is driven without us */
        ring();
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        pthread_mutex_lock(&server.lock);
        empty = !server.queue;
        pthread_mutex_unlock(&server.lock);
    }
    hf_close(store, 0);
    assert_int_equal(server.looks, 64);
}

/* What the detector asks for: also the last entry of a LIST is left out, when those of a LOOK come after it. */
static void only_what_is_waited_for(void **state)
{
    struct hfi_collection *found = hfi_collection_new(), *look = hfi_collection_new();
    const hf_entry a = { .name = (const unsigned char *)"a", .name_len = 1 };
    const hf_entry b = { .name = (const unsigned char *)"b", .name_len = 1 };
    hf_view *view;

    (void)state;
    assert_true(found && look);
    hfi_collection_filter(found, "*", 1, true, true);
    hfi_collection_filter(look, "b", 1, false, true);
    assert_true(found->sink.entry(&found->sink, &a));
    assert_true(look->sink.entry(&look->sink, &b));
    assert_true(look->sink.waiter(&look->sink, &(hf_waiter){ .label = "w" }));
    assert_true(hfi_collection_move(found, look));
    view = hfi_collection_view(found);
    assert_non_null(view);
    assert_int_equal(hf_view_count(view), 1);
    assert_memory_equal(hf_view_entry(view, 0)->name, "b", 1);
    hf_free(view);
    hfi_collection_free(found);
    hfi_collection_free(look);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_and_twins),
        cmocka_unit_test(sixty_four_at_a_time),
        cmocka_unit_test(names_that_vanish),
        cmocka_unit_test(entries_and_names),
        cmocka_unit_test(errors),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(a_cursor_without_end),
        cmocka_unit_test(answered_too_late),
        cmocka_unit_test(only_what_is_waited_for),
    };

    server.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(server.fd >= 0);
    for (size_t i = 0; i < DRIVES; i++)
        hfi_registry_add(&engines[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
