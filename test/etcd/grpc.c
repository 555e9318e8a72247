/* SPDX-License-Identifier: MIT */
/* See grpc.h. */
#include "grpc.h"

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

struct grpc {
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
    char text[GRPC_TEXT_ROOM];
};

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool write_all(struct grpc *grpc, const void *bytes, size_t len)
{
    size_t done = 0;

    if (grpc->ssl)
        return SSL_write_ex(grpc->ssl, bytes, len, &done) == 1;
    return send(grpc->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* All that nghttp2 has to say, in one write. */
static bool flush(struct grpc *grpc)
{
    char all[32768];
    const uint8_t *bytes;
    size_t len = 0;
    ssize_t more;

    while ((more = nghttp2_session_mem_send(grpc->session, &bytes)) > 0) {
        if (len + (size_t)more > sizeof all && len > 0) {
            if (!write_all(grpc, all, len))
                return false;
            len = 0;
        }
        memcpy(all + len, bytes, (size_t)more);
        len += (size_t)more;
    }
    return more == 0 && (len == 0 || write_all(grpc, all, len));
}

static bool read_some(struct grpc *grpc)
{
    uint8_t bytes[16384];
    size_t len = 0;
    ssize_t got;

    if (grpc->ssl)
        got = SSL_read_ex(grpc->ssl, bytes, sizeof bytes, &len) == 1 ? (ssize_t)len : -1;
    else
        got = recv(grpc->fd, bytes, sizeof bytes, 0);
    return got > 0 && nghttp2_session_mem_recv(grpc->session, bytes, (size_t)got) == got;
}

/* ---- what nghttp2 tells ----------------------------------------------------------------------- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    struct grpc *grpc = arg;

    (void)session, (void)frame, (void)flags;
    if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
        grpc->code = atoi((const char *)value);
    if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0)
        snprintf(grpc->text, sizeof grpc->text, "%.*s", (int)len, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *arg)
{
    struct grpc *grpc = arg;

    (void)session, (void)flags, (void)id;
    if (grpc->in_len + len > grpc->in_room) {
        grpc->in_room = 2 * (grpc->in_len + len);
        grpc->in = realloc(grpc->in, grpc->in_room);
        if (!grpc->in)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(grpc->in + grpc->in_len, bytes, len);
    grpc->in_len += len;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    (void)session, (void)id, (void)error;
    ((struct grpc *)arg)->closed = true;
    return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc *grpc = arg;
    size_t whole = PREFIX_LEN + grpc->body->len, len = 0;

    (void)session, (void)id, (void)source;
    for (; grpc->sent < PREFIX_LEN && len < room; len++, grpc->sent++)
        to[len] = (uint8_t)(grpc->sent == 0 ? 0 : grpc->body->len >> 8 * (4 - grpc->sent));
    if (grpc->sent >= PREFIX_LEN && grpc->sent < whole) {
        size_t more = whole - grpc->sent < room - len ? whole - grpc->sent : room - len;

        memcpy(to + len, grpc->body->bytes + grpc->sent - PREFIX_LEN, more);
        grpc->sent += more;
        len += more;
    }
    if (grpc->sent == whole)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* ---- open and close ----------------------------------------------------------------------------- */

static bool connect_to(struct grpc *grpc, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval limit = { .tv_sec = LIMIT_S };
    int on = 1;

    grpc->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return grpc->fd >= 0 && connect(grpc->fd, (struct sockaddr *)&to, sizeof to) == 0 &&
           setsockopt(grpc->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
           setsockopt(grpc->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

static bool start_tls(struct grpc *grpc, const char *dir)
{
    char ca[256], cert[256], key[256];

    snprintf(ca, sizeof ca, "%s/ca.crt", dir);
    snprintf(cert, sizeof cert, "%s/client.crt", dir);
    snprintf(key, sizeof key, "%s/client.key", dir);
    grpc->context = SSL_CTX_new(TLS_client_method());
    if (!grpc->context || SSL_CTX_load_verify_file(grpc->context, ca) != 1 ||
        SSL_CTX_use_certificate_chain_file(grpc->context, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(grpc->context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_set_alpn_protos(grpc->context, (const unsigned char *)"\2h2", 3) != 0)
        return false;
    SSL_CTX_set_verify(grpc->context, SSL_VERIFY_PEER, NULL);
    grpc->ssl = SSL_new(grpc->context);
    return grpc->ssl && SSL_set_fd(grpc->ssl, grpc->fd) == 1 && SSL_connect(grpc->ssl) == 1;
}

struct grpc *grpc_open(uint16_t port, const char *tls)
{
    struct grpc *grpc = calloc(1, sizeof *grpc);
    nghttp2_session_callbacks *callbacks = NULL;
    bool fine;

    if (!grpc || nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    snprintf(grpc->authority, sizeof grpc->authority, "127.0.0.1:%u", (unsigned)port);
    fine = connect_to(grpc, port) && (!tls || start_tls(grpc, tls)) &&
           nghttp2_session_client_new(&grpc->session, callbacks, grpc) == 0 &&
           nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0 && flush(grpc);
    nghttp2_session_callbacks_del(callbacks);
    if (fine)
        return grpc;
    grpc_close(grpc);
    return NULL;
}

void grpc_close(struct grpc *grpc)
{
    if (!grpc)
        return;
    nghttp2_session_del(grpc->session);
    SSL_free(grpc->ssl);
    SSL_CTX_free(grpc->context);
    if (grpc->fd >= 0)
        close(grpc->fd);
    free(grpc->in);
    free(grpc);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                         strlen(value), NGHTTP2_NV_FLAG_NONE };
}

int grpc_ask(struct grpc *grpc, const char *path, const struct etcd_text *body, const char *token,
             struct etcd_message *ret_reply, const char **ret_text)
{
    const nghttp2_data_provider provider = { .read_callback = on_read };
    nghttp2_nv headers[] = { pair(":method", "POST"),
                             pair(":scheme", grpc->ssl ? "https" : "http"),
                             pair(":path", path),
                             pair(":authority", grpc->authority),
                             pair("te", "trailers"),
                             pair("content-type", "application/grpc"),
                             pair("token", token ? token : "") };

    grpc->body = body;
    grpc->sent = grpc->in_len = 0;
    grpc->closed = false;
    grpc->code = -1;
    grpc->text[0] = 0;
    *ret_text = grpc->text;
    if (nghttp2_submit_request(grpc->session, NULL, headers, token ? 7 : 6, &provider, NULL) < 0 ||
        !flush(grpc))
        return -1;
    while (!grpc->closed)
        if (!read_some(grpc))
            return -1;
    if (grpc->code == 0 && grpc->in_len < PREFIX_LEN)
        return -1;
    if (grpc->code == 0)
        *ret_reply = (struct etcd_message){ (const unsigned char *)grpc->in + PREFIX_LEN,
                                            grpc->in_len - PREFIX_LEN };
    return grpc->code;
}
