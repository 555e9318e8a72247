/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: the listener, one thread for each open store, from its first lease on. It receives
 * grants and losses (waits.c), sends heartbeats and rechecks (heartbeat.c), and reports local
 * passes to the server. It has a connection of its own as soon as an op waits, or something has
 * been held for a quarter of a second: a lock that is taken and given back costs no second
 * connection.
 */
#include "engine/sql/listener.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"
#include "util/thread.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MIN_MS  50 /* after the listener's connection was lost */
#define PAUSE_MAX_MS  2000
#define NOTE_AFTER_MS 20 /* passes come in bursts: only the last one is sent */
#define IDLE_MS \
    250 /* a lease that is held for longer gets a connection that reports its
                           * loss */

static void *listener_main(void *arg);

/* ---- from outside ------------------------------------------------------------------------------------ */

void sql_listener_kick(struct sql_store *store)
{
    uint64_t one = 1;
    ssize_t rc = write(store->kick_fd, &one, sizeof one);

    (void)rc; /* it is full: the listener is being kicked already */
}

bool sql_listener_fresh(const struct sql_store *store)
{
    const struct sql_listener *listener = store->listener;

    return listener && listener->up && store->heartbeat_sent_ms > 0 &&
           (store->driver->waiter_lives ||
            hfi_now_ms() - store->heartbeat_sent_ms < store->conf.window_min_ms / 2);
}

hf_status sql_listener_start(struct sql_store *store, hf_error *err)
{
    struct sql_listener *listener = store->listener;
    int rc;

    if (store->listener_runs)
        return HF_OK;
    if (!listener) {
        listener = store->listener = hfi_calloc(1, sizeof *listener);
        if (!listener)
            return hfi_error_memory(err);
        listener->note_ms = HFI_NEVER;
    }
    rc = hfi_thread_start(&store->listener_thread, "hf-sql-listen", listener_main, store);
    if (rc != 0)
        return hfi_error_set(err, HF_NO_MEMORY, rc, "cannot start a thread: %s", strerror(rc));
    store->listener_runs = true;
    return HF_OK;
}

hf_status sql_listener_ready(struct sql_wait *wait, hf_error *err)
{
    struct sql_store *store = wait->store;
    struct sql_listener *listener;
    hf_status status;

    pthread_mutex_lock(&store->lock);
    status = sql_listener_start(store, err);
    listener = store->listener;
    if (status == HF_OK && !sql_listener_fresh(store)) {
        if (!wait->for_listener)
            wait->failures = listener->failures;
        if (wait->failures == listener->failures) {
            status = HF_BUSY;
            listener->heartbeat_now = true;
            sql_listener_kick(store);
        } else {
            *err = listener->why;
            status = listener->why.status;
        }
    }
    wait->for_listener = status == HF_BUSY;
    pthread_mutex_unlock(&store->lock);
    return status;
}

void sql_listener_stop(struct sql_store *store)
{
    struct sql_listener *listener = store->listener;

    if (store->listener_runs) {
        pthread_mutex_lock(&store->lock);
        listener->stop = true;
        pthread_mutex_unlock(&store->lock);
        sql_listener_kick(store);
        pthread_join(store->listener_thread, NULL);
        store->listener_runs = false;
    }
    if (store->listener_connection)
        sql_drop(store->listener_connection);
    store->listener_connection = NULL;
    hfi_free(listener);
    store->listener = NULL;
}

void sql_listener_by(struct sql_store *store, int64_t at_ms)
{
    const struct sql_listener *listener = store->listener;

    if (listener && at_ms < listener->until_ms)
        sql_listener_kick(store);
}

void sql_listener_held(struct sql_store *store, bool watched)
{
    struct sql_listener *listener;
    hf_error err;

    if (sql_listener_start(store, &err) != HF_OK)
        return; /* we learn of a loss from our next renewal */
    listener = store->listener;
    listener->busy = true;
    if (listener->asleep || (watched && !listener->up)) {
        listener->asleep = false;
        sql_listener_kick(store);
    }
}

void sql_listener_note(struct sql_store *store)
{
    struct sql_listener *listener = store->listener;

    if (listener && listener->note_ms == HFI_NEVER) {
        listener->note_ms = hfi_now_ms() + NOTE_AFTER_MS;
        sql_listener_kick(store);
    }
}

