/* SPDX-License-Identifier: MIT */
/*
 * Several names at once: hf_acquire_all() and hf_release_all(), on the caller's thread; and their asynchronous forms, which
 * are tasks.
 *
 * Names are taken in one order, that of their bytes: of those who hold some and wait
 * for more, the one whose last name is the highest waits for nobody of them. So they
 * never form a circle.
 *
 * First, where the engine's line carries many requests at once, all are tried at once.
 * What was granted up to the first that is busy is kept: that is a beginning in order.
 * What was granted behind it is given back, for to keep it while waiting for a lower
 * name would be out of order. Then the rest is acquired one by one.
 */
#include "core/acquire.h"
#include "core/release.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* What was asked for, in the order in which it is taken. */
struct item {
    hf_acquire_request request; /* in full size, with the length of its name */
    size_t index;               /* of the caller's */
    hf_lease *lease;            /* NULL: not held */
    hf_status status;           /* of the first try ... */
    struct hfi_call *call;      /* ... which is under way; NULL: it has ended */
    hf_error error;             /* its text */
};

struct several {
    hf_store *handle;
    struct hfi_store *store;
    struct item *items;
    size_t count;
    int64_t wait_ms, deadline_ms;
};

static hf_status read_all(struct several *s, const hf_acquire_request *requests, hf_error *err);
static hf_status try_all(struct several *s, size_t *ret_held, hf_error *err);
static hf_status acquire_rest(struct several *s, size_t held, hf_error *err);
static hf_status all_good(struct several *s, hf_error *err);
static void give_back(struct several *s, size_t from);

hf_status hf_acquire_all(hf_store *handle, const hf_acquire_request *requests, size_t count,
                         hf_lease **ret_leases, hf_error *err)
{
    struct several s = { .handle = handle, .count = count };
    size_t held = 0;
    hf_status status;

    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    if (!requests || !ret_leases)
        return hfi_error_set(err, HF_INVALID, 0, "%s: NULL", requests ? "ret_leases" : "requests");
    status = hfi_store_find(handle, &s.store, err);
    if (status != HF_OK)
        return status;
    s.items = hfi_calloc(count, sizeof *s.items);
    if (!s.items)
        return hfi_error_memory(err);

    status = read_all(&s, requests, err);
    if (status == HF_OK && count > 1 && s.store->drive == HFI_EVENT)
        status = try_all(&s, &held, err);
    if (status == HF_OK)
        status = acquire_rest(&s, held, err);
    if (status == HF_OK)
        status = all_good(&s, err);
    if (status == HF_OK) {
        for (size_t i = 0; i < count; i++)
            ret_leases[s.items[i].index] = s.items[i].lease;
        hfi_ok(err);
    } else {
        give_back(&s, 0);
    }
    hfi_free(s.items);
    return status;
}

/* ---- before ------------------------------------------------------------------------------ */

static int by_name(const void *left, const void *right)
{
    const hf_acquire_request *a = &((const struct item *)left)->request;
    const hf_acquire_request *b = &((const struct item *)right)->request;
    int order = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);

    if (order != 0)
        return order;
    return a->name_len < b->name_len ? -1 : a->name_len > b->name_len;
}

/* Every refusal names the request, as the caller counts them. */
static hf_status read_one(struct several *s, const hf_acquire_request *request, size_t index,
                          hf_error *err)
{
    struct item *item = &s->items[index];
    const hf_acquire_request *first = &s->items[0].request;
    const char *differs = NULL;
    struct hfi_checked_request checked;
    hf_status status = hfi_request_check(hfi_store_promises(s->store), false, request,
                                         &item->request, &checked, err);

    if (status != HF_OK) {
        hfi_error_wrap(err, "requests[%zu]", index);
        return status;
    }
    item->request = *checked.request;
    item->request.name_len = checked.name_len;
    item->index = index;
    if (item->request.wait_ms != first->wait_ms)
        differs = "wait_ms";
    else if (item->request.cancel != first->cancel)
        differs = "cancel";
    else if (item->request.scope != first->scope)
        differs = "scope";
    else if (item->request.session != first->session)
        differs = "session";
    if (differs)
        return hfi_error_set(err, HF_INVALID, 0, "requests[%zu]: %s: not that of the first", index,
                             differs);
    return HF_OK;
}

