/* SPDX-License-Identifier: MIT */
/* See raw.h. */
#include "raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PREFIX_LEN 5
#define LIMIT_S    10 /* for an answer */

struct raw {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
    nghttp2_session *session;
    char authority[32];
    /* The request under way. */
    const struct etcd_text *body;
    size_t sent;
    char *in;
    size_t in_len, in_room;
    bool closed;
    int code;
    char text[RAW_TEXT_ROOM];
};

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool write_all(struct raw *raw, const void *bytes, size_t len)
{
    size_t done = 0;

    if (raw->ssl)
        return SSL_write_ex(raw->ssl, bytes, len, &done) == 1;
    return send(raw->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* All that nghttp2 has to say, in one write. */
static bool flush(struct raw *raw)
{
    char all[32768];
    const uint8_t *bytes;
    size_t len = 0;
    ssize_t more;

    while ((more = nghttp2_session_mem_send(raw->session, &bytes)) > 0) {
        if (len + (size_t)more > sizeof all && len > 0) {
            if (!write_all(raw, all, len))
                return false;
            len = 0;
        }
        memcpy(all + len, bytes, (size_t)more);
        len += (size_t)more;
    }
    return more == 0 && (len == 0 || write_all(raw, all, len));
}

static bool read_some(struct raw *raw)
{
    uint8_t bytes[16384];
    size_t len = 0;
    ssize_t got;

    if (raw->ssl)
        got = SSL_read_ex(raw->ssl, bytes, sizeof bytes, &len) == 1 ? (ssize_t)len : -1;
    else
        got = recv(raw->fd, bytes, sizeof bytes, 0);
    return got > 0 && nghttp2_session_mem_recv(raw->session, bytes, (size_t)got) == got;
}

/* ---- what nghttp2 tells ----------------------------------------------------------------------- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    struct raw *raw = arg;

    (void)session, (void)frame, (void)flags;
    if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
        raw->code = atoi((const char *)value);
    if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0)
        snprintf(raw->text, sizeof raw->text, "%.*s", (int)len, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *arg)
{
    struct raw *raw = arg;

    (void)session, (void)flags, (void)id;
    if (raw->in_len + len > raw->in_room) {
        raw->in_room = 2 * (raw->in_len + len);
        raw->in = realloc(raw->in, raw->in_room);
        if (!raw->in)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(raw->in + raw->in_len, bytes, len);
    raw->in_len += len;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    (void)session, (void)id, (void)error;
    ((struct raw *)arg)->closed = true;
    return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct raw *raw = arg;
    size_t whole = PREFIX_LEN + raw->body->len, len = 0;

    (void)session, (void)id, (void)source;
    for (; raw->sent < PREFIX_LEN && len < room; len++, raw->sent++)
        to[len] = raw->sent == 0 ? 0 : (uint8_t)(raw->body->len >> 8 * (4 - raw->sent));
    if (raw->sent >= PREFIX_LEN && raw->sent < whole) {
        size_t more = whole - raw->sent < room - len ? whole - raw->sent : room - len;

        memcpy(to + len, raw->body->bytes + raw->sent - PREFIX_LEN, more);
        raw->sent += more;
        len += more;
    }
    if (raw->sent == whole)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* ---- open and close ----------------------------------------------------------------------------- */

static bool connect_to(struct raw *raw, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval limit = { .tv_sec = LIMIT_S };
    int on = 1;

    raw->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return raw->fd >= 0 && connect(raw->fd, (struct sockaddr *)&to, sizeof to) == 0 &&
           setsockopt(raw->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
           setsockopt(raw->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

static bool start_tls(struct raw *raw, const char *dir)
{
    char ca[256], cert[256], key[256];

    snprintf(ca, sizeof ca, "%s/ca.crt", dir);
    snprintf(cert, sizeof cert, "%s/client.crt", dir);
    snprintf(key, sizeof key, "%s/client.key", dir);
    raw->context = SSL_CTX_new(TLS_client_method());
    if (!raw->context || SSL_CTX_load_verify_file(raw->context, ca) != 1 ||
        SSL_CTX_use_certificate_chain_file(raw->context, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(raw->context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_set_alpn_protos(raw->context, (const unsigned char *)"\2h2", 3) != 0)
        return false;
    SSL_CTX_set_verify(raw->context, SSL_VERIFY_PEER, NULL);
    raw->ssl = SSL_new(raw->context);
    return raw->ssl && SSL_set_fd(raw->ssl, raw->fd) == 1 && SSL_connect(raw->ssl) == 1;
}

struct raw *raw_open(uint16_t port, const char *tls)
{
    struct raw *raw = calloc(1, sizeof *raw);
    nghttp2_session_callbacks *callbacks = NULL;
    bool fine;

    if (!raw || nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    snprintf(raw->authority, sizeof raw->authority, "127.0.0.1:%u", (unsigned)port);
    fine = connect_to(raw, port) && (!tls || start_tls(raw, tls)) &&
           nghttp2_session_client_new(&raw->session, callbacks, raw) == 0 &&
           nghttp2_submit_settings(raw->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0 && flush(raw);
    nghttp2_session_callbacks_del(callbacks);
    if (fine)
        return raw;
    raw_close(raw);
    return NULL;
}

void raw_close(struct raw *raw)
{
    if (!raw)
        return;
    nghttp2_session_del(raw->session);
    SSL_free(raw->ssl);
    SSL_CTX_free(raw->context);
    if (raw->fd >= 0)
        close(raw->fd);
    free(raw->in);
    free(raw);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                         strlen(value), NGHTTP2_NV_FLAG_NONE };
}

int raw_ask(struct raw *raw, const char *path, const struct etcd_text *body, const char *token,
            struct etcd_message *ret_reply, const char **ret_text)
{
    const nghttp2_data_provider provider = { .read_callback = on_read };
    nghttp2_nv headers[] = { pair(":method", "POST"),
                             pair(":scheme", raw->ssl ? "https" : "http"),
                             pair(":path", path),
                             pair(":authority", raw->authority),
                             pair("te", "trailers"),
                             pair("content-type", "application/grpc"),
                             pair("token", token ? token : "") };

    raw->body = body;
    raw->sent = raw->in_len = 0;
    raw->closed = false;
    raw->code = -1;
    raw->text[0] = 0;
    *ret_text = raw->text;
    if (nghttp2_submit_request(raw->session, NULL, headers, token ? 7 : 6, &provider, NULL) < 0 ||
        !flush(raw))
        return -1;
    while (!raw->closed)
        if (!read_some(raw))
            return -1;
    if (raw->code == 0 && raw->in_len < PREFIX_LEN)
        return -1;
    if (raw->code == 0)
        *ret_reply = (struct etcd_message){ (const unsigned char *)raw->in + PREFIX_LEN,
                                            raw->in_len - PREFIX_LEN };
    return raw->code;
}
