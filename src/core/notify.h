/* SPDX-License-Identifier: MIT */
/*
 * The events of a lease: what has changed, and how its holder learns of it: by hf_lease_get(), by the descriptor of
 * hf_lease_fd(), and by the callback on_event.
 *
 * An event belongs to a *track*. Two tracks are levels (the state; whether others wait): a callback that is late is told where the
 * level is now, and nothing if it is back where the callback knows it. So a lease has at most one event of each track to tell, in
 * the order in which the tracks changed first. LOST is the last event and replaces those that were not told.
 *
 * Callbacks may block or call the library, so neither the keeper nor a driver runs them: those of
 * hf_acquire() run on a thread of their own, those of hf_acquire_async() in hf_store_process().
 *
 * hf_release() takes the events back that were not told, and returns when a callback that runs has ended, so that the callback's
 * argument may be freed then. Of a lost lease it waits for the callback with LOST. It cannot wait when it is
 * called from a callback, or when LOST would come from hf_store_process(): then a callback
 * that has not begun is cancelled, and the caller learns of the loss by HF_LOST.
 *
 * hf_release_async() does not wait: `done` comes when the callback has ended; of a lost lease the thread that runs the callback does
 * the rest of the release after it.
 */
#ifndef HFI_NOTIFY_H
#define HFI_NOTIFY_H

#include "holdfast/holdfast.h"
#include "util/list.h"

#include <pthread.h>
#include <stdint.h>

struct hfi_call;
struct hfi_lease;
struct hfi_store;

enum hfi_way { HFI_WAY_THREAD, HFI_WAY_LOOP, HFI_WAYS };
enum hfi_track { HFI_TRACK_STATE, HFI_TRACK_WANTED, HFI_TRACK_ASKED, HFI_TRACKS };

/* Of a lease. `fn` and `arg` belong to the holder and do not change while the lease is in a queue; the rest is under
 * notify->lock. */
struct hfi_events {
    hf_event_fn *fn; /* NULL: nobody is told, and nothing here is used */
    void *arg;
    hf_lease *handle;                         /* which the lease had when the event happened */
    struct hfi_list notice;                   /* * in the queue of its way */
    unsigned char due[HFI_TRACKS], due_count; /* what is to be told, in order */
    hf_state state, told_state;               /* the levels, and where the callback knows them */
    bool wanted, told_wanted;
    const char *why;            /* with AT_RISK and LOST; it lives as long as the slot */
    char *asked;                /* * with ASKED: the text */
    char *early;                /* of one that came before its grant was heard, and is told then */
    struct hfi_call *releasing; /* the call that waits for LOST to be told; NULL: none */
};

struct hfi_notify {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct hfi_notify_way {
        struct hfi_list queue;  /* leases, by `notice` */
        hf_lease *running;      /* the lease whose callback runs; NULL: none */
        struct hfi_call *after; /* of whose release; NULL: none */
        uint64_t runner;        /* hfi_thread_id() of the thread that runs it; 0: none */
    } ways[HFI_WAYS];
    pthread_t thread;
    bool started, stop;
};

void hfi_notify_init(struct hfi_notify *notify);
/* Make sure that the thread runs. false: it could not be started. */
bool hfi_notify_start(struct hfi_store *store);
/* Run what is queued for hf_store_process(). */
void hfi_notify_run(struct hfi_store *store, enum hfi_way way);
bool hfi_notify_pending(struct hfi_store *store, enum hfi_way way);
/* Run what is queued, then end the thread. */
void hfi_notify_stop(struct hfi_store *store);

/* A holder begins: it knows that it holds, and of no waiter. By its owner, or with the lock of its shard. */
void hfi_events_begin(struct hfi_events *events, hf_event_fn *fn, void *arg);
/* Whatever hf_lease_get() says may have changed, in a slot that is HELD: if so, tell it. With the lock of its shard. */
void hfi_lease_note(struct hfi_lease *lease);
/* Likewise: it was asked for. `text` is allocated, and belongs to the lease now. */
void hfi_lease_note_asked(struct hfi_lease *lease, char *text);
/* Likewise: it is HELD now, and may have been asked for before. */
void hfi_lease_note_early(struct hfi_lease *lease);

/* A hold that is not lost ends: no callback of it begins any more. With the lock of its shard. true: one runs, on another
 * thread. */
bool hfi_notify_drop(struct hfi_lease *lease, hf_lease *handle);
/* Wait until that one has ended; or let `call` end no sooner. Without locks; the store stays open. */
void hfi_notify_await(struct hfi_store *store, hf_lease *handle);
void hfi_notify_follow(struct hfi_store *store, hf_lease *handle, struct hfi_call *call);

/* A lost lease is being released: see above. Without locks. Afterwards no callback of it begins. */
void hfi_notify_end(struct hfi_lease *lease, hf_lease *handle);
/* Likewise, and at once. false: its callback runs, or will, on another thread, and then hfi_call_lost(call). */
bool hfi_notify_leave(struct hfi_lease *lease, hf_lease *handle, struct hfi_call *call);

#endif
