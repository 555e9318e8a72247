/* SPDX-License-Identifier: MIT */
/* The leases and going requests of a shard, by name. With the shard's lock. */
#ifndef HFI_TABLE_H
#define HFI_TABLE_H

#include "core/store.h"

void hfi_table_link(struct hfi_shard *shard, struct hfi_lease *lease);
void hfi_table_unlink(struct hfi_shard *shard, struct hfi_lease *lease);
/* The first of the chain that names with this hash are in; go on with ->next. */
static inline struct hfi_lease *hfi_table_chain(const struct hfi_shard *shard,
                                                const uint64_t hash[2])
{
    return shard->buckets[hash[1] & (shard->bucket_count - 1)];
}

static inline bool hfi_table_same(const struct hfi_name *a, const struct hfi_name *b)
{
    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] && a->len == b->len &&
           memcmp(a->bytes, b->bytes, a->len) == 0;
}

#endif
