/* SPDX-License-Identifier: MIT */
/*
 * Work with a limit: see within.h. The thread that has done one piece of work stays for the next one: when a command has ended,
 * there are two, the release and the close, and a thread costs more than either.
 */
#include "within.h"

#include "cli.h"
#include "util/clock.h"

#include <pthread.h>
#include <stdlib.h>

struct worker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*work)(void *arg); /* NULL: none is under way */
    void *arg;
};

static struct worker *idle; /* the main thread's, which alone calls within() */

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->work)
            pthread_cond_wait(&worker->changed, &worker->lock);
        pthread_mutex_unlock(&worker->lock);
        worker->work(worker->arg);
        pthread_mutex_lock(&worker->lock);
        worker->work = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    return NULL;
}

void within_prepare(void)
{
    struct worker *worker = idle ? NULL : must_alloc(sizeof *worker);
    pthread_condattr_t attr;
    pthread_t thread;

    if (!worker)
        return;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &attr);
    pthread_condattr_destroy(&attr);
    worker->work = NULL;
    if (pthread_create(&thread, NULL, worker_main, worker) == 0) {
        pthread_detach(thread);
        idle = worker;
    } else {
        free(worker);
    }
}

/* With the lock. Sleep until the work is done, or until_ms has passed. */
static void await(struct worker *worker, int64_t until_ms)
{
    int64_t left_ms;

    while (worker->work && (left_ms = until_ms - hfi_now_ms()) > 0) {
        struct timespec at;

        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec += left_ms / 1000;
        at.tv_nsec += left_ms % 1000 * 1000000;
        if (at.tv_nsec >= 1000000000) {
            at.tv_nsec -= 1000000000;
            at.tv_sec++;
        }
        pthread_cond_timedwait(&worker->changed, &worker->lock, &at);
    }
}

bool within(int64_t limit_ms, void (*work)(void *arg), void *arg)
{
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), limit_ms);
    struct worker *worker;
    bool done;

    within_prepare();
    worker = idle;
    if (!worker) {
        work(arg); /* late is better than not at all */
        return true;
    }
    pthread_mutex_lock(&worker->lock);
    worker->work = work;
    worker->arg = arg;
    pthread_cond_broadcast(&worker->changed);
    await(worker, until_ms);
    done = !worker->work;
    pthread_mutex_unlock(&worker->lock);
    if (!done)
        idle = NULL; /* it is left to its work */
    return done;
}
