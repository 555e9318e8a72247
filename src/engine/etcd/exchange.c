/* SPDX-License-Identifier: MIT */
/*
 * One HTTP/2 stream: its headers, the messages in its data, and its end, as gRPC has them. nghttp2 calls us while it reads;
 * all that happens then is noted, and acted on after it has returned (etcd_exchanges_work()). See link.h.
 */
#include "engine/etcd/link.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_USUAL 8000 /* reserved before a request leaves, for the usual answer */
#define GRPC_TYPE   "application/grpc"

static void note(struct etcd_link *link, struct etcd_exchange *exchange);

/* ---- messages out --------------------------------------------------------------------------- */

size_t etcd_message_begin(struct etcd_text *text)
{
    static const char prefix[ETCD_PREFIX_LEN];

    etcd_add_bytes(text, prefix, sizeof prefix); /* the flag 0: not compressed */
    return text->len;
}

void etcd_message_end(struct etcd_text *text, size_t begun)
{
    size_t len;

    if (text->failed)
        return;
    len = text->len - begun;
    for (size_t i = 0; i < 4; i++)
        text->bytes[begun - 1 - i] = (char)(len >> 8 * i & 0xff);
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct etcd_exchange *exchange = nghttp2_session_get_stream_user_data(session, id);
    size_t len;

    (void)source, (void)arg;
    if (!exchange)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was taken back */
    len = exchange->out->len - exchange->out_done;
    if (len == 0 && exchange->lasts) {
        exchange->out->len = exchange->out_done = 0;
        exchange->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    len = len < room ? len : room;
    memcpy(to, exchange->out->bytes + exchange->out_done, len);
    exchange->out_done += len;
    if (!exchange->lasts && exchange->out_done == exchange->out->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

static nghttp2_nv pair(const char *name, const char *value, size_t len, uint8_t flags)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), len,
                         flags };
}

#define PAIR(name, value) pair(name, value, strlen(value), NGHTTP2_NV_FLAG_NONE)

bool etcd_exchange_submit(struct etcd_link *link, struct etcd_exchange *exchange)
{
    const nghttp2_data_provider provider = { .read_callback = on_read };
    nghttp2_nv headers[] = { PAIR(":method", "POST"),
                             PAIR(":scheme", link->stream.target.tls ? "https" : "http"),
                             PAIR(":path", exchange->method->path),
                             PAIR(":authority", link->authority),
                             PAIR("te", "trailers"),
                             PAIR("content-type", GRPC_TYPE),
                             { 0 },
                             { 0 } };
    size_t count = 6;
    int32_t id;

    if (exchange->method->needs_leader)
        headers[count++] = PAIR("hasleader", "true");
    if (exchange->token && *exchange->token) /* not kept in a table of HPACK: it is a secret */
        headers[count++] =
            pair("token", *exchange->token, strlen(*exchange->token), NGHTTP2_NV_FLAG_NO_INDEX);
    exchange->sent_ms = hfi_now_ms();
    exchange->at = UINT64_MAX;
    exchange->in.len = 0;
    exchange->in.failed = false;
    id = exchange->out->failed || !etcd_reserve(&exchange->in, INPUT_USUAL)
             ? NGHTTP2_ERR_NOMEM
             : nghttp2_submit_request(link->session, NULL, headers, count, &provider, exchange);
    if (id < 0) {
        exchange->starved = true;
        exchange->refused = exchange->closed = true;
        note(link, exchange);
        return false;
    }
    exchange->id = id;
    if (!exchange->lasts)
        link->stream.source.awaited = ++link->flying;
    return true;
}

/* ---- what nghttp2 tells ------------------------------------------------------------------------ */

/* Something has happened to it: it is looked at when nghttp2 has returned. */
static void note(struct etcd_link *link, struct etcd_exchange *exchange)
{
    if (hfi_list_empty(&exchange->news))
        hfi_list_append(&link->news, &exchange->news);
}

static struct etcd_exchange *of(nghttp2_session *session, int32_t id)
{
    return id > 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static int number_of(const uint8_t *value, size_t len)
{
    int number = 0;

    if (len == 0 || len > 4)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -1;
        number = 10 * number + (value[i] - '0');
    }
    return number;
}

