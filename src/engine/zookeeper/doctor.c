/* SPDX-License-Identifier: MIT */
/*
 * Is this store safe for what it promises? What the session says, and what each server of the URL says
 * to "srvr", the one of its four-letter words that it answers to everybody unless it was told otherwise.
 * Over connections of our own: the store's belongs to who drives it. May block, ANSWER_MS for each
 * server.
 */
#include "engine/zookeeper/internal.h"

#include "engine/kit/report.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MS   3000
#define ANSWER_ROOM 4096

struct checkup {
    struct hfi_report report;
    unsigned servers, members, leaders; /* that answer; of an ensemble; that lead it */
};

static bool await(int fd, short events, int64_t until_ms)
{
    struct pollfd one = { .fd = fd, .events = events };
    int64_t left_ms = until_ms - hfi_now_ms();

    return left_ms > 0 && poll(&one, 1, (int)left_ms) > 0;
}

/* A connected socket, or -1. */
static int dial(const struct hfi_address *host, int64_t until_ms)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char port[8];
    int fd = -1, error = 0;
    socklen_t len = sizeof error;

    snprintf(port, sizeof port, "%u", host->port);
    if (getaddrinfo(host->host, port, &hints, &found) != 0)
        return -1;
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && (connect(fd, one->ai_addr, one->ai_addrlen) == 0 ||
                        (errno == EINPROGRESS && await(fd, POLLOUT, until_ms) &&
                         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0)))
            break;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* What the server says to "srvr". false: nothing. */
static bool ask(const struct hfi_address *host, char answer[ANSWER_ROOM])
{
    int64_t until_ms = hfi_now_ms() + ANSWER_MS;
    int fd = dial(host, until_ms);
    size_t used = 0;
    ssize_t got = 1;

    if (fd < 0)
        return false;
    if (send(fd, "srvr", 4, MSG_NOSIGNAL) == 4)
        while (used < ANSWER_ROOM - 1 && got > 0 && await(fd, POLLIN, until_ms)) {
            got = recv(fd, answer + used, ANSWER_ROOM - 1 - used, 0);
            used += got > 0 ? (size_t)got : 0;
        }
    answer[used] = 0;
    close(fd);
    return used > 0;
}

/* The rest of the line that begins with `key`. */
static const char *value(const char *answer, const char *key, char *ret_value, size_t size)
{
    const char *at = strstr(answer, key);

    ret_value[0] = 0;
    if (at)
        snprintf(ret_value, size, "%.*s", (int)strcspn(at + strlen(key), ",\n"), at + strlen(key));
    return ret_value;
}

static void check_server(struct checkup *r, const struct hfi_address *host)
{
    char answer[ANSWER_ROOM], mode[32], version[64], *dash;

    if (!ask(host, answer)) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "server", "%s:%u: no answer", host->host,
                   host->port);
        return;
    }
    value(answer, "Mode: ", mode, sizeof mode);
    value(answer, "Zookeeper version: ", version, sizeof version);
    dash = strchr(version, '-');
    if (dash)
        *dash = 0;
    if (!mode[0]) {
        r->members++; /* for all that we know */
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "server",
            "%s:%u: does not answer \"srvr\" (4lw.commands.whitelist): version and role not known",
            host->host, host->port);
        return;
    }
    hfi_report(&r->report, HF_CHECK_LEVEL_OK, "server", "%s:%u: version %s, %s", host->host,
               host->port, version, mode);
    r->servers++;
    r->members += strcmp(mode, "leader") == 0 || strcmp(mode, "follower") == 0;
    r->leaders += strcmp(mode, "leader") == 0;
    if (strcmp(mode, "standalone") == 0)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "replication",
            "%s:%u stands alone: without it there are no locks, and with its disk the order of "
            "tokens is lost",
            host->host, host->port);
    if (strcmp(mode, "read-only") == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "replication",
                   "%s:%u is cut off from the others", host->host, host->port);
}

static void check_ensemble(const struct checkup *r, size_t hosts)
{
    if (r->leaders > 1)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "replication",
                   "%u servers lead: they do not belong together", r->leaders);
    if (r->members > 0 && hosts == 1)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "replication",
            "one server of an ensemble is named: name all, or its loss is the loss of the store");
    if (r->members > 0 && hosts > 1 && hosts % 2 == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "replication",
                   "%zu servers tolerate no more losses than %zu (unless some are observers)",
                   hosts, hosts - 1);
}

static void check_session(const struct checkup *r, int64_t asked_ms, int64_t given_ms)
{
    char asked[32], given[32];

    hfi_format_duration(asked_ms, asked, sizeof asked);
    hfi_format_duration(given_ms, given, sizeof given);
    if (given_ms != asked_ms)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "session",
            "asked for a timeout of %s, the server gives %s (minSessionTimeout, maxSessionTimeout)",
            asked, given);
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "session",
                   "timeout %s: a lease is freed so long after its holder died", given);
}

hf_status zk_doctor(struct hfi_conn *conn, hf_finding_fn *finding, void *arg, hf_error *err)
{
    struct checkup r = { .report = { .finding = finding, .arg = arg } };
    int64_t timeout_ms;
    bool connected;

    (void)err;
    pthread_mutex_lock(&conn->lock);
    timeout_ms = conn->trust.timeout_ms;
    connected = conn->connected;
    pthread_mutex_unlock(&conn->lock);
    if (connected)
        check_session(&r, conn->conf->timeout_ms, timeout_ms);
    else
        hfi_report(&r.report, HF_CHECK_LEVEL_BAD, "session", "not connected");
    for (size_t i = 0; i < conn->conf->url.host_count; i++)
        check_server(&r, &conn->conf->url.hosts[i]);
    check_ensemble(&r, conn->conf->url.host_count);
    if (conn->conf->acl == ZK_ACL_OPEN)
        hfi_report(
            &r.report, HF_CHECK_LEVEL_WARNING, "access",
            "nodes are open to everybody who reaches the servers (a user in the URL, acl=creator)");
    else
        hfi_report(&r.report, HF_CHECK_LEVEL_OK, "access", "nodes belong to the URL's user");
    return HF_OK;
}
