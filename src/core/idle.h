/* SPDX-License-Identifier: MIT */
/*
 * Idle leases: a lease that was released, but stays with its process for a while (linger_ms). The next local acquire takes it
 * with its next token, without a round trip. As soon as the store says that others want it, it is given back.
 *
 *            release: nobody waits, here or in the store
 *   HELD -----------------------------------------------> IDLE
 *     ^                                                    |  |  recall, time is up, doubt, the line is lost, another kind of
 *     |  an equal request: the next token, a new handle    |  |  request, hf_close(), hf_idle_release()
 *     +----------------------------------------------------+  +--> ENDING: released by its owner id, in the background
 *
 * All of it is under the lock of the name's shard: of a recall and a local acquire one comes first. The store never learns
 * whether a lingering lease is in use. It only knows that it must ask (HFI_CLAIM_LINGERS).
 *
 * Tokens: the claim has a block of them, and a second one behind it. When half of the block is used, the keeper renews the lease and
 * asks for the next block. If the block is used up, requests wait in the local queue of the IDLE slot for that answer.
 */
#ifndef HFI_IDLE_H
#define HFI_IDLE_H

#include "core/request.h"
#include "core/store.h"
#include "core/wait.h"

/* What is to be done after the lock of the shard has been dropped. */
struct hfi_idle_end {
    struct hfi_lease *lease; /* to be released; NULL: none */
    struct hfi_wait *go;     /* to be told GO after that; NULL: none */
    struct hfi_wait *passed; /* to be told PASSED; NULL: none */
};

/* Without locks. */
void hfi_idle_finish(struct hfi_idle_end *end);

/* ---- requests ------------------------------------------------------------------------ */

/* May the fast way be worth a look? */
static inline bool hfi_idle_maybe(const struct hfi_store *store, const hf_acquire_request *request)
{
    return store->linger_ms > 0 ||
           (request && request->size == sizeof *request && request->linger_ms > 0);
}

/* How long the lease of a checked request may linger: as it asks, else as the URL says. Sets checked->linger_ms. */
void hfi_idle_choose(const struct hfi_store *store, struct hfi_checked_request *checked);

/* Take an idle lease for a request of this thread. false: there is none that fits. */
bool hfi_idle_acquire(hf_store *handle, struct hfi_store *store,
                      const struct hfi_checked_request *checked, hf_lease **ret_lease);

/* A new slot, in no table yet: its claim may linger. Without the lock. */
void hfi_idle_prepare(struct hfi_lease *lease, int64_t linger_ms);

/* A request comes to the local queue of a shard that has idle leases. With the lock. */
enum hfi_idle_entrance {
    HFI_IDLE_NONE,  /* there is none of this name, or there was one and it is in ret_end */
    HFI_IDLE_TAKEN, /* *ret_lease is its lease */
    HFI_IDLE_WAIT   /* *ret_idle will have tokens soon: wait there */
};
enum hfi_idle_entrance hfi_idle_enter(struct hfi_shard *shard, struct hfi_lease *lease,
                                      int64_t min_valid_ms, hf_lease **ret_lease,
                                      struct hfi_lease **ret_idle, struct hfi_idle_end *ret_end);

/* ---- a lease ------------------------------------------------------------------------- */

/* The claim was granted: its first block. By its owner, before it is published. */
void hfi_idle_granted(struct hfi_lease *lease);

/* The last hold ends, and nobody was passed the lease. true: it is IDLE now. With the lock. */
bool hfi_idle_begin(struct hfi_lease *lease);

/* Passing on: is there a token for it? `limit`: how often it is passed on although others wait. */
bool hfi_idle_may_pass(const struct hfi_lease *lease, uint32_t limit);
/* The next token of its blocks. There is one. */
void hfi_idle_next_token(struct hfi_lease *lease);

/* End an IDLE lease. With the lock. */
void hfi_idle_end(struct hfi_lease *lease, struct hfi_idle_end *ret_end);
/* A lingering claim that others want leaves the process. With the lock. */
void hfi_idle_recalled(struct hfi_lease *lease);

/* The timer of an IDLE lease, or of one that wants tokens. With the lock. */
bool hfi_idle_due(struct hfi_lease *lease, int64_t now_ms, struct hfi_idle_end *ret_end);
/* What a renewal of it asks for: the ttl and the tokens. */
int64_t hfi_idle_ttl(const struct hfi_lease *lease, int64_t now_ms);
uint32_t hfi_idle_tokens(const struct hfi_lease *lease);
/* A renewal was answered: `ok`, or the lease is gone or doubtful. With the lock. */
void hfi_idle_renewed(struct hfi_lease *lease, const struct hfi_renewal *item, bool ok,
                      int64_t now_ms, struct hfi_idle_end *ret_end);
/* Set its timer: for what its term needs, or for lingering. With the lock, or by its owner. */
void hfi_idle_arm(struct hfi_lease *lease, int64_t at_ms);

/* ---- all of a store ------------------------------------------------------------------ */

/* End all idle leases. Without locks. */
void hfi_idle_end_all(struct hfi_store *store);

#endif
