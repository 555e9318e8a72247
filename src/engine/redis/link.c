/* SPDX-License-Identifier: MIT */
/*
 * RESP on a stream: commands into bytes, bytes into replies and messages, and the pings of a subscriber. See link.h.
 * With the reactor's lock held, all of it.
 */
#include "engine/redis/link_parts.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PINGS_MISSED_MAX 2

static void stream_greet(struct hfi_stream *stream);
static void stream_take(struct hfi_stream *stream, const char *bytes, size_t len);
static void stream_lost(struct hfi_stream *stream, struct hfi_sent *sent, bool maybe);
static void stream_reset(struct hfi_stream *stream);
static void stream_down(struct hfi_stream *stream, hf_status status, const char *why);
static void ping_due(struct hfi_source *pinger, int64_t now_ms);
static void dispatch(struct hfi_link *link, const struct hfi_reply *reply);

static const struct hfi_stream_calls stream_calls = { .greet = stream_greet,
                                                      .take = stream_take,
                                                      .lost = stream_lost,
                                                      .reset = stream_reset,
                                                      .down = stream_down };

/* ---- being there ----------------------------------------------------------------------------- */

struct hfi_link *hfi_link_new(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                              bool subscriber, struct hfi_reactor *reactor,
                              const struct hfi_link_owner *owner, void *data)
{
    static const struct hfi_source_calls pings = { .due = ping_due };
    struct hfi_stream_target target = { .address = address,
                                        .connect_ms = conf->connect_ms,
                                        .op_ms = conf->op_ms,
                                        .tls = conf->tls_context };
    struct hfi_link *link = hfi_calloc(1, sizeof *link);

    if (!link || !hfi_stream_init(&link->stream, reactor, &stream_calls, &target)) {
        hfi_free(link);
        return NULL;
    }
    link->conf = conf;
    link->address = address;
    link->subscriber = link->stream.listens = subscriber;
    link->owner = owner;
    link->data = data;
    if (subscriber && !hfi_source_add(&link->pinger, reactor, &pings)) {
        hfi_link_free(link);
        return NULL;
    }
    return link;
}

void hfi_link_free(struct hfi_link *link)
{
    if (!link)
        return;
    hfi_stream_done(&link->stream);
    hfi_source_remove(&link->pinger);
    hfi_free(link);
}

void hfi_link_to_sentinel(struct hfi_link *link)
{
    link->sentinel = true;
}

void hfi_link_be_brief(struct hfi_link *link)
{
    link->brief = true;
}

void hfi_link_sleep_here(struct hfi_link *link)
{
    link->stream.source.sleeps = true;
}

void *hfi_link_data(const struct hfi_link *link)
{
    return link->data;
}

enum hfi_stream_state hfi_link_state(const struct hfi_link *link)
{
    return link->stream.state;
}

const struct hfi_server *hfi_link_server(const struct hfi_link *link)
{
    return &link->server;
}

const struct hfi_address *hfi_link_address(const struct hfi_link *link)
{
    return link->address;
}

size_t hfi_link_in_flight(const struct hfi_link *link)
{
    return link->stream.in_flight;
}

struct hfi_stream *hfi_link_stream(struct hfi_link *link)
{
    return &link->stream;
}

/* ---- up and down ------------------------------------------------------------------------------ */

void hfi_link_open(struct hfi_link *link, int64_t now_ms)
{
    hfi_stream_open(&link->stream, now_ms);
}

void hfi_link_keep(struct hfi_link *link, bool on)
{
    hfi_stream_keep(&link->stream, on);
}

void hfi_link_settled(struct hfi_link *link)
{
    hfi_stream_settled(&link->stream);
}

void hfi_link_unusable(struct hfi_link *link, hf_status status, const char *format, ...)
{
    char what[400];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    hfi_stream_unusable(&link->stream, status, "%s", what);
}

bool hfi_link_usable(const struct hfi_link *link)
{
    return link->stream.state == HFI_STREAM_UP && link->stream.unusable == HF_OK;
}

unsigned hfi_link_failures(const struct hfi_link *link)
{
    return link->stream.failures;
}

hf_status hfi_link_ended(const struct hfi_link *link)
{
    return link->stream.ended;
}

bool hfi_link_opens_again(const struct hfi_link *link, int64_t now_ms)
{
    return hfi_stream_opens_again(&link->stream, now_ms);
}

void hfi_link_close(struct hfi_link *link)
{
    hfi_stream_close(&link->stream);
}

