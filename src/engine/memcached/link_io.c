/* SPDX-License-Identifier: MIT */
/*
 * Bytes out of and into the socket, replies to who waits for them, and the greeting:
 *
 *   set auth ...   if there is a user: the server's text protocol logs in with a fake `set`
 *   version        it must be 1.6 or newer
 *   mn             and must know the meta commands
 *   stats          which process this is, and what its clock says
 *
 * Nothing here takes a link down: a failure is noted, and the driver acts on it.
 */
#include "engine/memcached/link.h"

#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum step { STEP_AUTH, STEP_VERSION, STEP_MN, STEP_STATS };

static void take_replies(struct memcached_link *link);
static void dispatch(struct memcached_link *link, const struct memcached_reply *reply);
static void greeted(struct memcached_link *link, const struct memcached_reply *reply);

/* ---- output ------------------------------------------------------------------------------- */

char *memcached_link_room(struct memcached_link *link, size_t size)
{
    char *to = link->failed == HF_OK ? hfi_buffer_reserve(&link->out, size) : NULL;

    if (!to && link->out.len + size > HFI_BUFFER_MAX)
        memcached_link_fail(link, HF_UNAVAILABLE,
                            "the server does not read: %zu bytes wait to be sent", link->out.len);
    else if (!to)
        memcached_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
    return to;
}

/* On a link that has failed but is not down yet it stands behind those that were sent before, and
 * is answered after them: answers come in the order of the commands. */
void memcached_link_sent(struct memcached_link *link, size_t len, struct memcached_sent *sent)
{
    if (link->state != MEMCACHED_LINK_UP) {
        sent->answered(sent, NULL, false);
        return;
    }
    sent->next = NULL;
    sent->sent_ms = hfi_now_ms();
    sent->at = link->queued;
    link->out.len += len;
    link->queued += len;
    if (len == 0)
        sent->at = UINT64_MAX; /* there was no room for it */
    if (link->newest)
        link->newest->next = sent;
    else
        link->oldest = sent;
    link->newest = sent;
    link->in_flight++;
}