void sql_listener_naps(struct sql_store *store, bool may)
{
    pthread_mutex_lock(&store->lock);
    store->listener->naps = may;
    pthread_mutex_unlock(&store->lock);
}

void sql_listener_napping(struct sql_store *store, bool does)
{
    pthread_mutex_lock(&store->lock);
    store->listener->napping = does;
    pthread_mutex_unlock(&store->lock);
}

void sql_listener_changed(struct sql_store *store)
{
    for (struct sql_wait *w = store->waits; w; w = w->next)
        if (w->for_listener)
            sql_wait_wake(w);
}

void sql_listener_hears(struct sql_store *store, bool on)
{
    if (store->listener->hears != on)
        store->host->hears(store->host, on);
    store->listener->hears = on;
}

/* ---- the thread --------------------------------------------------------------------------------------- */

/* When a heartbeat is due for this wait. With the lock. */
static int64_t heartbeat_due_ms(const struct sql_store *store, const struct sql_wait *wait)
{
    int64_t from_ms = store->heartbeat_sent_ms;

    if (wait->window_ms <= 0)
        return HFI_NEVER;
    if (store->driver->waiter_lives && wait->claim) {
        if (wait->state != HFI_WAITER_QUEUED)
            return HFI_NEVER;
        if (wait->heard_ms > from_ms)
            from_ms = wait->heard_ms;
    }
    return from_ms + hfi_heartbeat_ms(wait->window_ms);
}

/* When the next periodic call is due; *ret_heartbeat: a heartbeat is due now. */
static int64_t next_ms(struct sql_store *store, bool *ret_heartbeat)
{
    struct sql_listener *listener = store->listener;
    int64_t now_ms = hfi_now_ms(), next_ms, beat_ms = HFI_NEVER;

    pthread_mutex_lock(&store->lock);
    next_ms = sql_waits_wake_due(store, now_ms);
    for (const struct sql_wait *w = store->waits; w; w = w->next) {
        if (heartbeat_due_ms(store, w) < beat_ms)
            beat_ms = heartbeat_due_ms(store, w);
        if (w->claim && w->state == HFI_WAITER_QUEUED && w->recheck_ms < next_ms)
            next_ms = w->recheck_ms;
    }
    if (beat_ms < next_ms)
        next_ms = beat_ms;
    *ret_heartbeat = listener->heartbeat_now || now_ms >= beat_ms;
    if (listener->note_ms < next_ms)
        next_ms = listener->note_ms;
    if (*ret_heartbeat)
        next_ms = now_ms;
    listener->until_ms = next_ms;
    pthread_mutex_unlock(&store->lock);
    return next_ms;
}

static bool is_stopped(struct sql_store *store)
{
    const struct sql_listener *listener = store->listener;
    bool stop;

    pthread_mutex_lock(&store->lock);
    stop = listener->stop;
    pthread_mutex_unlock(&store->lock);
    return stop;
}

static bool notes_due(struct sql_store *store)
{
    struct sql_listener *listener = store->listener;
    bool due;

    pthread_mutex_lock(&store->lock);
    due = listener->note_ms <= hfi_now_ms();
    if (due)
        listener->note_ms = HFI_NEVER;
    pthread_mutex_unlock(&store->lock);
    return due;
}

/* Waits for cells may have missed notices while nobody listened. */
static void recheck_cells(struct sql_store *store)
{
    pthread_mutex_lock(&store->lock);
    for (struct sql_wait *w = store->waits; w; w = w->next)
        if (!w->claim)
            sql_wait_wake(w);
    pthread_mutex_unlock(&store->lock);
}

/* Listen, and work, until the connection is lost or we are stopped. */
static hf_status serve(struct sql_store *store, struct sql_heartbeat_batch *batch, hf_error *err)
{
    hf_status status =
        sql_heartbeat(store, batch, true, err); /* find out what was missed before we listened */

    if (status == HF_OK)
        recheck_cells(store);
    while (status == HF_OK && !is_stopped(store)) {
        struct sql_message message = { .kind = SQL_NOTICE_NONE };
        bool due;
        int64_t until_ms = next_ms(store, &due);

        status = store->driver->next_notice(store->listener_connection, store->kick_fd, until_ms,
                                            &message, err);
        if (status != HF_OK)
            break;
        if (message.kind != SQL_NOTICE_NONE) {
            sql_take_notice(store, &message);
            if (until_ms > hfi_now_ms())
                continue; /* take pending notices first, while nothing else is due */
        }
        (void)next_ms(store, &due);
        if (due)
            status = sql_heartbeat(store, batch, false, err);
        if (status == HF_OK)
            status = sql_recheck_due(store, err);
        if (status == HF_OK && notes_due(store))
            (void)sql_notes_send(store, hfi_now_ms() + store->conf.op_ms, err);
    }
    return status;
}