/* A new reader for each connection: one that has failed cannot be used again, and one that holds a
 * partial reply must not continue it. */
static void stream_greet(struct hfi_stream *stream)
{
    struct hfi_link *link = (struct hfi_link *)stream;

    link->reader = hfi_reader_new();
    if (link->reader)
        hfi_link_greet(link);
    else
        hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
}

void hfi_link_up(struct hfi_link *link)
{
    hfi_stream_up(&link->stream);
    if (link->subscriber) {
        link->missed = 0;
        link->pinged_ms = hfi_now_ms();
        hfi_source_at(&link->pinger, hfi_after_ms(link->pinged_ms, link->conf->ping_ms));
    }
    link->owner->up(link);
}

static void stream_reset(struct hfi_stream *stream)
{
    struct hfi_link *link = (struct hfi_link *)stream;

    hfi_reader_free(link->reader);
    link->reader = NULL;
    link->skip = 0;
}

static void stream_lost(struct hfi_stream *stream, struct hfi_sent *base, bool maybe)
{
    struct redis_sent *sent = (struct redis_sent *)base;

    (void)stream;
    sent->answered(sent, NULL, maybe);
}

static void stream_down(struct hfi_stream *stream, hf_status status, const char *why)
{
    struct hfi_link *link = (struct hfi_link *)stream;

    link->owner->down(link, status, why);
}

/* ---- commands ----------------------------------------------------------------------------------- */

/* Is the link UP, and could the command be built? Otherwise it is answered at once: it will never
 * be sent. */
static bool can_send(const struct hfi_link *link, const struct hfi_command *command,
                     struct redis_sent *sent)
{
    if (link->stream.state == HFI_STREAM_UP && !(command && command->failed))
        return true;
    sent->answered(sent, NULL, false);
    return false;
}

static void expect(struct hfi_link *link, struct redis_sent *sent, uint64_t at)
{
    sent->base.lines = false;
    sent->skip = link->skip;
    link->skip = 0;
    hfi_stream_expect(&link->stream, &sent->base, at);
}

