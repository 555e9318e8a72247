/* SPDX-License-Identifier: MIT */
/*
 * Being driven. One thread at a time is here. The library says which socket it wants polled and until
 * when; the socket changes with every connection. Whoever sleeps in turn() polls it directly; who has
 * a loop of its own polls epoll_fd, which has it too.
 *
 * A request leaves in the thread that submits it. The driver is only kicked when something becomes due
 * earlier than it sleeps.
 */
#include "engine/zookeeper/internal.h"

#include "util/clock.h"
#include "util/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READS_MAX 64 /* answers taken before timers and callers get their turn */

int zk_fd(struct hfi_conn *conn)
{
    return conn->epoll_fd;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When something must be done although nothing comes. With the lock. */
static int64_t next_ms(const struct hfi_conn *conn)
{
    int64_t next = earlier(conn->due_ms, conn->op_due_ms);

    return conn->done || conn->losses ? 0 : earlier(next, zk_session_next_ms(conn));
}

static int until(int64_t due_ms, int64_t now_ms)
{
    if (due_ms == HFI_NEVER)
        return -1;
    if (due_ms <= now_ms)
        return 0;
    return due_ms - now_ms > INT_MAX ? INT_MAX : (int)(due_ms - now_ms);
}

int zk_timeout_ms(struct hfi_conn *conn, int64_t now_ms)
{
    int timeout_ms;

    pthread_mutex_lock(&conn->lock);
    conn->told_ms = next_ms(conn);
    timeout_ms = until(conn->told_ms, now_ms);
    pthread_mutex_unlock(&conn->lock);
    return timeout_ms;
}

/* epoll_fd has the library's socket. A number that was closed is gone from there by itself, and may
 * be another socket's now: so ask again whenever the connection is not the same for certain. */
static void enlist(struct hfi_conn *conn, int fd, int events)
{
    struct epoll_event event = { .events = (uint32_t)events, .data.fd = fd };

    if (fd == conn->socket_fd && events == conn->socket_events && conn->connected)
        return;
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* the library lets every child have it */
    if (fd >= 0 && epoll_ctl(conn->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0)
        (void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    if (fd != conn->socket_fd && !conn->connected)
        conn->begun_ms = hfi_now_ms(); /* the next server */
    conn->socket_fd =
        hfi_fd_note(fd); /* the library closes it without a word, which a note outlives */
    conn->socket_events = events;
}

/* Ask the library what it wants. It may open, close and send here. */
static void ask_library(struct hfi_conn *conn)
{
    struct timeval nap = { 0, 0 };
    int64_t now_ms = hfi_now_ms();
    int fd = -1, interest = 0, rc;

    if (!conn->zh || conn->expired || conn->denied)
        return;
    zk_library_lock();
    rc = zookeeper_interest(conn->zh, &fd, &interest, &nap);
    zk_library_unlock();
    zk_session_look(conn, now_ms);
    conn->lib_due_ms = now_ms + nap.tv_sec * 1000 + nap.tv_usec / 1000;
    if (rc != ZOK) {
        fd = -1;
        conn->lib_due_ms = now_ms + (rc == ZOPERATIONTIMEOUT ? 0 : 10);
    }
    if (conn->lib_due_ms > now_ms + ZK_LIB_NAP_MS)
        conn->lib_due_ms = now_ms + ZK_LIB_NAP_MS;
    enlist(conn, fd,
           (interest & ZOOKEEPER_READ ? EPOLLIN : 0) | (interest & ZOOKEEPER_WRITE ? EPOLLOUT : 0));
}

/* Let the library read, write and call us back. */
static void run_library(struct hfi_conn *conn, int events)
{
    for (int i = 0; i < READS_MAX && conn->zh && !conn->expired && !conn->denied; i++) {
        int64_t before_ms = hfi_now_ms();
        int rc;

        zk_library_lock();
        rc = zookeeper_process(conn->zh, events);
        zk_library_unlock();
        zk_session_look(conn, before_ms);
        if (rc != ZOK || !(events & ZOOKEEPER_READ))
            break; /* ZNOTHING: all is read */
        events = ZOOKEEPER_READ;
    }
}

static void work(struct hfi_conn *conn, int events)
{
    int64_t now_ms;

    if (events)
        run_library(conn, events);
    now_ms = hfi_now_ms();
    zk_session_tick(conn, now_ms);
    zk_claim_nodes_tick(conn, now_ms);
    zk_ops_tick(conn, now_ms);
}

static int events_of(short revents)
{
    return (revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
           (revents & (POLLOUT | POLLHUP | POLLERR) ? ZOOKEEPER_WRITE : 0);
}

/* Poll for at most until_ms. Without the lock but at the beginning and at the end. */
static void drive(struct hfi_conn *conn, int64_t until_ms)
{
    struct pollfd fds[2] = { { .fd = conn->kick_fd, .events = POLLIN } };
    int64_t due_ms, now_ms;
    uint64_t kicks;
    int events = 0;

    pthread_mutex_lock(&conn->lock);
    ask_library(conn);
    fds[1].fd = conn->socket_fd;
    fds[1].events = (short)((conn->socket_events & EPOLLIN ? POLLIN : 0) |
                            (conn->socket_events & EPOLLOUT ? POLLOUT : 0));
    /* First the mark, then the sleep: what becomes due from now on comes with a kick. */
    now_ms = hfi_now_ms();
    due_ms = earlier(next_ms(conn), until_ms);
    conn->nap_until_ms = due_ms;
    conn->napping = true;
    pthread_mutex_unlock(&conn->lock);

    if (poll(fds, 2, until(due_ms, now_ms)) > 0) {
        if (fds[0].revents && read(conn->kick_fd, &kicks, sizeof kicks) < 0)
            kicks = 0; /* it was read before: nothing is lost */
        events = events_of(fds[1].revents);
    }

    pthread_mutex_lock(&conn->lock);
    conn->napping = false;
    work(conn, events);
    zk_leave(conn);
}

void zk_turn(struct hfi_conn *conn, int64_t until_ms)
{
    drive(conn, until_ms);
}

void zk_process(struct hfi_conn *conn, int64_t now_ms)
{
    (void)now_ms;
    drive(conn, 0);
    pthread_mutex_lock(&conn->lock);
    ask_library(conn); /* for those who poll epoll_fd: which socket it is now */
    zk_leave(conn);
}

void zk_kick(struct hfi_conn *conn)
{
    uint64_t one = 1;

    if (write(conn->kick_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

bool zk_hurry(struct hfi_conn *conn)
{
    int64_t due_ms = next_ms(conn);

    if (conn->napping && due_ms < conn->nap_until_ms) {
        conn->nap_until_ms = due_ms; /* one kick is enough */
        zk_kick(conn);
    }
    if (due_ms >= conn->told_ms)
        return false;
    conn->told_ms = due_ms;
    return true;
}
