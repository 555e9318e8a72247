/* SPDX-License-Identifier: MIT */
/*
 * From a name to a connected socket: look the name up, then try its addresses one after the other,
 * each for a fair share of the time that is left.
 */
#include "engine/redis/link_parts.h"

#include "util/clock.h"
#include "util/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define KEEPALIVE_S 15 /* idle, and then between probes */

static void look_up(struct hfi_link *link, int64_t now_ms);
static void look_up_take(struct hfi_link *link, int64_t now_ms);
static void stop_looking(struct hfi_link *link);
static bool place_unix(struct hfi_link *link);
static void try_next(struct hfi_link *link, int64_t now_ms);
static int try_one(struct hfi_link *link, const struct hfi_place *place);
static void fail_connect(struct hfi_link *link, int error);
static void connected(struct hfi_link *link);
static bool settle(struct hfi_link *link);
static void close_socket(struct hfi_link *link);

void hfi_link_connect(struct hfi_link *link, int64_t now_ms)
{
    const struct hfi_address *address = link->address;

    link->place = 0;
    if (address->path) {
        if (place_unix(link))
            try_next(link, now_ms);
    } else if (hfi_resolve_numeric(address->host, address->port, &link->places)) {
        try_next(link, now_ms);
    } else {
        look_up(link, now_ms);
    }
}

void hfi_link_connect_take(struct hfi_link *link, int64_t now_ms)
{
    struct pollfd ready = { .fd = link->fd, .events = POLLOUT };
    int error = 0;
    socklen_t len = sizeof error;

    if (link->state == HFI_LINK_RESOLVING) {
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

void hfi_link_connect_tick(struct hfi_link *link, int64_t now_ms)
{
    if (link->state != HFI_LINK_CONNECTING || now_ms < link->attempt_until_ms)
        return;
    close_socket(link);
    try_next(link, now_ms);
}

void hfi_link_disconnect(struct hfi_link *link)
{
    stop_looking(link);
    close_socket(link);
    hfi_tls_free(link->tls);
    link->tls = NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A lookup that an attempt before this one gave up waiting for is still good, and its name server
 * slow enough without a second question. */
static void look_up(struct hfi_link *link, int64_t now_ms)
{
    if (!link->lookup)
        link->lookup = hfi_lookup_new(link->address->host, link->address->port);
    if (!link->lookup) {
        hfi_link_fail(link, HF_NO_MEMORY, "no memory or thread to look up its name");
        return;
    }
    if (!hfi_source_watch(&link->source, hfi_lookup_fd(link->lookup), EPOLLIN)) {
        hfi_link_fail(link, HF_UNAVAILABLE, "epoll: %s", strerror(errno));
        return;
    }
    look_up_take(link, now_ms);
}

static void look_up_take(struct hfi_link *link, int64_t now_ms)
{
    const char *wrong = NULL;

    if (!hfi_lookup_finished(link->lookup, &link->places, &wrong))
        return;

    stop_looking(link);
    hfi_lookup_drop(link->lookup);
    link->lookup = NULL;
    if (wrong)
        hfi_link_fail(link, HF_UNAVAILABLE, "%s", wrong);
    else
        try_next(link, now_ms);
}

static void stop_looking(struct hfi_link *link)
{
    if (link->lookup)
        hfi_source_unwatch(&link->source, hfi_lookup_fd(link->lookup));
}

static bool place_unix(struct hfi_link *link)
{
    struct sockaddr_un *to = (struct sockaddr_un *)&link->places.at[0].address;

    if (strlen(link->address->path) >= sizeof to->sun_path) {
        hfi_link_fail(link, HF_CONFIG, "the path of a Unix socket has at most %zu bytes",
                      sizeof to->sun_path - 1);
        return false;
    }
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    strcpy(to->sun_path, link->address->path);
    link->places.at[0].len = sizeof *to;
    link->places.count = 1;
    return true;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void try_next(struct hfi_link *link, int64_t now_ms)
{
    int error = ETIMEDOUT;

    while (link->place < link->places.count && link->failed == HF_OK) {
        int64_t left_ms = link->open_until_ms - now_ms;
        int64_t turns = (int64_t)(link->places.count - link->place);

        error = try_one(link, &link->places.at[link->place++]);
        if (error == EINPROGRESS) {
            link->state = HFI_LINK_CONNECTING;
            link->attempt_until_ms = now_ms + (left_ms > 0 ? left_ms / turns : 0);
            hfi_link_watch(link, EPOLLIN | EPOLLOUT);
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

/* 0: connected; EINPROGRESS; or what went wrong. */
static int try_one(struct hfi_link *link, const struct hfi_place *place)
{
    link->fd = hfi_fd_note(
        socket(place->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (link->fd < 0)
        return errno;
    if (connect(link->fd, (const struct sockaddr *)&place->address, place->len) == 0)
        return 0;
    return errno == EINTR ? EINPROGRESS : errno;
}

static void fail_connect(struct hfi_link *link, int error)
{
    bool denied = link->address->path && (error == EACCES || error == EPERM);

    hfi_link_fail(link, denied ? HF_DENIED : HF_UNAVAILABLE, "%s",
                  error == EAGAIN ? "its queue of connections is full" : strerror(error));
}

static void connected(struct hfi_link *link)
{
    if (!settle(link)) {
        hfi_link_fail(link, HF_UNAVAILABLE, "%s", strerror(errno));
        return;
    }
    hfi_link_watch(link, EPOLLIN);
    atomic_store_explicit(&link->read_fd, link->fd, memory_order_release);

    if (!link->conf->url.tls.on) {
        hfi_link_greet(link);
    } else {
        link->state = HFI_LINK_TLS;
        link->tls = hfi_tls_new(link->conf, link->address);
        if (!link->tls)
            hfi_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        else if (hfi_tls_handshake(link->tls) == HFI_TLS_FAILED) /* it has only begun */
            hfi_link_fail(link, HF_UNAVAILABLE, "TLS: %s", hfi_tls_why(link->tls));
    }
    hfi_link_flush(link);
}

/*
 * A blocking socket from here on, with a time limit for recv(2): see hfi_link_read(). No waiting for
 * more bytes to fill a packet. A peer that is gone is found by keepalive, or when it does not
 * acknowledge what we sent.
 */
static bool settle(struct hfi_link *link)
{
    struct timeval slice = { .tv_usec = HFI_REACTOR_SLICE_MS * 1000 };
    int on = 1, idle_s = KEEPALIVE_S, fd = link->fd;
    int64_t ack_ms = link->conf->op_ms < INT32_MAX / 2 ? 2 * link->conf->op_ms : INT32_MAX;
    unsigned user_timeout = (unsigned)ack_ms;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) != 0)
        return false;
    if (link->address->path)
        return true;

    /* Useful, but nothing depends on these. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
    return true;
}

/* The descriptor is taken out of epoll by name: after a fork the child has it too, and closing ours
 * would leave it registered. */
static void close_socket(struct hfi_link *link)
{
    atomic_store_explicit(&link->read_fd, -1, memory_order_release);
    if (link->fd < 0)
        return;
    if (link->events)
        hfi_source_unwatch(&link->source, link->fd);
    link->events = 0;
    hfi_fd_forget(link->fd);
    close(link->fd);
    link->fd = -1;
}
