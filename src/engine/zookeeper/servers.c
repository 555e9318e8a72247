/* SPDX-License-Identifier: MIT */
/*
 * The servers of the URL: their addresses, and whether a connection to them is refused. Blocks, with a time limit; when a
 * store is opened, and for the doctor.
 *
 * Host names become addresses here, once: the library would look names up itself whenever it connects, in the thread that
 * drives, and without a time limit.
 */
#include "engine/zookeeper/servers.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX (NI_MAXHOST + 8) /* of one address */

void zk_servers_done(struct zk_servers *servers)
{
    hfi_free(servers->text);
    hfi_free(servers->places);
    *servers = (struct zk_servers){ .text = NULL };
}

/* ---- addresses ---------------------------------------------------------------------------------- */

static bool make_room(struct zk_servers *servers, size_t count)
{
    size_t all = servers->count + count;
    struct hfi_place *places = hfi_realloc(servers->places, all * sizeof *places);
    char *text;

    if (!places)
        return false;
    servers->places = places;
    text = hfi_realloc(servers->text, all * TEXT_MAX);
    if (!text)
        return false;
    if (!servers->text)
        text[0] = 0;
    servers->text = text;
    return true;
}

/* The library's notation: "address:port,address:port". The last colon is the port's. */
static bool add_places(struct zk_servers *servers, const struct hfi_places *places, uint16_t port)
{
    if (!make_room(servers, places->count))
        return false;
    for (size_t i = 0; i < places->count; i++) {
        const struct hfi_place *place = &places->at[i];
        size_t used = strlen(servers->text);
        char host[NI_MAXHOST];

        if (getnameinfo((const struct sockaddr *)&place->address, place->len, host, sizeof host,
                        NULL, 0, NI_NUMERICHOST) != 0 ||
            strchr(host, '%')) /* a scoped address: the library cannot connect to it */
            continue;
        snprintf(servers->text + used, TEXT_MAX, "%s%s:%u", used ? "," : "", host, port);
        servers->places[servers->count++] = *place;
    }
    return true;
}

/* A lookup for each name; of numeric addresses: none. */
static hf_status begin(const struct zk_conf *conf, struct hfi_lookup *lookups[], hf_error *err)
{
    struct hfi_places places;

    for (size_t i = 0; i < conf->url.host_count; i++) {
        const struct hfi_address *host = &conf->url.hosts[i];

        if (hfi_resolve_numeric(host->host, host->port, &places))
            continue;
        lookups[i] = hfi_lookup_new(host->host, host->port);
        if (!lookups[i])
            return hfi_error_memory(err);
    }
    return HF_OK;
}

static bool resolve_host(const struct hfi_address *host, const struct hfi_lookup *lookup,
                         int64_t until_ms, struct hfi_places *ret_places, hf_error *err)
{
    const char *wrong = "its address is not found in time";

    if (!lookup)
        return hfi_resolve_numeric(host->host, host->port, ret_places);
    hfi_lookup_wait(lookup, until_ms);
    if (hfi_lookup_finished(lookup, ret_places, &wrong) && !wrong)
        return true;
    hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: %s", host->host, wrong);
    return false;
}

hf_status zk_servers_resolve(const struct zk_conf *conf, int64_t until_ms,
                             struct zk_servers *ret_servers, hf_error *err)
{
    struct hfi_lookup *lookups[ZK_HOSTS_MAX] = { NULL };
    struct zk_servers servers = { .text = NULL };
    struct hfi_places places;
    hf_status status = begin(conf, lookups, err);

    for (size_t i = 0; status == HF_OK && i < conf->url.host_count; i++)
        if (resolve_host(&conf->url.hosts[i], lookups[i], until_ms, &places, err) &&
            !add_places(&servers, &places, conf->url.hosts[i].port))
            status = hfi_error_memory(err);
    for (size_t i = 0; i < conf->url.host_count; i++)
        hfi_lookup_drop(lookups[i]);
    if (status == HF_OK && servers.count == 0)
        status = HF_UNAVAILABLE; /* err says of the last one why */
    if (status != HF_OK) {
        zk_servers_done(&servers);
        return status;
    }
    *ret_servers = servers;
    return HF_OK;
}

/* ---- connections ----------------------------------------------------------------------------------- */

static bool wait_for(int fd, short events, int64_t until_ms)
{
    struct pollfd one = { .fd = fd, .events = events };
    int64_t left_ms = until_ms - hfi_now_ms();

    return poll(&one, 1, left_ms <= 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms) > 0;
}

/* Connect. Returns a socket, or -1; then *ret_error is an errno, or 0 if there was no answer in
 * time. */
static int dial(const struct hfi_place *place, int64_t until_ms, int *ret_error)
{
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof *ret_error;

    *ret_error = 0;
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&place->address, place->len) == 0)
        return fd;
    if (fd < 0 || errno != EINPROGRESS)
        *ret_error = errno;
    else if (wait_for(fd, POLLOUT, until_ms) &&
             getsockopt(fd, SOL_SOCKET, SO_ERROR, ret_error, &len) == 0 && *ret_error == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool zk_servers_refuse(const struct zk_servers *servers, int64_t until_ms, hf_error *err)
{
    int first = 0;

    for (size_t i = 0; i < servers->count; i++) {
        int error, fd = dial(&servers->places[i], until_ms, &error);

        if (fd >= 0)
            close(fd);
        if (error == 0)
            return false;
        if (!first)
            first = error;
    }
    hfi_error_set(err, HF_UNAVAILABLE, first, "%.*s: %s", (int)strcspn(servers->text, ","),
                  servers->text, strerror(first));
    return first != 0;
}

static int dial_host(const struct hfi_address *host, int64_t until_ms)
{
    struct hfi_lookup *lookup = NULL;
    struct hfi_places places;
    hf_error err;
    int fd = -1, error;

    if (!hfi_resolve_numeric(host->host, host->port, &places)) {
        lookup = hfi_lookup_new(host->host, host->port);
        if (!lookup || !resolve_host(host, lookup, until_ms, &places, &err))
            places.count = 0;
        hfi_lookup_drop(lookup);
    }
    for (size_t i = 0; i < places.count && fd < 0; i++)
        fd = dial(&places.at[i], until_ms, &error);
    return fd;
}

bool zk_server_ask(const struct hfi_address *host, int64_t until_ms, char *ret_answer, size_t size)
{
    int fd = dial_host(host, until_ms);
    size_t used = 0;
    ssize_t got = 1;

    if (fd < 0)
        return false;
    if (send(fd, "srvr", 4, MSG_NOSIGNAL) == 4)
        while (used < size - 1 && got > 0 && wait_for(fd, POLLIN, until_ms)) {
            got = recv(fd, ret_answer + used, size - 1 - used, 0);
            used += got > 0 ? (size_t)got : 0;
        }
    ret_answer[used] = 0;
    close(fd);
    return used > 0;
}
