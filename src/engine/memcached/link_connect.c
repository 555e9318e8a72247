/* SPDX-License-Identifier: MIT */
/*
 * From a name to a connected socket: look the name up, then try its addresses one after the other,
 * each for a fair share of the time that is left.
 */
#include "engine/memcached/link.h"

#include "util/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define KEEPALIVE_S 15 /* idle, and then between probes */

static void look_up(struct memcached_link *link, int64_t now_ms);
static void look_up_take(struct memcached_link *link, int64_t now_ms);
static void try_next(struct memcached_link *link, int64_t now_ms);
static void fail_connect(struct memcached_link *link, int error);
static void connected(struct memcached_link *link);
static void close_socket(struct memcached_link *link);

static void place_unix(struct memcached_link *link)
{
    struct sockaddr_un *to = (struct sockaddr_un *)&link->places.at[0].address;

    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    strncpy(to->sun_path, link->conf->url.hosts[0].path,
            sizeof to->sun_path - 1); /* conf.c: it fits */
    link->places.at[0].len = sizeof *to;
    link->places.count = 1;
}

void memcached_link_connect(struct memcached_link *link, int64_t now_ms)
{
    const struct memcached_conf *conf = link->conf;

    link->place = 0;
    if (conf->url.hosts[0].path)
        place_unix(link);
    else if (!hfi_resolve_numeric(conf->url.hosts[0].host, conf->url.hosts[0].port,
                                  &link->places)) {
        look_up(link, now_ms);
        return;
    }
    try_next(link, now_ms);
}

void memcached_link_connect_take(struct memcached_link *link, int64_t now_ms)
{
    struct pollfd ready = { .fd = link->fd, .events = POLLOUT };
    int error = 0;
    socklen_t len = sizeof error;

    if (link->state == MEMCACHED_LINK_RESOLVING) {
        look_up_take(link, now_ms);
        return;
    }
    if (poll(&ready, 1, 0) <= 0)
        return;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error == 0) {
        connected(link);
    } else if (link->place < link->places.count) {
        close_socket(link);
        try_next(link, now_ms);
    } else {
        fail_connect(link, error);
    }
}

void memcached_link_connect_tick(struct memcached_link *link, int64_t now_ms)
{
    if (link->state != MEMCACHED_LINK_CONNECTING || now_ms < link->attempt_until_ms)
        return;
    close_socket(link);
    try_next(link, now_ms);
}

/* Also when half connected, or not at all. */
void memcached_link_disconnect(struct memcached_link *link)
{
    if (link->lookup)
        (void)epoll_ctl(link->epoll_fd, EPOLL_CTL_DEL, hfi_lookup_fd(link->lookup), NULL);
    close_socket(link);
}

/* ---- names --------------------------------------------------------------------------------- */

/* A lookup that an attempt before this one gave up waiting for is still good. */
static void look_up(struct memcached_link *link, int64_t now_ms)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = link };

    if (!link->lookup)
        link->lookup = hfi_lookup_new(link->conf->url.hosts[0].host, link->conf->url.hosts[0].port);
    if (!link->lookup) {
        memcached_link_fail(link, HF_NO_MEMORY, "no memory or thread to look up its name");
        return;
    }
    if (epoll_ctl(link->epoll_fd, EPOLL_CTL_ADD, hfi_lookup_fd(link->lookup), &event) != 0) {
        memcached_link_fail(link, HF_UNAVAILABLE, "epoll: %s", strerror(errno));
        return;
    }
    look_up_take(link, now_ms);
}

static void look_up_take(struct memcached_link *link, int64_t now_ms)
{
    const char *wrong = NULL;

    if (!hfi_lookup_finished(link->lookup, &link->places, &wrong))
        return;
    (void)epoll_ctl(link->epoll_fd, EPOLL_CTL_DEL, hfi_lookup_fd(link->lookup), NULL);
    hfi_lookup_drop(link->lookup);
    link->lookup = NULL;
    if (wrong)
        memcached_link_fail(link, HF_UNAVAILABLE, "%s", wrong);
    else
        try_next(link, now_ms);
}

/* ---- sockets ------------------------------------------------------------------------------- */

/* 0: connected; EINPROGRESS; or what went wrong. */
static int try_one(struct memcached_link *link, const struct hfi_place *place)
{
    link->fd = hfi_fd_note(
        socket(place->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (link->fd < 0)
        return errno;
    if (connect(link->fd, (const struct sockaddr *)&place->address, place->len) == 0)
        return 0;
    return errno == EINTR ? EINPROGRESS : errno;
}

static void try_next(struct memcached_link *link, int64_t now_ms)
{
    int error = ETIMEDOUT;

    while (link->place < link->places.count && link->failed == HF_OK) {
        int64_t left_ms = link->open_until_ms - now_ms;
        int64_t turns = (int64_t)(link->places.count - link->place);

        error = try_one(link, &link->places.at[link->place++]);
        if (error == EINPROGRESS) {
            link->state = MEMCACHED_LINK_CONNECTING;
            link->attempt_until_ms = now_ms + (left_ms > 0 ? left_ms / turns : 0);
            memcached_link_watch(link, EPOLLIN | EPOLLOUT);
            return;
        }
        if (error == 0) {
            connected(link);
            return;
        }
        close_socket(link);
    }
    fail_connect(link, error);
}

static void fail_connect(struct memcached_link *link, int error)
{
    bool denied = link->conf->url.hosts[0].path && (error == EACCES || error == EPERM);

    memcached_link_fail(link, denied ? HF_DENIED : HF_UNAVAILABLE, "%s",
                        error == EAGAIN ? "its queue of connections is full" : strerror(error));
}

/*
 * A blocking socket from here on, with a time limit for recv(2): see memcached_link_read(). No waiting
 * for more bytes to fill a packet. A peer that is gone is found by keepalive, or when it does not
 * acknowledge what we sent.
 */
static bool settle(struct memcached_link *link)
{
    struct timeval slice = { .tv_usec = MEMCACHED_SLICE_MS * 1000 };
    int on = 1, idle_s = KEEPALIVE_S, fd = link->fd, flags = fcntl(fd, F_GETFL);
    unsigned user_timeout = (unsigned)(2 * link->conf->op_ms);

    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) != 0)
        return false;
    if (link->conf->url.hosts[0].path)
        return true;

    /* Useful, but nothing depends on these. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
    return true;
}

static void connected(struct memcached_link *link)
{
    if (!settle(link)) {
        memcached_link_fail(link, HF_UNAVAILABLE, "%s", strerror(errno));
        return;
    }
    memcached_link_watch(link, EPOLLIN);
    atomic_store_explicit(&link->read_fd, link->fd, memory_order_release);
    memcached_link_greet(link);
    memcached_link_flush(link);
}

/* The descriptor is taken out of epoll by name: after a fork the child has it too, and closing ours
 * would leave it registered. */
static void close_socket(struct memcached_link *link)
{
    atomic_store_explicit(&link->read_fd, -1, memory_order_release);
    if (link->fd < 0)
        return;
    if (link->events)
        (void)epoll_ctl(link->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    link->events = 0;
    hfi_fd_forget(link->fd);
    close(link->fd);
    link->fd = -1;
}
