/* SPDX-License-Identifier: MIT */
/*
 * Being driven. libcurl's two multi handles (calls; streams) tell us which sockets to watch and
 * when to call them; both live in one epoll, with an eventfd for kicks. Whoever submits lets libcurl
 * write at once, with the lock; who drives sleeps in epoll_wait() without it. One thread at a time
 * drives.
 */
#include "engine/etcd/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/fds.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 32
#define KICK       UINT64_MAX

static void work(struct hfi_conn *conn, const struct epoll_event *events, int count);

/* ---- what libcurl asks for ---------------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct etcd_multi *multi = arg;
    struct hfi_conn *conn = multi->conn;
    struct epoll_event event = { .events = 0 };

    (void)easy;
    event.data.u64 = (uint64_t)(uint32_t)fd | (uint64_t)(multi - conn->multis) << 32;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        curl_multi_assign(multi->handle, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        event.events |= EPOLLOUT;
    if (epoll_ctl(conn->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0 &&
        errno == EEXIST)
        (void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    if (!known)
        curl_multi_assign(multi->handle, fd, conn);
    return 0;
}

/* A millisecond more than asked for: who comes early is sent away, and is not told again. */
static int64_t due_ms(long timeout_ms)
{
    if (timeout_ms < 0)
        return HFI_NEVER;
    return hfi_now_ms() + timeout_ms + (timeout_ms > 0);
}

static int on_timer(CURLM *handle, long timeout_ms, void *arg)
{
    struct etcd_multi *multi = arg;

    (void)handle;
    multi->timer_ms = due_ms(timeout_ms);
    return 0;
}

/* What is due at one of them. */
static void fire(struct etcd_multi *multi)
{
    long timeout_ms = -1;
    int running;

    if (multi->timer_ms > hfi_now_ms())
        return;
    curl_multi_socket_action(multi->handle, CURL_SOCKET_TIMEOUT, 0, &running);
    curl_multi_timeout(multi->handle, &timeout_ms);
    multi->timer_ms = due_ms(timeout_ms);
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    int fd =
        hfi_fd_note(socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol));

    (void)arg, (void)purpose;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_close(void *arg, curl_socket_t fd)
{
    (void)arg;
    hfi_fd_forget(fd);
    return close(fd);
}

void etcd_track(struct hfi_conn *conn, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, conn);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, conn);
    /* Every stream has a connection of its own: with a known session TLS begins much sooner. */
    if (conn->share)
        curl_easy_setopt(easy, CURLOPT_SHARE, conn->share);
}

/* ---- open and close ------------------------------------------------------------------------------- */

hf_status etcd_drive_open(struct hfi_conn *conn, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = KICK };

    conn->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    conn->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (conn->epoll_fd < 0 || conn->kick_fd < 0 ||
        epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, conn->kick_fd, &event) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor to be had: %s",
                             strerror(errno));
    conn->share = conn->conf->url.tls.on ? curl_share_init() : NULL;
    if (conn->share)
        curl_share_setopt(conn->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    for (size_t i = 0; i < ETCD_MULTIS; i++) {
        struct etcd_multi *multi = &conn->multis[i];

        multi->conn = conn;
        multi->timer_ms = HFI_NEVER;
        multi->handle = etcd_multi_new();
        if (!multi->handle)
            return hfi_error_memory(err);
        curl_multi_setopt(multi->handle, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi->handle, CURLMOPT_SOCKETDATA, multi);
        curl_multi_setopt(multi->handle, CURLMOPT_TIMERFUNCTION, on_timer);
        curl_multi_setopt(multi->handle, CURLMOPT_TIMERDATA, multi);
    }
    curl_multi_setopt(conn->multis[ETCD_CALLS].handle, CURLMOPT_MAX_HOST_CONNECTIONS,
                      (long)ETCD_LINES);
    curl_multi_setopt(conn->multis[ETCD_CALLS].handle, CURLMOPT_MAXCONNECTS, (long)ETCD_LINES);
    return HF_OK;
}

void etcd_drive_close(struct hfi_conn *conn)
{
    for (size_t i = 0; i < ETCD_MULTIS; i++)
        if (conn->multis[i].handle)
            curl_multi_cleanup(conn->multis[i].handle);
    if (conn->share)
        curl_share_cleanup(conn->share);
    if (conn->epoll_fd >= 0)
        close(conn->epoll_fd);
    if (conn->kick_fd >= 0)
        close(conn->kick_fd);
}

/* ---- when ------------------------------------------------------------------------------------------- */

static int64_t next_ms(struct hfi_conn *conn)
{
    const int64_t all[] = { conn->multis[ETCD_CALLS].timer_ms,
                            conn->multis[ETCD_STREAMS].timer_ms,
                            etcd_calls_next_ms(conn),
                            etcd_leases_next_ms(conn),
                            etcd_waits_next_ms(conn),
                            etcd_watches_next_ms(conn),
                            conn->expiry_ms };
    int64_t next = HFI_NEVER;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        next = all[i] < next ? all[i] : next;
    return next;
}

