/* SPDX-License-Identifier: MIT */
/*
 * A link's life: open, close, going down, time limits. See link.h for its states and link_parts.h
 * for its parts. With the owner's lock held, all of it.
 */
#include "engine/redis/link.h"

#include "engine/engine.h"
#include "engine/redis/link_parts.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BACKOFF_FIRST_MS 20
#define BACKOFF_MAX_MS   2000
#define PINGS_MISSED_MAX 2

/* What has not happened, in each state on the way up. */
static const char *const not_yet[] = {
    [HFI_LINK_RESOLVING] = "its name not resolved",
    [HFI_LINK_CONNECTING] = "not connected",
    [HFI_LINK_TLS] = "no TLS handshake (does it speak TLS?)",
    [HFI_LINK_GREETING] = "no answer to the greeting",
};

static void source_ready(struct hfi_source *source, int fd, uint32_t events, int64_t now_ms);
static void source_read(struct hfi_source *source, bool wait);
static void source_due(struct hfi_source *source, int64_t now_ms);
static void source_flush(struct hfi_source *source);
static void go_down(struct hfi_link *link);
static void end(struct hfi_link *link);
static void tick_up(struct hfi_link *link, int64_t now_ms);
static void tick_pings(struct hfi_link *link, int64_t now_ms);
static bool has_news(const struct hfi_link *link);
static int64_t op_until_ms(const struct hfi_link *link);
static int64_t ping_at_ms(const struct hfi_link *link);

static const struct hfi_source_calls source_calls = {
    .ready = source_ready, .read = source_read, .due = source_due, .flush = source_flush
};

/* ---- being there ----------------------------------------------------------------------------- */

struct hfi_link *hfi_link_new(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                              bool subscriber, struct hfi_reactor *reactor,
                              const struct hfi_link_owner *owner, void *data)
{
    struct hfi_link *link = hfi_calloc(1, sizeof *link);
    char *in = hfi_malloc(HFI_LINK_INPUT);

    if (!link || !in || !hfi_source_add(&link->source, reactor, &source_calls)) {
        hfi_free(link);
        hfi_free(in);
        return NULL;
    }
    link->conf = conf;
    link->address = address;
    link->subscriber = subscriber;
    link->owner = owner;
    link->data = data;
    link->in = in;
    link->fd = -1;
    atomic_init(&link->read_fd, -1);
    return link;
}

void hfi_link_free(struct hfi_link *link)
{
    if (!link)
        return;
    hfi_link_close(link);
    hfi_lookup_drop(link->lookup);
    hfi_source_remove(&link->source);
    hfi_free(link->in);
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
    link->source.sleeps = true;
}

void *hfi_link_data(const struct hfi_link *link)
{
    return link->data;
}

enum hfi_link_state hfi_link_state(const struct hfi_link *link)
{
    return link->state;
}

const struct hfi_server *hfi_link_server(const struct hfi_link *link)
{
    return &link->server;
}

const struct hfi_address *hfi_link_address(const struct hfi_link *link)
{
    return link->address;
}

int hfi_link_fd(const struct hfi_link *link)
{
    return link->fd;
}

size_t hfi_link_in_flight(const struct hfi_link *link)
{
    return link->in_flight;
}

/* ---- open and down --------------------------------------------------------------------------- */

void hfi_link_open(struct hfi_link *link, int64_t now_ms)
{
    if (link->state != HFI_LINK_IDLE)
        return;

    link->failed = HF_OK;
    link->open_until_ms = hfi_after_ms(now_ms, link->conf->connect_ms);
    link->heard_ms = link->pinged_ms = now_ms;
    link->state = HFI_LINK_RESOLVING;

    /* A new one each time: a parser that has failed cannot be used again, and one that stopped in
     * the middle of a reply must not go on with it. */
    link->reader = hfi_reader_new();
    if (!link->reader) {
        hfi_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    hfi_link_connect(link, now_ms);
    hfi_link_set_time(link);
}

void hfi_link_close(struct hfi_link *link)
{
    if (link->state == HFI_LINK_IDLE)
        return;
    if (link->tls && link->state > HFI_LINK_TLS && link->out.len + link->wire.len == 0) {
        hfi_tls_goodbye(link->tls);
        hfi_link_flush(link);
    }
    end(link);
}

void hfi_link_fail(struct hfi_link *link, hf_status status, const char *format, ...)
{
    char what[200];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);

    if (link->failed != HF_OK)
        return;
    link->failed = status;
    snprintf(link->why, sizeof link->why, "%.100s: %s", link->address->shown, what);

    /* The driver may be asleep in recv(2) or epoll_wait(2), and this wakes it from both. */
    if (link->fd >= 0)
        (void)shutdown(link->fd, SHUT_RDWR);
    hfi_link_set_time(link);
}

/* It has failed: tell all. The owner may open it again from within `down`, so that is the last. */
static void go_down(struct hfi_link *link)
{
    hf_status status = link->failed;
    char why[sizeof link->why];

    memcpy(why, link->why, sizeof why);
    end(link);
    link->owner->down(link, status, why);
}

/*
 * To IDLE, and answer what was in flight. A command of which send(2) never took a byte will never
 * be executed; of all others we cannot know. Callbacks may send on this link, and then find it IDLE.
 */
