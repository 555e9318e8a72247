/* SPDX-License-Identifier: MIT */
/*
 * The connections of the Redis engines (engine/redis/link.h), with the fuzzer at their other end: the input is a
 * stream of replies, which commands get in the order in which they were sent. What the reader refuses, or the end of
 * the input, takes every connection down. A simple string ("+...") is no reply but a message for the inbox.
 *
 * Time is not the machine's: it goes on by a little whenever somebody looks, and a sleep takes none. So a run is quick
 * and the same each time. One thread.
 */
#include "fake_link.h"

#include "engine/redis/link.h"
#include "util/alloc.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS INT64_C(200000)

struct hfi_link {
    struct hfi_source source; /* first: they are one address */
    bool kept;
    hf_status unusable;
    unsigned failures;
    int64_t open_ms;
    struct hfi_link *next;
    const struct hfi_redis_conf *conf;
    const struct hfi_address *address;
    const struct hfi_link_owner *owner;
    void *data;
    bool subscriber;
    enum hfi_stream_state state;
    struct hfi_sent *first, **last;
    size_t in_flight;
    char channel[512];
    size_t channel_len;
    struct hfi_server server;
};

static struct hfi_link *links;
static struct hfi_reader *reader;
static bool over; /* there are no more replies */
static unsigned downs;
static int64_t now_ns;

void fake_link_begin(struct fuzz_input replies)
{
    reader = hfi_reader_new();
    MUST(reader && hfi_reader_feed(reader, replies.at, replies.len));
    over = false;
    downs = 0;
}

void fake_link_end(void)
{
    MUST(!links);
    hfi_reader_free(reader);
}

/* ---- time ------------------------------------------------------------------------------------------ */

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    if (clock != CLOCK_BOOTTIME)
        return (int)syscall(SYS_clock_gettime, clock, ret_time);
    now_ns += LOOK_NS;
    *ret_time = (struct timespec){ 1000 + now_ns / 1000000000, now_ns % 1000000000 };
    return 0;
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
    (void)fd;
    (void)events;
    (void)count;
    now_ns += (timeout_ms < 0 ? 1000 : timeout_ms) * INT64_C(1000000);
    return 0;
}

/* ---- being driven ---------------------------------------------------------------------------------- */

static int64_t source_next_ms(const struct hfi_source *source);
static void source_due(struct hfi_source *source, int64_t now_ms);

static const struct hfi_source_calls source_calls = { .due = source_due,
                                                      .next_ms = source_next_ms };

/* ---- a link ----------------------------------------------------------------------------------------- */

struct hfi_link *hfi_link_new(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                              bool subscriber, struct hfi_reactor *reactor,
                              const struct hfi_link_owner *owner, void *data)
{
    struct hfi_link *link = calloc(1, sizeof *link);

    MUST(link);
    *link = (struct hfi_link){ .next = links,
                               .conf = conf,
                               .address = address,
                               .owner = owner,
                               .data = data,
                               .subscriber = subscriber,
                               .server = { .major = 7,
                                           .is_cluster = conf->topology == REDIS_TOPOLOGY_CLUSTER,
                                           .version = "7.0.0" } };
    /* Each address is a server of its own. */
    snprintf(link->server.run_id, sizeof link->server.run_id, "%s", address->shown);
    snprintf(link->server.replid, sizeof link->server.replid, "%s", address->shown);
    link->last = &link->first;
    links = link;
    MUST(hfi_source_add(&link->source, reactor, &source_calls));
    return link;
}

void hfi_link_free(struct hfi_link *link)
{
    struct hfi_link **at = &links;

    if (!link)
        return;
    hfi_link_close(link);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    hfi_source_remove(&link->source);
    free(link);
}

/* The oldest command, taken out; NULL: none. */
static struct redis_sent *pop(struct hfi_link *link)
{
    struct hfi_sent *sent = link->first;

    if (!sent)
        return NULL;
    link->first = sent->next;
    if (!link->first)
        link->last = &link->first;
    link->in_flight--;
    return (struct redis_sent *)sent;
}

static void answer_all(struct hfi_link *link)
{
    struct redis_sent *sent;

    while ((sent = pop(link)))
        sent->answered(sent, NULL, true);
}

void hfi_link_close(struct hfi_link *link)
{
    link->state = HFI_STREAM_IDLE;
    answer_all(link);
}

static int64_t look_at_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void queue(struct hfi_link *link, struct redis_sent *sent)
{
    sent->base.sent_ms = look_at_clock();
    sent->base.next = NULL;
    if (link->state != HFI_STREAM_UP) {
        sent->answered(sent, NULL, false);
        return;
    }
    *link->last = &sent->base;
    link->last = &sent->base.next;
    link->in_flight++;
}

void hfi_link_send(struct hfi_link *link, const struct hfi_command *command,
                   struct redis_sent *sent)
{
    (void)command;
    queue(link, sent);
}

void hfi_link_send_asking(struct hfi_link *link, const struct hfi_command *command,
                          struct redis_sent *sent)
{
    (void)command;
    queue(link, sent);
}

void hfi_link_subscribe(struct hfi_link *link, const char *channel, size_t len,
                        struct redis_sent *sent)
{
    link->channel_len = len < sizeof link->channel ? len : sizeof link->channel;
    memcpy(link->channel, channel, link->channel_len);
    queue(link, sent);
}

/* ---- what comes ---------------------------------------------------------------------------------------- */

