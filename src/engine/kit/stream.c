/* SPDX-License-Identifier: MIT */
/* Opens and closes a stream, takes it down, and keeps its time limits. See stream.h. Everything
 * runs with the reactor's lock. */
#include "engine/kit/stream_parts.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/random.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BACKOFF_FIRST_MS 20
#define BACKOFF_MAX_MS   2000

/* What is missing, in each state before UP. */
static const char *const not_yet[] = {
    [HFI_STREAM_RESOLVING] = "its name not resolved",
    [HFI_STREAM_CONNECTING] = "not connected",
    [HFI_STREAM_TLS] = "no TLS handshake (does it speak TLS?)",
    [HFI_STREAM_GREETING] = "no answer to the greeting",
};

static void end(struct hfi_stream *stream);
static void set_time(struct hfi_stream *stream);

static const struct hfi_source_calls source_calls = { .ready = hfi_stream_ready,
                                                      .read = hfi_stream_read,
                                                      .due = hfi_stream_due,
                                                      .flush = hfi_stream_flush_source };

bool hfi_stream_init(struct hfi_stream *stream, struct hfi_reactor *reactor,
                     const struct hfi_stream_calls *calls, const struct hfi_stream_target *target)
{
    stream->calls = calls;
    stream->target = *target;
    stream->fd = -1;
    atomic_init(&stream->read_fd, -1);
    stream->in = hfi_malloc(HFI_STREAM_INPUT);
    if (stream->in && hfi_source_add(&stream->source, reactor, &source_calls))
        return true;
    hfi_free(stream->in);
    stream->in = NULL; /* for hfi_stream_done() */
    return false;
}

void hfi_stream_done(struct hfi_stream *stream)
{
    hfi_stream_close(stream);
    hfi_lookup_drop(stream->lookup);
    hfi_source_remove(&stream->source);
    hfi_free(stream->in);
}

/* ---- open and down --------------------------------------------------------------------------- */

void hfi_stream_open(struct hfi_stream *stream, int64_t now_ms)
{
    if (stream->state != HFI_STREAM_IDLE)
        return;
    stream->failed = HF_OK;
    stream->open_until_ms = hfi_after_ms(now_ms, stream->target.connect_ms);
    stream->heard_ms = now_ms;
    stream->state = HFI_STREAM_RESOLVING;
    hfi_stream_connect(stream, now_ms);
    set_time(stream);
}

void hfi_stream_keep(struct hfi_stream *stream, bool on)
{
    if (on == stream->kept)
        return;
    stream->kept = on;
    set_time(stream);
}

void hfi_stream_greet(struct hfi_stream *stream)
{
    stream->state = HFI_STREAM_GREETING;
    stream->calls->greet(stream);
}

void hfi_stream_up(struct hfi_stream *stream)
{
    /* Replies of another state go elsewhere (the engines' take). */
    assert(stream->state == HFI_STREAM_GREETING);
    stream->state = HFI_STREAM_UP;
    if (stream->was_up && stream->source.reactor && stream->source.reactor->host)
        hfi_host_reconnected(stream->source.reactor->host);
    stream->was_up = true;
}

void hfi_stream_settled(struct hfi_stream *stream)
{
    stream->failures = 0;
}

void hfi_stream_close(struct hfi_stream *stream)
{
    if (stream->state == HFI_STREAM_IDLE)
        return;
    if (stream->tls && stream->state > HFI_STREAM_TLS && stream->out.len + stream->wire.len == 0) {
        stream->target.tls->goodbye(stream->tls);
        hfi_stream_flush(stream);
    }
    end(stream);
}

static void set_why(struct hfi_stream *stream, const char *format, va_list args)
{
    char what[360];

    vsnprintf(what, sizeof what, format, args);
    snprintf(stream->why, sizeof stream->why, "%.100s: %s", stream->target.address->shown, what);
}

void hfi_stream_fail(struct hfi_stream *stream, hf_status status, const char *format, ...)
{
    va_list args;

    if (stream->failed != HF_OK)
        return;
    stream->failed = stream->unusable != HF_OK ? stream->unusable : status;
    if (stream->unusable == HF_OK) {
        va_start(args, format);
        set_why(stream, format, args);
        va_end(args);
    }
    set_time(stream);

    /* The driver may sleep in recv(2) or epoll_wait(2): this wakes it from both. */
    if (stream->fd >= 0)
        (void)shutdown(stream->fd, SHUT_RDWR);
}

void hfi_stream_unusable(struct hfi_stream *stream, hf_status status, const char *format, ...)
{
    va_list args;

    if (stream->failed != HF_OK || stream->unusable != HF_OK)
        return;
    stream->unusable = status;
    va_start(args, format);
    set_why(stream, format, args);
    va_end(args);
    set_time(stream);
}

/* It has failed: tell the owner. `down` comes last, because the owner may open the stream again in
 * it. */
static void go_down(struct hfi_stream *stream)
{
    hf_status status = stream->failed;
    char why[sizeof stream->why];

    memcpy(why, stream->why, sizeof why);
    end(stream);
    stream->failures++;
    stream->open_ms = hfi_now_ms() + hfi_backoff_ms(stream->failures, (uint32_t)hfi_random_u64());
    set_time(stream);
    stream->calls->down(stream, status, why);
}

/*
 * Go to IDLE; requests in flight are lost. A request of which send(2) never took a byte will never
 * be executed; of all others it is not known. The owner's calls may send on this stream, and then
 * find it IDLE.
 */
