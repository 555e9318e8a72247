/* SPDX-License-Identifier: MIT */
/*
 * The local queue. Threads of one process that want one name, exclusively and with equal options,
 * take one place in the store's queue: the first asks the store, and the others queue behind its
 * slot. A release passes the lease to the next of them, with a new token from the block that the
 * grant reserved. When the block is used up, or the claim is pass_ms old, the lease is released in
 * the store, and the next local waiter asks the store again, behind the waiters there.
 *
 * Everything here is under the lock of the lease's shard, unless stated otherwise.
 */
#ifndef HFI_LOCAL_QUEUE_H
#define HFI_LOCAL_QUEUE_H

#include "core/store.h"
#include "core/wait.h"

enum hfi_entrance {
    HFI_ENTRY_GO,     /* ask the store: the slot is in the table */
    HFI_ENTRY_QUEUED, /* wait for hfi_wait_tell() */
    HFI_ENTRY_BUSY,   /* held here, and `wait` is NULL */
    HFI_ENTRY_AGAIN,  /* re-entered */
    HFI_ENTRY_COUNT,  /* likewise, and the store is to be told: core/count.h */
    HFI_ENTRY_TAKEN,  /* an idle lease is its own now */
    HFI_ENTRY_SOON, /* an idle lease waits for its tokens, and `wait` is NULL: come again, to wait */
    HFI_ENTRY_MISMATCH, /* held by us, but as another kind or with other permits */
    HFI_ENTRY_CLOSED    /* the store was closed */
};

/*
 * A new request comes in. Takes the lock itself. `wait` NULL: it does not wait.
 * `fresh`: hfi_wait_init() it first, if it is needed. With GO and QUEUED the slot is counted in its
 * shard, with COUNT the caller is; otherwise only the caller knows the slot.
 */
enum hfi_entrance hfi_local_queue_enter(hf_store *handle, struct hfi_lease *lease,
                                        struct hfi_wait *wait, bool fresh, int64_t min_valid_ms,
                                        hf_lease **ret_again);

/* A waiter wants to leave the queue. Takes the lock itself. false: it was taken out, and is told. */
bool hfi_local_queue_leave(struct hfi_wait *wait);

/* Take a waiter out, so that it asks the store itself, where other processes see it; the caller
 * tells it GO, without locks. Takes the lock itself. false: it is not in the queue, or not any
 * more. */
bool hfi_local_queue_surface(struct hfi_wait *wait);

/* The lease is being released: pass it to the next local waiter, which the caller tells PASSED
 * after unlocking. NULL: release it in the store. */
struct hfi_wait *hfi_local_queue_pass(struct hfi_lease *lease, bool released);

/* The slot leaves, lost or ended: its queue moves to the first waiter, which the caller tells GO
 * after unlocking. NULL: nobody waits. */
struct hfi_wait *hfi_local_queue_hand_on(struct hfi_lease *lease);

/* May a lease whose block has `tokens`, passed on `passes` times, be passed on once more? Pure. */
static inline bool hfi_local_queue_may_pass(uint32_t passes, uint32_t tokens, uint32_t limit)
{
    return passes < limit && passes + 1 < tokens;
}

#endif
