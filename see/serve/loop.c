/* SPDX-License-Identifier: MIT */
/* The loop: libmicrohttpd, the stores' answers, sockets of suspended connections, signals, timers. One
 * thread; nothing here blocks but epoll_wait(2). */
#include "serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS      64
#define TICK_MS     10000 /* the longest sleep: leases that stream say that they are alive */
#define ARRIVALS_MS 1000  /* the longest sleep while there are connections */
#define STOPPING_MS 2000  /* answers that are under way have this long */

static struct server *the_server; /* for the eyes of signals and of the daemon */
static int signal_fd = -1;

int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void reload(struct server *server)
{
    struct rights fresh;
    char why[512];

    if (!server->rights_path)
        return;
    if (!rights_read(server->rights_path, &fresh, why, sizeof why)) {
        fprintf(stderr, "holdfast-serve: the tokens stay as they are: %s\n", why);
        return;
    }
    watch_rights(&server->rights, &fresh);
    leases_rights(&fresh);
    rights_done(&server->rights);
    server->rights = fresh;
    fprintf(stderr, "holdfast-serve: read %zu tokens again\n", fresh.count);
}

static void signalled(struct eye *eye, uint32_t events)
{
    struct signalfd_siginfo info;

    (void)eye;
    (void)events;
    while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            reload(the_server);
        else
            the_server->stopping = true;
    }
}

/* libmicrohttpd is run in every turn anyway. */
static void nothing(struct eye *eye, uint32_t events)
{
    (void)eye;
    (void)events;
}

static void woken(struct eye *eye, uint32_t events)
{
    uint64_t count;

    (void)eye;
    (void)events;
    while (read(the_server->wake_fd, &count, sizeof count) > 0)
        continue;
}

static void answered(struct eye *eye, uint32_t events)
{
    struct store *store = (struct store *)(void *)eye;

    (void)events;
    hf_store_process(store->handle);
}

static bool look_at(const struct server *server, int fd, struct eye *eye)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = eye };

    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void take_handles(struct server *server)
{
    for (size_t i = 0; i < server->store_count; i++) {
        struct store *store = &server->stores[i];
        hf_store *handle = store->handle ? NULL : see_source_store(store->source);

        if (!handle)
            continue;
        store->eye.ready = answered;
        if (look_at(server, hf_store_fd(handle), &store->eye))
            store->handle = handle;
    }
}

static void sooner(int *timeout, int64_t other)
{
    if (other >= 0 && (*timeout < 0 || other < *timeout))
        *timeout = (int)other;
}

static int next_timeout(const struct server *server, int64_t now_ms)
{
    int timeout = TICK_MS;
    MHD_UNSIGNED_LONG_LONG http;

    if (MHD_get_timeout(server->daemon, &http) == MHD_YES)
        sooner(&timeout, http > TICK_MS ? TICK_MS : (int64_t)http);
    for (size_t i = 0; i < server->store_count; i++)
        if (server->stores[i].handle)
            sooner(&timeout, hf_store_timeout_ms(server->stores[i].handle));
    sooner(&timeout, watch_timeout(server, now_ms));
    if (server->arrivals)
        sooner(&timeout, ARRIVALS_MS);
    if (server->line_first)
        timeout = 0;
    if (server->stopping)
        sooner(&timeout, STOPPING_MS / 20);
    return timeout;
}

static void turn(struct server *server)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(server->epoll_fd, events, EVENTS, next_timeout(server, clock_ms()));
    int64_t now_ms = clock_ms();

    for (int i = 0; i < count; i++) {
        struct eye *eye = events[i].data.ptr;

        eye->ready(eye, events[i].events);
    }
    for (size_t i = 0; i < server->store_count; i++)
        if (server->stores[i].handle && hf_store_timeout_ms(server->stores[i].handle) == 0)
            hf_store_process(server->stores[i].handle);
    take_handles(server);
    arrivals_tick(server, now_ms);
    leases_tick(server, now_ms);
    watch_tick(server, now_ms);
    line_run(server);
    MHD_run(server->daemon);
}

static bool begin(struct server *server, struct eye *signals, struct eye *http)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    signals->ready = signalled;
    http->ready = nothing;
    server->wake.ready = woken;
    return info && signal_fd >= 0 && look_at(server, signal_fd, signals) &&
           look_at(server, info->epoll_fd, http) && look_at(server, server->wake_fd, &server->wake);
}

int loop_run(struct server *server)
{
    struct eye signals, http;
    int64_t until_ms;

    the_server = server;
    if (!begin(server, &signals, &http)) {
        fprintf(stderr, "holdfast-serve: epoll: %s\n", strerror(errno));
        return 70;
    }
    while (!server->stopping)
        turn(server);

    /* No new connections; waits end; what is being written may be finished. */
    MHD_quiesce_daemon(server->daemon);
    leases_stop(server);
    until_ms = clock_ms() + STOPPING_MS;
    while ((leases_busy() || server->streams > 0 || server->suspended) && clock_ms() < until_ms) {
        server->changed = true; /* streams end */
        turn(server);
    }
    close(signal_fd);
    return 0;
}