static void end(struct hfi_stream *stream)
{
    struct hfi_sent *sent = stream->oldest, *next;
    uint64_t gone = stream->gone;

    hfi_stream_disconnect(stream);
    hfi_buffer_done(&stream->out);
    hfi_buffer_done(&stream->wire);
    stream->in_len = 0;
    stream->in_error = 0;
    stream->in_end = false;
    stream->oldest = stream->newest = NULL;
    stream->in_flight = 0;
    stream->source.awaited = 0;
    stream->ended = stream->failed;
    stream->failed = stream->unusable = HF_OK;
    stream->state = HFI_STREAM_IDLE;
    set_time(stream);
    if (stream->calls->reset)
        stream->calls->reset(stream);
    stream->queued = stream->gone = 0;
    for (; sent; sent = next) {
        next = sent->next;
        stream->calls->lost(stream, sent, sent->at < gone);
    }
}

bool hfi_stream_opens_again(const struct hfi_stream *stream, int64_t now_ms)
{
    return stream->state == HFI_STREAM_IDLE && stream->failures > 0 && stream->open_ms <= now_ms;
}

int64_t hfi_backoff_ms(unsigned failures, uint32_t random)
{
    int64_t most = BACKOFF_FIRST_MS;

    if (failures == 0)
        return 0;
    for (unsigned i = 1; i < failures && most < BACKOFF_MAX_MS; i++)
        most *= 2;
    if (most > BACKOFF_MAX_MS)
        most = BACKOFF_MAX_MS;
    return 1 + random % most;
}

/* ---- acting ---------------------------------------------------------------------------------- */

void hfi_stream_ready(struct hfi_source *source, int fd, uint32_t events, int64_t now_ms)
{
    struct hfi_stream *stream = (struct hfi_stream *)source;

    (void)fd, (void)events;
    if (stream->failed == HF_OK) {
        if (stream->state == HFI_STREAM_RESOLVING || stream->state == HFI_STREAM_CONNECTING)
            hfi_stream_connect_ready(stream, now_ms);
        else if (stream->state != HFI_STREAM_IDLE)
            hfi_stream_take_input(stream, now_ms);
    }
    if (stream->failed == HF_OK && (stream->out.len || stream->wire.len))
        hfi_stream_flush(stream);
    if (stream->failed != HF_OK)
        go_down(stream);
    else
        set_time(stream);
}

/* The time by which the oldest request must be answered; if its answer has many parts, each has
 * this time limit. */
static int64_t op_until_ms(const struct hfi_stream *stream)
{
    int64_t from_ms;

    if (!stream->oldest)
        return HFI_NEVER;
    from_ms = stream->oldest->sent_ms;
    if (stream->oldest->lines && stream->heard_ms > from_ms)
        from_ms = stream->heard_ms;
    return hfi_after_ms(from_ms, stream->target.op_ms);
}

bool hfi_stream_has_news(const struct hfi_stream *stream)
{
    char byte;

    return stream->in_len > 0 || recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void due_up(struct hfi_stream *stream, int64_t now_ms)
{
    int64_t until_ms = op_until_ms(stream);

    /* If this process was stopped for a while, the answer may have arrived already: read it
     * first. */
    if (now_ms >= until_ms &&
        (now_ms >= hfi_after_ms(until_ms, stream->target.op_ms) || !hfi_stream_has_news(stream)))
        hfi_stream_fail(stream, HF_UNAVAILABLE, "no reply within %lld ms",
                        (long long)stream->target.op_ms);
}

void hfi_stream_due(struct hfi_source *source, int64_t now_ms)
{
    struct hfi_stream *stream = (struct hfi_stream *)source;

    if (stream->failed == HF_OK)
        stream->failed = stream->unusable;
    if (stream->failed == HF_OK) {
        if (stream->state == HFI_STREAM_IDLE) {
            if (stream->kept && stream->open_ms <= now_ms)
                hfi_stream_open(stream, now_ms);
        } else if (stream->state == HFI_STREAM_UP) {
            due_up(stream, now_ms);
        } else if (now_ms >= stream->open_until_ms) {
            hfi_stream_fail(stream, HF_UNAVAILABLE, "%s within %lld ms", not_yet[stream->state],
                            (long long)stream->target.connect_ms);
        } else {
            hfi_stream_connect_due(stream, now_ms);
        }
    }
    if (stream->failed != HF_OK)
        go_down(stream);
    else
        set_time(stream);
}

int64_t hfi_stream_next_ms(const struct hfi_stream *stream)
{
    if (stream->failed != HF_OK || stream->unusable != HF_OK)
        return 0;
    switch (stream->state) {
    case HFI_STREAM_IDLE:
        return stream->kept ? stream->open_ms : HFI_NEVER;
    case HFI_STREAM_CONNECTING:
        return stream->attempt_until_ms;
    case HFI_STREAM_UP:
        return op_until_ms(stream);
    default:
        return stream->open_until_ms;
    }
}

/* Set the time of the source, after everything that may have changed it. */
static void set_time(struct hfi_stream *stream)
{
    hfi_source_at(&stream->source, hfi_stream_next_ms(stream));
}

void hfi_stream_watch(struct hfi_stream *stream, uint32_t events)
{
    if (events == stream->events)
        return;
    if (!hfi_source_watch(&stream->source, stream->fd, events))
        hfi_stream_fail(stream, HF_UNAVAILABLE, "epoll: %s", strerror(errno));
    else
        stream->events = events;
}
