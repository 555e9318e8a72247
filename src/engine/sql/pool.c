/* SPDX-License-Identifier: MIT */
/*
 * Connections to the server, made when they are needed, up to conf.connections of them. A thread
 * has a connection to itself from take to give. Returned ones are kept, and the last one used is
 * taken first. A thread that finds none sleeps until one is returned, or until its deadline.
 */
#include "engine/sql/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <time.h>

void sql_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms)
{
    int64_t ms = until_ms - hfi_now_ms();
    struct timespec t;

    if (ms > 60000)
        ms = 60000; /* callers check again anyway */
    if (ms <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(cond, lock, &t);
}

int sql_poll_ms(int64_t until_ms)
{
    int64_t ms = until_ms - hfi_now_ms();

    if (until_ms == HFI_NEVER)
        return -1;
    return ms <= 0 ? 0 : ms < 60000 ? (int)ms + 1 : 60000;
}

/* ---- for an op that may be stopped ------------------------------------------------------------ */

/* Of this thread. */
static _Thread_local struct {
    const struct hfi_op *op; /* NULL: none */
    int64_t stopped_ms;      /* when it was seen that op->stop is set; 0: it was not */
} serving;

void sql_serve(const struct hfi_op *op)
{
    serving.op = op;
    serving.stopped_ms = 0;
}

int64_t sql_until_ms(int64_t until_ms)
{
    int64_t stop_ms;

    if (!serving.op || atomic_load(&serving.op->stop) == HF_OK)
        return until_ms;
    if (serving.stopped_ms == 0)
        serving.stopped_ms = hfi_now_ms();
    stop_ms = serving.stopped_ms + SQL_STOP_MS;
    return stop_ms < until_ms ? stop_ms : until_ms;
}

int sql_slice_ms(int64_t until_ms)
{
    int ms = sql_poll_ms(sql_until_ms(until_ms));

    return serving.op && (ms < 0 || ms > SQL_LOOK_MS) ? SQL_LOOK_MS : ms;
}

/* Until until_ms or a signal; with the lock. */
static void sleep_until(struct sql_store *store, int64_t until_ms)
{
    int ms = sql_slice_ms(until_ms);

    store->takers++;
    sql_cond_wait(&store->connection_free, &store->lock, ms < 0 ? until_ms : hfi_now_ms() + ms);
    store->takers--;
}

/* An idle connection that is alive, or NULL with the right to open one. HF_UNAVAILABLE: neither, in
 * time. */
static hf_status find(struct sql_store *store, int64_t deadline_ms,
                      struct sql_connection **ret_connection, hf_error *err)
{
    pthread_mutex_lock(&store->lock);
    for (;;) {
        struct sql_connection *connection = store->idle;

        if (connection) {
            store->idle = connection->next;
            pthread_mutex_unlock(&store->lock);
            *ret_connection = connection;
            return HF_OK;
        }
        if (store->connections < store->conf.connections) {
            store->connections++;
            pthread_mutex_unlock(&store->lock);
            *ret_connection = NULL;
            return HF_OK;
        }
        if (hfi_now_ms() >= sql_until_ms(deadline_ms)) {
            pthread_mutex_unlock(&store->lock);
            return hfi_error_set(err, HF_UNAVAILABLE, 0,
                                 "all %u connections are in use (connections=)",
                                 (unsigned)store->conf.connections);
        }
        sleep_until(store, deadline_ms);
    }
}

/* One connection less. */
static void uncount(struct sql_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->connections--;
    if (store->takers)
        pthread_cond_signal(&store->connection_free);
    pthread_mutex_unlock(&store->lock);
}

hf_status sql_take_raw(struct sql_store *store, int64_t deadline_ms,
                       struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_connection *connection = NULL;
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), store->conf.connect_ms);
    unsigned forks;
    hf_status status;

    for (;;) {
        status = find(store, deadline_ms, &connection, err);
        if (status != HF_OK)
            return status;
        if (!connection)
            break;
        if (store->driver->alive(connection)) {
            *ret_connection = connection;
            return HF_OK;
        }
        sql_drop(connection);
        uncount(store);
    }
    do {
        forks = sql_forks();
        status = store->driver->open(store, until_ms < deadline_ms ? until_ms : deadline_ms,
                                     &connection, err);
        if (status != HF_OK)
            break;
        sql_pool_adopt(connection);
        if (sql_forks() == forks)
            break;
        sql_drop(connection); /* a child may have a copy of it */
    } while (true);
    if (status == HF_OK)
        *ret_connection = connection;
    else
        uncount(store);
    return status;
}

hf_status sql_take(struct sql_store *store, int64_t deadline_ms,
                   struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_connection *connection;
    hf_status status = sql_take_raw(store, deadline_ms, &connection, err);

    if (status != HF_OK)
        return status;
    if (atomic_load_explicit(&store->ready, memory_order_acquire) != 1) {
        status = sql_schema(connection, deadline_ms, err);
        if (status != HF_OK) {
            sql_give(connection);
            return status;
        }
    }
    *ret_connection = connection;
    return HF_OK;
}

void sql_give(struct sql_connection *connection)
{
    struct sql_store *store = connection->store;

    if (connection->dead) {
        sql_drop(connection);
        uncount(store);
        return;
    }
    pthread_mutex_lock(&store->lock);
    connection->next = store->idle;
    store->idle = connection;
    if (store->takers)
        pthread_cond_signal(&store->connection_free);
    pthread_mutex_unlock(&store->lock);
}

void sql_keep(struct sql_connection *connection)
{
    uncount(connection->store);
}

void sql_pool_close(struct sql_store *store)
{
    struct sql_connection *connection;

    while ((connection = store->idle)) {
        store->idle = connection->next;
        sql_drop(connection);
    }
}

/* A forked child reads the list of all connections without the lock, in any state: so each change
 * of it is a single pointer write. */
void sql_pool_adopt(struct sql_connection *connection)
{
    struct sql_store *store = connection->store;

    pthread_mutex_lock(&store->lock);
    connection->all_prev = NULL;
    connection->all_next = store->all;
    if (store->all)
        store->all->all_prev = connection;
    store->all = connection;
    pthread_mutex_unlock(&store->lock);
}

void sql_drop(struct sql_connection *connection)
{
    struct sql_store *store = connection->store;

    pthread_mutex_lock(&store->lock);
    if (connection->all_prev)
        connection->all_prev->all_next = connection->all_next;
    else
        store->all = connection->all_next;
    if (connection->all_next)
        connection->all_next->all_prev = connection->all_prev;
    pthread_mutex_unlock(&store->lock);
    hfi_free(connection->stale);
    store->driver->close(connection);
}
