/* SPDX-License-Identifier: MIT */
/*
 * The connection to one member: nghttp2's session on a stream of the kit, the exchanges that wait for it and those under
 * way, and their times. See link.h.
 *
 * All that nghttp2 has to write goes into the output of the stream at once, and leaves in one write when the lock is
 * dropped. etcd sends a PING with nearly every answer; ours rides with the next request, or leaves after PING_MS.
 */
#include "engine/etcd/link.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <stdio.h>
#include <string.h>

#define WINDOW_STREAM     (1 << 20) /* bytes that may come before we have read them */
#define WINDOW_CONNECTION (8 << 20)
#define PING_MS           5
#define AGAIN_MS          20 /* an answer has come, but was not read yet */

static void stream_greet(struct hfi_stream *stream);
static void stream_take(struct hfi_stream *stream, const char *bytes, size_t len);
static void stream_lost(struct hfi_stream *stream, struct hfi_sent *sent, bool maybe);
static void stream_reset(struct hfi_stream *stream);
static void stream_down(struct hfi_stream *stream, hf_status status, const char *why);

static const struct hfi_stream_calls stream_calls = { .greet = stream_greet,
                                                      .take = stream_take,
                                                      .lost = stream_lost,
                                                      .reset = stream_reset,
                                                      .down = stream_down };

bool etcd_link_init(struct etcd_link *link, const struct etcd_link_conf *conf)
{
    struct hfi_stream_target target = { .address = conf->address,
                                        .connect_ms = conf->connect_ms,
                                        .op_ms = conf->op_ms,
                                        .tls = conf->tls };
    const char *shown = conf->address->shown, *zone = strchr(shown, '%');

    hfi_list_init(&link->waiting);
    hfi_list_init(&link->under_way);
    hfi_list_init(&link->news);
    link->soonest_ms = link->ping_ms = HFI_NEVER;
    /* A zone is of this machine, and not for the server. */
    snprintf(link->authority, sizeof link->authority, "%.*s%s",
             (int)(zone ? zone - shown : (ptrdiff_t)strlen(shown)), shown,
             zone && strchr(zone, ']') ? strchr(zone, ']') : "");
    if (!hfi_stream_init(&link->stream, conf->reactor, &stream_calls, &target))
        return false;
    link->stream.source.sleeps = true;
    return true;
}

