/* SPDX-License-Identifier: MIT */
/*
 * The watch thread of a store in mode=row or mode=session. It hears of connections whose other end is gone
 * (epoll, hang-ups only: what answers to statements come in does not wake it), and ends waits at their deadline
 * or when core cancels them.
 *
 * An interrupt may reach the server before the statement that it is meant for: so it is repeated until the statement
 * has ended. It may never reach the *next* statement of that connection: the thread that waits does not use the
 * connection again while stay->interrupting, and both servers have set their mark when the call returns.
 */
#include "engine/sql/hold.h"

#include "core/thread.h"
#include "util/clock.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS       32
#define INTERRUPT_MS 1000 /* how long one interrupt may take */
#define AGAIN_MS     10   /* the first pause between two; it doubles */
#define KICK         0    /* its epoll data; seats count from 1 */

static void *watch(void *arg);

bool sql_watch_start(struct sql_hold *hold)
{
    if (!hold->watching)
        hold->watching = hfi_thread_start(&hold->watcher, "hf-sql-watch", watch, hold);
    return hold->watching;
}

static void kick(struct sql_hold *hold)
{
    (void)!eventfd_write(hold->kick_fd, 1);
}

void sql_watch_stop(struct sql_hold *hold)
{
    pthread_mutex_lock(&hold->lock);
    hold->stop = true;
    pthread_mutex_unlock(&hold->lock);
    if (!hold->watching)
        return;
    kick(hold);
    pthread_join(hold->watcher, NULL);
}

void sql_watch_at(struct sql_hold *hold, int64_t at_ms)
{
    if (at_ms >= hold->wakes_ms)
        return;
    hold->wakes_ms = at_ms;
    kick(hold);
}

bool sql_watch_add(struct sql_hold *hold, struct sql_seat *seat)
{
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = seat->id };

    return epoll_ctl(hold->epoll_fd, EPOLL_CTL_ADD, seat->fd, &event) == 0;
}

/* ---- waits ------------------------------------------------------------------------------------------------ */

/* Ask the server to end it. With the lock, which is dropped meanwhile. */
static void interrupt(struct sql_hold *hold, struct sql_stay *stay)
{
    struct sql_link *link = stay->seat->link;
    int64_t limit_ms = hfi_now_ms() + INTERRUPT_MS;

    if (limit_ms > stay->cut_ms)
        limit_ms = stay->cut_ms;
    stay->interrupting = true;
    pthread_mutex_unlock(&hold->lock);
    hold->conn->driver->interrupt(link, limit_ms);
    pthread_mutex_lock(&hold->lock);
    stay->interrupting = false;
    stay->act_ms = hfi_now_ms() + ((int64_t)AGAIN_MS << (stay->asked < 5 ? stay->asked++ : 5));
    if (stay->act_ms > stay->cut_ms)
        stay->act_ms = stay->cut_ms;
    pthread_cond_broadcast(&hold->changed);
}

/* What this one needs now. true: the lock was dropped, begin again. */
static bool tend(struct sql_hold *hold, struct sql_stay *stay, int64_t now_ms)
{
    if (!stay->seat || now_ms < stay->act_ms)
        return false;
    if (now_ms >= stay->cut_ms) {
        shutdown(stay->seat->fd,
                 SHUT_RDWR); /* the thread in its driver finds the connection closed */
        stay->act_ms = HFI_NEVER;
        return false;
    }
    interrupt(hold, stay);
    return true;
}

/* Patience begins for all at once: a server that is mute is asked by one after the other. */
static void begin_end(struct sql_stay *stay, int64_t now_ms)
{
    if (!stay->seat || now_ms < stay->act_ms || stay->cut_ms != 0)
        return;
    if (stay->stop == HF_OK)
        stay->stop = HF_TIMEOUT; /* act_ms was its deadline */
    stay->cut_ms = hfi_after_ms(now_ms, SQL_CANCEL_MS);
}

/* All that is due; returns when the next is. With the lock. */
static int64_t tend_all(struct sql_hold *hold)
{
    int64_t next_ms;
    struct sql_stay *stay;

    do {
        int64_t now_ms = hfi_now_ms();

        for (stay = hold->stays; stay; stay = stay->next)
            begin_end(stay, now_ms);
        next_ms = HFI_NEVER;
        for (stay = hold->stays; stay && !tend(hold, stay, now_ms); stay = stay->next)
            if (stay->seat && stay->act_ms < next_ms)
                next_ms = stay->act_ms;
    } while (stay);
    return next_ms;
}

/* ---- hang-ups ------------------------------------------------------------------------------------------------ */

/* NULL: its thread has ended it while the event was on its way. With the lock. */
static struct sql_seat *find(const struct sql_hold *hold, uint64_t id)
{
    struct sql_seat *seat = hold->seats;

    while (seat && seat->id != id)
        seat = seat->next;
    return seat;
}

static void hung_up(struct sql_hold *hold, uint64_t id)
{
    struct sql_seat *seat = find(hold, id);
    bool mine;

    if (!seat)
        return;
    seat->hung = true;
    mine = !seat->busy; /* else its thread finds out when it gives it back */
    seat->busy = true;
    if (!mine)
        return;
    pthread_mutex_unlock(&hold->lock);
    sql_seat_end(hold, seat, "the server, or the network, has ended its connection");
    pthread_mutex_lock(&hold->lock);
}

static int timeout_ms(int64_t next_ms)
{
    int64_t ms = next_ms - hfi_now_ms();

    if (next_ms == HFI_NEVER)
        return -1;
    return ms <= 0 ? 0 : ms < 60000 ? (int)ms + 1 : 60000;
}

static void *watch(void *arg)
{
    struct sql_hold *hold = arg;
    struct epoll_event events[EVENTS];
    eventfd_t value;

    pthread_mutex_lock(&hold->lock);
    while (!hold->stop) {
        int64_t next_ms = tend_all(hold);
        int count;

        hold->wakes_ms = next_ms;
        pthread_mutex_unlock(&hold->lock);
        count = epoll_wait(hold->epoll_fd, events, EVENTS, timeout_ms(next_ms));
        pthread_mutex_lock(&hold->lock);
        hold->wakes_ms = 0; /* nobody needs to kick: we look at all of it next */
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == KICK)
                (void)!eventfd_read(hold->kick_fd, &value);
            else
                hung_up(hold, events[i].data.u64);
        }
    }
    pthread_mutex_unlock(&hold->lock);
    return NULL;
}