static void tell_inboxes(const struct hfi_reply *reply)
{
    char *payload = fuzz_text(reply->text, reply->len); /* as a reply: a NUL follows */
    struct hfi_link *next;

    for (struct hfi_link *link = links; link; link = next) {
        next = link->next;
        if (link->state == HFI_STREAM_UP && link->subscriber && link->channel_len &&
            link->owner->message)
            link->owner->message(link, link->channel, link->channel_len, payload, reply->len);
    }
    free(payload);
}

/* The next reply that is one; NULL: the input is over. */
static const struct hfi_reply *next_reply(void)
{
    const struct hfi_reply *reply = NULL;

    while (!over) {
        over = hfi_reader_next(reader, &reply) != HF_OK || !reply;
        if (!over && reply->type != HFI_REPLY_STATE)
            return reply;
        if (!over)
            tell_inboxes(reply);
    }
    return NULL;
}

/* A subscription is confirmed: a server that does not do even that is of no interest. */
static void confirm(struct hfi_link *link)
{
    static const struct hfi_reply one = { .type = HFI_REPLY_INTEGER, .integer = 1 };
    struct redis_sent *sent = pop(link);

    if (sent)
        sent->answered(sent, &one, true);
}

static void go_down(struct hfi_link *link)
{
    hf_status status = link->unusable != HF_OK ? link->unusable
                       : downs > 8             ? HF_DENIED
                                               : HF_UNAVAILABLE;

    link->state = HFI_STREAM_IDLE;
    link->unusable = HF_OK;
    link->failures++;
    link->open_ms = look_at_clock() + hfi_backoff_ms(link->failures, 0);
    downs++;
    answer_all(link);
    link->owner->down(link, status, "the input is over");
}

static void advance(struct hfi_link *link)
{
    const struct hfi_reply *reply;
    struct redis_sent *sent;

    if (link->state == HFI_STREAM_CONNECTING) {
        if (over) {
            go_down(link);
            return;
        }
        link->state = HFI_STREAM_UP;
        link->owner->up(link);
        return;
    }
    if (link->state != HFI_STREAM_UP)
        return;
    if (link->subscriber) {
        confirm(link);
        return;
    }
    if (!link->first)
        return;
    reply = next_reply();
    if (link->state != HFI_STREAM_UP)
        return;
    if (!reply) {
        go_down(link);
        return;
    }
    sent = pop(link);
    if (sent)
        sent->answered(sent, reply, true);
}

void hfi_link_open(struct hfi_link *link, int64_t now_ms)
{
    (void)now_ms;
    MUST(link->state == HFI_STREAM_IDLE);
    link->state = HFI_STREAM_CONNECTING;
}

static void source_due(struct hfi_source *source, int64_t now_ms)
{
    struct hfi_link *link = (struct hfi_link *)source;

    if (link->unusable != HF_OK)
        go_down(link);
    else if (link->state != HFI_STREAM_IDLE)
        advance(link);
    else if (link->kept && link->open_ms <= now_ms)
        hfi_link_open(link, now_ms);
}

static int64_t source_next_ms(const struct hfi_source *source)
{
    const struct hfi_link *link = (const struct hfi_link *)source;

    if (link->unusable != HF_OK || link->state == HFI_STREAM_CONNECTING || link->first)
        return 0;
    return link->state == HFI_STREAM_IDLE && link->kept ? link->open_ms : INT64_MAX;
}

void hfi_link_keep(struct hfi_link *link, bool on)
{
    link->kept = on;
}

void hfi_link_settled(struct hfi_link *link)
{
    link->failures = 0;
}

void hfi_link_unusable(struct hfi_link *link, hf_status status, const char *format, ...)
{
    (void)format;
    link->unusable = status;
}

bool hfi_link_usable(const struct hfi_link *link)
{
    return link->state == HFI_STREAM_UP && link->unusable == HF_OK;
}

unsigned hfi_link_failures(const struct hfi_link *link)
{
    return link->failures;
}

hf_status hfi_link_ended(const struct hfi_link *link)
{
    (void)link;
    return HF_UNAVAILABLE;
}

bool hfi_link_opens_again(const struct hfi_link *link, int64_t now_ms)
{
    return link->state == HFI_STREAM_IDLE && link->failures > 0 && link->open_ms <= now_ms;
}

int64_t hfi_backoff_ms(unsigned failures, uint32_t random)
{
    (void)random;
    return failures < 10 ? 50 * failures : 500;
}

/* ---- what is of no interest here ------------------------------------------------------------------------ */

void hfi_link_unsubscribe(struct hfi_link *link, const char *channel, size_t len)
{
    (void)link;
    (void)channel;
    (void)len;
}

void hfi_link_to_sentinel(struct hfi_link *link)
{
    (void)link;
}

void hfi_link_be_brief(struct hfi_link *link)
{
    (void)link;
}

void hfi_link_sleep_here(struct hfi_link *link)
{
    (void)link;
}

void hfi_link_flush(struct hfi_link *link)
{
    (void)link;
}

void hfi_link_flush_if(struct hfi_link *link, size_t bytes)
{
    (void)link;
    (void)bytes;
}

void *hfi_link_data(const struct hfi_link *link)
{
    return link->data;
}

enum hfi_stream_state hfi_link_state(const struct hfi_link *link)
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

size_t hfi_link_in_flight(const struct hfi_link *link)
{
    return link->in_flight;
}