static hf_status read_all(struct several *s, const hf_acquire_request *requests, hf_error *err)
{
    const char *at = (const char *)requests;

    for (size_t i = 0; i < s->count; i++) {
        const hf_acquire_request *request = (const void *)at;
        hf_status status = read_one(s, request, i, err);

        if (status != HF_OK)
            return status;
        if (request->size != requests->size || request->size % _Alignof(hf_acquire_request) != 0)
            return hfi_error_set(err, HF_INVALID, 0, "requests[%zu]: size: not that of the first",
                                 i);
        at += request->size; /* the caller's, who may know a smaller one */
    }
    s->wait_ms = s->items[0].request.wait_ms;
    s->deadline_ms = s->wait_ms > 0 ? hfi_now_ms() + s->wait_ms : HFI_NEVER;

    qsort(s->items, s->count, sizeof *s->items, by_name);
    for (size_t i = 1; i < s->count; i++)
        if (by_name(&s->items[i - 1], &s->items[i]) == 0)
            return hfi_error_set(err, HF_INVALID, 0,
                                 "requests[%zu]: name: that of requests[%zu] too",
                                 s->items[i].index, s->items[i - 1].index);
    return HF_OK;
}

/* ---- all at once --------------------------------------------------------------------------- */

static bool is_busy(hf_status status)
{
    return status == HF_BUSY || status == HF_TOO_SHORT;
}

/* HF_OK: the first *ret_held are held, and no others; the rest is busy. */
static hf_status try_all(struct several *s, size_t *ret_held, hf_error *err)
{
    const struct hfi_drive *drive = hfi_store_engine(s->store)->drive;
    hf_status status = HF_OK;
    size_t held;

    if (drive->cork)
        drive->cork(s->store->opened, true);
    for (size_t i = 0; i < s->count; i++) {
        struct item *item = &s->items[i];

        item->request.wait_ms = 0;
        item->status = hfi_acquire_begin(s->handle, &item->request, &item->call, &item->error);
        if (item->status != HF_OK)
            item->call = NULL;
    }
    if (drive->cork)
        drive->cork(s->store->opened, false);
    for (size_t i = 0; i < s->count; i++) {
        struct item *item = &s->items[i];

        if (item->call)
            item->status = hfi_acquire_end(item->call, &item->lease);
        item->request.wait_ms = s->wait_ms;
        if (item->status != HF_OK && !is_busy(item->status) && status == HF_OK) {
            status = item->status;
            if (err)
                *err = item->error;
        }
    }
    if (status != HF_OK)
        return status;

    for (held = 0; held < s->count && s->items[held].lease; held++)
        ;
    give_back(s, held);
    *ret_held = held;
    return HF_OK;
}

/* ---- one by one ------------------------------------------------------------------------------ */

