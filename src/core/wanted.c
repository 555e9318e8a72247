/* SPDX-License-Identifier: MIT */
/*
 * What the store says about the waiters behind a lease: host->wanted(), host->hears(), and what grants and renewals tell. Runs on
 * the thread that drives the store, or on one of the engine.
 */
#include "core/idle.h"
#include "core/request.h"
#include "core/store.h"
#include "util/alloc.h"
#include "util/clock.h"

#define ASKED_MS 1000 /* between two ASKED of one lease */

/* The holder is told, unless it was lately. One that has not heard of its grant yet is told then. With the lock. */
static void asked(struct hfi_lease *lease, bool held, const char *text)
{
    int64_t now_ms = hfi_now_ms();
    char *copy;

    if (!lease->watch || (!held && lease->events.early) ||
        (held &&
         (hfi_lease_lost(lease) || (lease->asked_ms != 0 && now_ms - lease->asked_ms < ASKED_MS))))
        return;
    copy = hfi_strndup(text, hfi_label_len(text, HF_LABEL_MAX));
    if (!copy)
        return;
    if (!held) {
        lease->events.early = copy; /* hfi_lease_begin() */
        return;
    }
    lease->asked_ms = now_ms;
    hfi_lease_note_asked(lease, copy);
}

void hfi_lease_wanted(struct hfi_host *host, struct hfi_claim *claim,
                      const unsigned char owner[HFI_OWNER_LEN], enum hfi_wanted what,
                      const char *text)
{
    struct hfi_lease *lease = hfi_container(claim, struct hfi_lease, claim);
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    struct hfi_idle_end end = { NULL, NULL, NULL };
    int phase;

    (void)host;
    pthread_mutex_lock(&shard->lock);
    phase = atomic_load(&lease->phase);
    if ((phase == HFI_GOING || phase == HFI_HELD || phase == HFI_IDLE) &&
        atomic_load_explicit(&lease->shard, memory_order_relaxed) == shard &&
        memcmp(lease->claim.owner, owner, HFI_OWNER_LEN) == 0) {
        /* While it is GOING too: this may overtake the grant. */
        if (what != HFI_WANTED_ASKED)
            atomic_store_explicit(&lease->wanted, what == HFI_WANTED_YES, memory_order_relaxed);
        lease->heard = lease->heard || what == HFI_WANTED_YES;
        if (phase == HFI_IDLE && what != HFI_WANTED_NO) { /* asked for, and nobody uses it */
            hfi_idle_recalled(lease);
            hfi_idle_end(lease, &end);
        }
        if (phase != HFI_IDLE && what == HFI_WANTED_ASKED)
            asked(lease, phase == HFI_HELD, text);
        else if (phase == HFI_HELD)
            hfi_lease_note(lease);
    }
    pthread_mutex_unlock(&shard->lock);
    hfi_idle_finish(&end); /* at once, on the thread that has heard it */
}

/* Whether others wait is not known any more, and so it counts as no, until a renewal or a message says yes. With the lock. */
static void forget_shard(struct hfi_shard *shard)
{
    for (uint32_t b = 0; b < shard->bucket_count; b++)
        for (struct hfi_lease *lease = shard->buckets[b]; lease; lease = lease->next)
            if (lease->claim.flags & HFI_CLAIM_WATCHED && atomic_load(&lease->phase) == HFI_HELD) {
                atomic_store_explicit(&lease->wanted, false, memory_order_relaxed);
                hfi_lease_note(lease);
            }
}

void hfi_store_hears(struct hfi_host *host, bool on)
{
    struct hfi_store *store = hfi_container(host, struct hfi_store, host);

    atomic_store(&store->hears, on);
    if (!on)
        hfi_idle_end_all(store); /* nobody could call them back */
    for (int i = 0; i < HFI_SHARDS && !on; i++) {
        pthread_mutex_lock(&store->shards[i].lock);
        forget_shard(&store->shards[i]);
        pthread_mutex_unlock(&store->shards[i].lock);
    }
}
