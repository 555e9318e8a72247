/* SPDX-License-Identifier: MIT */
/* Reading the requests of a call that names several: see requests.h. */
#include "prim/requests.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

int hfi_requests_compare(const struct hfi_request_item *left, const struct hfi_request_item *right)
{
    const hf_acquire_request *a = &left->request, *b = &right->request;
    int order = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);

    if (order != 0)
        return order;
    return a->name_len < b->name_len ? -1 : a->name_len > b->name_len;
}

/* What must be the same in all of them, and is not. NULL: nothing. */
static const char *differs(const hf_acquire_request *a, const hf_acquire_request *b)
{
    return a->wait_ms != b->wait_ms   ? "wait_ms"
           : a->cancel != b->cancel   ? "cancel"
           : a->scope != b->scope     ? "scope"
           : a->session != b->session ? "session"
                                      : NULL;
}

static hf_status read_one(struct hfi_store *store, struct hfi_request_item *items, size_t index,
                          const hf_acquire_request *request, hf_error *err)
{
    struct hfi_request_item *item = &items[index];
    struct hfi_checked_request checked;
    hf_status status =
        hfi_request_check(hfi_store_promises(store), false, request, &item->request, &checked, err);
    const char *field;

    if (status != HF_OK) {
        hfi_error_wrap(err, "requests[%zu]", index);
        return status;
    }
    item->request = *checked.request;
    item->request.name_len = checked.name_len;
    item->index = index;
    field = differs(&item->request, &items[0].request);
    if (field)
        return hfi_error_set(err, HF_INVALID, 0, "requests[%zu]: %s: not that of the first", index,
                             field);
    for (size_t i = 0; i < index; i++)
        if (hfi_requests_compare(&items[i], item) == 0)
            return hfi_error_set(err, HF_INVALID, 0,
                                 "requests[%zu]: name: the same as in requests[%zu]", index, i);
    return HF_OK;
}

hf_status hfi_requests_read(struct hfi_store *store, const hf_acquire_request *requests,
                            size_t count, struct hfi_request_item **ret_items, hf_error *err)
{
    struct hfi_request_item *items = hfi_calloc(count, sizeof *items);
    const char *at = (const char *)requests;
    hf_status status = items ? HF_OK : hfi_error_memory(err);

    for (size_t i = 0; i < count && status == HF_OK; i++) {
        const hf_acquire_request *request = (const void *)at;

        status = read_one(store, items, i, request, err);
        if (status == HF_OK &&
            (request->size != requests->size || request->size % _Alignof(hf_acquire_request) != 0))
            status = hfi_error_set(err, HF_INVALID, 0,
                                   "requests[%zu]: size: another one than in the first", i);
        at += request->size; /* the caller's struct may be smaller than ours */
    }
    if (status == HF_OK)
        *ret_items = items;
    else
        hfi_free(items);
    return status;
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

char *hfi_requests_copy_texts(struct hfi_request_item *items, size_t count)
{
    size_t size = 1;
    char *texts, *at;

    for (size_t i = 0; i < count; i++) {
        const hf_acquire_request *request = &items[i].request;

        size += request->name_len + text_size(request->label) + text_size(request->session);
    }
    texts = at = hfi_malloc(size);
    for (size_t i = 0; at && i < count; i++) {
        hf_acquire_request *request = &items[i].request;

        request->name = memcpy(at, request->name, request->name_len);
        at += request->name_len;
        request->label = copy_text(&at, request->label);
        request->session = copy_text(&at, request->session);
    }
    return texts;
}
