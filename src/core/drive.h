/* SPDX-License-Identifier: MIT */
/*
 * Driving an EVENT engine: a thread that waits drives. One thread at a time has the role; the
 * others sleep on a futex each, until their op is done or the role is handed to them. The keeper
 * drives only when nobody else does.
 *
 * For engines of the other kinds there is nothing to drive: an op is finished when
 * submit() returns.
 */
#ifndef HFI_DRIVE_H
#define HFI_DRIVE_H

#include "engine/engine.h"
#include "util/list.h"

#include <pthread.h>
#include <stdatomic.h>

struct hfi_call;
struct hfi_store;

/* The answer to a call: the engine's status, and its text if that is not HF_OK. */
typedef void hfi_answered_fn(struct hfi_call *call, hf_status status, const hf_error *inner);

struct hfi_driver {
    pthread_mutex_t lock;
    struct hfi_list sleepers; /* threads that wait for an op while another one drives */
    bool driving;
    pthread_t thread;    /* the driver, while `driving` */
    bool by_keeper;      /* it is the keeper, which gives the role up to any other thread */
    _Atomic int polling; /* the driver is in poll(), or about to be */
    bool keeper_asks;    /* wake the keeper when no thread drives any more */
    bool loop_asks;      /* wake the caller's loop when no thread drives any more */
    uint64_t used;       /* how often a thread other than the keeper drove */
    int wake_fd;         /* ends the driver's poll(); -1: not an EVENT engine */
};

/* There is a claim of which the store may tell something at any time: the keeper drives as soon as no other thread does. */
void hfi_drive_listen(struct hfi_store *store);
bool hfi_drive_init(struct hfi_store *store); /* false: no descriptor is left */
void hfi_drive_done(struct hfi_store *store);

/* What an op calls when it is finished that a thread waits for: EVENT engines. */
hfi_done_fn hfi_call_done;
/* Wait until the call's op is finished, driving if need be. false: until_ms has passed first. */
bool hfi_call_wait(struct hfi_call *call, int64_t until_ms);
/* End that wait: set done_word. Any thread. false: the call was given up, and belongs to its answered_by(). */
bool hfi_call_tell(struct hfi_call *call);
/* Stop waiting. true: the call belongs to `late` now, which gets its answer on any thread. false: it is finished after
 * all. */
bool hfi_call_abandon(struct hfi_call *call, hfi_answered_fn *late);

/* Drive once without blocking, unless another thread drives. */
void hfi_drive_poll(struct hfi_store *store);
/* The time until the engine must be driven, for a caller's loop; -1: no limit. */
int hfi_drive_timeout(struct hfi_store *store);
/* For the keeper: drive until until_ms, until another thread wants to, or until *bell differs from
 * `rung` (hfi_drive_wake() tells). Returns false at once if another thread drives, or did so since
 * *used; *ret_told: that thread will wake the keeper when it stops. */
bool hfi_drive_idle(struct hfi_store *store, uint64_t *used, int64_t until_ms,
                    const _Atomic uint32_t *bell, uint32_t rung, bool *ret_told);
/* Sleep until *word is not `seen` any more, or until until_ms, and drive meanwhile if nobody else does. May return early.
 * What changes the word wakes its futex, and then calls hfi_drive_wake(). */
void hfi_drive_sleep(struct hfi_store *store, _Atomic uint32_t *word, uint32_t seen,
                     int64_t until_ms);
/* Make the driver read its timeouts again. Any thread, any locks. host->wake() */
void hfi_drive_wake(struct hfi_store *store);
void hfi_drive_host_wake(struct hfi_host *host);

#endif
