/* SPDX-License-Identifier: MIT */
/* How long names linger: see adapt.h. Runs on the threads of callers, and on those that hear of a recall. */
#include "core/adapt.h"

#include "core/store.h"
#include "util/alloc.h"

_Static_assert(HFI_ADAPT_NAMES % HFI_SHARDS == 0, "an entry belongs to one shard");

bool hfi_adapt_paid(const struct hfi_adapt_use *use)
{
    return use->takes >= HFI_ADAPT_FEW && (use->stayed_ns >= HFI_ADAPT_LONG_NS ||
                                           use->stayed_ns / HFI_ADAPT_TIMES >= use->waited_ns);
}

void hfi_adapt_note(struct hfi_adapt *entry, bool paid, int64_t now_ms)
{
    int level = hfi_adapt_level(entry, now_ms);

    if (paid)
        level = level > 2 ? level - 2 : 0;
    else if (level < HFI_ADAPT_MAX)
        level++;
    entry->level = level;
    entry->at_ms = now_ms;
}

static struct hfi_adapt *entry_of(struct hfi_store *store, const uint64_t hash[2])
{
    struct hfi_adapt *table = atomic_load_explicit(&store->adapt, memory_order_acquire);

    return table ? &table[hash[0] % HFI_ADAPT_NAMES] : NULL;
}

int64_t hfi_adapt_linger(struct hfi_store *store, const uint64_t hash[2], int64_t linger_ms,
                         int64_t now_ms)
{
    const struct hfi_adapt *entry = entry_of(store, hash);

    return entry && entry->level > 0 ? linger_ms >> hfi_adapt_level(entry, now_ms) : linger_ms;
}

void hfi_adapt_recalled(struct hfi_store *store, const uint64_t hash[2],
                        const struct hfi_adapt_use *use, int64_t now_ms)
{
    struct hfi_adapt *entry = entry_of(store, hash), *table, *none = NULL;

    if (!entry && (table = hfi_calloc(HFI_ADAPT_NAMES, sizeof *table))) {
        if (!atomic_compare_exchange_strong(&store->adapt, &none, table))
            hfi_free(table); /* a lease of another shard has made one just now */
        entry = entry_of(store, hash);
    }
    if (entry)
        hfi_adapt_note(entry, hfi_adapt_paid(use), now_ms);
}
