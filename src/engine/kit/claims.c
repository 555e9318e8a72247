/* SPDX-License-Identifier: MIT */
/* A hash table whose entries live inside what the engine remembers. See claims.h. */
#include "engine/kit/claims.h"

#include <assert.h>
#include <string.h>

static uint32_t bucket(const unsigned char *owner)
{
    uint32_t key;

    memcpy(&key, owner, sizeof key); /* owners are random */
    return key % HFI_CLAIMS_BUCKETS;
}

void hfi_claims_add(struct hfi_claims *claims, struct hfi_claim_entry *entry,
                    struct hfi_claim *claim)
{
    struct hfi_claim_entry **at = &claims->buckets[bucket(claim->owner)];

    /* A new entry: an answer finds one by owner, and adds none twice. */
    assert(!entry->claim);
    entry->claim = claim;
    memcpy(entry->owner, claim->owner, HFI_OWNER_LEN);
    entry->next = *at;
    *at = entry;
}

void hfi_claims_remove(struct hfi_claims *claims, struct hfi_claim_entry *entry)
{
    struct hfi_claim_entry **at = &claims->buckets[bucket(entry->owner)];

    /* It is freed with this; what comes later for its owner does not find it. */
    assert(entry->claim);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    entry->claim = NULL;
}

struct hfi_claim_entry *hfi_claims_find(const struct hfi_claims *claims,
                                        const unsigned char owner[HFI_OWNER_LEN])
{
    struct hfi_claim_entry *entry = claims->buckets[bucket(owner)];

    while (entry && memcmp(entry->owner, owner, HFI_OWNER_LEN) != 0)
        entry = entry->next;
    return entry;
}

struct hfi_claim_entry *hfi_claims_any(const struct hfi_claims *claims)
{
    for (size_t i = 0; i < HFI_CLAIMS_BUCKETS; i++)
        if (claims->buckets[i])
            return claims->buckets[i];
    return NULL;
}
