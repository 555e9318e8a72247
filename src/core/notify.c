/* SPDX-License-Identifier: MIT */
/* Lost callbacks: see notify.h. */
#include "core/call.h"
#include "core/thread.h"
#include "util/thread.h"

#include <stdio.h>

static void run_queue(struct hfi_store *store, struct hfi_notify_way *way);

void hfi_notify_init(struct hfi_notify *notify)
{
    pthread_mutex_init(&notify->lock, NULL);
    pthread_cond_init(&notify->changed, NULL);
    for (int i = 0; i < HFI_WAYS; i++) {
        hfi_list_init(&notify->ways[i].queue);
        notify->ways[i].running = NULL;
        notify->ways[i].runner = 0;
    }
    notify->started = notify->stop = false;
}

static void *notify_thread(void *arg)
{
    struct hfi_store *store = arg;
    struct hfi_notify *notify = &store->notify;
    struct hfi_notify_way *way = &notify->ways[HFI_WAY_THREAD];

    pthread_mutex_lock(&notify->lock);
    for (;;) {
        run_queue(store, way);
        if (notify->stop)
            break;
        pthread_cond_wait(&notify->changed, &notify->lock);
    }
    pthread_mutex_unlock(&notify->lock);
    return NULL;
}

bool hfi_notify_start(struct hfi_store *store)
{
    struct hfi_notify *notify = &store->notify;
    bool ok;

    pthread_mutex_lock(&notify->lock);
    if (!notify->started)
        notify->started = hfi_thread_start(&notify->thread, "hf-lost", notify_thread, store) == 0;
    ok = notify->started;
    pthread_mutex_unlock(&notify->lock);
    return ok;
}

void hfi_notify_stop(struct hfi_store *store)
{
    struct hfi_notify *notify = &store->notify;
    bool started;

    pthread_mutex_lock(&notify->lock);
    started = notify->started;
    notify->stop = true;
    pthread_cond_broadcast(&notify->changed);
    pthread_mutex_unlock(&notify->lock);
    if (started)
        pthread_join(notify->thread, NULL);
    notify->started = false;
}

void hfi_notify_add(struct hfi_lease *lease)
{
    struct hfi_store *store = lease->store;
    struct hfi_notify *notify = &store->notify;
    enum hfi_way way = lease->in_loop ? HFI_WAY_LOOP : HFI_WAY_THREAD;

    pthread_mutex_lock(&notify->lock);
    hfi_list_append(&notify->ways[way].queue, &lease->notice);
    pthread_cond_broadcast(&notify->changed);
    pthread_mutex_unlock(&notify->lock);
    if (lease->in_loop)
        hfi_loop_ring(store);
}

bool hfi_notify_pending(struct hfi_store *store, enum hfi_way way)
{
    bool pending;

    pthread_mutex_lock(&store->notify.lock);
    pending = !hfi_list_empty(&store->notify.ways[way].queue);
    pthread_mutex_unlock(&store->notify.lock);
    return pending;
}

void hfi_notify_run(struct hfi_store *store, enum hfi_way way)
{
    pthread_mutex_lock(&store->notify.lock);
    if (store->notify.ways[way].runner == 0)
        run_queue(store, &store->notify.ways[way]);
    pthread_mutex_unlock(&store->notify.lock);
}

/*
 * Call them one by one, with notify->lock dropped. While a callback runs its lease
 * may be released, by the callback itself even: then `running` was set to NULL and the
 * slot must not be touched. The callback's arguments are read before.
 */
static void run_queue(struct hfi_store *store, struct hfi_notify_way *way)
{
    struct hfi_notify *notify = &store->notify;
    struct hfi_calling calling = { store, hfi_self.calling };
    struct hfi_list *node;
    struct hfi_lease *lease;
    struct hfi_call *call;
    hf_lost_fn *on_lost;
    char why[HFI_WHY_MAX];
    hf_lease *handle;
    void *arg;

    way->runner = hfi_thread_id();
    while ((node = hfi_list_pop(&way->queue))) {
        lease = hfi_container(node, struct hfi_lease, notice);
        way->running = lease;
        on_lost = lease->on_lost;
        arg = lease->on_lost_arg;
        handle = lease->lost_handle;
        snprintf(why, sizeof why, "%s", lease->why);
        pthread_mutex_unlock(&notify->lock);

        hfi_self.calling = &calling;
        on_lost(handle, HF_LOST, why, arg);
        hfi_self.calling = calling.outer;

        pthread_mutex_lock(&notify->lock);
        call = way->running == lease ? lease->releasing : NULL;
        way->running = NULL;
        pthread_cond_broadcast(&notify->changed);
        if (call) {
            pthread_mutex_unlock(&notify->lock);
            hfi_call_lost(call);
            pthread_mutex_lock(&notify->lock);
        }
    }
    way->runner = 0;
    hfi_closing_tell_others(store);
}

static struct hfi_notify_way *way_of(struct hfi_lease *lease)
{
    return &lease->store->notify.ways[lease->in_loop ? HFI_WAY_LOOP : HFI_WAY_THREAD];
}

/* With the lock. Has its callback ended, or does it have none, or none for which we can wait? */
static bool is_through(struct hfi_lease *lease)
{
    struct hfi_notify_way *way = way_of(lease);
    bool ours = way->runner == hfi_thread_id();

    if (way->running == lease) {
        if (ours)
            way->running = NULL;
        return ours;
    }
    if (hfi_list_empty(&lease->notice))
        return true;
    if (!lease->in_loop && !ours)
        return false;
    hfi_list_remove(&lease->notice);
    return true;
}

void hfi_notify_end(struct hfi_lease *lease)
{
    struct hfi_notify *notify = &lease->store->notify;

    pthread_mutex_lock(&notify->lock);
    while (!is_through(lease))
        pthread_cond_wait(&notify->changed, &notify->lock);
    pthread_mutex_unlock(&notify->lock);
}

bool hfi_notify_leave(struct hfi_lease *lease, struct hfi_call *call)
{
    struct hfi_notify *notify = &lease->store->notify;
    bool through;

    pthread_mutex_lock(&notify->lock);
    through = is_through(lease);
    if (!through)
        lease->releasing = call;
    pthread_mutex_unlock(&notify->lock);
    return through;
}