void hfi_link_queue(struct hfi_link *link, const struct hfi_command *command)
{
    size_t head = hfi_command_head(command, NULL);
    char *to;

    if (command->failed) {
        hfi_stream_fail(&link->stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    to = hfi_stream_reserve(&link->stream, head + command->len);
    if (!to)
        return;
    (void)hfi_command_head(command, to);
    memcpy(to + head, command->bytes, command->len);
    hfi_stream_commit(&link->stream, head + command->len);
}

static void queue_words(struct hfi_link *link, const char *verb, const char *word, size_t len)
{
    struct hfi_command command;

    hfi_command_init(&command);
    hfi_command_add_text(&command, verb);
    if (word)
        hfi_command_add(&command, word, len);
    hfi_link_queue(link, &command);
    hfi_command_done(&command);
}

void hfi_link_send(struct hfi_link *link, const struct hfi_command *command,
                   struct redis_sent *sent)
{
    uint64_t at = link->stream.queued;

    if (!can_send(link, command, sent))
        return;
    hfi_link_queue(link, command);
    expect(link, sent, at);
}

void hfi_link_send_asking(struct hfi_link *link, const struct hfi_command *command,
                          struct redis_sent *sent)
{
    uint64_t at;

    if (!can_send(link, command, sent))
        return;

    /* ASKING applies to the next command only. Its own answer is ignored: if it is refused, so is
     * the command. */
    queue_words(link, "ASKING", NULL, 0);
    link->skip++;
    at = link->stream.queued;
    hfi_link_queue(link, command);
    expect(link, sent, at);
}

void hfi_link_subscribe(struct hfi_link *link, const char *channel, size_t len,
                        struct redis_sent *sent)
{
    uint64_t at = link->stream.queued;

    if (!can_send(link, NULL, sent))
        return;
    queue_words(link, "SUBSCRIBE", channel, len);
    expect(link, sent, at);
}

void hfi_link_unsubscribe(struct hfi_link *link, const char *channel, size_t len)
{
    if (link->stream.state != HFI_STREAM_UP || link->stream.failed != HF_OK)
        return;
    queue_words(link, "UNSUBSCRIBE", channel, len);
    link->skip++;
}

void hfi_link_flush(struct hfi_link *link)
{
    hfi_stream_flush(&link->stream);
}

void hfi_link_flush_if(struct hfi_link *link, size_t bytes)
{
    if (link->stream.out.len >= bytes)
        hfi_stream_flush(&link->stream);
}

/* ---- replies and messages ------------------------------------------------------------------------- */

static void stream_take(struct hfi_stream *stream, const char *bytes, size_t len)
{
    struct hfi_link *link = (struct hfi_link *)stream;

    if (!hfi_reader_feed(link->reader, bytes, len)) {
        hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    while (stream->failed == HF_OK) {
        const struct hfi_reply *reply = NULL;
        hf_status status = hfi_reader_next(link->reader, &reply);

        if (status == HF_NO_MEMORY)
            hfi_stream_fail(stream, status, "%s", hf_status_text(status));
        else if (status != HF_OK)
            hfi_stream_fail(stream, HF_UNAVAILABLE, "what came is not a reply of Redis");
        if (status != HF_OK || !reply)
            return;
        dispatch(link, reply);
    }
}

/* Replies come in the order of the commands. */
static void answer(struct hfi_link *link, const struct hfi_reply *reply)
{
    struct redis_sent *sent = (struct redis_sent *)link->stream.oldest;
    uint32_t *skip = sent ? &sent->skip : &link->skip;

    if (*skip > 0) {
        --*skip;
        return;
    }
    sent = (struct redis_sent *)hfi_stream_answered(&link->stream);
    if (sent)
        sent->answered(sent, reply, true);
    else
        hfi_stream_fail(&link->stream, HF_UNAVAILABLE, "an unexpected reply");
}

static bool first_is(const struct hfi_reply *list, const char *word)
{
    const struct hfi_reply *first = hfi_reply_at(list, 0, HFI_REPLY_TEXT);

    return first && first->len == strlen(word) && memcmp(first->text, word, first->len) == 0;
}

/*
 * A subscriber gets messages at any time. In between come the answers, in the order of our
 * commands: one "subscribe", "unsubscribe", "pong" or error for each.
 */
static void dispatch_pushed(struct hfi_link *link, const struct hfi_reply *reply)
{
    const struct hfi_reply *channel = hfi_reply_at(reply, 1, HFI_REPLY_TEXT);
    const struct hfi_reply *payload = hfi_reply_at(reply, 2, HFI_REPLY_TEXT);
    const struct redis_sent *oldest = (const struct redis_sent *)link->stream.oldest;
    bool mine = oldest && oldest->skip == 0;

    if (first_is(reply, "message") && channel &&
        reply->count == 3) /* CLIENT TRACKING sends a list */
        link->owner->message(link, channel->text, channel->len, payload ? payload->text : "",
                             payload ? payload->len : 0);
    else if (reply->type == HFI_REPLY_ERROR || mine == first_is(reply, "subscribe"))
        answer(link, reply);
    else
        hfi_stream_fail(&link->stream, HF_UNAVAILABLE, "an unexpected reply");
}

static void dispatch(struct hfi_link *link, const struct hfi_reply *reply)
{
    if (link->stream.state == HFI_STREAM_GREETING)
        hfi_link_greeted(link, reply);
    else if (link->subscriber)
        dispatch_pushed(link, reply);
    else
        answer(link, reply);
}

/* ---- pings ---------------------------------------------------------------------------------------- */

/* A subscriber that receives nothing sends pings, and goes down if they are not answered. */
static void ping_due(struct hfi_source *pinger, int64_t now_ms)
{
    struct hfi_link *link = hfi_container(pinger, struct hfi_link, pinger);
    struct hfi_stream *stream = &link->stream;
    int64_t next_ms;

    if (stream->state != HFI_STREAM_UP || stream->failed != HF_OK)
        return;
    if (stream->heard_ms >= link->pinged_ms)
        link->missed = 0;
    next_ms = hfi_after_ms(link->missed ? link->pinged_ms : stream->heard_ms, link->conf->ping_ms);
    if (now_ms < next_ms) {
        hfi_source_at(pinger, next_ms);
        return;
    }
    if (link->missed >= PINGS_MISSED_MAX) {
        /* If this process was stopped for a while, the answer may have arrived already: read it
         * first. */
        if (hfi_stream_has_news(stream))
            hfi_source_at(pinger, now_ms);
        else
            hfi_stream_fail(stream, HF_UNAVAILABLE, "no answer to %u pings", link->missed);
        return;
    }
    link->missed++;
    link->pinged_ms = now_ms;
    queue_words(link, "PING", NULL, 0);
    link->skip++;
    hfi_source_at(pinger, hfi_after_ms(now_ms, link->conf->ping_ms));
}