void etcd_link_done(struct etcd_link *link)
{
    if (link->stream.source.reactor)
        hfi_stream_done(&link->stream);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static bool is_open(const struct etcd_link *link)
{
    return link->stream.state == HFI_STREAM_UP && link->stream.failed == HF_OK && !link->leaving;
}

/* Give nghttp2 all that waits. */
static void submit_waiting(struct etcd_link *link)
{
    struct hfi_list *node;

    while (is_open(link) && (node = hfi_list_pop(&link->waiting))) {
        struct etcd_exchange *exchange = hfi_container(node, struct etcd_exchange, listed);

        hfi_list_append(&link->under_way, &exchange->listed);
        (void)etcd_exchange_submit(link, exchange);
        if (!nghttp2_session_check_request_allowed(link->session))
            link->leaving = true; /* the numbers of its streams are used up */
    }
}

void etcd_link_begin(struct etcd_link *link, struct etcd_exchange *exchange)
{
    exchange->link = link;
    exchange->id = 0;
    exchange->out_done = 0;
    exchange->at = UINT64_MAX;
    exchange->http = exchange->code = -1;
    exchange->text[0] = 0;
    exchange->odd = NULL;
    exchange->starved = exchange->refused = exchange->closed = exchange->deferred = false;
    exchange->sent_ms = hfi_now_ms();
    hfi_list_init(&exchange->news);
    hfi_list_append(&link->waiting, &exchange->listed);
    if (exchange->until_ms < link->soonest_ms)
        link->soonest_ms = exchange->until_ms;
    if (is_open(link)) {
        submit_waiting(link);
        etcd_link_pump(link);
    } else {
        hfi_stream_keep(&link->stream, true); /* the driver opens it */
    }
}

void etcd_exchange_end_by(struct etcd_exchange *exchange, int64_t until_ms)
{
    if (!exchange->link || exchange->until_ms <= until_ms)
        return;
    exchange->until_ms = until_ms;
    if (until_ms < exchange->link->soonest_ms)
        exchange->link->soonest_ms = until_ms;
}

void etcd_exchange_more(struct etcd_exchange *exchange)
{
    struct etcd_link *link = exchange->link;

    if (!exchange->deferred || !link->session)
        return; /* it is taken when nghttp2 next asks */
    exchange->deferred = false;
    (void)nghttp2_session_resume_data(link->session, exchange->id);
    etcd_link_pump(link);
}

void etcd_link_pump(struct etcd_link *link)
{
    const uint8_t *bytes;
    ssize_t len = 0;
    char *to;

    if (!link->session || link->receiving || link->stream.failed != HF_OK)
        return;
    if (link->pinged) {
        (void)nghttp2_submit_ping(link->session, NGHTTP2_FLAG_ACK, link->ping);
        link->pinged = false;
        link->ping_ms = HFI_NEVER;
    }
    while ((len = nghttp2_session_mem_send(link->session, &bytes)) > 0) {
        to = hfi_stream_reserve(&link->stream, (size_t)len);
        if (!to)
            return; /* the stream has failed */
        memcpy(to, bytes, (size_t)len);
        hfi_stream_commit(&link->stream, (size_t)len);
    }
    if (len < 0)
        hfi_stream_fail(&link->stream, len == NGHTTP2_ERR_NOMEM ? HF_NO_MEMORY : HF_UNAVAILABLE,
                        "HTTP/2: %s", nghttp2_strerror((int)len));
}

/* ---- the connection ------------------------------------------------------------------------- */

static bool new_session(struct etcd_link *link)
{
    static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 }, { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_STREAM }
    };
    nghttp2_session_callbacks *callbacks = etcd_exchange_callbacks();
    nghttp2_option *option = NULL;
    bool made = callbacks && nghttp2_option_new(&option) == 0;

    if (made) {
        nghttp2_option_set_no_auto_ping_ack(option, 1);
        made = nghttp2_session_client_new2(&link->session, callbacks, link, option) == 0;
    }
    if (callbacks)
        nghttp2_session_callbacks_del(callbacks);
    if (option)
        nghttp2_option_del(option);
    return made &&
           nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(link->session, NGHTTP2_FLAG_NONE, 0,
                                                 WINDOW_CONNECTION) == 0;
}

/* Connected: the client's preface and settings leave, and the server's settings are awaited. Requests leave only then: to
 * a server that does not speak HTTP/2 nothing was sent. */
static void stream_greet(struct hfi_stream *stream)
{
    struct etcd_link *link = (struct etcd_link *)stream;

    link->leaving = link->pinged = false;
    link->ping_ms = HFI_NEVER;
    if (new_session(link))
        etcd_link_pump(link);
    else
        hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
}

/* It takes no new exchanges any more: those that last are begun again on the next connection. */
static void end_lasting(struct etcd_link *link)
{
    hfi_list_each (struct etcd_exchange, exchange, &link->under_way, listed)
        if (exchange->lasts) {
            etcd_exchange_lose(exchange, HF_UNAVAILABLE, "%s: it ends the connection",
                               link->stream.target.address->shown);
            return; /* there is one at most, and the list may be another now */
        }
}

static bool is_drained(const struct etcd_link *link)
{
    return link->leaving && link->flying == 0 && link->stream.failed == HF_OK;
}

static void stream_take(struct hfi_stream *stream, const char *bytes, size_t len)
{
    struct etcd_link *link = (struct etcd_link *)stream;
    ssize_t taken;

    link->receiving = true;
    taken = nghttp2_session_mem_recv(link->session, (const uint8_t *)bytes, len);
    link->receiving = false;
    if (taken < 0) {
        hfi_stream_fail(stream, taken == NGHTTP2_ERR_NOMEM ? HF_NO_MEMORY : HF_UNAVAILABLE, "%s",
                        stream->state == HFI_STREAM_GREETING ? "it does not speak HTTP/2"
                                                             : nghttp2_strerror((int)taken));
        return;
    }
    etcd_exchanges_work(link);
    if (link->leaving)
        end_lasting(link);
    submit_waiting(link);
    if (nghttp2_session_want_write(link->session))
        etcd_link_pump(link);
    else if (link->pinged && link->ping_ms == HFI_NEVER)
        link->ping_ms = hfi_now_ms() + PING_MS;
    if (stream->failed == HF_OK && !is_drained(link) && !nghttp2_session_want_read(link->session) &&
        !nghttp2_session_want_write(link->session))
        hfi_stream_fail(stream, HF_UNAVAILABLE, "%s",
                        stream->state == HFI_STREAM_GREETING ? "it does not speak HTTP/2"
                                                             : "what it sends is not HTTP/2");
}

