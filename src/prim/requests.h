/* SPDX-License-Identifier: MIT */
/* The requests of a call that names several: all of them (several.c), or any one (any.c). Any thread. */
#ifndef HFI_PRIM_REQUESTS_H
#define HFI_PRIM_REQUESTS_H

#include "core/request.h"
#include "core/store.h"

struct hfi_request_item {
    hf_acquire_request request; /* in full size, with the length of its name */
    size_t index;               /* of the caller's */
    hf_lease *lease;            /* NULL: not held */
};

/* Check the requests, and copy them into an array from hfi_malloc(), in the order of the caller: all have the same wait_ms,
 * cancel, scope and session, and different names. Every refusal names the request. */
hf_status hfi_requests_read(struct hfi_store *store, const hf_acquire_request *requests,
                            size_t count, struct hfi_request_item **ret_items, hf_error *err);
/* Copy what the requests point to. Returns the memory of the copies. NULL: out of memory. */
char *hfi_requests_copy_texts(struct hfi_request_item *items, size_t count);
/* By the bytes of their names. */
int hfi_requests_compare(const struct hfi_request_item *a, const struct hfi_request_item *b);

static inline struct hfi_name hfi_requests_name(const struct hfi_request_item *item)
{
    return (struct hfi_name){ .bytes = item->request.name,
                              .len = (uint32_t)item->request.name_len };
}

#endif
