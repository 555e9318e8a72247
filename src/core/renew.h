/* SPDX-License-Identifier: MIT */
/* Renewals: many leases in one op. */
#ifndef HFI_RENEW_H
#define HFI_RENEW_H

#include "core/store.h"

/* What one op renews, while it is filled and under way. Every lease in it has HFI_PART_RENEWAL. */
struct hfi_batch {
    struct hfi_store *store;
    size_t count, room;
    int64_t until_ms; /* when the first of them ends */
    struct hfi_renewal items[];
};

/* NULL: out of memory. */
struct hfi_batch *hfi_batch_new(struct hfi_store *store, size_t room);
/* Add a held lease, with its shard's lock. There is room. */
void hfi_batch_add(struct hfi_batch *batch, struct hfi_lease *lease, int64_t ttl_ms,
                   int64_t now_ms);
/* The store has answered: update the leases, and free the batch. Any thread, no locks. */
void hfi_batch_end(struct hfi_batch *batch);

#endif
