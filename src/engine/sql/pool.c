/* SPDX-License-Identifier: MIT */
/*
 * Links: connections to the server, made when they are needed, up to conf.connections of them. A
 * thread has a link to itself from take to give. Those that are given back are kept, the last one used
 * first. Who finds none sleeps until one is given back, or its deadline.
 */
#include "engine/sql/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <time.h>

/* Until until_ms or a signal; with the lock. */
static void sleep_until(struct hfi_conn *conn, int64_t until_ms)
{
    int64_t ms = until_ms - hfi_now_ms();
    struct timespec t;

    if (ms > 60000)
        ms = 60000;
    if (ms <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    conn->seekers++;
    pthread_cond_timedwait(&conn->link_free, &conn->lock, &t);
    conn->seekers--;
}

/* An idle link that is alive, or NULL and our right to open one. HF_UNAVAILABLE: neither, in time. */
static hf_status find(struct hfi_conn *conn, int64_t deadline_ms, struct sql_link **ret_link,
                      hf_error *err)
{
    pthread_mutex_lock(&conn->lock);
    for (;;) {
        struct sql_link *link = conn->idle;

        if (link) {
            conn->idle = link->next;
            pthread_mutex_unlock(&conn->lock);
            *ret_link = link;
            return HF_OK;
        }
        if (conn->links < conn->conf.connections) {
            conn->links++;
            pthread_mutex_unlock(&conn->lock);
            *ret_link = NULL;
            return HF_OK;
        }
        if (hfi_now_ms() >= deadline_ms) {
            pthread_mutex_unlock(&conn->lock);
            return hfi_error_set(err, HF_UNAVAILABLE, 0,
                                 "all %u connections are in use (connections=)",
                                 (unsigned)conn->conf.connections);
        }
        sleep_until(conn, deadline_ms);
    }
}

/* One link less. */
static void uncount(struct hfi_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->links--;
    if (conn->seekers)
        pthread_cond_signal(&conn->link_free);
    pthread_mutex_unlock(&conn->lock);
}

hf_status sql_take_raw(struct hfi_conn *conn, int64_t deadline_ms, struct sql_link **ret_link,
                       hf_error *err)
{
    struct sql_link *link = NULL;
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), conn->conf.connect_ms);
    unsigned forks;
    hf_status status;

    for (;;) {
        status = find(conn, deadline_ms, &link, err);
        if (status != HF_OK)
            return status;
        if (!link)
            break;
        if (conn->driver->alive(link)) {
            *ret_link = link;
            return HF_OK;
        }
        sql_drop(link);
        uncount(conn);
    }
    do {
        forks = sql_forks();
        status =
            conn->driver->open(conn, until_ms < deadline_ms ? until_ms : deadline_ms, &link, err);
        if (status != HF_OK)
            break;
        sql_adopt_link(link);
        if (sql_forks() == forks)
            break;
        sql_drop(link); /* a child may have a copy of it */
    } while (true);
    if (status == HF_OK)
        *ret_link = link;
    else
        uncount(conn);
    return status;
}

hf_status sql_take(struct hfi_conn *conn, int64_t deadline_ms, struct sql_link **ret_link,
                   hf_error *err)
{
    struct sql_link *link;
    hf_status status = sql_take_raw(conn, deadline_ms, &link, err);

    if (status != HF_OK)
        return status;
    if (atomic_load_explicit(&conn->ready, memory_order_acquire) != 1) {
        status = sql_schema(link, deadline_ms, err);
        if (status != HF_OK) {
            sql_give(link);
            return status;
        }
    }
    *ret_link = link;
    return HF_OK;
}

void sql_give(struct sql_link *link)
{
    struct hfi_conn *conn = link->conn;

    if (link->dead) {
        sql_drop(link);
        uncount(conn);
        return;
    }
    pthread_mutex_lock(&conn->lock);
    link->next = conn->idle;
    conn->idle = link;
    if (conn->seekers)
        pthread_cond_signal(&conn->link_free);
    pthread_mutex_unlock(&conn->lock);
}

void sql_keep(struct sql_link *link)
{
    uncount(link->conn);
}

void sql_pool_close(struct hfi_conn *conn)
{
    struct sql_link *link;

    while ((link = conn->idle)) {
        conn->idle = link->next;
        sql_drop(link);
    }
}

/* The list of all is read in a forked child without the lock, at whatever instant: so each change of it
 * is one pointer that others follow. */
void sql_adopt_link(struct sql_link *link)
{
    struct hfi_conn *conn = link->conn;

    pthread_mutex_lock(&conn->lock);
    link->all_prev = NULL;
    link->all_next = conn->all;
    if (conn->all)
        conn->all->all_prev = link;
    conn->all = link;
    pthread_mutex_unlock(&conn->lock);
}

void sql_drop(struct sql_link *link)
{
    struct hfi_conn *conn = link->conn;

    pthread_mutex_lock(&conn->lock);
    if (link->all_prev)
        link->all_prev->all_next = link->all_next;
    else
        conn->all = link->all_next;
    if (link->all_next)
        link->all_next->all_prev = link->all_prev;
    pthread_mutex_unlock(&conn->lock);
    hfi_free(link->ghost);
    conn->driver->close(link);
}
