/* SPDX-License-Identifier: MIT */
/*
 * libcurl on the reactor. Its two multi handles (calls; streams) are sources: they tell us which sockets to watch and
 * when to call them. The thread that submits lets libcurl write at once, before the lock is dropped
 * (work_flush).
 */
#include "engine/etcd/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/fds.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct hfi_source_calls multi_calls, work_calls;

/* ---- what libcurl asks for ---------------------------------------------------------------------- */

/*
 * libcurl wants a socket watched only while a request is under way. That would cost two or three
 * system calls for each request, so the few connections of calls stay watched until an event comes
 * that libcurl does not wait for, or they are closed.
 *
 * This applies only to sockets that on_open() made. libcurl has others (one for each name lookup),
 * which it closes without telling us; the next one may have the same number, and is not watched
 * yet.
 */
static struct etcd_socket *find_socket(struct etcd_multi *multi, int fd)
{
    for (size_t i = 0; i < ETCD_LINES; i++)
        if (multi->sockets[i].open && multi->sockets[i].fd == fd)
            return &multi->sockets[i];
    return NULL;
}

static void keep_socket(struct etcd_multi *multi, int fd)
{
    for (size_t i = 0; i < ETCD_LINES; i++)
        if (!multi->sockets[i].open) {
            multi->sockets[i] = (struct etcd_socket){ .open = true, .fd = fd };
            return;
        }
}

static void unwatch_socket(struct etcd_multi *multi, struct etcd_socket *socket)
{
    hfi_source_unwatch(&multi->source, socket->fd);
    socket->events = 0;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct etcd_multi *multi = arg;
    struct etcd_socket *socket = find_socket(multi, fd);
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    bool watched;

    (void)easy, (void)known;
    if (what == CURL_POLL_REMOVE) {
        if (socket)
            socket->wanted = false;
        else
            hfi_source_unwatch(&multi->source, fd);
        return 0;
    }
    watched = (socket && socket->events == events) || hfi_source_watch(&multi->source, fd, events);
    if (socket) {
        socket->events = watched ? events : 0;
        socket->wanted = true;
    }
    return 0;
}

/* A millisecond more than asked for: a call that comes too early does nothing, and libcurl does not
 * ask again. */
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
    hfi_source_at(&multi->source, due_ms(timeout_ms));
    return 0;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct etcd_multi *multi = arg;
    int fd =
        hfi_fd_note(socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol));

    (void)purpose;
    if (fd < 0)
        return CURL_SOCKET_BAD;
    if (multi->keeps)
        keep_socket(multi, fd);
    return fd;
}

static int on_close(void *arg, curl_socket_t fd)
{
    struct etcd_multi *multi = arg;
    struct etcd_socket *socket = find_socket(multi, fd);

    if (socket && socket->events)
        unwatch_socket(multi, socket);
    if (socket)
        socket->open = false;
    hfi_fd_forget(fd);
    return close(fd);
}

void etcd_track(struct etcd_multi *multi, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, multi);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, multi);
    /* Every stream has a connection of its own: a shared TLS session makes the handshake much
     * faster. */
    if (multi->store->share)
        curl_easy_setopt(easy, CURLOPT_SHARE, multi->store->share);
}

/* ---- open and close ------------------------------------------------------------------------------- */

