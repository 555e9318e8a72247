/* SPDX-License-Identifier: MIT */
/*
 * The watch thread of a store in mode=row or mode=session. It notices connections whose other end
 * is gone (epoll, hang-ups only: answers to statements do not wake it), and ends waits at their
 * deadline or when core cancels them.
 *
 * An interrupt may reach the server before the statement that it is meant for: so it is repeated until the statement
 * has ended. It may never reach the *next* statement of that connection: the thread that waits does not use the
 * connection again while wait->interrupting, and both servers have set their mark when the call returns.
 */
#include "engine/sql/native_lock.h"

#include "util/clock.h"
#include "util/thread.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS       32
#define INTERRUPT_MS 1000 /* how long one interrupt may take */
#define AGAIN_MS     10   /* the first pause between two; it doubles */
#define KICK         0    /* its epoll data; lock connections count from 1 */

static void *watch(void *arg);

bool sql_watch_start(struct sql_locks *locks)
{
    if (!locks->watching)
        locks->watching = hfi_thread_start(&locks->watcher, "hf-sql-watch", watch, locks) == 0;
    return locks->watching;
}

static void kick(struct sql_locks *locks)
{
    (void)!eventfd_write(locks->kick_fd, 1);
}

void sql_watch_stop(struct sql_locks *locks)
{
    pthread_mutex_lock(&locks->lock);
    locks->stop = true;
    pthread_mutex_unlock(&locks->lock);
    if (!locks->watching)
        return;
    kick(locks);
    pthread_join(locks->watcher, NULL);
}

void sql_watch_at(struct sql_locks *locks, int64_t at_ms)
{
    if (at_ms >= locks->wakes_ms)
        return;
    locks->wakes_ms = at_ms;
    kick(locks);
}

bool sql_watch_add(struct sql_locks *locks, struct sql_lock_connection *lock_conn)
{
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = lock_conn->id };

    return epoll_ctl(locks->epoll_fd, EPOLL_CTL_ADD, lock_conn->fd, &event) == 0;
}

/* ---- waits ------------------------------------------------------------------------------------------------ */

/* Ask the server to end the statement. With the lock, which is dropped meanwhile. */
static void interrupt(struct sql_locks *locks, struct sql_lock_wait *wait)
{
    struct sql_connection *connection = wait->lock_conn->connection;
    int64_t limit_ms = hfi_now_ms() + INTERRUPT_MS;

    if (limit_ms > wait->cut_ms)
        limit_ms = wait->cut_ms;
    wait->interrupting = true;
    pthread_mutex_unlock(&locks->lock);
    locks->store->driver->interrupt(connection, limit_ms);
    pthread_mutex_lock(&locks->lock);
    wait->interrupting = false;
    wait->act_ms = hfi_now_ms() + ((int64_t)AGAIN_MS << (wait->asked < 5 ? wait->asked++ : 5));
    if (wait->act_ms > wait->cut_ms)
        wait->act_ms = wait->cut_ms;
    pthread_cond_broadcast(&locks->changed);
}

/* Do what this wait needs now. true: the lock was dropped, begin again. */
static bool tend(struct sql_locks *locks, struct sql_lock_wait *wait, int64_t now_ms)
{
    if (!wait->lock_conn || now_ms < wait->act_ms)
        return false;
    if (now_ms >= wait->cut_ms) {
        shutdown(wait->lock_conn->fd,
                 SHUT_RDWR); /* the thread in its driver finds the connection closed */
        wait->act_ms = HFI_NEVER;
        return false;
    }
    interrupt(locks, wait);
    return true;
}

/* The time limit begins for all stopped waits at once: a silent server is asked for one after the
 * other. */
static void begin_end(struct sql_lock_wait *wait, int64_t now_ms)
{
    if (!wait->lock_conn || now_ms < wait->act_ms || wait->cut_ms != 0)
        return;
    if (wait->stop == HF_OK)
        wait->stop = HF_TIMEOUT; /* act_ms was its deadline */
    wait->cut_ms = hfi_after_ms(now_ms, SQL_CANCEL_MS);
}

/* Handle all waits that are due; returns when the next one is. With the lock. */
static int64_t tend_all(struct sql_locks *locks)
{
    int64_t next_ms;
    struct sql_lock_wait *wait;

    do {
        int64_t now_ms = hfi_now_ms();

        for (wait = locks->lock_waits; wait; wait = wait->next)
            begin_end(wait, now_ms);
        next_ms = HFI_NEVER;
        for (wait = locks->lock_waits; wait && !tend(locks, wait, now_ms); wait = wait->next)
            if (wait->lock_conn && wait->act_ms < next_ms)
                next_ms = wait->act_ms;
    } while (wait);
    return next_ms;
}

/* ---- hang-ups ------------------------------------------------------------------------------------------------ */

/* NULL: its thread has ended it before the event arrived. With the lock. */
static struct sql_lock_connection *find(const struct sql_locks *locks, uint64_t id)
{
    struct sql_lock_connection *lock_conn = locks->lock_conns;

    while (lock_conn && lock_conn->id != id)
        lock_conn = lock_conn->next;
    return lock_conn;
}

static void hung_up(struct sql_locks *locks, uint64_t id)
{
    struct sql_lock_connection *lock_conn = find(locks, id);
    bool mine;

    if (!lock_conn)
        return;
    lock_conn->hung = true;
    mine = !lock_conn->busy; /* else its thread finds out when it gives it back */
    lock_conn->busy = true;
    if (!mine)
        return;
    pthread_mutex_unlock(&locks->lock);
    sql_lock_connection_end(locks, lock_conn,
                            "the server, or the network, has ended its connection");
    pthread_mutex_lock(&locks->lock);
}

static void *watch(void *arg)
{
    struct sql_locks *locks = arg;
    struct epoll_event events[EVENTS];
    eventfd_t value;

    pthread_mutex_lock(&locks->lock);
    while (!locks->stop) {
        int64_t next_ms = tend_all(locks);
        int count;

        locks->wakes_ms = next_ms;
        pthread_mutex_unlock(&locks->lock);
        count = epoll_wait(locks->epoll_fd, events, EVENTS, sql_poll_ms(next_ms));
        pthread_mutex_lock(&locks->lock);
        locks->wakes_ms = 0; /* no kick is needed: everything is checked next */
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == KICK)
                (void)!eventfd_read(locks->kick_fd, &value);
            else
                hung_up(locks, events[i].data.u64);
        }
    }
    pthread_mutex_unlock(&locks->lock);
    return NULL;
}