static int until(int64_t wake_ms, int64_t now_ms)
{
    if (wake_ms == HFI_NEVER)
        return -1;
    if (wake_ms <= now_ms)
        return 0;
    return wake_ms - now_ms > INT_MAX ? INT_MAX : (int)(wake_ms - now_ms);
}

int etcd_fd(struct hfi_conn *conn)
{
    return conn->epoll_fd;
}

int etcd_timeout_ms(struct hfi_conn *conn, int64_t now_ms)
{
    int timeout_ms;

    pthread_mutex_lock(&conn->lock);
    conn->told_ms = conn->done || conn->losses ? now_ms : next_ms(conn);
    timeout_ms = until(conn->told_ms, now_ms);
    pthread_mutex_unlock(&conn->lock);
    return timeout_ms;
}

bool etcd_hurry(struct hfi_conn *conn)
{
    int64_t wake_ms = next_ms(conn);

    if (conn->napping && wake_ms < conn->nap_until_ms) {
        conn->nap_until_ms = wake_ms; /* one kick is enough */
        etcd_kick(conn);
    }
    if (wake_ms >= conn->told_ms)
        return false;
    conn->told_ms = wake_ms;
    return true;
}

void etcd_kick(struct hfi_conn *conn)
{
    uint64_t one = 1;

    if (write(conn->kick_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* ---- work --------------------------------------------------------------------------------------------- */

void etcd_process(struct hfi_conn *conn, int64_t now_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(conn->epoll_fd, events, EVENTS_MAX, 0);

    (void)now_ms;
    pthread_mutex_lock(&conn->lock);
    work(conn, events, count);
    etcd_leave(conn);
}

void etcd_turn(struct hfi_conn *conn, int64_t until_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t wake_ms;
    int count;

    pthread_mutex_lock(&conn->lock);
    wake_ms = next_ms(conn);
    if (until_ms < wake_ms)
        wake_ms = until_ms;
    /* First the mark, then the sleep: what becomes due from now on comes with a kick. */
    conn->nap_until_ms = wake_ms;
    conn->napping = true;
    pthread_mutex_unlock(&conn->lock);
    count = epoll_wait(conn->epoll_fd, events, EVENTS_MAX, until(wake_ms, hfi_now_ms()));
    pthread_mutex_lock(&conn->lock);
    conn->napping = false;
    work(conn, events, count);
    etcd_leave(conn);
}

void etcd_drive_alone(struct hfi_conn *conn, int64_t until_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t wake_ms = next_ms(conn);
    int count = epoll_wait(conn->epoll_fd, events, EVENTS_MAX,
                           until(wake_ms < until_ms ? wake_ms : until_ms, hfi_now_ms()));

    work(conn, events, count);
    etcd_pump(conn);
}

static void act(struct hfi_conn *conn, const struct epoll_event *event)
{
    int mask = 0, running;
    uint64_t kicks;

    if (event->data.u64 == KICK) {
        if (read(conn->kick_fd, &kicks, sizeof kicks) < 0)
            return; /* it was read before: nothing is lost */
        return;
    }
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        mask |= CURL_CSELECT_IN;
    if (event->events & EPOLLOUT)
        mask |= CURL_CSELECT_OUT;
    if (event->events & EPOLLERR)
        mask |= CURL_CSELECT_ERR;
    curl_multi_socket_action(conn->multis[event->data.u64 >> 32].handle,
                             (curl_socket_t)(uint32_t)event->data.u64, mask, &running);
}

/* Take what has ended. false: nothing had. */
static bool reap(struct hfi_conn *conn)
{
    bool any = false;

    for (size_t i = 0; i < ETCD_MULTIS; i++) {
        const CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(conn->multis[i].handle, &left))) {
            CURLcode result = message->data.result;
            CURL *easy = message->easy_handle;
            void *whose = NULL;

            any = true;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &whose);
            curl_multi_remove_handle(conn->multis[i].handle, easy);
            if (i == ETCD_CALLS)
                etcd_call_ended(whose, result);
            else
                etcd_watch_ended(whose, result);
        }
    }
    return any;
}

void etcd_pump(struct hfi_conn *conn)
{
    do {
        if (conn->started) {
            conn->started = false;
            for (size_t i = 0; i < ETCD_MULTIS; i++)
                fire(&conn->multis[i]);
        }
        etcd_watches_work(conn);
    } while (reap(conn) || conn->started);
}

static void work(struct hfi_conn *conn, const struct epoll_event *events, int count)
{
    int64_t now_ms;

    for (int i = 0; i < count; i++)
        act(conn, &events[i]);
    conn->started = true; /* timers */
    etcd_pump(conn);
    now_ms = hfi_now_ms();
    etcd_calls_tick(conn, now_ms);
    etcd_leases_tick(conn, now_ms);
    etcd_waits_tick(conn, now_ms);
    etcd_watches_tick(conn, now_ms);
    etcd_lapse_tick(conn, now_ms);
}