static int hex(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* grpc-message: some bytes are written as %XX. What cannot be shown becomes '?'. */
static void take_text(struct etcd_exchange *exchange, const uint8_t *value, size_t len)
{
    size_t used = 0;

    for (size_t i = 0; i < len && used < sizeof exchange->text - 1; i++) {
        int byte = value[i];

        if (byte == '%' && i + 2 < len && hex(value[i + 1]) >= 0 && hex(value[i + 2]) >= 0) {
            byte = hex(value[i + 1]) << 4 | hex(value[i + 2]);
            i += 2;
        }
        exchange->text[used++] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
    }
    exchange->text[used] = 0;
}

static bool is(const uint8_t *name, size_t len, const char *wanted)
{
    return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    struct etcd_exchange *exchange = of(session, frame->hd.stream_id);

    (void)flags, (void)arg;
    if (!exchange)
        return 0;
    if (is(name, name_len, ":status"))
        exchange->http = number_of(value, len);
    else if (is(name, name_len, "grpc-status"))
        exchange->code = number_of(value, len);
    else if (is(name, name_len, "grpc-message"))
        take_text(exchange, value, len);
    else if (is(name, name_len, "content-type") &&
             (len < strlen(GRPC_TYPE) || memcmp(value, GRPC_TYPE, strlen(GRPC_TYPE)) != 0))
        exchange->odd = "its answer is not gRPC";
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *arg)
{
    struct etcd_exchange *exchange = of(session, id);

    (void)flags;
    if (!exchange || exchange->odd || exchange->starved)
        return 0;
    etcd_add_bytes(&exchange->in, bytes, len);
    exchange->starved = exchange->in.failed;
    note(arg, exchange);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    struct etcd_exchange *exchange = of(session, id);

    if (!exchange)
        return 0;
    exchange->closed = true;
    exchange->refused = exchange->refused || error == NGHTTP2_REFUSED_STREAM;
    if (error != NGHTTP2_NO_ERROR && !exchange->odd)
        exchange->odd = "it broke off its answer";
    note(arg, exchange);
    return 0;
}

static int on_before_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct etcd_link *link = arg;
    struct etcd_exchange *exchange = of(session, frame->hd.stream_id);

    if (exchange && frame->hd.type == NGHTTP2_HEADERS)
        exchange->at = link->stream.queued;
    return 0;
}

static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg)
{
    struct etcd_exchange *exchange = of(session, frame->hd.stream_id);

    (void)error;
    if (exchange && frame->hd.type == NGHTTP2_HEADERS) {
        exchange->closed = exchange->refused = true;
        note(arg, exchange);
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct etcd_link *link = arg;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        if (link->stream.state == HFI_STREAM_GREETING && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            hfi_stream_up(&link->stream);
            hfi_stream_settled(&link->stream);
        }
        break;
    case NGHTTP2_GOAWAY:
        link->leaving = true;
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            break;
        if (link->pinged) /* the one before has not been answered yet */
            (void)nghttp2_submit_ping(session, NGHTTP2_FLAG_ACK, link->ping);
        memcpy(link->ping, frame->ping.opaque_data, sizeof link->ping);
        link->pinged = true;
        break;
    default:
        break;
    }
    return 0;
}

nghttp2_session_callbacks *etcd_exchange_callbacks(void)
{
    nghttp2_session_callbacks *callbacks = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, on_before_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
    return callbacks;
}

/* ---- messages in --------------------------------------------------------------------------------- */

/* The message that begins at `from`. true: it is whole; false: it is not, or exchange->odd says what is wrong. */
static bool take_message(struct etcd_exchange *exchange, size_t from,
                         struct etcd_message *ret_message)
{
    const unsigned char *at = (const unsigned char *)exchange->in.bytes + from;
    size_t have = exchange->in.len - from, len;

    if (have < ETCD_PREFIX_LEN)
        return false;
    len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (at[0] != 0)
        exchange->odd = "its answer is compressed, which was not asked for";
    else if (len > ETCD_MESSAGE_MAX)
        exchange->odd = "its answer is too long";
    if (exchange->odd || have < ETCD_PREFIX_LEN + len)
        return false;
    *ret_message = (struct etcd_message){ at + ETCD_PREFIX_LEN, len };
    if (!etcd_message_fits(*ret_message, exchange->method->reply))
        exchange->odd = "an unexpected answer";
    return !exchange->odd;
}

/* Hand over all whole messages of one that lasts. false: it was dropped meanwhile. */
static bool hand_over(struct etcd_link *link, struct etcd_exchange *exchange)
{
    struct etcd_message message;
    size_t done = 0;

    link->handling = exchange;
    while (take_message(exchange, done, &message)) {
        done += ETCD_PREFIX_LEN + message.len;
        exchange->calls->message(exchange, message);
        if (link->handling != exchange)
            return false;
    }
    link->handling = NULL;
    exchange->in.len -= done;
    if (done > 0 && exchange->in.len > 0)
        memmove(exchange->in.bytes, exchange->in.bytes + done, exchange->in.len);
    return true;
}

