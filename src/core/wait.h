/* SPDX-License-Identifier: MIT */
/*
 * A request while it waits: in the local queue of a lease, or with its op in the
 * store's queue. A thread that waits has it on its stack; an asynchronous call
 * has it inside.
 *
 * `word` is the state of a local waiter. The thread that takes it out of the queue, under the
 * shard's lock, sets PASSED or GO later, when everything is ready; the waiter itself leaves the
 * queue when it was STOPPED or its time is up:
 *
 *   SLEEPING --> STOPPED --+--> (left the queue itself)
 *       |           |
 *       +-----------+---------> PASSED: the lease is its own now
 *       +-----------+---------> GO: its slot is in the table, it asks the store
 */
#ifndef HFI_WAIT_H
#define HFI_WAIT_H

#include "engine/engine.h"
#include "util/list.h"

#include <pthread.h>
#include <stdatomic.h>

struct hfi_call;
struct hfi_cancel;
struct hfi_lease;
struct hfi_shard;
struct hfi_store;
struct hfi_tag;

enum { HFI_WAIT_SLEEPING, HFI_WAIT_STOPPED, HFI_WAIT_PASSED, HFI_WAIT_GO };

struct hfi_wait {
    struct hfi_list queued;   /* in a lease's queue; under the shard's lock */
    struct hfi_list listed;   /* in the store's list, if is_listed; under store->lock */
    struct hfi_list followed; /* in the canceller's list; under cancel->lock */
    bool is_listed;
    struct hfi_store *store;
    struct hfi_cancel *cancel; /* the canceller in whose list it is; NULL: none */
    struct hfi_lease *lease;   /* its own slot, with which it asks the store */
    struct hfi_shard *shard;   /* of that slot, also when it has gone */
    struct hfi_call *call;     /* asynchronous: its call; NULL: a thread sleeps on `word` */
    int64_t min_valid_ms;
    int64_t tid;
    hf_lease *passed; /* with PASSED: the lease it got */
    _Atomic uint32_t word;
    _Atomic int stop;            /* HF_OK, or why it should end early */
    _Atomic(struct hfi_op *) op; /* what waits in the store; NULL: nothing */

    /* Deadlock detection (deadlock/detector.h), if `tag` is not NULL; the rest is under store->lock. */
    const struct hfi_tag *tag;
    int64_t since_ms, check_ms, pause_ms; /* when it began, is to be checked next, and after that */
    char *words;                          /* the circle; with stop == HF_DEADLOCK */
};

void hfi_wait_init(struct hfi_wait *wait, struct hfi_store *store, struct hfi_lease *lease,
                   int64_t min_valid_ms);

/* From now on hf_cancel_fire(cancel) stops it. HF_CANCELLED: it has been fired; HF_INVALID. */
hf_status hfi_wait_follow(struct hfi_wait *wait, hf_cancel *cancel);
/* Likewise a task that stops its children. false: it does so already. */
bool hfi_wait_follow_task(struct hfi_wait *wait, struct hfi_cancel *stop);
/* From now on hf_close() stops it. */
void hfi_wait_list(struct hfi_wait *wait);
/* After this neither can stop it, and neither is about to. */
void hfi_wait_leave(struct hfi_wait *wait);

/* The op is in the store now: a stop goes to the engine. */
void hfi_wait_in_store(struct hfi_wait *wait, struct hfi_op *op);
/* Ask it to end early. With the lock of a list that it is in, or by its owner. */
void hfi_wait_stop(struct hfi_wait *wait, hf_status status);

/* Set the final state of a local waiter that is in no queue any more; it may be gone at once. */
void hfi_wait_tell(struct hfi_wait *wait, uint32_t word);

/* Is the handle a canceller that has not been fired? HF_INVALID, HF_FORKED, HF_CANCELLED. */
hf_status hfi_cancel_look(hf_cancel *cancel);
hf_status hfi_cancel_check(hf_cancel *cancel, hf_error *err); /* with a text */

#endif
