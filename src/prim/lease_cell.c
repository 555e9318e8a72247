/* SPDX-License-Identifier: MIT */
/* Primitives built on a lease and a cell: see lease_cell.h. Any thread. */
#include "prim/lease_cell.h"

#include "core/local_queue.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* With the lease's lock. */
static hf_status take(struct hfi_lease_cell *cell, struct hfi_prim *prim, struct hfi_lease *lease,
                      bool shared, uint64_t caps, hf_error *err)
{
    const char *label = lease->claim.label;

    if (lease->orphan)
        return hfi_error_set(err, HF_LOST, 0, "lease: its store was closed");
    if ((hfi_store_promises(lease->store)->caps & caps) != caps)
        return hfi_prim_unsupported(lease->store, prim->verb, caps, err);
    if (!shared && hfi_lease_overlaps(lease))
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "%s: the lease is one of several that may overlap", prim->verb);
    prim->name = lease->claim.name;
    memcpy(cell->name, prim->name.bytes, prim->name.len);
    prim->name.bytes = cell->name;
    cell->token = lease->token;
    snprintf(cell->label, sizeof cell->label, "%s", label ? label : lease->store->label);
    if (prim->store)
        return HF_OK; /* entered before */
    prim->store = lease->store;
    prim->shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    prim->shard->entered++;
    return HF_OK;
}

static hf_status find_and_take(struct hfi_lease_cell *cell, struct hfi_prim *prim, hf_lease *handle,
                               bool shared, uint64_t caps, hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    cell->lease = handle;
    status = take(cell, prim, lease, shared, caps, err);
    hfi_lease_unlock(lease, next);
    return status;
}

hf_status hfi_lease_cell_enter(struct hfi_lease_cell *cell, struct hfi_prim *prim, hf_lease *lease,
                               const char *verb, uint64_t caps, hf_error *err)
{
    *prim = (struct hfi_prim){ .verb = verb };
    return find_and_take(cell, prim, lease, false, caps, err);
}

hf_status hfi_lease_cell_enter_shared(struct hfi_lease_cell *cell, struct hfi_prim *prim,
                                      hf_lease *lease, const char *verb, hf_error *err)
{
    *prim = (struct hfi_prim){ .verb = verb };
    return find_and_take(cell, prim, lease, true, 0, err);
}

hf_status hfi_lease_cell_take(struct hfi_lease_cell *cell, struct hfi_prim *prim, hf_lease *lease,
                              hf_error *err)
{
    return find_and_take(cell, prim, lease, false, HF_CAP_CELLS, err);
}

void hfi_lease_cell_pin(const struct hfi_lease_cell *cell)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;

    if (hfi_lease_lock(cell->lease, &lease, &next) != HF_OK)
        return; /* it has ended meanwhile */
    lease->named_by = HFI_NAMED_ANY;
    hfi_lease_unlock(lease, next);
}

bool hfi_lease_cell_valid(const struct hfi_lease_cell *cell)
{
    return hf_lease_state(cell->lease) != HF_STATE_LOST;
}
