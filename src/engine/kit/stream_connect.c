/* SPDX-License-Identifier: MIT */
/*
 * From a name to a connected socket: look the name up, then try its addresses one after the other,
 * each for a fair share of the time that is left.
 */
#include "engine/kit/stream_parts.h"

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

static void look_up(struct hfi_stream *stream, int64_t now_ms);
static void look_up_take(struct hfi_stream *stream, int64_t now_ms);
static void stop_looking(struct hfi_stream *stream);
static bool place_unix(struct hfi_stream *stream);
static void try_next(struct hfi_stream *stream, int64_t now_ms);
static int try_one(struct hfi_stream *stream, const struct hfi_place *place);
static void fail_connect(struct hfi_stream *stream, int error);
static void connected(struct hfi_stream *stream);
static bool settle(struct hfi_stream *stream);
static void close_socket(struct hfi_stream *stream);

void hfi_stream_connect(struct hfi_stream *stream, int64_t now_ms)
{
    stream->place = 0;
    if (stream->target.address->path) {
        if (place_unix(stream))
            try_next(stream, now_ms);
    } else if (hfi_resolve_numeric(stream->target.address->host, stream->target.address->port,
                                   &stream->places)) {
        try_next(stream, now_ms);
    } else {
        look_up(stream, now_ms);
    }
}

void hfi_stream_connect_ready(struct hfi_stream *stream, int64_t now_ms)
{
    struct pollfd ready = { .fd = stream->fd, .events = POLLOUT };
    int error = 0;
    socklen_t len = sizeof error;

    if (stream->state == HFI_STREAM_RESOLVING) {
        look_up_take(stream, now_ms);
        return;
    }
    if (poll(&ready, 1, 0) <= 0)
        return;

    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error == 0) {
        connected(stream);
    } else if (stream->place < stream->places.count) {
        close_socket(stream);
        try_next(stream, now_ms);
    } else {
        fail_connect(stream, error);
    }
}

void hfi_stream_connect_due(struct hfi_stream *stream, int64_t now_ms)
{
    if (stream->state != HFI_STREAM_CONNECTING || now_ms < stream->attempt_until_ms)
        return;
    close_socket(stream);
    try_next(stream, now_ms);
}

