/* SPDX-License-Identifier: MIT */
/*
 * How long names linger: less, the more often other processes have called them back lately. So processes that hand a name to and
 * fro pay nothing for lingering: their claims are soon made without it.
 *
 * A name has a level by its hash, in a table of HFI_ADAPT_NAMES entries for each store; names may share one. Each level halves the
 * time. An entry belongs to the shard of its names: with the shard's lock.
 */
#ifndef HFI_ADAPT_H
#define HFI_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

struct hfi_store;

#define HFI_ADAPT_NAMES 4096 /* a multiple of HFI_SHARDS */
#define HFI_ADAPT_MAX   8
#define HFI_ADAPT_FEW   8 /* a recall after fewer takes means that lingering did not pay off ... */
#define HFI_ADAPT_TIMES \
    4 /* ... and so does one that comes sooner than so many times the wait for the claim, ... */
#define HFI_ADAPT_LONG_NS INT64_C(100000000) /* ... but after this time it did */
#define HFI_ADAPT_CALM_MS \
    1000 /* one level less for each time of this length without such a recall */

struct hfi_adapt {
    int64_t at_ms; /* when the level was set, or fell */
    int level;
};

/* The level at now_ms. Pure. */
static inline int hfi_adapt_level(const struct hfi_adapt *entry, int64_t now_ms)
{
    int64_t calm = (now_ms - entry->at_ms) / HFI_ADAPT_CALM_MS;

    return calm >= entry->level ? 0 : entry->level - (int)calm;
}

/* What a claim was good for, when it is called back. */
struct hfi_adapt_use {
    uint32_t takes;               /* how many have held it */
    int64_t waited_ns, stayed_ns; /* until the store granted it; since then */
};

/*
 * Has it paid off that the claim lingers? Takes alone do not say so: one process of two that hand a name to and fro would take it
 * hundreds of times until the other one's recall arrives, and the other one once, for ever. Both see the same times. Pure.
 */
bool hfi_adapt_paid(const struct hfi_adapt_use *use);

/* A claim was called back. Pure. */
void hfi_adapt_note(struct hfi_adapt *entry, bool paid, int64_t now_ms);

/* linger_ms, halved by the level of the name; 0: it does not linger. */
int64_t hfi_adapt_linger(struct hfi_store *store, const uint64_t hash[2], int64_t linger_ms,
                         int64_t now_ms);
/* The name was called back. The first one makes the table: without memory for it every name lingers as asked. */
void hfi_adapt_recalled(struct hfi_store *store, const uint64_t hash[2],
                        const struct hfi_adapt_use *use, int64_t now_ms);

#endif
