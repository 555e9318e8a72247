/* SPDX-License-Identifier: MIT */
/* Events of leases: see notify.h. */
#include "core/call.h"
#include "core/observer.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

/* One callback: copies of all that it is told. */
struct telling {
    hf_event_fn *fn;
    void *arg;
    hf_lease *handle;
    hf_event event;
    char text[HF_LABEL_MAX + 1];
};
_Static_assert(HFI_WHY_MAX <= HF_LABEL_MAX + 1, "a text is a reason or a label");

static void run_queue(struct hfi_store *store, struct hfi_notify_way *way);

/* ---- the thread -------------------------------------------------------------------------- */

void hfi_notify_init(struct hfi_notify *notify)
{
    pthread_mutex_init(&notify->lock, NULL);
    pthread_cond_init(&notify->changed, NULL);
    for (int i = 0; i < HFI_WAYS; i++) {
        hfi_list_init(&notify->ways[i].queue);
        notify->ways[i].running = NULL;
        notify->ways[i].after = NULL;
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
        notify->started = hfi_thread_start(&notify->thread, "hf-events", notify_thread, store) == 0;
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

/* ---- something happens --------------------------------------------------------------------- */

void hfi_events_begin(struct hfi_events *events, hf_event_fn *fn, void *arg)
{
    events->fn = fn;
    events->arg = arg;
    events->releasing = NULL;
    events->due_count = 0;
    events->state = events->told_state = HF_STATE_HELD;
    events->wanted = events->told_wanted = false;
}

/* With the shard's lock. A slot that ends has no descriptor, and is in no queue. */
static void queue_event(struct hfi_lease *lease, enum hfi_track track)
{
    struct hfi_notify *notify = &lease->store->notify;
    struct hfi_events *events = &lease->events;
    enum hfi_way way = lease->in_loop ? HFI_WAY_LOOP : HFI_WAY_THREAD;

    pthread_mutex_lock(&notify->lock);
    events->handle = (hf_lease *)(uintptr_t)atomic_load(&lease->slot.handle); /* NOLINT */
    events->state = lease->term.state;
    events->why = lease->why;
    events->wanted = atomic_load_explicit(&lease->level, memory_order_relaxed) == HFI_LEVEL_WANTED;
    if (events->state == HF_STATE_LOST)
        events->due_count = 0; /* nothing else matters now */
    if (!memchr(events->due, (int)track, events->due_count))
        events->due[events->due_count++] = (unsigned char)track;
    if (hfi_list_empty(&events->notice))
        hfi_list_append(&notify->ways[way].queue, &events->notice);
    pthread_cond_broadcast(&notify->changed);
    pthread_mutex_unlock(&notify->lock);
    if (lease->in_loop)
        hfi_loop_ring(lease->store);
}

/* Its descriptor is readable from now on, until hf_lease_get(). It is written each time, as the caller may have read it. */
static void ring_fd(struct hfi_lease *lease)
{
    uint64_t one = 1;

    if (lease->fd >= 0) {
        ssize_t written = write(lease->fd, &one, sizeof one);

        (void)written; /* one that is full is readable */
    }
    lease->changed = true;
}

static enum hfi_level level_of(const struct hfi_lease *lease)
{
    if (hfi_lease_lost(lease))
        return HFI_LEVEL_LOST;
    if (!lease->watch)
        return HFI_LEVEL_UNWATCHED;
    return atomic_load_explicit(&lease->wanted, memory_order_relaxed) ||
                   !hfi_list_empty(&lease->queue)
               ? HFI_LEVEL_WANTED
               : HFI_LEVEL_QUIET;
}

/* The loss of a lease has been observed before: hfi_lease_lose(). */
static void observe(const struct hfi_lease *lease, bool moved, enum hfi_level before,
                    enum hfi_level level)
{
    bool risk = lease->term.state == HF_STATE_AT_RISK;

    if (moved && lease->term.state != HF_STATE_LOST)
        hfi_observe(lease, (hf_observation){ .what = risk ? HF_OBSERVED_AT_RISK : HF_OBSERVED_HELD,
                                             .text = risk ? lease->why : "" });
    if (level != before && level != HFI_LEVEL_LOST)
        hfi_observe(lease,
                    (hf_observation){ .what = level == HFI_LEVEL_WANTED ? HF_OBSERVED_WANTED
                                                                        : HF_OBSERVED_UNWANTED });
}

void hfi_lease_note(struct hfi_lease *lease)
{
    enum hfi_level before = atomic_load_explicit(&lease->level, memory_order_relaxed);
    enum hfi_level level = level_of(lease);
    bool moved = lease->term.state != lease->noted;

    if (!moved && level == before)
        return;
    if (moved && lease->term.state == HF_STATE_AT_RISK)
        lease->why = lease->term.doubtful ? "the store may have forgotten it"
                                          : "a renewal was not confirmed";
    lease->noted = lease->term.state;
    atomic_store_explicit(&lease->level, (unsigned char)level, memory_order_relaxed);
    if (hfi_observed())
        observe(lease, moved, before, level);
    ring_fd(lease);
    if (!lease->events.fn)
        return;
    if (level != before && level != HFI_LEVEL_LOST)
        queue_event(lease, HFI_TRACK_WANTED);
    if (moved)
        queue_event(lease, HFI_TRACK_STATE);
}

void hfi_lease_note_asked(struct hfi_lease *lease, char *text)
{
    struct hfi_notify *notify = &lease->store->notify;
    bool told = false;

    lease->asks++;
    ring_fd(lease);
    if (lease->events.fn) {
        pthread_mutex_lock(&notify->lock);
        told = !lease->events.asked; /* else the callback has not been told of the one before */
        if (told)
            lease->events.asked = text;
        pthread_mutex_unlock(&notify->lock);
    }
    if (told)
        queue_event(lease, HFI_TRACK_ASKED);
    else
        hfi_free(text);
}

void hfi_lease_note_early(struct hfi_lease *lease)
{
    char *text = lease->events.early;

    if (!text || hfi_lease_lost(lease))
        return;
    lease->events.early = NULL;
    lease->asked_ms = hfi_now_ms();
    hfi_lease_note_asked(lease, text);
}

/* ---- telling it ---------------------------------------------------------------------------- */

/* The next event that is still one. false: none. With the lock. */
static bool take_event(struct hfi_lease *lease, struct telling *ret)
{
    static const hf_event of_state[] = { [HF_STATE_HELD] = HF_EVENT_HELD,
                                         [HF_STATE_AT_RISK] = HF_EVENT_AT_RISK,
                                         [HF_STATE_LOST] = HF_EVENT_LOST };
    struct hfi_events *events = &lease->events;

    *ret = (struct telling){ .fn = events->fn, .arg = events->arg, .handle = events->handle };
    for (unsigned i = 0; i < events->due_count; i++) {
        enum hfi_track track = events->due[i];
        bool still = true;

        if (track == HFI_TRACK_STATE) {
            still = events->state != events->told_state;
            ret->event = of_state[events->state];
            if (events->state != HF_STATE_HELD)
                snprintf(ret->text, sizeof ret->text, "%s", events->why);
            events->told_state = events->state;
        } else if (track == HFI_TRACK_WANTED) {
            still = events->wanted != events->told_wanted;
            ret->event = events->wanted ? HF_EVENT_WANTED : HF_EVENT_UNWANTED;
            events->told_wanted = events->wanted;
        } else {
            ret->event = HF_EVENT_ASKED;
            snprintf(ret->text, sizeof ret->text, "%s", events->asked);
            hfi_free(events->asked);
            events->asked = NULL;
        }
        if (still) {
            events->due_count = (unsigned char)(events->due_count - i - 1);
            memmove(events->due, events->due + i + 1, events->due_count);
            return true;
        }
    }
    events->due_count = 0;
    return false;
}

/* The callback has ended: what waits for that goes on. With the lock, which is dropped in between. */
static void go_on(struct hfi_notify *notify, struct hfi_notify_way *way)
{
    struct hfi_call *call = way->after;

    way->running = NULL;
    way->after = NULL;
    pthread_cond_broadcast(&notify->changed);
    if (!call)
        return;
    pthread_mutex_unlock(&notify->lock);
    if (call->lost)
        hfi_call_lost(call);
    else
        hfi_call_unref(call);
    pthread_mutex_lock(&notify->lock);
}

/*
 * Tell them one by one, with notify->lock dropped. While a callback runs its lease
 * may be released, by the callback itself even, and its slot may begin another lease: so the slot is not touched after that.
 */
static void run_queue(struct hfi_store *store, struct hfi_notify_way *way)
{
    struct hfi_notify *notify = &store->notify;
    struct hfi_calling calling = { store, hfi_self.calling };
    struct hfi_list *node;
    struct hfi_lease *lease;
    struct telling telling;

    way->runner = hfi_thread_id();
    while ((node = hfi_list_pop(&way->queue))) {
        lease = hfi_container(node, struct hfi_lease, events.notice);
        if (!take_event(lease, &telling))
            continue;
        if (lease->events.due_count > 0)
            hfi_list_append(&way->queue, node);
        way->running = telling.handle;
        if (telling.event == HF_EVENT_LOST)
            way->after = lease->events.releasing;
        pthread_mutex_unlock(&notify->lock);

        hfi_self.calling = &calling;
        telling.fn(telling.handle, telling.event, telling.text, telling.arg);
        hfi_self.calling = calling.outer;

        pthread_mutex_lock(&notify->lock);
        go_on(notify, way);
    }
    way->runner = 0;
    hfi_closing_tell_others(store);
}

/* ---- the hold ends -------------------------------------------------------------------------- */

/* The way on which another thread runs a callback of this handle now; NULL: none does. With the lock. */
static struct hfi_notify_way *runs_elsewhere(struct hfi_notify *notify, const hf_lease *handle)
{
    for (int i = 0; i < HFI_WAYS; i++)
        if (notify->ways[i].running == handle && notify->ways[i].runner != hfi_thread_id())
            return &notify->ways[i];
    return NULL;
}

/* With the lock. */
static void take_back(struct hfi_events *events)
{
    hfi_list_remove(&events->notice);
    events->due_count = 0;
    hfi_free(events->asked);
    events->asked = NULL;
}

bool hfi_notify_drop(struct hfi_lease *lease, hf_lease *handle)
{
    struct hfi_notify *notify = &lease->store->notify;
    bool running;

    pthread_mutex_lock(&notify->lock);
    take_back(&lease->events);
    running = runs_elsewhere(notify, handle) != NULL;
    pthread_mutex_unlock(&notify->lock);
    return running;
}

void hfi_notify_await(struct hfi_store *store, hf_lease *handle)
{
    struct hfi_notify *notify = &store->notify;

    pthread_mutex_lock(&notify->lock);
    while (runs_elsewhere(notify, handle))
        pthread_cond_wait(&notify->changed, &notify->lock);
    pthread_mutex_unlock(&notify->lock);
}

void hfi_notify_follow(struct hfi_store *store, hf_lease *handle, struct hfi_call *call)
{
    struct hfi_notify *notify = &store->notify;
    struct hfi_notify_way *way;

    pthread_mutex_lock(&notify->lock);
    way = runs_elsewhere(notify, handle);
    if (way) {
        atomic_fetch_add(&call->refs, 1);
        way->after = call;
    }
    pthread_mutex_unlock(&notify->lock);
}

/* With the lock. Has a lost lease nothing more to tell that we can wait for? What we cannot wait for is taken back. */
static bool is_told(struct hfi_lease *lease)
{
    struct hfi_notify_way *way =
        &lease->store->notify.ways[lease->in_loop ? HFI_WAY_LOOP : HFI_WAY_THREAD];

    if (hfi_list_empty(&lease->events.notice))
        return true;
    if (!lease->in_loop && way->runner != hfi_thread_id())
        return false;
    take_back(&lease->events);
    return true;
}

void hfi_notify_end(struct hfi_lease *lease, hf_lease *handle)
{
    struct hfi_notify *notify = &lease->store->notify;

    pthread_mutex_lock(&notify->lock);
    while (!is_told(lease) || runs_elsewhere(notify, handle))
        pthread_cond_wait(&notify->changed, &notify->lock);
    pthread_mutex_unlock(&notify->lock);
}

bool hfi_notify_leave(struct hfi_lease *lease, hf_lease *handle, struct hfi_call *call)
{
    struct hfi_notify *notify = &lease->store->notify;
    struct hfi_notify_way *way;
    bool told;

    pthread_mutex_lock(&notify->lock);
    told = is_told(lease);
    way = runs_elsewhere(notify, handle);
    if (!told)
        lease->events.releasing = call;
    else if (way)
        way->after = call;
    pthread_mutex_unlock(&notify->lock);
    return told && !way;
}
