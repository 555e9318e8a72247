/* SPDX-License-Identifier: MIT */
/*
 * A few threads for work that may block in an engine, so that the keeper and event loops never
 * block. There are several lanes, because a request that waits for ever in a blocking engine must
 * not delay the release that it waits for, nor a request that need not wait.
 *
 * A limit remains: each wait occupies a thread, and their number is bounded. If all threads are
 * busy, a request is tried once without waiting. If it must wait, it joins the store's queue only
 * when a thread is free, even if its name becomes free before that.
 */
#ifndef HFI_POOL_H
#define HFI_POOL_H

#include "util/list.h"

#include <pthread.h>

struct hfi_store;

enum hfi_lane {
    HFI_LANE_SHORT, /* renewals, releases, cancels: bounded */
    HFI_LANE_LONG,  /* acquires of BLOCKING engines: may wait */
    HFI_LANE_TRY,   /* acquires for which the long lane has no thread: bounded, as they do not
                     * wait */
    HFI_LANES
};

#define HFI_POOL_SHORT_MAX 2
#define HFI_POOL_LONG_MAX  16
#define HFI_POOL_TRY_MAX   4

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
        unsigned idle, count; /* threads that sleep, or were woken but do not run yet; all
                               * threads */
        pthread_t threads[HFI_POOL_LONG_MAX];
    } lanes[HFI_LANES];
    bool stop;
};

void hfi_pool_init(struct hfi_pool *pool);
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