static void stream_lost(struct hfi_stream *stream, struct hfi_sent *sent, bool maybe)
{
    (void)stream, (void)sent, (void)maybe; /* never: our requests are not the stream's */
}

/* It went down, or is closed: whatever was under way is lost. `gone` still says how far bytes have left. */
static void stream_reset(struct hfi_stream *stream)
{
    struct etcd_link *link = (struct etcd_link *)stream;
    hf_status status = stream->ended == HF_OK ? HF_UNAVAILABLE : stream->ended;

    nghttp2_session_del(link->session);
    link->session = NULL;
    link->flying = 0;
    link->leaving = link->pinged = false;
    link->ping_ms = HFI_NEVER;
    while (!hfi_list_empty(&link->under_way))
        etcd_exchange_lose(hfi_container(link->under_way.next, struct etcd_exchange, listed),
                           status, "%s",
                           stream->ended == HF_OK ? "the connection was closed" : stream->why);
}

static void stream_down(struct hfi_stream *stream, hf_status status, const char *why)
{
    struct etcd_link *link = (struct etcd_link *)stream;
    struct hfi_list all;

    hfi_stream_keep(stream, false);
    hfi_list_init(&all);
    hfi_list_move(&all,
                  &link->waiting); /* some may come back at once: they wait for the next try */
    while (!hfi_list_empty(&all))
        etcd_exchange_lose(hfi_container(all.next, struct etcd_exchange, listed), status, "%s",
                           why);
}

/* ---- time ------------------------------------------------------------------------------------ */

void etcd_link_doubt(struct etcd_link *link, int64_t since_ms)
{
    if (link->stream.state == HFI_STREAM_UP && link->stream.heard_ms <= since_ms)
        hfi_stream_fail(&link->stream, HF_UNAVAILABLE, "no answer within %lld ms",
                        (long long)(hfi_now_ms() - since_ms));
}

int64_t etcd_link_next_ms(const struct etcd_link *link)
{
    if (is_drained(link) || !hfi_list_empty(&link->news))
        return 0;
    return link->ping_ms < link->soonest_ms ? link->ping_ms : link->soonest_ms;
}

/* The first one whose time is over; NULL: none, and soonest_ms is right again. */
static struct etcd_exchange *overdue(struct etcd_link *link, struct hfi_list *list, int64_t now_ms)
{
    hfi_list_each (struct etcd_exchange, exchange, list, listed) {
        if (exchange->until_ms <= now_ms)
            return exchange;
        if (exchange->until_ms < link->soonest_ms)
            link->soonest_ms = exchange->until_ms;
    }
    return NULL;
}

static void end_overdue(struct etcd_link *link, int64_t now_ms)
{
    const char *shown = link->stream.target.address->shown;
    struct etcd_exchange *exchange;

    link->soonest_ms = HFI_NEVER;
    while ((exchange = overdue(link, &link->waiting, now_ms)))
        etcd_exchange_lose(exchange, HF_UNAVAILABLE, "%s: no answer in time", shown);
    while ((exchange = overdue(link, &link->under_way, now_ms))) {
        /* If this process was stopped for a while, the answer may have arrived already: read it first. */
        if (now_ms < exchange->until_ms + link->stream.target.op_ms &&
            link->stream.state == HFI_STREAM_UP && hfi_stream_has_news(&link->stream)) {
            link->soonest_ms = now_ms + AGAIN_MS;
            return;
        }
        etcd_link_doubt(link, exchange->sent_ms);
        etcd_exchange_lose(exchange, HF_UNAVAILABLE, "%s: no answer in time", shown);
    }
    etcd_link_pump(link); /* their streams are reset */
}

void etcd_link_due(struct etcd_link *link, int64_t now_ms)
{
    etcd_exchanges_work(link);
    if (link->soonest_ms <= now_ms)
        end_overdue(link, now_ms);
    if (link->ping_ms <= now_ms)
        etcd_link_pump(link);
    if (is_drained(link)) {
        hfi_stream_close(&link->stream);
        if (!hfi_list_empty(&link->waiting))
            hfi_stream_keep(&link->stream, true);
    }
}
