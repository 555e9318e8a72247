/* SPDX-License-Identifier: MIT */
#include "fake.h"

#include "../unit/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEARD_MAX 65536

struct fake {
    const struct fake_step *steps;
    int listener, stop_fd;
    uint16_t port;
    _Atomic unsigned connections;
    pthread_t thread;
    pthread_mutex_t lock; /* of heard */
    char heard[HEARD_MAX + 1];
    size_t heard_len;
    char copy[HEARD_MAX + 1];
    /* Of this connection: bytes heard of which no command has been made yet. */
    char pending[HEARD_MAX];
    size_t pending_len;
};

static void *serve(void *argument);
static bool play(struct fake *fake, int fd, const struct fake_step *step);
static bool hear(struct fake *fake, int fd, long commands);
static bool listen_more(struct fake *fake, int fd);
static size_t command_length(const char *bytes, size_t len);
static bool say(struct fake *fake, int fd, const char *bytes, size_t len);
static bool may_read(struct fake *fake, int fd, short events, int ms);

#define INFO_REPLICATION \
    "# Replication\r\nrole:master\r\nmaster_replid:8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb\r\n"
#define INFO_PERSISTENCE "# Persistence\r\nloading:0\r\naof_enabled:0\r\n"

const char *info_server(const char *version, const char *more)
{
    static char reply[512];
    char body[400];

    snprintf(body, sizeof body,
             "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n"
             "run_id:0123456789abcdef0123456789abcdef01234567\r\n%s",
             version, more);
    snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", strlen(body), body);
    return reply;
}

const char greeting_replies[] =
    "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n"
    "$2\r\nid\r\n:77\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
    "$7\r\nmodules\r\n*0\r\n"
    "+OK\r\n"
    "$104\r\n# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"
    "run_id:0123456789abcdef0123456789abcdef01234567\r\n"
    "\r\n"
    "$84\r\n" INFO_REPLICATION "\r\n"
    "$41\r\n" INFO_PERSISTENCE "\r\n";

struct fake *fake_start(const struct fake_step *steps)
{
    return fake_start_at(steps, AF_INET, NULL);
}

struct fake *fake_start_at(const struct fake_step *steps, int family, const char *path)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    struct sockaddr_in four = { .sin_family = AF_INET };
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    struct sockaddr *to = family == AF_INET6  ? (struct sockaddr *)&six
                          : family == AF_UNIX ? (struct sockaddr *)&local
                                              : (struct sockaddr *)&four;
    socklen_t len = family == AF_INET6  ? sizeof six
                    : family == AF_UNIX ? sizeof local
                                        : sizeof four;

    assert_non_null(fake);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (path)
        snprintf(local.sun_path, sizeof local.sun_path, "%s", path);
    fake->steps = steps;
    fake->stop_fd = eventfd(0, EFD_CLOEXEC);
    fake->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fake->listener >= 0);
    assert_int_equal(bind(fake->listener, to, len), 0);
    assert_int_equal(listen(fake->listener, 64), 0);
    assert_int_equal(getsockname(fake->listener, to, &len), 0);
    fake->port = ntohs(family == AF_INET6 ? six.sin6_port : four.sin_port);
    assert_int_equal(pthread_mutex_init(&fake->lock, NULL), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
    return fake;
}

uint16_t fake_port(const struct fake *fake)
{
    return fake->port;
}

unsigned fake_connections(const struct fake *fake)
{
    return fake->connections;
}

const char *fake_heard(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    memcpy(fake->copy, fake->heard, sizeof fake->copy);
    pthread_mutex_unlock(&fake->lock);
    return fake->copy;
}

