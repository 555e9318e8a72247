/* SPDX-License-Identifier: MIT */
/* The steps of an acquire that hf_acquire() and hf_acquire_async() share. */
#ifndef HFI_ACQUIRE_H
#define HFI_ACQUIRE_H

#include "core/request.h"
#include "core/store.h"
#include "core/wait.h"

/* One hf_acquire() under way. */
struct hfi_attempt {
    struct hfi_store *store;
    const struct hfi_want *want;
    struct hfi_lease *lease;
    int64_t deadline_ms;           /* when to stop waiting; HFI_NEVER */
    bool waits;                    /* `wait` has been prepared */
    bool waited;                   /* it did not come at once */
    struct hfi_acquire_job *event; /* EVENT: what was asked; NULL: nothing */
    struct hfi_wait wait;
    struct hfi_tag tag;
    struct hfi_want own_want;
    hf_acquire_request whole;
};

/*
 * A try (wait_ms is 0) in two halves, of an EVENT engine: between them others may be begun, and all are
 * under way at once. `request` stays where it is until the end. HF_OK with a->event: hfi_attempt_end()
 * must follow. HF_OK without: *ret_lease is there already. Else that is the answer.
 */
hf_status hfi_attempt_begin(hf_store *handle, const hf_acquire_request *request,
                            struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err);
hf_status hfi_attempt_end(struct hfi_attempt *a, hf_lease **ret_lease, hf_error *err);

/* Which threads of the store a request needs: HFI_STARTED_*. */
unsigned hfi_acquire_threads(struct hfi_store *store, const struct hfi_want *want, bool in_loop);

/* Before the claim is submitted. HF_NO_MEMORY: it must not be. */
hf_status hfi_acquire_prepare(struct hfi_lease *lease);

/* The store granted it. HF_OK: *ret_handle is the lease. HF_TOO_SHORT: it is not worth having, and
 * the caller gives it back. `waited`: it did not come at once. */
hf_status hfi_acquire_granted(struct hfi_lease *lease, int64_t min_valid_ms, bool waited,
                              hf_lease **ret_handle);

/* It was not granted, or never submitted, or it is unknown whether it was (HF_UNKNOWN: given back in
 * the background). Ends the slot and sends the next local waiter to the store. */
void hfi_acquire_failed(struct hfi_lease *lease, hf_status status);

#endif