void hfi_stream_disconnect(struct hfi_stream *stream)
{
    stop_looking(stream);
    close_socket(stream);
    if (stream->tls)
        stream->target.tls->close(stream->tls);
    stream->tls = NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A lookup that an earlier attempt stopped waiting for is still used: its name server is slow, and
 * a second query would not help. */
static void look_up(struct hfi_stream *stream, int64_t now_ms)
{
    if (!stream->lookup)
        stream->lookup = hfi_lookup_new(stream->target.address->host, stream->target.address->port);
    if (!stream->lookup) {
        hfi_stream_fail(stream, HF_NO_MEMORY, "no memory or thread to look up its name");
        return;
    }
    if (!hfi_source_watch(&stream->source, hfi_lookup_fd(stream->lookup), EPOLLIN)) {
        hfi_stream_fail(stream, HF_UNAVAILABLE, "epoll: %s", strerror(errno));
        return;
    }
    look_up_take(stream, now_ms);
}

static void look_up_take(struct hfi_stream *stream, int64_t now_ms)
{
    const char *wrong = NULL;

    if (!hfi_lookup_finished(stream->lookup, &stream->places, &wrong))
        return;

    stop_looking(stream);
    hfi_lookup_drop(stream->lookup);
    stream->lookup = NULL;
    if (wrong)
        hfi_stream_fail(stream, HF_UNAVAILABLE, "%s", wrong);
    else
        try_next(stream, now_ms);
}

static void stop_looking(struct hfi_stream *stream)
{
    if (stream->lookup)
        hfi_source_unwatch(&stream->source, hfi_lookup_fd(stream->lookup));
}

static bool place_unix(struct hfi_stream *stream)
{
    struct sockaddr_un *to = (struct sockaddr_un *)&stream->places.at[0].address;

    if (strlen(stream->target.address->path) >= sizeof to->sun_path) {
        hfi_stream_fail(stream, HF_CONFIG, "the path of a Unix socket has at most %zu bytes",
                        sizeof to->sun_path - 1);
        return false;
    }
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    strcpy(to->sun_path, stream->target.address->path);
    stream->places.at[0].len = sizeof *to;
    stream->places.count = 1;
    return true;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void try_next(struct hfi_stream *stream, int64_t now_ms)
{
    int error = ETIMEDOUT;

    while (stream->place < stream->places.count && stream->failed == HF_OK) {
        int64_t left_ms = stream->open_until_ms - now_ms;
        int64_t turns = (int64_t)(stream->places.count - stream->place);

        error = try_one(stream, &stream->places.at[stream->place++]);
        if (error == EINPROGRESS) {
            stream->state = HFI_STREAM_CONNECTING;
            stream->attempt_until_ms = now_ms + (left_ms > 0 ? left_ms / turns : 0);
            hfi_stream_watch(stream, EPOLLIN | EPOLLOUT);
            return;
        }
        if (error == 0) {
            connected(stream);
            return;
        }
        close_socket(stream);
    }
    fail_connect(stream, error);
}

/* Returns 0 if connected, EINPROGRESS, or another errno. */
static int try_one(struct hfi_stream *stream, const struct hfi_place *place)
{
    stream->fd = hfi_fd_note(
        socket(place->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (stream->fd < 0)
        return errno;
    if (connect(stream->fd, (const struct sockaddr *)&place->address, place->len) == 0)
        return 0;
    return errno == EINTR ? EINPROGRESS : errno;
}

static void fail_connect(struct hfi_stream *stream, int error)
{
    bool denied = stream->target.address->path && (error == EACCES || error == EPERM);

    hfi_stream_fail(stream, denied ? HF_DENIED : HF_UNAVAILABLE, "%s",
                    error == EAGAIN ? "its queue of connections is full" : strerror(error));
}

static void connected(struct hfi_stream *stream)
{
    const struct hfi_tls_context *tls = stream->target.tls;

    if (!settle(stream)) {
        hfi_stream_fail(stream, HF_UNAVAILABLE, "%s", strerror(errno));
        return;
    }
    hfi_stream_watch(stream, EPOLLIN);
    atomic_store_explicit(&stream->read_fd, stream->fd, memory_order_release);

    if (!tls) {
        hfi_stream_greet(stream);
    } else {
        stream->state = HFI_STREAM_TLS;
        stream->tls = tls->open(tls, stream->target.address->host);
        if (!stream->tls)
            hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        else if (tls->handshake(stream->tls) == HFI_TLS_FAILED) /* it has only begun */
            hfi_stream_fail(stream, HF_UNAVAILABLE, "TLS: %s", tls->why(stream->tls));
    }
    hfi_stream_flush(stream);
}

/*
 * Make the socket blocking, with a time limit for recv(2): see hfi_stream_read(). Packets are sent
 * at once (TCP_NODELAY). A dead peer is detected by keepalive, or when it does not acknowledge what
 * we sent.
 */
static bool settle(struct hfi_stream *stream)
{
    struct timeval slice = { .tv_usec = HFI_REACTOR_SLICE_MS * 1000 };
    int on = 1, idle_s = KEEPALIVE_S, fd = stream->fd;
    int64_t ack_ms = stream->target.op_ms < INT32_MAX / 2 ? 2 * stream->target.op_ms : INT32_MAX;
    unsigned user_timeout = (unsigned)ack_ms;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) != 0)
        return false;
    if (stream->target.address->path)
        return true;

    /* Useful, but nothing depends on these. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
    return true;
}

/* The descriptor is removed from epoll explicitly: after a fork the child has a copy, and closing
 * ours would leave it registered. */
static void close_socket(struct hfi_stream *stream)
{
    atomic_store_explicit(&stream->read_fd, -1, memory_order_release);
    if (stream->fd < 0)
        return;
    if (stream->events)
        hfi_source_unwatch(&stream->source, stream->fd);
    stream->events = 0;
    hfi_fd_forget(stream->fd);
    close(stream->fd);
    stream->fd = -1;
}
