/* SPDX-License-Identifier: MIT */
/*
 * Driving an EVENT engine: whoever waits, drives. One thread at a time has the
 * role; the others sleep on a futex each, until their op is done or the role is
 * handed to them. The keeper drives only when nobody else does.
 *
 * For engines of the other kinds there is nothing to drive: a job is done when
 * submit() returns.
 */
#ifndef HFI_DRIVE_H
#define HFI_DRIVE_H

#include "engine/engine.h"
#include "util/list.h"

#include <pthread.h>
#include <stdatomic.h>

struct hfi_store;

struct hfi_driver {
    pthread_mutex_t lock;
    struct hfi_list sleepers; /* those who wait for a job while somebody else drives */
    bool driving;
    pthread_t thread;    /* who, while `driving` */
    bool by_keeper;      /* it is the keeper: it makes way for anybody */
    _Atomic int polling; /* the driver is in poll(), or about to be */
    bool keeper_asks;    /* the keeper wants to know when nobody drives any more */
    bool loop_asks;      /* the caller's loop wants to know when nobody drives any more */
    uint64_t used;       /* how often somebody drove who was not the keeper */
    int wake_fd;         /* ends the driver's poll(); -1: not an EVENT engine */
};

/*
 * One op that a thread waits for and may give up waiting for. It must then live
 * on, so for an EVENT engine it is not on the stack: `late` is called, on any
 * thread, when it has been finished after all, and frees it.
 */
struct hfi_job {
    struct hfi_op op;
    struct hfi_store *store;
    _Atomic uint32_t done;       /* set under driver.lock */
    bool abandoned;              /* under driver.lock */
    bool drives;                 /* likewise: who waits for it has the role */
    struct hfi_sleeper *sleeper; /* likewise */
    void (*late)(struct hfi_job *job);
};

bool hfi_drive_init(struct hfi_store *store); /* false: no descriptor is left */
void hfi_drive_done(struct hfi_store *store);

/* Prepare the job's op; the caller fills in what its kind needs. */
void hfi_job_init(struct hfi_job *job, struct hfi_store *store, enum hfi_op_kind kind);
void hfi_job_submit(struct hfi_job *job);
/* Wait until it is done, driving if need be. false: until_ms has passed first. */
bool hfi_job_wait(struct hfi_job *job, int64_t until_ms);
/* Give up waiting. false: it is done after all. true: the job belongs to `late` now. */
bool hfi_job_abandon(struct hfi_job *job);
/* Submit and wait as long as an op may take that waits for nobody; then give it up with
 * HF_UNKNOWN. The text is in job->op.error, unless it was given up: *ret_given_up. */
hf_status hfi_job_run(struct hfi_job *job, bool *ret_given_up);

/* Drive once without blocking, unless somebody drives already. */
void hfi_drive_poll(struct hfi_store *store);
/* When the engine wants to be driven at the latest, for a caller's loop; -1: no limit. */
int hfi_drive_timeout(struct hfi_store *store);
/* The keeper's turn: drive until until_ms, until somebody else wants to, or until *bell is not
 * `rung` any more and hfi_drive_wake() says so. Returns at once, with false, if somebody else
 * drives, or did so since *used; *ret_told: he will ring the keeper's bell when he stops. */
bool hfi_drive_idle(struct hfi_store *store, uint64_t *used, int64_t until_ms,
                    const _Atomic uint32_t *bell, uint32_t rung, bool *ret_told);
/* The driver looks again at its timeouts. Any thread, any locks. host->wake() */
void hfi_drive_wake(struct hfi_store *store);
void hfi_drive_host_wake(struct hfi_host *host);

#endif
