/* SPDX-License-Identifier: MIT */
/*
 * Being driven. One thread at a time is here; it alone reads from sockets, opens, closes and frees
 * links.
 *
 * There are two ways to sleep. While answers are under way on our one link, everything that can
 * happen soon happens there: a plain recv(2) on it is the sleep, the wake-up and the reading in one
 * system call, so an uncontended pair costs four in all. That sleep is sliced (MEMCACHED_SLICE_MS), and
 * now and then epoll is asked what other sockets have. Otherwise we wait for a timer, in
 * epoll_wait(2).
 */
#include "engine/memcached/internal.h"

#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_MAX 8
#define LOOK_MS    20 /* how long other sockets may go without a look while one is busy */

static int poll_links(struct hfi_conn *conn, int timeout_ms,
                      struct memcached_link *ready[EVENTS_MAX]);
static void work(struct hfi_conn *conn, struct memcached_link *const ready[], int count);

int memcached_fd(struct hfi_conn *conn)
{
    return conn->epoll_fd;
}

/* When something must be done although nothing comes. With the lock. */
static int64_t next_ms(const struct hfi_conn *conn)
{
    int64_t next = memcached_net_next_ms(conn);
    int64_t searches_ms = memcached_searches_next_ms(conn);

    if (conn->beat_ms < next)
        next = conn->beat_ms;
    if (conn->ghost_ms < next)
        next = conn->ghost_ms;
    return searches_ms < next ? searches_ms : next;
}

static int until(int64_t due_ms, int64_t now_ms)
{
    if (due_ms == HFI_NEVER)
        return -1;
    if (due_ms <= now_ms)
        return 0;
    return due_ms - now_ms > INT_MAX ? INT_MAX : (int)(due_ms - now_ms);
}

int memcached_timeout_ms(struct hfi_conn *conn, int64_t now_ms)
{
    int timeout_ms;

    pthread_mutex_lock(&conn->lock);
    conn->told_ms = conn->done ? now_ms : next_ms(conn);
    timeout_ms = until(conn->told_ms, now_ms);
    pthread_mutex_unlock(&conn->lock);
    return timeout_ms;
}

void memcached_process(struct hfi_conn *conn, int64_t now_ms)
{
    struct memcached_link *ready[EVENTS_MAX];

    (void)now_ms;
    work(conn, ready, poll_links(conn, 0, ready));
}

void memcached_drive(struct hfi_conn *conn, int64_t until_ms)
{
    struct memcached_link *ready[EVENTS_MAX + 1], *busy;
    int64_t now_ms = hfi_now_ms(), due_ms;
    bool look, heard = false;
    int count = 0;

    pthread_mutex_lock(&conn->lock);
    busy = conn->link->state == MEMCACHED_LINK_UP && conn->link->in_flight && !conn->searches
               ? conn->link
               : NULL;
    due_ms = next_ms(conn);
    if (until_ms < due_ms)
        due_ms = until_ms;
    /* A slice is longer than the time to the next timer: then epoll, which can be exact. */
    if (busy && due_ms - now_ms < MEMCACHED_SLICE_MS)
        busy = NULL;
    look = !busy || now_ms - conn->looked_ms >= LOOK_MS;
    if (look)
        conn->looked_ms = now_ms;
    if (!busy) {
        /* First the mark, then the sleep: what becomes due from now on comes with a kick. */
        conn->nap_until_ms = due_ms;
        conn->napping = true;
    }
    pthread_mutex_unlock(&conn->lock);

    if (look) {
        count = poll_links(conn, busy ? 0 : until(due_ms, now_ms), ready);
        for (int i = 0; i < count; i++)
            heard = heard || ready[i] == busy;
    }
    if (busy && !heard) {
        memcached_link_read(busy, true);
        ready[count++] = busy;
    }
    work(conn, ready, count);
}

/* Wait for sockets, and read from those that have something. Without the lock. */
static int poll_links(struct hfi_conn *conn, int timeout_ms,
                      struct memcached_link *ready[EVENTS_MAX])
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(conn->epoll_fd, events, EVENTS_MAX, timeout_ms), used = 0;
    uint64_t kicks;

    for (int i = 0; i < count; i++) {
        struct memcached_link *link = events[i].data.ptr;

        if (!link) {
            if (read(conn->kick_fd, &kicks, sizeof kicks) < 0)
                kicks = 0; /* it was read before: nothing is lost */
            continue;
        }
        memcached_link_read(link, false);
        ready[used++] = link;
    }
    return used;
}

/* Act on what was read and on what is due; finish what is done. What others submit meanwhile, woken
 * by what we finish, leaves with our own in one write at the end. */
static void work(struct hfi_conn *conn, struct memcached_link *const ready[], int count)
{
    int64_t now_ms = hfi_now_ms();

    pthread_mutex_lock(&conn->lock);
    conn->napping = false;
    conn->corked++;
    for (int i = 0; i < count; i++)
        memcached_link_take(ready[i], now_ms);
    memcached_net_tick(conn, now_ms);
    if (conn->beat_ms <= now_ms)
        memcached_waits_tick(conn, now_ms);
    if (conn->ghost_ms <= now_ms)
        memcached_ghosts_tick(conn, now_ms);
    if (conn->searches)
        memcached_searches_tick(conn, now_ms);
    /* One alone needs no cork: whoever it wakes writes for himself. */
    if ((conn->done && conn->done->engine[MEMCACHED_OP_NEXT]) || conn->doubt) {
        memcached_leave(conn);
        pthread_mutex_lock(&conn->lock);
    }
    conn->corked--;
    memcached_leave(conn);
}

void memcached_cork(struct hfi_conn *conn, bool on)
{
    pthread_mutex_lock(&conn->lock);
    if (on) {
        conn->corked++;
        pthread_mutex_unlock(&conn->lock);
        return;
    }
    conn->corked--;
    memcached_leave(conn);
}

void memcached_kick(struct hfi_conn *conn)
{
    uint64_t one = 1;

    if (write(conn->kick_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

bool memcached_hurry(struct hfi_conn *conn)
{
    int64_t due_ms = next_ms(conn);

    if (conn->napping && due_ms < conn->nap_until_ms) {
        conn->nap_until_ms = due_ms; /* one kick is enough */
        memcached_kick(conn);
    }
    if (due_ms >= conn->told_ms)
        return false;
    conn->told_ms = due_ms;
    return true;
}
