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

static struct zk_store *store_of(const struct hfi_source *source)
{
    return hfi_container(source, struct zk_store, library);
}

/* The number of a closed descriptor may be that of another socket now: so watch it again unless the
 * connection is certainly the same. */
static void watch_socket(struct zk_store *store, int fd, uint32_t events)
{
    if (fd == store->socket_fd && events == store->socket_events && store->connected)
        return;
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* the library does not set close-on-exec */
        (void)hfi_source_watch(&store->library, fd, events);
    }
    if (fd != store->socket_fd && !store->connected)
        store->begun_ms = hfi_now_ms(); /* the next server */
    store->socket_fd =
        hfi_fd_note(fd); /* the library closes it without telling us: the note stays, see fds.h */
    store->socket_events = events;
}

/* Ask the library what it wants. It may open, close and send here. */
static void ask_library(struct hfi_source *source, int64_t now_ms)
{
    struct zk_store *store = store_of(source);
    struct timeval nap = { 0, 0 };
    int fd = -1, interest = 0, rc;

    if (!store->zh || store->expired || store->denied)
        return;
    zk_library_lock();
    rc = zookeeper_interest(store->zh, &fd, &interest, &nap);
    zk_library_unlock();
    zk_session_look(store, now_ms);
    store->library_due_ms = now_ms + nap.tv_sec * 1000 + nap.tv_usec / 1000;
    if (rc != ZOK) {
        fd = -1;
        store->library_due_ms = now_ms + (rc == ZOPERATIONTIMEOUT ? 0 : 10);
    }
    if (store->library_due_ms > now_ms + ZK_LIB_NAP_MS)
        store->library_due_ms = now_ms + ZK_LIB_NAP_MS;
    watch_socket(store, fd,
                 (interest & ZOOKEEPER_READ ? EPOLLIN : 0u) |
                     (interest & ZOOKEEPER_WRITE ? EPOLLOUT : 0u));
}

/* Let the library read, write and call us back. */
static void run_library(struct hfi_source *source, int fd, uint32_t ready, int64_t now_ms)
{
    struct zk_store *store = store_of(source);
    int events = (ready & (EPOLLIN | EPOLLHUP | EPOLLERR) ? ZOOKEEPER_READ : 0) |
                 (ready & (EPOLLOUT | EPOLLHUP | EPOLLERR) ? ZOOKEEPER_WRITE : 0);

    (void)now_ms;
    if (fd != store->socket_fd)
        return; /* of a connection before */
    for (int i = 0; i < READS_MAX && store->zh && !store->expired && !store->denied; i++) {
        int64_t before_ms = hfi_now_ms();
        int rc;

        zk_library_lock();
        rc = zookeeper_process(store->zh, events);
        zk_library_unlock();
        zk_session_look(store, before_ms);
        if (rc != ZOK || !(events & ZOOKEEPER_READ))
            break; /* ZNOTHING: all is read */
        events = ZOOKEEPER_READ;
    }
}

static int64_t next_ms(const struct hfi_source *source)
{
    const struct zk_store *store = store_of(source);
    int64_t next_ms = zk_session_next_ms(store);

    return store->due_ms < next_ms ? store->due_ms : next_ms;
}

static void tick(struct hfi_source *source, int64_t now_ms)
{
    struct zk_store *store = store_of(source);

    zk_session_tick(store, now_ms);
    zk_claim_nodes_tick(store, now_ms);
    zk_wanted_tick(store);
}

const struct hfi_source_calls zk_library_calls = {
    .ready = run_library,
    .due = tick,
    .next_ms = next_ms,
    .prepare = ask_library,
};