/* One send(2) for all that waits. What the socket does not take waits for EPOLLOUT. */
void memcached_link_flush(struct memcached_link *link)
{
    ssize_t sent;

    if (link->failed != HF_OK || link->fd < 0 || link->out.len == 0)
        return;
    do
        sent = send(link->fd, link->out.bytes + link->out.start, link->out.len,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        memcached_link_fail(link, HF_UNAVAILABLE, "send: %s", strerror(errno));
        return;
    }
    if (sent > 0) {
        link->gone += (uint64_t)sent;
        hfi_buffer_eat(&link->out, (size_t)sent);
    }
    memcached_link_watch(link, link->out.len ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* ---- input --------------------------------------------------------------------------------- */

/* The socket is a blocking one with a time limit, so that a wait needs no other system call; whoever
 * must not wait says so each time. */
void memcached_link_read(struct memcached_link *link, bool wait)
{
    int fd = atomic_load_explicit(&link->read_fd, memory_order_acquire);
    ssize_t got;

    if (fd < 0 || link->in_len > 0)
        return;
    got = recv(fd, link->in, MEMCACHED_INPUT, wait ? 0 : MSG_DONTWAIT);
    if (got > 0)
        link->in_len = (size_t)got;
    else if (got == 0)
        link->in_end = true;
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        link->in_error = errno;
}

void memcached_link_take_input(struct memcached_link *link, int64_t now_ms)
{
    if (link->in_len > 0) {
        link->heard_ms = now_ms;
        take_replies(link);
        link->in_len = 0;
    }
    if (link->failed != HF_OK)
        return;
    if (link->in_error)
        memcached_link_fail(link, HF_UNAVAILABLE, "%s", strerror(link->in_error));
    else if (link->in_end)
        memcached_link_fail(link, HF_UNAVAILABLE, "the server closed the connection%s",
                            link->state == MEMCACHED_LINK_GREETING ? " during the greeting" : "");
}

/* All whole replies of `bytes`; how many bytes they have. */
static size_t take_from(struct memcached_link *link, const char *bytes, size_t len)
{
    size_t used = 0;

    while (used < len && link->failed == HF_OK) {
        struct memcached_reply reply;
        size_t one = 0;
        enum memcached_result result = memcached_parse(bytes + used, len - used, &reply, &one);

        if (result == MEMCACHED_BAD)
            memcached_link_fail(link, HF_UNAVAILABLE, "what came is not a reply of memcached");
        if (result != MEMCACHED_DONE)
            break;
        used += one;
        dispatch(link, &reply);
    }
    return used;
}

/* Replies usually come whole, and are parsed where they were read; the rest is kept. */
static void take_replies(struct memcached_link *link)
{
    size_t used = 0;
    char *to;

    if (link->got.len == 0)
        used = take_from(link, link->in, link->in_len);
    if (used == link->in_len || link->failed != HF_OK)
        return;
    to = hfi_buffer_reserve(&link->got, link->in_len - used);
    if (!to) {
        memcached_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    memcpy(to, link->in + used, link->in_len - used);
    link->got.len += link->in_len - used;
    if (used == 0 || link->got.len > 0) {
        used = take_from(link, link->got.bytes + link->got.start, link->got.len);
        if (used > 0)
            hfi_buffer_eat(&link->got, used);
    }
}

static bool is_line(const struct memcached_reply *reply)
{
    return reply->kind == MEMCACHED_STAT || reply->kind == MEMCACHED_DUMPED;
}

static void dispatch(struct memcached_link *link, const struct memcached_reply *reply)
{
    struct memcached_sent *sent = link->oldest;

    if (link->state == MEMCACHED_LINK_GREETING) {
        greeted(link, reply);
        return;
    }
    if (!sent) {
        memcached_link_fail(link, HF_UNAVAILABLE, "a reply came that nobody had asked for");
        return;
    }
    /* What was not understood as we meant it may have been read as several commands: nobody knows
     * which reply is whose from here on. */
    if (reply->kind == MEMCACHED_REFUSED && !sent->lines) {
        memcached_link_fail(link, HF_UNAVAILABLE, "the server did not understand a command: %.*s",
                            (int)(reply->len < 80 ? reply->len : 80), reply->text);
        return;
    }
    if (sent->opaque && reply->kind != MEMCACHED_ERROR &&
        (!reply->has_opaque || reply->opaque != sent->opaque)) {
        memcached_link_fail(link, HF_UNAVAILABLE, "the reply to another command came");
        return;
    }
    if (is_line(reply)) {
        if (sent->lines)
            sent->answered(sent, reply, true);
        else
            memcached_link_fail(link, HF_UNAVAILABLE, "a line came that nobody had asked for");
        return;
    }
    link->oldest = sent->next;
    if (!sent->next)
        link->newest = NULL;
    link->in_flight--;
    sent->answered(sent, reply, true);
}

/* ---- the greeting ---------------------------------------------------------------------------- */

void memcached_link_greet(struct memcached_link *link)
{
    const struct memcached_conf *conf = link->conf;
    size_t room = 128, len = 0;
    char *to;

    link->state = MEMCACHED_LINK_GREETING;
    link->step = conf->url.user ? STEP_AUTH : STEP_VERSION;
    link->saw_uptime = link->saw_time = false;
    link->server = (struct memcached_server){ .asked_ms = hfi_now_ms() };
    if (conf->url.user)
        room += strlen(conf->url.user) + strlen(conf->url.secret);
    to = memcached_link_room(link, room);
    if (!to)
        return;
    if (conf->url.user)
        len = (size_t)snprintf(to, room, "set auth 0 0 %zu\r\n%s %s\r\n",
                               strlen(conf->url.user) + 1 + strlen(conf->url.secret),
                               conf->url.user, conf->url.secret);
    len += (size_t)snprintf(to + len, room - len, "version\r\nmn\r\nstats\r\n");
    link->out.len += len;
    link->queued += len;
}

static void take_version(struct memcached_link *link, const struct memcached_reply *reply)
{
    char text[sizeof link->server.version];
    unsigned long major, minor;
    char *end;

    snprintf(text, sizeof text, "%.*s", (int)(reply->len < 31 ? reply->len : 31), reply->text);
    memcpy(link->server.version, text, sizeof text);
    major = strtoul(text, &end, 10);
    minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    if (major < 1 || (major == 1 && minor < 6))
        memcached_link_fail(link, HF_VERSION,
                            "memcached %s is too old: locks need the meta commands of 1.6 or newer",
                            link->server.version);
}

static bool stat_is(const struct memcached_reply *reply, const char *name, uint64_t *ret_value)
{
    size_t len = strlen(name);

    return reply->len > len + 1 && memcmp(reply->text, name, len) == 0 && reply->text[len] == ' ' &&
           memcached_number(reply->text + len + 1, reply->len - len - 1, INT32_MAX * UINT64_C(1000),
                            ret_value);
}

static void take_stat(struct memcached_link *link, const struct memcached_reply *reply)
{
    if (stat_is(reply, "uptime", &link->uptime_s))
        link->saw_uptime = true;
    else if (stat_is(reply, "time", &link->server.time_s))
        link->saw_time = true;
    else
        (void)stat_is(reply, "pid", &link->server.pid);
}

static void refused(struct memcached_link *link, const struct memcached_reply *reply)
{
    bool login = link->step == STEP_AUTH ||
                 (reply->len >= 15 && memcmp(reply->text, "unauthenticated", 15) == 0);

    if (login)
        memcached_link_fail(link, HF_DENIED, "%s",
                            link->conf->url.user ? "wrong user or password" : "a user is required");
    else if (link->step == STEP_MN)
        memcached_link_fail(link, HF_VERSION, "memcached %s has no meta commands: 1.6 or newer has",
                            link->server.version);
    else
        memcached_link_fail(link, HF_UNAVAILABLE, "the greeting was refused: %.*s",
                            (int)(reply->len < 80 ? reply->len : 80), reply->text);
}

static void greeted(struct memcached_link *link, const struct memcached_reply *reply)
{
    static const enum memcached_kind want[] = { MEMCACHED_STORED, MEMCACHED_VERSION, MEMCACHED_MN,
                                                MEMCACHED_END };

    if (reply->kind == MEMCACHED_REFUSED || reply->kind == MEMCACHED_ERROR) {
        refused(link, reply);
        return;
    }
    if (link->step == STEP_MN && reply->kind == MEMCACHED_EN) {
        memcached_link_fail(
            link, HF_VERSION,
            "memcached %s speaks an early form of the meta commands: a newer 1.6 is "
            "needed",
            link->server.version);
        return;
    }
    if (link->step == STEP_STATS && reply->kind == MEMCACHED_STAT) {
        take_stat(link, reply);
        return;
    }
    if (reply->kind != want[link->step]) {
        memcached_link_fail(link, HF_UNAVAILABLE, "its greeting is not memcached's");
        return;
    }
    if (link->step == STEP_VERSION)
        take_version(link, reply);
    if (link->step != STEP_STATS) {
        link->step++;
        return;
    }
    if (!link->saw_uptime || !link->saw_time) {
        memcached_link_fail(link, HF_UNAVAILABLE, "its stats have no uptime and time");
        return;
    }
    link->server.start_s = link->server.time_s - link->uptime_s;
    link->state = MEMCACHED_LINK_UP;
    link->owner->up(link);
}
