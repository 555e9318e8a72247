/* SPDX-License-Identifier: MIT */
/*
 * A few threads that run what may block in an engine, so that the keeper and
 * event loops never do. Two lanes, because a request that waits for ever in a
 * blocking engine must not stand in the way of the release it waits for.
 */
#ifndef HFI_POOL_H
#define HFI_POOL_H

#include "core/list.h"

#include <pthread.h>

struct hfi_store;

enum hfi_lane {
    HFI_LANE_SHORT, /* renewals, releases, cancels: bounded */
    HFI_LANE_LONG,  /* acquires of BLOCKING engines: may wait */
    HFI_LANES
};

#define HFI_POOL_SHORT_MAX 2
#define HFI_POOL_LONG_MAX  16

struct hfi_task {
    struct hfi_list node;
    void (*run)(struct hfi_task *task);
};

struct hfi_pool {
    pthread_mutex_t lock;
    struct hfi_pool_lane {
        pthread_cond_t more;
        struct hfi_list tasks;
        unsigned queued;      /* tasks in the list */
        unsigned idle, count; /* threads that sleep, or were woken but do not run yet; threads */
        pthread_t threads[HFI_POOL_LONG_MAX];
    } lanes[HFI_LANES];
    bool stop;
};

void hfi_pool_init(struct hfi_pool *pool);
/* Make sure that the lane has a thread. false: none could be started. */
bool hfi_pool_start(struct hfi_pool *pool, enum hfi_lane lane);
/* Run the task soon. The lane has been started. */
void hfi_pool_add(struct hfi_pool *pool, enum hfi_lane lane, struct hfi_task *task);
/* Run what is there, then end the threads. */
void hfi_pool_stop(struct hfi_pool *pool);

#endif