static hf_status acquire_rest(struct several *s, size_t held, hf_error *err)
{
    for (size_t i = held; i < s->count; i++) {
        struct item *item = &s->items[i];
        hf_status status;

        if (s->deadline_ms != HFI_NEVER) {
            int64_t left_ms = s->deadline_ms - hfi_now_ms();

            item->request.wait_ms = left_ms > 0 ? left_ms : 0; /* too late to wait, not to try */
        }
        status = hf_acquire(s->handle, &item->request, &item->lease, err);
        if (status == HF_BUSY && s->wait_ms > 0)
            status = hfi_store_error(s->store, "acquire",
                                     &(struct hfi_name){ .bytes = item->request.name,
                                                         .len = (uint32_t)item->request.name_len },
                                     HF_TIMEOUT, NULL, err);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* While we waited for the last the first may have come to its end. */
static hf_status all_good(struct several *s, hf_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct item *item = &s->items[i];
        struct hfi_name name = { .bytes = item->request.name,
                                 .len = (uint32_t)item->request.name_len };
        hf_status status = HF_OK;

        if (hf_lease_state(item->lease) == HF_STATE_LOST)
            status = HF_LOST;
        else if (hf_lease_remaining_ms(item->lease) < item->request.min_valid_ms)
            status = HF_TOO_SHORT;
        if (status != HF_OK)
            return hfi_store_error(s->store, "acquire", &name, status, NULL, err);
    }
    return HF_OK;
}

/* ---- after --------------------------------------------------------------------------------------- */

static void give_back(struct several *s, size_t from)
{
    hf_lease *leases[HF_ACQUIRE_ALL_MAX];
    size_t count = 0;

    for (size_t i = from; i < s->count; i++) {
        if (s->items[i].lease)
            leases[count++] = s->items[i].lease;
        s->items[i].lease = NULL;
    }
    (void)hf_release_all(leases, count, NULL);
}

/* Send a few, then hear what became of them. The last first: whoever waits for one of them does not get
 * it only to wait for the next. */
static hf_status release_some(hf_lease *const *leases, size_t count, hf_error *err)
{
    struct hfi_call *calls[HF_ACQUIRE_ALL_MAX];
    hf_status first = HF_OK;
    hf_error one;

    for (int half = 0; half < 2; half++)
        for (size_t i = count; i-- > 0;) {
            hf_status status = HF_OK;

            if (half == 0)
                status = hfi_release_begin(leases[i], &calls[i], &one);
            else if (calls[i])
                status = hfi_release_end(calls[i], &one);
            if (status != HF_OK && first == HF_OK) {
                first = status;
                if (err)
                    *err = one;
            }
        }
    return first;
}

hf_status hf_release_all(hf_lease *const *leases, size_t count, hf_error *err)
{
    hf_status first = hfi_ok(err);
    hf_error one;

    if (!leases && count > 0)
        return hfi_error_set(err, HF_INVALID, 0, "leases: NULL");
    while (count > 0) {
        size_t some = count < HF_ACQUIRE_ALL_MAX ? count : HF_ACQUIRE_ALL_MAX;
        hf_status status = release_some(leases + count - some, some, &one);

        if (status != HF_OK && first == HF_OK) {
            first = status;
            if (err)
                *err = one;
        }
        count -= some;
    }
    return first;
}

/* ---- without a thread: one by one ------------------------------------------------------------------ */

/* Both calls. Releases: the leases, from the last to the first. */
struct all_call {
    struct hfi_task task;
    struct several s;
    size_t next; /* which one is under way */
    bool begun;  /* acquire: the first one has been asked for */
    hf_status
        status; /* acquire: why what is held goes back; release: the first that was not HF_OK */
    struct hfi_shard *shard; /* release: which keeps the store open */
    char *texts;             /* acquire: what the requests point to */
    hf_lease *leases[HF_ACQUIRE_ALL_MAX];
};

enum { ACQUIRE, GIVE_BACK };

/* Send the next release. HF_OK: none is left. */
static hf_status release_next(struct all_call *call)
{
    return call->next > 0 ? hfi_task_release(&call->task, call->leases[--call->next]) : HF_OK;
}

/* It cannot have them all: those that it has go back, the last first. */
static hf_status acquire_fail(struct all_call *call, hf_status status)
{
    call->status = status;
    call->task.state = GIVE_BACK;
    call->next = 0;
    for (size_t i = 0; i < call->s.count; i++)
        if (call->s.items[i].lease)
            call->leases[call->next++] = call->s.items[i].lease;
    status = release_next(call);
    return status == HF_OK ? call->status : status;
}

static hf_status acquire_step(struct hfi_task *task, hf_status got)
{
    struct all_call *call = hfi_container(task, struct all_call, task);
    struct several *s = &call->s;
    struct item *item = &s->items[call->next];
    hf_status status;

    if (task->state == GIVE_BACK) {
        status = release_next(call);
        return status == HF_OK ? call->status : status;
    }
    if (call->begun) {
        if (got == HF_BUSY && s->wait_ms > 0)
            got = hfi_store_error(s->store, "acquire",
                                  &(struct hfi_name){ .bytes = item->request.name,
                                                      .len = (uint32_t)item->request.name_len },
                                  HF_TIMEOUT, NULL, &task->error);
        else if (got != HF_OK)
            task->error = task->child.error;
        if (got != HF_OK)
            return acquire_fail(call, got);
        item->lease = task->child.lease;
        item = &s->items[++call->next];
    }
    call->begun = true;
    if (call->next == s->count) {
        status = all_good(s, &task->error);
        return status == HF_OK ? hfi_ok(&task->error) : acquire_fail(call, status);
    }
    if (s->deadline_ms != HFI_NEVER) {
        int64_t left_ms = s->deadline_ms - hfi_now_ms();

        item->request.wait_ms = left_ms > 0 ? left_ms : 0; /* too late to wait, not to try */
    }
    return hfi_task_acquire(task, &item->request);
}

static void acquire_finish(struct hfi_task *task, hf_result *result)
{
    struct all_call *call = hfi_container(task, struct all_call, task);

    if (result->status != HF_OK)
        return;
    for (size_t i = 0; i < call->s.count; i++)
        call->leases[call->s.items[i].index] = call->s.items[i].lease;
    result->leases = call->leases;
    result->count = call->s.count;
}

static void acquire_free(struct hfi_task *task)
{
    struct all_call *call = hfi_container(task, struct all_call, task);

    hfi_free(call->texts);
    hfi_free(call->s.items);
    hfi_task_free_entered(task);
}

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;

    if (!text)
        return NULL;
    memcpy(copy, text, strlen(text) + 1);
    *at += strlen(text) + 1;
    return copy;
}

