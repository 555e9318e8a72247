/* SPDX-License-Identifier: MIT */
/*
 * Threads for work that may block in an engine, so that the keeper and event loops never block.
 * There are several lanes, because a request that waits for ever in a blocking engine must not delay
 * the release that it waits for, nor a request that need not wait.
 *
 * A task of the long lane occupies its thread while it waits. Where acquires of the store wait in
 * that way (mode=row and mode=session of SQL), the lane has a thread for each of them.
 */
#ifndef HFI_POOL_H
#define HFI_POOL_H

#include "util/list.h"

#include <pthread.h>

struct hfi_store;

enum hfi_lane {
    HFI_LANE_SHORT, /* renewals, releases, cancels: bounded */
    HFI_LANE_STEP, /* BLOCKING: acquires that do not wait, and ops that can be suspended: bounded */
    HFI_LANE_LONG, /* what waits in its thread */
    HFI_LANES
};

#define HFI_POOL_SHORT_MAX 2
#define HFI_POOL_STEP_MAX  16
#define HFI_POOL_LONG_MAX  16
#define HFI_POOL_WAITS_MAX \
    1000 /* instead, where acquires wait: the most that connections= allows */

struct hfi_pool_task {
    struct hfi_list node;
    void (*run)(struct hfi_pool_task *task);
};

struct hfi_pool {
    pthread_mutex_t lock;
    struct hfi_pool_lane {
        pthread_cond_t more;
        struct hfi_list tasks;
        unsigned queued;      /* tasks in the list */
        unsigned idle, count; /* threads that sleep, or were woken but do not run yet; threads */
        unsigned most, room;  /* of `count`; of `threads` */
        pthread_t *threads;
    } lanes[HFI_LANES];
    bool stop;
};

void hfi_pool_init(struct hfi_pool *pool);
/* Acquires wait in the long lane, each in a thread. Before anything is added. */
void hfi_pool_allow_waits(struct hfi_pool *pool);
/* Make sure that the lane has a thread. false: none could be started. */
bool hfi_pool_start(struct hfi_pool *pool, enum hfi_lane lane);
/* Run the task soon. The lane has been started. */
void hfi_pool_add(struct hfi_pool *pool, enum hfi_lane lane, struct hfi_pool_task *task);
/* Likewise, but only if a thread is free or can be started. */
bool hfi_pool_offer(struct hfi_pool *pool, enum hfi_lane lane, struct hfi_pool_task *task);
/* Take it out of the lane again, if no thread has begun it yet. */
bool hfi_pool_take_back(struct hfi_pool *pool, enum hfi_lane lane, struct hfi_pool_task *task);
/* Run what is there, then end the threads. */
void hfi_pool_stop(struct hfi_pool *pool);

#endif
