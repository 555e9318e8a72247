/* SPDX-License-Identifier: MIT */
/*
 * An asynchronous call: what hf_op * stands for. It has two references while it is
 * under way, one for the thread that begins it and one for what it waits for;
 * when both are gone it is due, and hf_store_process() calls back and frees it. Timers
 * and cancels take a third for a moment.
 */
#ifndef HFI_CALL_H
#define HFI_CALL_H

#include "core/release.h"

struct hfi_call {
    struct hfi_slot slot;
    pthread_mutex_t lock; /* the handle's end, against hf_op_cancel() */
    struct hfi_store *store;
    struct hfi_wait wait;
    struct hfi_lease *lease; /* the slot that goes to the store, or is released */
    _Atomic int refs;
    bool may_wait;
    bool sole;           /* release: as in struct hfi_end */
    bool lost;           /* likewise: HF_LOST is the answer, whatever the store will say */
    bool timed;          /* has a place for its timer at the keeper */
    int64_t deadline_ms; /* HFI_NEVER: none */
    struct hfi_timer timer;
    struct hfi_task task;      /* what may block, on the pool */
    struct hfi_task stop_task; /* likewise, at the deadline */
    struct hfi_list due;
    struct hfi_call *after; /* in a thread's list of calls that GO */
    struct hfi_op op;

    struct hfi_tag tag;
    uint64_t scope; /* whose the lease will be; 0: no session's */

    hf_done_fn *done;
    void *arg;
    hf_status status;
    hf_lease *handle;
    hf_error error;
};

extern struct hfi_table hfi_calls;

/* With two references, for the beginner and for what it waits for. NULL: out of memory. */
struct hfi_call *hfi_call_new(struct hfi_store *store, hf_done_fn *done, void *arg);
/* It never began: nobody is called back. */
void hfi_call_drop(struct hfi_call *call);
void hfi_call_unref(struct hfi_call *call);
/* What the caller will hear. `name` is looked at only to tell what failed. */
void hfi_call_result(struct hfi_call *call, hf_status status, hf_lease *handle, const char *verb,
                     const struct hfi_name *name, const hf_error *inner);
/* What it waited for has come to an end, and so has everything about it but the callback. Drops a
 * reference: a caller that goes on with the call has another one. */
void hfi_call_end(struct hfi_call *call);

/* A local waiter that is a call has been told PASSED or GO. Any thread, no locks. */
void hfi_call_told(struct hfi_call *call, uint32_t word);
/* It should end early and has nothing in the store: leave the local queue, if it is there. Locks of
 * cancellers or the store may be held. */
void hfi_call_stop_local(struct hfi_call *call);
/* hf_release_async() of a lost lease: its on_lost callback has ended. Any thread, no locks. */
void hfi_call_lost(struct hfi_call *call);
/* Call back, and free it. */
void hfi_call_deliver(struct hfi_call *call);

#endif