void fake_stop(struct fake *fake)
{
    if (!fake)
        return;
    assert_int_equal(write(fake->stop_fd, &(uint64_t){ 1 }, 8), 8);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
    close(fake->stop_fd);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

static void *serve(void *argument)
{
    struct fake *fake = argument;

    while (may_read(fake, fake->listener, POLLIN, -1)) {
        int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
            continue;
        fake->connections++;
        fake->pending_len = 0;
        for (const struct fake_step *step = fake->steps; play(fake, fd, step); step++)
            ;
        close(fd);
    }
    return NULL;
}

/* false: there is no next step. */
static bool play(struct fake *fake, int fd, const struct fake_step *step)
{
    static const struct linger now = { .l_onoff = 1 };
    size_t len = step->len ? step->len : step->text ? strlen(step->text) : 0;

    switch (step->kind) {
    case FAKE_END:
        while (listen_more(fake, fd))
            fake->pending_len = 0;
        return false;
    case FAKE_HEAR:
        return hear(fake, fd, step->number);
    case FAKE_SAY:
        return say(fake, fd, step->text, len);
    case FAKE_DRIP:
        for (size_t i = 0; i < len; i++) {
            if (!say(fake, fd, step->text + i, 1))
                return false;
            usleep(50);
        }
        return true;
    case FAKE_GREET:
        return hear(fake, fd, GREETING_COMMANDS) &&
               say(fake, fd, greeting_replies, strlen(greeting_replies));
    case FAKE_PAUSE:
        usleep((useconds_t)step->number * 1000);
        return true;
    case FAKE_FILL:
        for (long i = 0; i < step->number; i++)
            if (!say(fake, fd, "xxxxxxxxxxxxxxxx", 16))
                return false;
        return true;
    case FAKE_RESET:
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        return false;
    case FAKE_IGNORE:
        (void)may_read(fake, -1, 0, -1);
        return false;
    default:
        return false;
    }
}

static bool hear(struct fake *fake, int fd, long commands)
{
    while (commands > 0) {
        size_t len = command_length(fake->pending, fake->pending_len);

        if (len > 0) {
            memmove(fake->pending, fake->pending + len, fake->pending_len - len);
            fake->pending_len -= len;
            commands--;
        } else if (!listen_more(fake, fd)) {
            return false;
        }
    }
    return true;
}

static bool listen_more(struct fake *fake, int fd)
{
    ssize_t got;
    size_t keep;

    if (!may_read(fake, fd, POLLIN, -1))
        return false;
    got = recv(fd, fake->pending + fake->pending_len, sizeof fake->pending - fake->pending_len, 0);
    if (got <= 0)
        return false;
    pthread_mutex_lock(&fake->lock);
    keep = HEARD_MAX - fake->heard_len < (size_t)got ? HEARD_MAX - fake->heard_len : (size_t)got;
    memcpy(fake->heard + fake->heard_len, fake->pending + fake->pending_len, keep);
    fake->heard_len += keep;
    pthread_mutex_unlock(&fake->lock);
    fake->pending_len += (size_t)got;
    return true;
}

/* Of the first whole command in `bytes`; 0: there is none yet. */
static size_t command_length(const char *bytes, size_t len)
{
    char text[HEARD_MAX + 1];
    char *at = text;
    long count;

    memcpy(text, bytes, len);
    text[len] = 0;
    if (!memchr(text, '\n', len))
        return 0;
    count = strtol(at + 1, &at, 10);
    at += 2;
    while (count-- > 0) {
        size_t left = len - (size_t)(at - text);
        size_t size;

        if (!memchr(at, '\n', left))
            return 0;
        size = strtoul(at + 1, &at, 10);
        left = len - (size_t)(at - text);
        if (left < 2 + size + 2)
            return 0;
        at += 2 + size + 2;
    }
    return (size_t)(at - text);
}

static bool say(struct fake *fake, int fd, const char *bytes, size_t len)
{
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (len > 0) {
        ssize_t sent;

        if (!may_read(fake, fd, POLLOUT, -1))
            return false;
        sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            return false;
        if (sent > 0) {
            bytes += sent;
            len -= (size_t)sent;
        }
    }
    return true;
}

/* false: the test has ended. */
static bool may_read(struct fake *fake, int fd, short events, int ms)
{
    struct pollfd fds[] = { { .fd = fake->stop_fd, .events = POLLIN },
                            { .fd = fd, .events = events } };

    while (poll(fds, 2, ms) < 0 && errno == EINTR)
        ;
    return !(fds[0].revents & POLLIN);
}