hf_status etcd_drive_open(struct etcd_store *store, hf_error *err)
{
    if (!hfi_source_add(&store->work, &store->reactor, &work_calls))
        return hfi_error_memory(err);
    store->share = store->conf->url.tls.on ? curl_share_init() : NULL;
    if (store->share)
        curl_share_setopt(store->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    for (size_t i = 0; i < ETCD_MULTIS; i++) {
        struct etcd_multi *multi = &store->multis[i];

        multi->store = store;
        multi->handle = etcd_multi_new();
        if (!multi->handle || !hfi_source_add(&multi->source, &store->reactor, &multi_calls))
            return hfi_error_memory(err);
        curl_multi_setopt(multi->handle, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi->handle, CURLMOPT_SOCKETDATA, multi);
        curl_multi_setopt(multi->handle, CURLMOPT_TIMERFUNCTION, on_timer);
        curl_multi_setopt(multi->handle, CURLMOPT_TIMERDATA, multi);
    }
    store->multis[ETCD_CALLS].keeps = true;
    curl_multi_setopt(store->multis[ETCD_CALLS].handle, CURLMOPT_MAX_HOST_CONNECTIONS,
                      (long)ETCD_LINES);
    curl_multi_setopt(store->multis[ETCD_CALLS].handle, CURLMOPT_MAXCONNECTS, (long)ETCD_LINES);
    return etcd_calls_open(store) ? HF_OK : hfi_error_memory(err);
}

void etcd_drive_close(struct etcd_store *store)
{
    for (size_t i = 0; i < ETCD_MULTIS; i++)
        if (store->multis[i].handle)
            curl_multi_cleanup(store->multis[i].handle);
    if (store->share)
        curl_share_cleanup(store->share);
}

/* ---- the handles ------------------------------------------------------------------------------------ */

static void multi_ready(struct hfi_source *source, int fd, uint32_t events, int64_t now_ms)
{
    struct etcd_multi *multi = hfi_container(source, struct etcd_multi, source);
    struct etcd_socket *socket = find_socket(multi, fd);
    int mask = 0, running;

    (void)now_ms;
    if (socket &&
        !socket->wanted) { /* closed by the server: libcurl notices when it next uses it */
        unwatch_socket(multi, socket);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        mask |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        mask |= CURL_CSELECT_OUT;
    if (events & EPOLLERR)
        mask |= CURL_CSELECT_ERR;
    curl_multi_socket_action(multi->handle, fd, mask, &running);
    etcd_started(multi->store);
}

static void run_timers(struct etcd_multi *multi)
{
    long timeout_ms = -1;
    int running;

    curl_multi_socket_action(multi->handle, CURL_SOCKET_TIMEOUT, 0, &running);
    curl_multi_timeout(multi->handle, &timeout_ms);
    hfi_source_at(&multi->source, due_ms(timeout_ms));
}

static void multi_due(struct hfi_source *source, int64_t now_ms)
{
    struct etcd_multi *multi = hfi_container(source, struct etcd_multi, source);

    (void)now_ms;
    run_timers(multi);
    etcd_started(multi->store);
}

static const struct hfi_source_calls multi_calls = { .ready = multi_ready, .due = multi_due };

/* ---- work --------------------------------------------------------------------------------------------- */

void etcd_started(struct etcd_store *store)
{
    store->started = true;
    hfi_source_dirty(&store->work);
}

/* Handle the requests that have ended. false: none has. */
static bool reap(struct etcd_store *store)
{
    bool any = false;

    for (size_t i = 0; i < ETCD_MULTIS; i++) {
        const CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(store->multis[i].handle, &left))) {
            CURLcode result = message->data.result;
            CURL *easy = message->easy_handle;
            void *whose = NULL;

            any = true;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &whose);
            curl_multi_remove_handle(store->multis[i].handle, easy);
            if (i == ETCD_CALLS)
                etcd_call_ended(whose, result);
            else
                etcd_watch_ended(whose, result);
        }
    }
    return any;
}

/* Let libcurl send new requests, and handle those that have ended, until there are none. */
static void work_flush(struct hfi_source *source)
{
    struct etcd_store *store = hfi_container(source, struct etcd_store, work);

    do {
        store->started = false;
        for (size_t i = 0; i < ETCD_MULTIS; i++)
            if (store->multis[i].source.due_ms <= hfi_now_ms())
                run_timers(&store->multis[i]);
        etcd_watches_work(store);
    } while (reap(store) || store->started);
}

static int64_t work_next_ms(const struct hfi_source *source)
{
    const struct etcd_store *store = hfi_container(source, struct etcd_store, work);
    const int64_t all[] = { etcd_leases_next_ms(store), etcd_waits_next_ms(store),
                            etcd_watches_next_ms(store), etcd_changes_next_ms(store),
                            store->expiry_ms };
    int64_t next = HFI_NEVER;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        next = all[i] < next ? all[i] : next;
    return next;
}

static void work_due(struct hfi_source *source, int64_t now_ms)
{
    struct etcd_store *store = hfi_container(source, struct etcd_store, work);

    etcd_leases_tick(store, now_ms);
    etcd_waits_tick(store, now_ms);
    etcd_watches_tick(store, now_ms);
    etcd_changes_tick(store, now_ms);
    etcd_lapse_tick(store, now_ms);
}

static const struct hfi_source_calls work_calls = { .due = work_due,
                                                    .next_ms = work_next_ms,
                                                    .flush = work_flush };