static void end(struct hfi_link *link)
{
    struct hfi_sent *sent = link->oldest;
    uint64_t gone = link->gone;

    hfi_link_disconnect(link);
    hfi_reader_free(link->reader);
    link->reader = NULL;
    hfi_buffer_done(&link->out);
    hfi_buffer_done(&link->wire);
    link->queued = link->gone = 0;
    link->in_len = 0;
    link->in_error = 0;
    link->in_end = false;
    link->oldest = link->newest = NULL;
    link->in_flight = 0;
    link->skip = 0;
    link->missed = 0;
    link->failed = HF_OK;
    link->state = HFI_LINK_IDLE;
    link->source.awaited = 0;
    hfi_link_set_time(link);

    while (sent) {
        struct hfi_sent *next = sent->next;

        sent->answered(sent, NULL, sent->at < gone);
        sent = next;
    }
}

int64_t hfi_link_backoff_ms(unsigned failures, uint32_t random)
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

/* ---- being driven ---------------------------------------------------------------------------- */

static void source_ready(struct hfi_source *source, int fd, uint32_t events, int64_t now_ms)
{
    (void)fd, (void)events;
    hfi_link_take((struct hfi_link *)source, now_ms);
}

static void source_read(struct hfi_source *source, bool wait)
{
    hfi_link_read((struct hfi_link *)source, wait);
}

static void source_due(struct hfi_source *source, int64_t now_ms)
{
    hfi_link_tick((struct hfi_link *)source, now_ms);
}

static void source_flush(struct hfi_source *source)
{
    hfi_link_flush((struct hfi_link *)source);
}

/* ---- acting ---------------------------------------------------------------------------------- */

void hfi_link_take(struct hfi_link *link, int64_t now_ms)
{
    if (link->failed == HF_OK) {
        if (link->state == HFI_LINK_RESOLVING || link->state == HFI_LINK_CONNECTING)
            hfi_link_connect_take(link, now_ms);
        else if (link->state != HFI_LINK_IDLE)
            hfi_link_take_input(link, now_ms);
    }
    if (link->failed == HF_OK && (link->out.len || link->wire.len))
        hfi_link_flush(link);
    if (link->failed != HF_OK)
        go_down(link);
    else
        hfi_link_set_time(link);
}

void hfi_link_tick(struct hfi_link *link, int64_t now_ms)
{
    if (link->failed == HF_OK && link->state != HFI_LINK_IDLE) {
        if (link->state == HFI_LINK_UP)
            tick_up(link, now_ms);
        else if (now_ms >= link->open_until_ms)
            hfi_link_fail(link, HF_UNAVAILABLE, "%s within %lld ms", not_yet[link->state],
                          (long long)link->conf->connect_ms);
        else
            hfi_link_connect_tick(link, now_ms);
    }
    if (link->failed != HF_OK)
        go_down(link);
    else
        hfi_link_set_time(link);
}

void hfi_link_set_time(struct hfi_link *link)
{
    hfi_source_at(&link->source, hfi_link_next_ms(link));
}

int64_t hfi_link_next_ms(const struct hfi_link *link)
{
    if (link->failed != HF_OK)
        return 0;
    switch (link->state) {
    case HFI_LINK_IDLE:
        return HFI_NEVER;
    case HFI_LINK_CONNECTING:
        return link->attempt_until_ms;
    case HFI_LINK_UP:
        if (link->subscriber && ping_at_ms(link) < op_until_ms(link))
            return ping_at_ms(link);
        return op_until_ms(link);
    default:
        return link->open_until_ms;
    }
}

static void tick_up(struct hfi_link *link, int64_t now_ms)
{
    int64_t until_ms = op_until_ms(link);

    /* If this process was stopped for a while, the reply may be here already: let it be read. */
    if (now_ms >= until_ms &&
        (now_ms >= hfi_after_ms(until_ms, link->conf->op_ms) || !has_news(link)))
        hfi_link_fail(link, HF_UNAVAILABLE, "no reply within %lld ms",
                      (long long)link->conf->op_ms);
    else if (link->subscriber && now_ms >= ping_at_ms(link))
        tick_pings(link, now_ms);
}

static void tick_pings(struct hfi_link *link, int64_t now_ms)
{
    struct hfi_command ping;

    if (link->missed >= PINGS_MISSED_MAX) {
        if (!has_news(link))
            hfi_link_fail(link, HF_UNAVAILABLE, "no answer to %u pings", link->missed);
        return;
    }
    link->missed++;
    link->pinged_ms = now_ms;

    hfi_command_init(&ping);
    hfi_command_add_text(&ping, "PING");
    hfi_link_queue(link, &ping);
    hfi_command_done(&ping);
    link->skip++;
    hfi_link_flush(link);
}

/* Is there something to read that we have not read yet? */
static bool has_news(const struct hfi_link *link)
{
    char byte;

    return link->in_len > 0 || recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static int64_t op_until_ms(const struct hfi_link *link)
{
    return link->oldest ? hfi_after_ms(link->oldest->sent_ms, link->conf->op_ms) : HFI_NEVER;
}

static int64_t ping_at_ms(const struct hfi_link *link)
{
    int64_t last_ms = link->heard_ms > link->pinged_ms ? link->heard_ms : link->pinged_ms;

    return hfi_after_ms(last_ms, link->conf->ping_ms);
}

void hfi_link_watch(struct hfi_link *link, uint32_t events)
{
    if (events == link->events)
        return;
    if (!hfi_source_watch(&link->source, link->fd, events))
        hfi_link_fail(link, HF_UNAVAILABLE, "epoll: %s", strerror(errno));
    else
        link->events = events;
}