/* How has it ended, and why? */
static enum etcd_end judge(struct etcd_link *link, struct etcd_exchange *exchange,
                           struct etcd_message *ret_reply, hf_error *ret_why)
{
    const char *shown = link->stream.target.address->shown;
    struct etcd_message reply = { NULL, 0 };

    if (exchange->starved) {
        hfi_error_memory(ret_why);
        return exchange->refused ? ETCD_UNSENT : ETCD_MAYBE;
    }
    if (exchange->refused) {
        hfi_error_set(ret_why, HF_UNAVAILABLE, 0, "%s: it did not take the request", shown);
        return ETCD_UNSENT;
    }
    if (exchange->code > 0) {
        hfi_error_set(ret_why, HF_UNAVAILABLE, exchange->code, "%s: %s", shown, exchange->text);
        return ETCD_REFUSED;
    }
    if (exchange->http > 0 && exchange->http != 200) {
        hfi_error_set(ret_why, exchange->http == 404 ? HF_VERSION : HF_UNAVAILABLE, exchange->http,
                      "%s: HTTP status %d: etcd 3.4 or newer is needed", shown, exchange->http);
        return ETCD_ODD;
    }
    if (!exchange->odd && exchange->code != 0)
        exchange->odd = "its answer has no status";
    if (!exchange->odd && !exchange->lasts &&
        (!take_message(exchange, 0, &reply) || reply.len + ETCD_PREFIX_LEN != exchange->in.len) &&
        !exchange->odd)
        exchange->odd = "its answer is cut off";
    if (exchange->odd) {
        hfi_error_set(ret_why, HF_UNAVAILABLE, 0, "%s: %s", shown, exchange->odd);
        return ETCD_ODD;
    }
    *ret_reply = reply;
    return ETCD_ANSWERED;
}

void etcd_exchanges_work(struct etcd_link *link)
{
    struct hfi_list *node;

    while ((node = hfi_list_pop(&link->news))) {
        struct etcd_exchange *exchange = hfi_container(node, struct etcd_exchange, news);
        struct etcd_message reply = { NULL, 0 };
        enum etcd_end end;
        hf_error why;

        if (exchange->lasts && !exchange->odd && !exchange->starved && !hand_over(link, exchange))
            continue;
        if (!exchange->closed && !exchange->lasts && !exchange->odd && !exchange->starved)
            (void)take_message(exchange, 0, &reply); /* only to refuse it early */
        if (!exchange->closed && !exchange->odd && !exchange->starved)
            continue;
        end = judge(link, exchange, &reply, &why);
        etcd_exchange_end(exchange, end, reply, end == ETCD_ANSWERED ? NULL : &why);
    }
}

/* ---- the end ---------------------------------------------------------------------------------------- */

/* Take it out of its link. The HTTP/2 stream is reset if it still runs. */
static void detach(struct etcd_exchange *exchange)
{
    struct etcd_link *link = exchange->link;

    if (link->handling == exchange)
        link->handling = NULL;
    if (exchange->id > 0 && link->session) {
        if (!exchange->closed) {
            nghttp2_session_set_stream_user_data(link->session, exchange->id, NULL);
            (void)nghttp2_submit_rst_stream(link->session, NGHTTP2_FLAG_NONE, exchange->id,
                                            NGHTTP2_CANCEL);
        }
        if (!exchange->lasts)
            link->stream.source.awaited = --link->flying;
    }
    hfi_list_remove(&exchange->listed);
    hfi_list_remove(&exchange->news);
    exchange->link = NULL;
    exchange->id = 0;
}

void etcd_exchange_drop(struct etcd_exchange *exchange)
{
    struct etcd_link *link = exchange->link;

    if (!link)
        return;
    detach(exchange);
    exchange->in.len = 0;
    etcd_link_pump(link);
}

void etcd_exchange_end(struct etcd_exchange *exchange, enum etcd_end end, struct etcd_message reply,
                       const hf_error *why)
{
    detach(exchange);
    exchange->calls->over(exchange, end, reply, why);
}

void etcd_exchange_lose(struct etcd_exchange *exchange, hf_status status, const char *format, ...)
{
    bool left = exchange->id > 0 && exchange->at < exchange->link->stream.gone;
    char what[400];
    va_list args;
    hf_error why;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    hfi_error_set(&why, status, 0, "%s", what);
    etcd_exchange_end(exchange, left ? ETCD_MAYBE : ETCD_UNSENT, (struct etcd_message){ NULL, 0 },
                      &why);
}
