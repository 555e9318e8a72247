/* SPDX-License-Identifier: MIT */
/* Primitives that stand on a lease: see held.h. Any thread. */
#include "prim/held.h"

#include "core/local_queue.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* With the lease's lock. */
static hf_status take(struct hfi_held *held, struct hfi_lease *lease, uint64_t caps, hf_error *err)
{
    struct hfi_prim *prim = &held->prim;
    const char *label = lease->claim.label;

    if (lease->orphan)
        return hfi_error_set(err, HF_LOST, 0, "lease: its store was closed");
    if ((hfi_store_engine(lease->store)->info.caps & caps) != caps)
        return hfi_prim_unsupported(lease->store, prim->verb, err);
    if (lease->claim.permits < lease->claim.capacity)
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "%s: the lease is one of several that may overlap", prim->verb);
    prim->store = lease->store;
    prim->name = lease->claim.name;
    memcpy(held->name, prim->name.bytes, prim->name.len);
    prim->name.bytes = held->name;
    held->token = lease->token;
    snprintf(held->label, sizeof held->label, "%s", label ? label : lease->store->label);
    held->shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    held->shard->entered++;
    return HF_OK;
}

hf_status hfi_held_enter(struct hfi_held *held, hf_lease *handle, const char *verb, uint64_t caps,
                         hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "lease: %s", hf_status_text(status));
    held->prim = (struct hfi_prim){ .verb = verb };
    held->handle = handle;
    status = take(held, lease, caps, err);
    hfi_lease_unlock(lease, next);
    return status;
}

void hfi_held_leave(struct hfi_held *held)
{
    atomic_fetch_add_explicit(&held->shard->left, 1, memory_order_release);
}

bool hfi_held_valid(const struct hfi_held *held)
{
    return hf_lease_state(held->handle) != HF_STATE_LOST;
}
