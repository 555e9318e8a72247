/* SPDX-License-Identifier: MIT */
/* A link's life: open, close, going down, time limits. See link.h for its states and its threads. */
#include "engine/memcached/link.h"

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

/* What has not happened, in each state on the way up. */
static const char *const not_yet[] = {
    [MEMCACHED_LINK_RESOLVING] = "its name not resolved",
    [MEMCACHED_LINK_CONNECTING] = "not connected",
    [MEMCACHED_LINK_GREETING] = "no answer to the greeting",
};

static void go_down(struct memcached_link *link);
static void end(struct memcached_link *link);
static int64_t op_until_ms(const struct memcached_link *link);

struct memcached_link *memcached_link_new(const struct memcached_conf *conf, int epoll_fd,
                                          const struct memcached_link_owner *owner, void *data)
{
    struct memcached_link *link = hfi_calloc(1, sizeof *link);
    char *in = hfi_malloc(MEMCACHED_INPUT);

    if (!link || !in) {
        hfi_free(link);
        hfi_free(in);
        return NULL;
    }
    link->conf = conf;
    link->epoll_fd = epoll_fd;
    link->owner = owner;
    link->data = data;
    link->in = in;
    link->fd = -1;
    atomic_init(&link->read_fd, -1);
    return link;
}

void memcached_link_free(struct memcached_link *link)
{
    if (!link)
        return;
    memcached_link_close(link);
    hfi_lookup_drop(link->lookup);
    hfi_free(link->in);
    hfi_free(link);
}

/* ---- open and down --------------------------------------------------------------------- */

void memcached_link_open(struct memcached_link *link, int64_t now_ms)
{
    if (link->state != MEMCACHED_LINK_IDLE)
        return;
    link->failed = HF_OK;
    link->open_until_ms = hfi_after_ms(now_ms, link->conf->connect_ms);
    link->state = MEMCACHED_LINK_RESOLVING;
    memcached_link_connect(link, now_ms);
}

void memcached_link_close(struct memcached_link *link)
{
    if (link->state != MEMCACHED_LINK_IDLE)
        end(link);
}

void memcached_link_fail(struct memcached_link *link, hf_status status, const char *format, ...)
{
    char what[200];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (link->failed != HF_OK)
        return;
    link->failed = status;
    snprintf(link->why, sizeof link->why, "%.100s: %s", link->conf->url.hosts[0].shown, what);

    /* The driver may be asleep in recv(2) or epoll_wait(2), and this wakes it from both. */
    if (link->fd >= 0)
        (void)shutdown(link->fd, SHUT_RDWR);
}

/* It has failed: tell all. The owner may open it again from within `down`, so that is the last. */
static void go_down(struct memcached_link *link)
{
    hf_status status = link->failed;
    char why[sizeof link->why];

    memcpy(why, link->why, sizeof why);
    end(link);
    link->owner->down(link, status, why);
}

/*
 * To IDLE, and answer what was in flight. A command of which send(2) never took a byte will never
 * be executed; of all others we cannot know.
 */
static void end(struct memcached_link *link)
{
    struct memcached_sent *sent = link->oldest;
    uint64_t gone = link->gone;

    memcached_link_disconnect(link);
    hfi_buffer_done(&link->out);
    hfi_buffer_done(&link->got);
    link->queued = link->gone = 0;
    link->in_len = 0;
    link->in_error = 0;
    link->in_end = false;
    link->oldest = link->newest = NULL;
    link->in_flight = 0;
    link->failed = HF_OK;
    link->state = MEMCACHED_LINK_IDLE;

    while (sent) {
        struct memcached_sent *next = sent->next;

        sent->answered(sent, NULL, sent->at < gone);
        sent = next;
    }
}

int64_t memcached_link_backoff_ms(unsigned failures, uint32_t random)
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

/* ---- acting ------------------------------------------------------------------------------ */

void memcached_link_take(struct memcached_link *link, int64_t now_ms)
{
    if (link->failed == HF_OK) {
        if (link->state == MEMCACHED_LINK_RESOLVING || link->state == MEMCACHED_LINK_CONNECTING)
            memcached_link_connect_take(link, now_ms);
        else if (link->state != MEMCACHED_LINK_IDLE)
            memcached_link_take_input(link, now_ms);
    }
    if (link->failed == HF_OK && link->out.len)
        memcached_link_flush(link);
    if (link->failed != HF_OK)
        go_down(link);
}

/* Is there something to read that we have not read yet? */
static bool has_news(const struct memcached_link *link)
{
    char byte;

    return link->in_len > 0 || recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void memcached_link_tick(struct memcached_link *link, int64_t now_ms)
{
    int64_t until_ms = op_until_ms(link);

    if (link->failed == HF_OK && link->state == MEMCACHED_LINK_UP) {
        /* If this process was stopped for a while, the reply may be here already: let it be read. */
        if (now_ms >= until_ms &&
            (now_ms >= hfi_after_ms(until_ms, link->conf->op_ms) || !has_news(link)))
            memcached_link_fail(link, HF_UNAVAILABLE, "no reply within %lld ms",
                                (long long)link->conf->op_ms);
    } else if (link->failed == HF_OK && link->state != MEMCACHED_LINK_IDLE) {
        if (now_ms >= link->open_until_ms)
            memcached_link_fail(link, HF_UNAVAILABLE, "%s within %lld ms", not_yet[link->state],
                                (long long)link->conf->connect_ms);
        else
            memcached_link_connect_tick(link, now_ms);
    }
    if (link->failed != HF_OK)
        go_down(link);
}

int64_t memcached_link_next_ms(const struct memcached_link *link)
{
    if (link->failed != HF_OK)
        return 0;
    switch (link->state) {
    case MEMCACHED_LINK_IDLE:
        return HFI_NEVER;
    case MEMCACHED_LINK_CONNECTING:
        return link->attempt_until_ms;
    case MEMCACHED_LINK_UP:
        return op_until_ms(link);
    default:
        return link->open_until_ms;
    }
}

/* Until when the oldest command must have been answered; of many lines each has its own time. */
static int64_t op_until_ms(const struct memcached_link *link)
{
    int64_t from_ms;

    if (!link->oldest)
        return HFI_NEVER;
    from_ms = link->oldest->sent_ms;
    if (link->oldest->lines && link->heard_ms > from_ms)
        from_ms = link->heard_ms;
    return hfi_after_ms(from_ms, link->conf->op_ms);
}

void memcached_link_watch(struct memcached_link *link, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = link };

    if (events == link->events)
        return;
    if (epoll_ctl(link->epoll_fd, link->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, link->fd, &event) !=
        0)
        memcached_link_fail(link, HF_UNAVAILABLE, "epoll: %s", strerror(errno));
    else
        link->events = events;
}
