/* SPDX-License-Identifier: MIT */
/*
 * What the store says about the waiters behind a lease: host->wanted(), host->hears(), and what grants and renewals tell. Runs on
 * the thread that drives the store, or on one of the engine.
 */
#include "core/store.h"

void hfi_lease_wanted(struct hfi_host *host, struct hfi_claim *claim,
                      const unsigned char owner[HFI_OWNER_LEN], enum hfi_wanted what,
                      const char *text)
{
    struct hfi_lease *lease = hfi_container(claim, struct hfi_lease, claim);
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    int phase;

    (void)host, (void)text;
    if (what == HFI_WANTED_ASKED)
        return;
    pthread_mutex_lock(&shard->lock);
    phase = atomic_load(&lease->phase);
    /* While it is GOING too: this may overtake the grant. */
    if ((phase == HFI_GOING || phase == HFI_HELD) &&
        atomic_load_explicit(&lease->shard, memory_order_relaxed) == shard &&
        memcmp(lease->claim.owner, owner, HFI_OWNER_LEN) == 0)
        atomic_store_explicit(&lease->wanted, what == HFI_WANTED_YES, memory_order_relaxed);
    pthread_mutex_unlock(&shard->lock);
}

void hfi_store_hears(struct hfi_host *host, bool on)
{
    struct hfi_store *store = hfi_container(host, struct hfi_store, host);

    atomic_store(&store->hears, on);
}
