/* SPDX-License-Identifier: MIT */
/* The worker threads of a store. They are started one by one as they are needed. */
#include "core/pool.h"

#include "util/alloc.h"
#include "util/thread.h"

static void *work(struct hfi_pool *pool, struct hfi_pool_lane *lane);

void hfi_pool_init(struct hfi_pool *pool)
{
    static const unsigned most[HFI_LANES] = { HFI_POOL_SHORT_MAX, HFI_POOL_STEP_MAX,
                                              HFI_POOL_LONG_MAX };

    pthread_mutex_init(&pool->lock, NULL);
    pool->stop = false;
    for (int i = 0; i < HFI_LANES; i++) {
        pthread_cond_init(&pool->lanes[i].more, NULL);
        hfi_list_init(&pool->lanes[i].tasks);
        pool->lanes[i].queued = pool->lanes[i].idle = pool->lanes[i].count = 0;
        pool->lanes[i].most = most[i];
        pool->lanes[i].room = 0;
        pool->lanes[i].threads = NULL;
    }
}

void hfi_pool_allow_waits(struct hfi_pool *pool)
{
    pool->lanes[HFI_LANE_LONG].most = HFI_POOL_WAITS_MAX;
}

static void *work_short(void *arg)
{
    struct hfi_pool *pool = arg;

    return work(pool, &pool->lanes[HFI_LANE_SHORT]);
}

static void *work_step(void *arg)
{
    struct hfi_pool *pool = arg;

    return work(pool, &pool->lanes[HFI_LANE_STEP]);
}

static void *work_long(void *arg)
{
    struct hfi_pool *pool = arg;

    return work(pool, &pool->lanes[HFI_LANE_LONG]);
}

/* With the lock. false: out of memory. */
static bool make_room(struct hfi_pool_lane *lane)
{
    unsigned room = lane->room ? 2 * lane->room : HFI_POOL_LONG_MAX;
    pthread_t *threads;

    if (lane->count < lane->room)
        return true;
    threads = hfi_realloc(lane->threads, room * sizeof *threads);
    if (!threads)
        return false;
    lane->threads = threads;
    lane->room = room;
    return true;
}

/* With the lock. */
static bool add_thread(struct hfi_pool *pool, enum hfi_lane which)
{
    static void *(*const works[HFI_LANES])(void *) = { work_short, work_step, work_long };
    struct hfi_pool_lane *lane = &pool->lanes[which];

    if (lane->count == lane->most || !make_room(lane) ||
        hfi_thread_start(&lane->threads[lane->count], "hf-worker", works[which], pool) != 0)
        return false;
    lane->count++;
    return true;
}

bool hfi_pool_start(struct hfi_pool *pool, enum hfi_lane lane)
{
    bool ok;

    pthread_mutex_lock(&pool->lock);
    ok = pool->lanes[lane].count > 0 || add_thread(pool, lane);
    pthread_mutex_unlock(&pool->lock);
    return ok;
}

void hfi_pool_add(struct hfi_pool *pool, enum hfi_lane which, struct hfi_pool_task *task)
{
    struct hfi_pool_lane *lane = &pool->lanes[which];

    pthread_mutex_lock(&pool->lock);
    hfi_list_append(&lane->tasks, &task->node);
    /* A thread for each task: the one that was woken for the task before ours may block in it. */
    if (++lane->queued <= lane->idle)
        pthread_cond_signal(&lane->more);
    else
        (void)add_thread(pool, which); /* if that fails, the existing threads will run it later */
    pthread_mutex_unlock(&pool->lock);
}

bool hfi_pool_offer(struct hfi_pool *pool, enum hfi_lane which, struct hfi_pool_task *task)
{
    struct hfi_pool_lane *lane = &pool->lanes[which];
    bool taken;

    pthread_mutex_lock(&pool->lock);
    taken = lane->queued < lane->idle || add_thread(pool, which);
    if (taken) {
        hfi_list_append(&lane->tasks, &task->node);
        lane->queued++;
        pthread_cond_signal(&lane->more);
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

bool hfi_pool_take_back(struct hfi_pool *pool, enum hfi_lane which, struct hfi_pool_task *task)
{
    struct hfi_pool_lane *lane = &pool->lanes[which];
    bool there = false;

    pthread_mutex_lock(&pool->lock);
    for (struct hfi_list *node = lane->tasks.next; node != &lane->tasks && !there;
         node = node->next)
        there = node == &task->node;
    if (there) {
        hfi_list_remove(&task->node);
        lane->queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return there;
}

void hfi_pool_stop(struct hfi_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    for (int i = 0; i < HFI_LANES; i++)
        pthread_cond_broadcast(&pool->lanes[i].more);
    pthread_mutex_unlock(&pool->lock);

    for (int i = 0; i < HFI_LANES; i++)
        for (unsigned t = 0; t < pool->lanes[i].count; t++)
            pthread_join(pool->lanes[i].threads[t], NULL);
    for (int i = 0; i < HFI_LANES; i++) {
        hfi_free(pool->lanes[i].threads);
        pool->lanes[i].threads = NULL;
        pool->lanes[i].count = pool->lanes[i].room = 0;
    }
}

static void *work(struct hfi_pool *pool, struct hfi_pool_lane *lane)
{
    struct hfi_list *node;
    struct hfi_pool_task *task;

    pthread_mutex_lock(&pool->lock);
    while ((node = hfi_list_pop(&lane->tasks)) || !pool->stop) {
        if (!node) {
            lane->idle++;
            pthread_cond_wait(&lane->more, &pool->lock);
            lane->idle--;
            continue;
        }
        task = hfi_container(node, struct hfi_pool_task, node);
        lane->queued--;
        pthread_mutex_unlock(&pool->lock);
        task->run(task);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}