/* The requests point to memory of the caller's. false: out of memory. */
static bool copy_texts(struct all_call *call)
{
    size_t size = 1;
    char *at;

    for (size_t i = 0; i < call->s.count; i++) {
        const hf_acquire_request *request = &call->s.items[i].request;

        size += request->name_len + text_size(request->label) + text_size(request->session);
    }
    call->texts = at = hfi_malloc(size);
    if (!at)
        return false;
    for (size_t i = 0; i < call->s.count; i++) {
        hf_acquire_request *request = &call->s.items[i].request;

        request->name = memcpy(at, request->name, request->name_len);
        at += request->name_len;
        request->label = copy_text(&at, request->label);
        request->session = copy_text(&at, request->session);
    }
    return true;
}

hf_status hf_acquire_all_async(hf_store *handle, const hf_acquire_request *requests, size_t count,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct all_call *call;
    struct hfi_store *store;
    hf_status status;

    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    if (!requests)
        return hfi_error_set(err, HF_INVALID, 0, "requests: NULL");
    status = hfi_store_enter(handle, &store, err);
    if (status != HF_OK)
        return status;
    call = hfi_calloc(1, sizeof *call);
    if (!call) {
        hfi_store_leave(store);
        return hfi_error_memory(err);
    }
    hfi_task_init(&call->task, store, acquire_step);
    call->task.handle = handle;
    call->task.finish = acquire_finish;
    call->task.free = acquire_free;
    call->s = (struct several){ .handle = handle, .store = store, .count = count };
    call->s.items = hfi_calloc(count, sizeof *call->s.items);
    status = call->s.items ? read_all(&call->s, requests, err) : hfi_error_memory(err);
    if (status == HF_OK && !copy_texts(call))
        status = hfi_error_memory(err);
    if (status == HF_OK) {
        call->task.cancel = call->s.items[0].request.cancel;
        status = hfi_task_begin(&call->task, done, arg, ret_op, err);
    }
    if (status != HF_OK)
        acquire_free(&call->task);
    return status;
}

static hf_status release_step(struct hfi_task *task, hf_status got)
{
    struct all_call *call = hfi_container(task, struct all_call, task);
    hf_status status;

    if (got != HF_OK && call->status == HF_OK) {
        call->status = got;
        task->error = task->child.error;
    }
    status = release_next(call);
    return status == HF_OK ? call->status : status;
}

static void release_free(struct hfi_task *task)
{
    struct all_call *call = hfi_container(task, struct all_call, task);

    hfi_lease_leave_store(call->shard);
    hfi_free(call);
}

hf_status hf_release_all_async(hf_lease *const *leases, size_t count, hf_done_fn *done, void *arg,
                               hf_op **ret_op, hf_error *err)
{
    struct all_call *call;
    struct hfi_store *store;
    hf_status status = HF_INVALID;

    if (count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                             HF_ACQUIRE_ALL_MAX);
    if (!leases)
        return hfi_error_set(err, HF_INVALID, 0, "leases: NULL");
    call = hfi_calloc(1, sizeof *call);
    if (!call)
        return hfi_error_memory(err);
    /* Those that have ended do not keep the others from being released. */
    for (size_t i = 0; i < count && status != HF_OK; i++)
        status = hfi_lease_enter_store(leases[i], &store, &call->shard, err);
    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    hfi_task_init(&call->task, store, release_step);
    call->task.free = release_free;
    memcpy(call->leases, leases, count * sizeof *leases);
    call->next = count;
    status = hfi_task_begin(&call->task, done, arg, ret_op, err);
    if (status != HF_OK)
        release_free(&call->task);
    return status;
}