static void failed(struct sql_store *store, const hf_error *err)
{
    struct sql_listener *listener = store->listener;

    pthread_mutex_lock(&store->lock);
    listener->up = false;
    listener->failures++;
    listener->why = *err;
    if (listener->why.status == HF_OK || listener->why.status == HF_UNKNOWN)
        listener->why.status = HF_UNAVAILABLE;
    sql_listener_changed(store);
    pthread_mutex_unlock(&store->lock);
    sql_listener_hears(store, false);
}

/* Until then, or until a kick; what is suspended until a time is woken meanwhile. */
static void listener_sleep(struct sql_store *store, int64_t until_ms)
{
    struct pollfd at = { .fd = store->kick_fd, .events = POLLIN };
    uint64_t count;
    int64_t next_ms;
    ssize_t rc;

    pthread_mutex_lock(&store->lock);
    next_ms = sql_waits_wake_due(store, hfi_now_ms());
    if (next_ms > until_ms)
        next_ms = until_ms;
    store->listener->until_ms = next_ms;
    pthread_mutex_unlock(&store->lock);
    if (poll(&at, 1, sql_poll_ms(next_ms)) > 0) {
        rc = read(store->kick_fd, &count, sizeof count);
        (void)rc;
    }
}

/* Pause for a while, or until we are stopped. */
static void listener_pause(struct sql_store *store, int64_t ms)
{
    int64_t until_ms = hfi_now_ms() + ms;

    while (!is_stopped(store) && hfi_now_ms() < until_ms)
        listener_sleep(store, until_ms);
}

/* Wait until there is work; false: we are stopped. */
static bool wait_for_work(struct sql_store *store)
{
    struct sql_listener *listener = store->listener;

    for (;;) {
        bool wanted = false, stop, asleep;

        pthread_mutex_lock(&store->lock);
        stop = listener->stop;
        for (struct hfi_claim *c = store->held; c && !wanted; c = sql_lease_claim(c)->next)
            wanted = c->flags & HFI_CLAIM_WATCHED ||
                     hfi_now_ms() - sql_lease_claim(c)->since_ms >= IDLE_MS;
        for (struct sql_wait *w = store->waits; w && !wanted; w = w->next)
            wanted = !w->claim || w->state == HFI_WAITER_QUEUED;
        wanted = wanted || listener->heartbeat_now || store->notes;
        /* Short locks one after the other must not wake it for each. */
        asleep = listener->asleep = !wanted && !store->held && !listener->busy;
        listener->busy = false;
        pthread_mutex_unlock(&store->lock);
        if (stop || wanted)
            return !stop;
        listener_sleep(store, asleep ? HFI_NEVER : hfi_now_ms() + IDLE_MS);
    }
}

static void *listener_main(void *arg)
{
    struct sql_store *store = arg;
    struct sql_heartbeat_batch *batch = hfi_calloc(1, sizeof *batch);
    int64_t pause_ms = PAUSE_MIN_MS;
    hf_error err;

    while (wait_for_work(store)) {
        int64_t deadline_ms = hfi_now_ms() + store->conf.connect_ms;
        struct sql_connection *connection = NULL;
        hf_status status;

        hfi_error_clear(&err);
        status = batch ? store->driver->listen(store, deadline_ms, &connection, &err)
                       : hfi_error_memory(&err);
        if (status == HF_OK) {
            sql_pool_adopt(connection);
            store->listener_connection = connection;
            if (serve(store, batch, &err) == HF_OK)
                break;
            store->listener_connection = NULL;
            sql_drop(connection);
            pause_ms = PAUSE_MIN_MS;
        }
        failed(store, &err);
        listener_pause(store, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        if (!batch)
            batch = hfi_calloc(1, sizeof *batch);
    }
    hfi_free(batch);
    return NULL;
}
