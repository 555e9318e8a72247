/* SPDX-License-Identifier: MIT */
/*
 * Host names become addresses here, once, when a store is opened: the library looks names up itself
 * whenever it connects, in the thread that drives, and getaddrinfo(3) has no time limit. A lookup has
 * a thread of its own; one that takes too long is left to itself.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ADDRESSES_MAX 8 /* of one name */
#define TEXT_MAX      (ADDRESSES_MAX * (NI_MAXHOST + 8))

/* Shared by who asks and the thread: the last of them frees it. */
struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t done;
    char host[HFI_HOST_MAX + 1];
    uint16_t port;
    int refs, rc;
    bool ended;
    char text[TEXT_MAX]; /* "address:port,address:port" */
};

static void unref(struct lookup *lookup)
{
    bool last;

    pthread_mutex_lock(&lookup->lock);
    last = --lookup->refs == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&lookup->lock);
    pthread_cond_destroy(&lookup->done);
    hfi_free(lookup);
}

static void append(char *text, const struct addrinfo *address, uint16_t port)
{
    char host[NI_MAXHOST];
    size_t used = strlen(text);

    if (getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof host, NULL, 0,
                    NI_NUMERICHOST) != 0 ||
        strchr(host, '%')) /* an interface: the library does not know what to do with it */
        return;
    /* The last colon is the port's, for the library too. */
    snprintf(text + used, TEXT_MAX - used, "%s%s:%u", used ? "," : "", host, port);
}

static void *look_up(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char text[TEXT_MAX] = "";
    int rc = getaddrinfo(lookup->host, NULL, &hints, &found), count = 0;

    for (struct addrinfo *one = found; rc == 0 && one && count < ADDRESSES_MAX;
         one = one->ai_next) {
        append(text, one, lookup->port);
        count++;
    }
    if (found)
        freeaddrinfo(found);
    pthread_mutex_lock(&lookup->lock);
    memcpy(lookup->text, text, sizeof text);
    lookup->rc = rc;
    lookup->ended = true;
    pthread_cond_signal(&lookup->done);
    pthread_mutex_unlock(&lookup->lock);
    unref(lookup);
    return NULL;
}

static struct lookup *begin(const struct hfi_address *host)
{
    struct lookup *lookup = hfi_calloc(1, sizeof *lookup);
    pthread_condattr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int rc;

    if (!lookup)
        return NULL;
    pthread_mutex_init(&lookup->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&lookup->done, &attr);
    pthread_condattr_destroy(&attr);
    strcpy(lookup->host, host->host);
    lookup->port = host->port;
    lookup->refs = 2;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        look_up(lookup); /* no thread to be had: here, then */
        return lookup;
    }
    pthread_detach(thread);
    return lookup;
}

static void await(struct lookup *lookup, int64_t until_ms)
{
    int64_t left_ms = until_ms - hfi_now_ms();
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    if (left_ms > 0) {
        until.tv_sec += (time_t)(left_ms / 1000);
        until.tv_nsec += (long)(left_ms % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    pthread_mutex_lock(&lookup->lock);
    while (!lookup->ended && pthread_cond_timedwait(&lookup->done, &lookup->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&lookup->lock);
}

hf_status zk_resolve(const struct zk_conf *conf, int64_t until_ms, char **ret_hosts, hf_error *err)
{
    struct lookup *lookups[ZK_HOSTS_MAX] = { NULL };
    size_t size = ZK_HOSTS_MAX * (TEXT_MAX + 1);
    char *hosts = hfi_calloc(1, size);
    hf_status status = hosts ? HF_OK : hfi_error_memory(err);

    for (size_t i = 0; status == HF_OK && i < conf->url.host_count; i++) {
        lookups[i] = begin(&conf->url.hosts[i]);
        if (!lookups[i])
            status = hfi_error_memory(err);
    }
    for (size_t i = 0; i < conf->url.host_count && lookups[i]; i++) {
        await(lookups[i], until_ms);
        pthread_mutex_lock(&lookups[i]->lock);
        if (status == HF_OK && lookups[i]->ended && lookups[i]->text[0]) {
            size_t used = strlen(hosts);

            snprintf(hosts + used, size - used, "%s%s", used ? "," : "", lookups[i]->text);
        } else if (status == HF_OK) {
            hfi_error_set(err, HF_UNAVAILABLE, lookups[i]->rc, "%s: %s", conf->url.hosts[i].host,
                          lookups[i]->ended ? gai_strerror(lookups[i]->rc)
                                            : "its address is not found in time");
        }
        pthread_mutex_unlock(&lookups[i]->lock);
        unref(lookups[i]);
    }
    if (status == HF_OK && !hosts[0])
        status = HF_UNAVAILABLE; /* err says of the last one why */
    if (status != HF_OK) {
        hfi_free(hosts);
        return status;
    }
    *ret_hosts = hosts;
    return HF_OK;
}

/* ---- are they there? ---------------------------------------------------------------------------- */

/* Begin to connect; 0: it may become a connection, and *ret_fd is it. */
static int dial(const char *host, size_t len, int *ret_fd)
{
    struct sockaddr_in four = { .sin_family = AF_INET };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    const char *colon = memrchr(host, ':', len);
    char address[NI_MAXHOST];
    bool is_six;
    int rc;

    snprintf(address, sizeof address, "%.*s", colon ? (int)(colon - host) : (int)len, host);
    is_six = inet_pton(AF_INET6, address, &six.sin6_addr) == 1;
    if (!colon || (!is_six && inet_pton(AF_INET, address, &four.sin_addr) != 1))
        return EAFNOSUPPORT;
    four.sin_port = six.sin6_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    *ret_fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*ret_fd < 0)
        return errno;
    rc = is_six ? connect(*ret_fd, (struct sockaddr *)&six, sizeof six)
                : connect(*ret_fd, (struct sockaddr *)&four, sizeof four);
    return rc == 0 || errno == EINPROGRESS ? 0 : errno;
}

/* Why there is no connection to it; 0: there is, or nobody says no in time. */
static int knock(const char *host, size_t len, int64_t until_ms)
{
    int fd = -1, error = dial(host, len, &fd);
    struct pollfd polled = { .fd = fd, .events = POLLOUT };
    int64_t left_ms = until_ms - hfi_now_ms();
    socklen_t size = sizeof error;

    if (error == 0 && poll(&polled, 1, left_ms > 0 ? (int)left_ms : 0) > 0)
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (fd >= 0)
        close(fd);
    return error;
}

bool zk_refused(const char *hosts, int64_t until_ms, hf_error *err)
{
    const char *at = hosts;
    int first = 0;

    while (*at) {
        size_t len = strcspn(at, ",");
        int error = knock(at, len, until_ms);

        if (error == 0)
            return false;
        if (!first)
            first = error;
        at += len + (at[len] == ',');
    }
    hfi_error_set(err, HF_UNAVAILABLE, first, "%.*s: %s", (int)strcspn(hosts, ","), hosts,
                  strerror(first));
    return first != 0;
}
