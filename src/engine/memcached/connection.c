/* SPDX-License-Identifier: MIT */
/*
 * Sends commands, matches replies with them, and greets the server:
 *
 *   set auth ...   if there is a user: the server's text protocol logs in with a fake `set`
 *   version        it must be 1.6 or newer
 *   mn             and must know the meta commands
 *   stats          which process this is, and what its clock says
 *
 * With the reactor's lock. Nothing here closes a connection: a failure is noted, and the driver
 * acts on it.
 */
#include "engine/memcached/connection.h"

#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum step { STEP_AUTH, STEP_VERSION, STEP_MN, STEP_STATS };

static void connection_greet(struct hfi_stream *stream);
static void connection_take(struct hfi_stream *stream, const char *bytes, size_t len);
static void connection_lost(struct hfi_stream *stream, struct hfi_sent *sent, bool maybe);
static void connection_reset(struct hfi_stream *stream);
static void connection_down(struct hfi_stream *stream, hf_status status, const char *why);
static void dispatch(struct memcached_connection *connection, const struct memcached_reply *reply);
static void greeted(struct memcached_connection *connection, const struct memcached_reply *reply);

static const struct hfi_stream_calls stream_calls = {
    .greet = connection_greet,
    .take = connection_take,
    .lost = connection_lost,
    .reset = connection_reset,
    .down = connection_down,
};

bool memcached_connection_init(struct memcached_connection *connection, struct hfi_reactor *reactor,
                               const struct memcached_conf *conf,
                               const struct memcached_connection_calls *calls, void *data)
{
    struct hfi_stream_target target = { .address = &conf->url.hosts[0],
                                        .connect_ms = conf->connect_ms,
                                        .op_ms = conf->op_ms };

    connection->conf = conf;
    connection->calls = calls;
    connection->data = data;
    return hfi_stream_init(&connection->stream, reactor, &stream_calls, &target);
}

void memcached_connection_done(struct memcached_connection *connection)
{
    if (connection->stream.source.reactor)
        hfi_stream_done(&connection->stream);
    hfi_buffer_done(&connection->got);
}

void memcached_connection_send(struct memcached_connection *connection, size_t len,
                               struct memcached_sent *sent)
{
    struct hfi_stream *stream = &connection->stream;
    uint64_t at = len > 0 ? stream->queued : UINT64_MAX; /* there was no room for it */

    if (stream->state != HFI_STREAM_UP) {
        sent->answered(sent, NULL, false);
        return;
    }
    hfi_stream_commit(stream, len);
    hfi_stream_expect(stream, &sent->sent, at);
}

static struct memcached_connection *of(struct hfi_stream *stream)
{
    return (struct memcached_connection *)stream;
}

static void connection_lost(struct hfi_stream *stream, struct hfi_sent *sent, bool maybe)
{
    struct memcached_sent *lost = (struct memcached_sent *)sent;

    (void)stream;
    lost->answered(lost, NULL, maybe);
}

static void connection_reset(struct hfi_stream *stream)
{
    hfi_buffer_done(&of(stream)->got);
}

static void connection_down(struct hfi_stream *stream, hf_status status, const char *why)
{
    of(stream)->calls->down(of(stream), status, why);
}

/* ---- input --------------------------------------------------------------------------------- */

/* Handle all complete replies in `bytes`; returns how many bytes they have. */
static size_t take_from(struct memcached_connection *connection, const char *bytes, size_t len)
{
    size_t used = 0;

    while (used < len && connection->stream.failed == HF_OK) {
        struct memcached_reply reply;
        size_t one = 0;
        enum memcached_result result = memcached_parse(bytes + used, len - used, &reply, &one);

        if (result == MEMCACHED_BAD)
            hfi_stream_fail(&connection->stream, HF_UNAVAILABLE,
                            "the bytes received are not a reply of memcached");
        if (result != MEMCACHED_DONE)
            break;
        used += one;
        dispatch(connection, &reply);
    }
    return used;
}

/* Replies usually arrive complete, and are parsed in the read buffer; an incomplete rest is
 * kept. */
