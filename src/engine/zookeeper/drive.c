/* SPDX-License-Identifier: MIT */
/*
 * The library as a source of the reactor. It says which socket it wants watched and until when; the socket changes with
 * every connection. So it is asked before every sleep. A request leaves in the thread that submits it.
 */
#include "engine/zookeeper/internal.h"

#include "util/clock.h"
#include "util/fds.h"

#include <fcntl.h>
#include <sys/epoll.h>

#define READS_MAX 64 /* answers taken before timers and callers get their turn */

static struct hfi_conn *store_of(const struct hfi_source *source)
{
    return hfi_container(source, struct hfi_conn, library);
}

/* A number that was closed may be another socket's now: so watch it again whenever the connection is not the same for
 * certain. */
static void watch_socket(struct hfi_conn *conn, int fd, uint32_t events)
{
    if (fd == conn->socket_fd && events == conn->socket_events && conn->connected)
        return;
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* the library lets every child have it */
        (void)hfi_source_watch(&conn->library, fd, events);
    }
    if (fd != conn->socket_fd && !conn->connected)
        conn->begun_ms = hfi_now_ms(); /* the next server */
    conn->socket_fd =
        hfi_fd_note(fd); /* the library closes it without a word, which a note outlives */
    conn->socket_events = events;
}

/* Ask the library what it wants. It may open, close and send here. */
static void ask_library(struct hfi_source *source, int64_t now_ms)
{
    struct hfi_conn *conn = store_of(source);
    struct timeval nap = { 0, 0 };
    int fd = -1, interest = 0, rc;

    if (!conn->zh || conn->expired || conn->denied)
        return;
    zk_library_lock();
    rc = zookeeper_interest(conn->zh, &fd, &interest, &nap);
    zk_library_unlock();
    zk_session_look(conn, now_ms);
    conn->library_due_ms = now_ms + nap.tv_sec * 1000 + nap.tv_usec / 1000;
    if (rc != ZOK) {
        fd = -1;
        conn->library_due_ms = now_ms + (rc == ZOPERATIONTIMEOUT ? 0 : 10);
    }
    if (conn->library_due_ms > now_ms + ZK_LIB_NAP_MS)
        conn->library_due_ms = now_ms + ZK_LIB_NAP_MS;
    watch_socket(conn, fd,
                 (interest & ZOOKEEPER_READ ? EPOLLIN : 0u) |
                     (interest & ZOOKEEPER_WRITE ? EPOLLOUT : 0u));
}

/* Let the library read, write and call us back. */
static void run_library(struct hfi_source *source, int fd, uint32_t ready, int64_t now_ms)
{
    struct hfi_conn *conn = store_of(source);
    int events = (ready & (EPOLLIN | EPOLLHUP | EPOLLERR) ? ZOOKEEPER_READ : 0) |
                 (ready & (EPOLLOUT | EPOLLHUP | EPOLLERR) ? ZOOKEEPER_WRITE : 0);

    (void)now_ms;
    if (fd != conn->socket_fd)
        return; /* of a connection before */
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

static int64_t next_ms(const struct hfi_source *source)
{
    const struct hfi_conn *conn = store_of(source);
    int64_t next_ms = zk_session_next_ms(conn);

    if (conn->due_ms < next_ms)
        next_ms = conn->due_ms;
    return conn->op_due_ms < next_ms ? conn->op_due_ms : next_ms;
}

static void tick(struct hfi_source *source, int64_t now_ms)
{
    struct hfi_conn *conn = store_of(source);

    zk_session_tick(conn, now_ms);
    zk_claim_nodes_tick(conn, now_ms);
    zk_ops_tick(conn, now_ms);
}

const struct hfi_source_calls zk_library_calls = {
    .ready = run_library,
    .due = tick,
    .next_ms = next_ms,
    .prepare = ask_library,
};
