/* SPDX-License-Identifier: MIT */
/*
 * Reports the loss of a lease to the caller: once, with no lock held.
 *
 * Callbacks may block or call the library, so neither the keeper nor a driver runs them: those of
 * hf_acquire() run on a thread of their own, those of hf_acquire_async() in hf_store_process().
 *
 * hf_release() of a lost lease does not return before its callback has ended, so
 * that the callback's argument may be freed then. It cannot wait when it is
 * called from a callback, or when the callback would come from hf_store_process(): then a callback
 * that has not begun is cancelled, and the caller learns of the loss by HF_LOST.
 *
 * hf_release_async() does not wait: the thread that runs the callback does the rest of the release
 * after it.
 */
#ifndef HFI_NOTIFY_H
#define HFI_NOTIFY_H

#include "util/list.h"

#include <pthread.h>
#include <stdint.h>

struct hfi_call;
struct hfi_lease;
struct hfi_store;

enum hfi_way { HFI_WAY_THREAD, HFI_WAY_LOOP, HFI_WAYS };

struct hfi_notify {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct hfi_notify_way {
        struct hfi_list queue;     /* leases, by `notice` */
        struct hfi_lease *running; /* the lease whose callback runs; NULL: none, or it has been
                                    * released */
        uint64_t runner;           /* hfi_thread_id() of the thread that runs it; 0: none */
    } ways[HFI_WAYS];
    pthread_t thread;
    bool started, stop;
};

void hfi_notify_init(struct hfi_notify *notify);
/* Make sure that the thread runs. false: it could not be started. */
bool hfi_notify_start(struct hfi_store *store);
/* Queue the callback of a lost lease; with its shard's lock. */
void hfi_notify_add(struct hfi_lease *lease);
/* Run what is queued for hf_store_process(). */
void hfi_notify_run(struct hfi_store *store, enum hfi_way way);
bool hfi_notify_pending(struct hfi_store *store, enum hfi_way way);
/* The lease is being released: see above. Without locks. Afterwards no callback of it begins. */
void hfi_notify_end(struct hfi_lease *lease);
/* Likewise, and at once. false: its callback runs, or will, on another thread, and then hfi_call_lost(call). */
bool hfi_notify_leave(struct hfi_lease *lease, struct hfi_call *call);
/* Run what is queued, then end the thread. */
void hfi_notify_stop(struct hfi_store *store);

#endif
