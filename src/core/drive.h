/* SPDX-License-Identifier: MIT */
/*
 * Driving an EVENT engine: a thread that waits drives. One thread at a time has the role; the
 * others sleep on a futex each, until their op is done or the role is handed to them. The keeper
 * drives only when nobody else does.
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
    struct hfi_list sleepers; /* threads that wait for a job while another one drives */
    bool driving;
    pthread_t thread;    /* the driver, while `driving` */
    bool by_keeper;      /* it is the keeper, which gives the role up to any other thread */
    _Atomic int polling; /* the driver is in poll(), or about to be */
    bool keeper_asks;    /* wake the keeper when no thread drives any more */
    bool loop_asks;      /* wake the caller's loop when no thread drives any more */
    uint64_t used;       /* how often a thread other than the keeper drove */
    int wake_fd;         /* ends the driver's poll(); -1: not an EVENT engine */
};

/*
 * One op that a thread waits for and may give up waiting for. The job must then outlive the call,
 * so for an EVENT engine it is not on the stack: `late` is called, on any thread, when the op has
 * been finished, and frees it.
 */
struct hfi_job {
    struct hfi_op op;
    struct hfi_store *store;
    _Atomic uint32_t done;       /* set under driver.lock */
    bool abandoned;              /* under driver.lock */
    bool drives;                 /* likewise: the thread that waits for it drives */
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
/* Stop waiting. false: the job is done after all. true: it belongs to `late` now. */
bool hfi_job_abandon(struct hfi_job *job);
/* Submit, and wait for HFI_CALL_LIMIT_MS, enough for an op that does not queue; then give it up
 * with HF_UNKNOWN. The text is in job->op.error, unless it was given up: *ret_given_up. */
hf_status hfi_job_run(struct hfi_job *job, bool *ret_given_up);

/* Drive once without blocking, unless another thread drives. */
void hfi_drive_poll(struct hfi_store *store);
/* The time until the engine must be driven, for a caller's loop; -1: no limit. */
int hfi_drive_timeout(struct hfi_store *store);
/* For the keeper: drive until until_ms, until another thread wants to, or until *bell differs from
 * `rung` (hfi_drive_wake() tells). Returns false at once if another thread drives, or did so since
 * *used; *ret_told: that thread will wake the keeper when it stops. */
bool hfi_drive_idle(struct hfi_store *store, uint64_t *used, int64_t until_ms,
                    const _Atomic uint32_t *bell, uint32_t rung, bool *ret_told);
/* Make the driver read its timeouts again. Any thread, any locks. host->wake() */
void hfi_drive_wake(struct hfi_store *store);
void hfi_drive_host_wake(struct hfi_host *host);

#endif
