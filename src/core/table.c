/* SPDX-License-Identifier: MIT */
/*
 * A chained hash table that doubles. It cannot fail: a shard begins with a few buckets of its own,
 * and without memory to grow the chains become longer.
 */
#include "core/table.h"

#include "util/alloc.h"

static void grow(struct hfi_shard *shard);

static void put(struct hfi_lease **bucket, struct hfi_lease *lease)
{
    lease->next = *bucket;
    lease->link = bucket;
    if (lease->next)
        lease->next->link = &lease->next;
    *bucket = lease;
}

static struct hfi_lease **bucket_of(struct hfi_shard *shard, const struct hfi_lease *lease)
{
    return &shard->buckets[lease->claim.name.hash[1] & (shard->bucket_count - 1)];
}

void hfi_table_link(struct hfi_shard *shard, struct hfi_lease *lease)
{
    if (shard->linked >= shard->bucket_count)
        grow(shard);
    shard->linked++;
    put(bucket_of(shard, lease), lease);
}

void hfi_table_unlink(struct hfi_shard *shard, struct hfi_lease *lease)
{
    *lease->link = lease->next;
    if (lease->next)
        lease->next->link = lease->link;
    lease->link = NULL;
    lease->next = NULL;
    shard->linked--;
}

static void grow(struct hfi_shard *shard)
{
    uint32_t old_count = shard->bucket_count;
    uint32_t count = old_count * 2;
    struct hfi_lease **old = shard->buckets;
    struct hfi_lease **more = hfi_calloc(count, sizeof *more);

    if (!more)
        return;
    shard->buckets = more;
    shard->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++)
        for (struct hfi_lease *lease = old[i], *next; lease; lease = next) {
            next = lease->next;
            put(bucket_of(shard, lease), lease);
        }
    if (old != shard->first)
        hfi_free(old);
}
