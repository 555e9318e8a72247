/* SPDX-License-Identifier: MIT */
/*
 * A limit of time for a call that takes none: a thread of ours fires its canceller.
 *
 * Only the main thread has such calls, one at a time. The thread is started for the first one and sleeps until the earliest limit
 * that it was told of; a call that ends before its limit costs no wake-up of its own. It never touches Python.
 */
#include "binding.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool runs;               /* the thread; a child of fork() has none */
    hf_cancel *cancel;       /* NULL: no call is watched */
    int64_t limit_ms;        /* its limit */
    int64_t asleep_until_ms; /* of the thread */
    bool fired;
} watch;

static void sleep_until(int64_t until_ms)
{
    struct timespec until = { .tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000 };

    watch.asleep_until_ms = until_ms;
    if (until_ms == INT64_MAX)
        pthread_cond_wait(&watch.changed, &watch.lock);
    else
        pthread_cond_timedwait(&watch.changed, &watch.lock, &until);
    watch.asleep_until_ms = 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *run(void *arg)
{
    pthread_mutex_lock(&watch.lock);
    for (;;) {
        bool due = now_ms() >= watch.limit_ms;

        if (due && watch.cancel) {
            watch.fired = true;
            /* The lock is held: the end of the call cannot close it meanwhile. */
            hf_cancel_fire(watch.cancel);
            watch.cancel = NULL;
        }
        /* Also if that call has ended: the next ones, with later limits, need not wake us. */
        sleep_until(due ? INT64_MAX : watch.limit_ms);
    }
    return arg;
}

static void forked(void)
{
    watch.runs = false;
}

static bool start(void)
{
    static bool once;
    pthread_condattr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int error;

    /* In a child the copy of the lock may be that of a thread that is not there. */
    pthread_mutex_init(&watch.lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.changed, &attr);
    pthread_condattr_destroy(&attr);
    watch.cancel = NULL;
    watch.asleep_until_ms = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return false;
    if (!once)
        pthread_atfork(NULL, NULL, forked);
    once = true;
    pthread_detach(thread);
    watch.runs = true;
    return true;
}

bool watch_begin(hf_cancel *cancel, int64_t after_ms)
{
    if (!watch.runs && !start())
        return false;
    pthread_mutex_lock(&watch.lock);
    watch.cancel = cancel;
    watch.limit_ms = now_ms() + after_ms;
    watch.fired = false;
    if (watch.limit_ms < watch.asleep_until_ms)
        pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    return true;
}

bool watch_end(void)
{
    bool fired;

    pthread_mutex_lock(&watch.lock);
    watch.cancel = NULL;
    fired = watch.fired;
    pthread_mutex_unlock(&watch.lock);
    return fired;
}
