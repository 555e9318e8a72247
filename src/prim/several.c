/* SPDX-License-Identifier: MIT */
/*
 * Several names at once: hf_acquire_all() and hf_release_all(). Runs on the caller's
 * thread.
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
    hf_status status = hfi_request_check(hfi_store_engine(s->store), false, request, &item->request,
                                         &checked, err);

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
    const struct hfi_engine *engine = hfi_store_engine(s->store);
    hf_status status = HF_OK;
    size_t held;

    if (engine->cork)
        engine->cork(s->store->conn, true);
    for (size_t i = 0; i < s->count; i++) {
        struct item *item = &s->items[i];

        item->request.wait_ms = 0;
        item->status = hfi_acquire_begin(s->handle, &item->request, &item->call, &item->error);
        if (item->status != HF_OK)
            item->call = NULL;
    }
    if (engine->cork)
        engine->cork(s->store->conn, false);
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
