/* SPDX-License-Identifier: MIT */
/*
 * The claims of a store by their owner: for answers and messages that name an owner whose claim may
 * have ended meanwhile. With the lock.
 */
#ifndef HFI_KIT_CLAIMS_H
#define HFI_KIT_CLAIMS_H

#include "engine/engine.h"

#define HFI_CLAIMS_BUCKETS 1024

/* Embedded in what the engine remembers of a claim; zeroed before the first add. */
struct hfi_claim_entry {
    struct hfi_claim_entry *next;
    struct hfi_claim *claim; /* NULL: it is not in the table */
    unsigned char owner[HFI_OWNER_LEN];
};

/* Zeroed: empty. */
struct hfi_claims {
    struct hfi_claim_entry *buckets[HFI_CLAIMS_BUCKETS];
};

void hfi_claims_add(struct hfi_claims *claims, struct hfi_claim_entry *entry,
                    struct hfi_claim *claim);
void hfi_claims_remove(struct hfi_claims *claims, struct hfi_claim_entry *entry);
struct hfi_claim_entry *hfi_claims_find(const struct hfi_claims *claims,
                                        const unsigned char owner[HFI_OWNER_LEN]); /* NULL: none */
struct hfi_claim_entry *hfi_claims_any(const struct hfi_claims *claims); /* NULL: it is empty */

#endif