static void connection_take(struct hfi_stream *stream, const char *bytes, size_t len)
{
    struct memcached_connection *connection = of(stream);
    struct hfi_buffer *got = &connection->got;
    size_t used = 0;
    char *to;

    if (got->len == 0)
        used = take_from(connection, bytes, len);
    if (used == len || stream->failed != HF_OK)
        return;
    to = hfi_buffer_reserve(got, len - used);
    if (!to) {
        hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    memcpy(to, bytes + used, len - used);
    got->len += len - used;
    used = take_from(connection, got->bytes + got->start, got->len);
    if (used > 0)
        hfi_buffer_eat(got, used);
}

static bool is_line(const struct memcached_reply *reply)
{
    return reply->kind == MEMCACHED_STAT || reply->kind == MEMCACHED_DUMPED;
}

static void dispatch(struct memcached_connection *connection, const struct memcached_reply *reply)
{
    struct hfi_stream *stream = &connection->stream;
    struct memcached_sent *sent = (struct memcached_sent *)stream->oldest;

    if (stream->state == HFI_STREAM_GREETING) {
        greeted(connection, reply);
        return;
    }
    if (!sent) {
        hfi_stream_fail(&connection->stream, HF_UNAVAILABLE, "an unexpected reply came");
        return;
    }
    /* The server may have read a command that it did not understand as several commands: from here
     * on replies cannot be matched. */
    if (reply->kind == MEMCACHED_REFUSED && !sent->sent.lines && !sent->may_refuse) {
        hfi_stream_fail(&connection->stream, HF_UNAVAILABLE,
                        "the server did not understand a command: %.*s",
                        (int)(reply->len < 80 ? reply->len : 80), reply->text);
        return;
    }
    if (sent->opaque && reply->kind != MEMCACHED_ERROR && reply->kind != MEMCACHED_REFUSED &&
        (!reply->has_opaque || reply->opaque != sent->opaque)) {
        hfi_stream_fail(&connection->stream, HF_UNAVAILABLE, "the reply to another command came");
        return;
    }
    if (is_line(reply)) {
        if (sent->sent.lines)
            sent->answered(sent, reply, true);
        else
            hfi_stream_fail(&connection->stream, HF_UNAVAILABLE, "an unexpected line came");
        return;
    }
    if (hfi_stream_answered(stream))
        sent->answered(sent, reply, true);
    else
        hfi_stream_fail(stream, HF_UNAVAILABLE, "an unexpected reply came");
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static void connection_greet(struct hfi_stream *stream)
{
    struct memcached_connection *connection = of(stream);
    const struct memcached_conf *conf = connection->conf;
    size_t room = 128, len = 0;
    char *to;

    connection->step = conf->url.user ? STEP_AUTH : STEP_VERSION;
    connection->saw_uptime = connection->saw_time = false;
    connection->server = (struct memcached_server){ .asked_ms = hfi_now_ms() };
    if (conf->url.user)
        room += strlen(conf->url.user) + strlen(conf->url.secret);
    to = hfi_stream_reserve(stream, room);
    if (!to)
        return;
    if (conf->url.user)
        len = (size_t)snprintf(to, room, "set auth 0 0 %zu\r\n%s %s\r\n",
                               strlen(conf->url.user) + 1 + strlen(conf->url.secret),
                               conf->url.user, conf->url.secret);
    len += (size_t)snprintf(to + len, room - len, "version\r\nmn\r\nstats\r\n");
    hfi_stream_commit(stream, len);
}

static void take_version(struct memcached_connection *connection,
                         const struct memcached_reply *reply)
{
    char text[sizeof connection->server.version];
    unsigned long major, minor;
    char *end;

    snprintf(text, sizeof text, "%.*s", (int)(reply->len < 31 ? reply->len : 31), reply->text);
    memcpy(connection->server.version, text, sizeof text);
    major = strtoul(text, &end, 10);
    minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    if (major < 1 || (major == 1 && minor < 6))
        hfi_stream_fail(&connection->stream, HF_VERSION,
                        "memcached %s is too old: locks need the meta commands of 1.6 or newer",
                        connection->server.version);
}

static bool stat_is(const struct memcached_reply *reply, const char *name, uint64_t *ret_value)
{
    size_t len = strlen(name);

    return reply->len > len + 1 && memcmp(reply->text, name, len) == 0 && reply->text[len] == ' ' &&
           memcached_number(reply->text + len + 1, reply->len - len - 1, INT32_MAX * UINT64_C(1000),
                            ret_value);
}

static void take_stat(struct memcached_connection *connection, const struct memcached_reply *reply)
{
    if (stat_is(reply, "uptime", &connection->uptime_s))
        connection->saw_uptime = true;
    else if (stat_is(reply, "time", &connection->server.time_s))
        connection->saw_time = true;
    else
        (void)stat_is(reply, "pid", &connection->server.pid);
}

static void refused(struct memcached_connection *connection, const struct memcached_reply *reply)
{
    bool login = connection->step == STEP_AUTH ||
                 (reply->len >= 15 && memcmp(reply->text, "unauthenticated", 15) == 0);

    if (login)
        hfi_stream_fail(&connection->stream, HF_DENIED, "%s",
                        connection->conf->url.user ? "wrong user or password"
                                                   : "a user is required");
    else if (connection->step == STEP_MN)
        hfi_stream_fail(&connection->stream, HF_VERSION,
                        "memcached %s has no meta commands: 1.6 or newer has",
                        connection->server.version);
    else
        hfi_stream_fail(&connection->stream, HF_UNAVAILABLE, "the greeting was refused: %.*s",
                        (int)(reply->len < 80 ? reply->len : 80), reply->text);
}

static void greeted(struct memcached_connection *connection, const struct memcached_reply *reply)
{
    static const enum memcached_kind want[] = { MEMCACHED_STORED, MEMCACHED_VERSION, MEMCACHED_MN,
                                                MEMCACHED_END };

    if (reply->kind == MEMCACHED_REFUSED || reply->kind == MEMCACHED_ERROR) {
        refused(connection, reply);
        return;
    }
    if (connection->step == STEP_MN && reply->kind == MEMCACHED_EN) {
        hfi_stream_fail(&connection->stream, HF_VERSION,
                        "memcached %s speaks an early form of the meta commands: a newer 1.6 is "
                        "needed",
                        connection->server.version);
        return;
    }
    if (connection->step == STEP_STATS && reply->kind == MEMCACHED_STAT) {
        take_stat(connection, reply);
        return;
    }
    if (reply->kind != want[connection->step]) {
        hfi_stream_fail(&connection->stream, HF_UNAVAILABLE, "its greeting is not memcached's");
        return;
    }
    if (connection->step == STEP_VERSION)
        take_version(connection, reply);
    if (connection->step != STEP_STATS) {
        connection->step++;
        return;
    }
    if (!connection->saw_uptime || !connection->saw_time) {
        hfi_stream_fail(&connection->stream, HF_UNAVAILABLE, "its stats have no uptime and time");
        return;
    }
    connection->server.start_s = connection->server.time_s - connection->uptime_s;
    hfi_stream_up(&connection->stream);
    connection->calls->up(connection);
}
