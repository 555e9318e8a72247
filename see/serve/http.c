/* SPDX-License-Identifier: MIT */
/*
 * Requests and answers on libmicrohttpd, driven by our own loop. A request is made when its first
 * line has arrived, and ends in request_completed(). An answer may be given at once or later: until
 * then the connection is suspended, and we watch its socket ourselves, for libmicrohttpd does not.
 */
#include "serve.h"

#include "body.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define IDLE_S          30      /* a connection on which nothing moves: slow readers, idle ones */
#define CONNECTION_SIZE 65536   /* memory for headers and for what is being sent */
#define DROP_MAX        1048576 /* of a body that is too long */
#define SPARE           64 /* connections that may come before those that they push out have gone */
#define PEER_GONE_MS    20000 /* a peer that acknowledges nothing, not even keep-alives */

static const char content_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* GnuTLS's own default has 1.0 and 1.1 in it. */
static const char tls_versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* ---- suspended connections ------------------------------------------------------- */

static int connection_fd(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

static void hung_up(struct eye *eye, uint32_t events)
{
    struct request *request = (struct request *)(void *)eye;

    (void)events;
    request->hung_up = true;
    request_wake(request);
}

void request_wait(struct request *request)
{
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = &request->eye };

    if (request->suspended)
        return;
    request->suspended = true;
    request->wait_before = NULL;
    request->wait_next = request->server->suspended;
    if (request->wait_next)
        request->wait_next->wait_before = request;
    request->server->suspended = request;
    request->eye.ready = hung_up;
    MHD_suspend_connection(request->connection);
    epoll_ctl(request->server->epoll_fd, EPOLL_CTL_ADD, connection_fd(request->connection), &event);
}

void request_wake(struct request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    if (request->wait_next)
        request->wait_next->wait_before = request->wait_before;
    if (request->wait_before)
        request->wait_before->wait_next = request->wait_next;
    else
        request->server->suspended = request->wait_next;
    epoll_ctl(request->server->epoll_fd, EPOLL_CTL_DEL, connection_fd(request->connection), NULL);
    MHD_resume_connection(request->connection);
}

/* ---- answers ----------------------------------------------------------------------- */

void answer(struct request *request, unsigned code, struct MHD_Response *response)
{
    if (!response)
        return; /* no memory: the connection is closed */
    MHD_add_response_header(response, "Content-Security-Policy", content_policy);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (!MHD_get_response_header(response, "Cache-Control"))
        MHD_add_response_header(response, "Cache-Control", "no-store");
    if (request->answer)
        MHD_destroy_response(request->answer);
    request->answer = response;
    request->code = code;
    request_wake(request);
}

void answer_json(struct request *request, unsigned code, struct out *out)
{
    struct MHD_Response *response = NULL;

    out_bytes(out, "\n", 1);
    if (!out->failed)
        response = MHD_create_response_from_buffer(out->len, out->at, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        out_done(out);
        request->hung_up = true;
        request_wake(request);
        return;
    }
    *out = (struct out){ 0 };
    MHD_add_response_header(response, "Content-Type", "application/json");
    answer(request, code, response);
}

void answer_error(struct request *request, unsigned code, const char *status, const char *text)
{
    struct out out = { 0 };

    request->server->refused++;
    out_open(&out, NULL, '{');
    out_word(&out, "status", status);
    out_word(&out, "text", text);
    out_close(&out, '}');
    answer_json(request, code, &out);
    if (code == MHD_HTTP_UNAUTHORIZED && request->answer)
        MHD_add_response_header(request->answer, "WWW-Authenticate", "Bearer realm=\"holdfast\"");
}

/* holdfast-serve(1) has this table. */
unsigned http_code_of(hf_status status)
{
    switch (status) {
    case HF_OK:
        return MHD_HTTP_OK;
    case HF_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case HF_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case HF_MISMATCH:
    case HF_DEADLOCK:
    case HF_IN_USE:
    case HF_DONE:
        return MHD_HTTP_CONFLICT;
    case HF_LOST:
        return MHD_HTTP_GONE;
    case HF_BUSY:
    case HF_TIMEOUT:
        return MHD_HTTP_LOCKED;
    case HF_UNSUPPORTED:
        return MHD_HTTP_NOT_IMPLEMENTED;
    case HF_DENIED:
    case HF_CORRUPT:
    case HF_VERSION:
        return MHD_HTTP_BAD_GATEWAY;
    case HF_UNAVAILABLE:
    case HF_CANCELLED:
    case HF_NO_MEMORY:
    case HF_TOO_SHORT:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case HF_UNKNOWN:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    case HF_FULL:
        return MHD_HTTP_INSUFFICIENT_STORAGE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void answer_status(struct request *request, const hf_error *err)
{
    answer_error(request, http_code_of(err->status), hf_status_name(err->status),
                 err->text[0] ? err->text : hf_status_text(err->status));
}

/* ---- a request comes and goes -------------------------------------------------------- */

static void *request_began(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof *request);

    if (!request)
        return NULL;
    request->server = arg;
    request->connection = connection;
    request->text = strdup(uri);
    arrival_request(connection, request);
    return request;
}

void request_free(struct request *request)
{
    if (!request)
        return;
    if (request->answer)
        MHD_destroy_response(request->answer);
    free(request->text);
    free(request->body);
    free(request);
}

static void request_completed(void *arg, struct MHD_Connection *connection, void **context,
                              enum MHD_RequestTerminationCode why)
{
    struct request *request = *context;

    (void)arg;
    arrival_begins(connection);
    if (!request)
        return;
    if (request->gone)
        request->gone(request, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    arrival_request(connection, NULL);
    request_free(request);
    *context = NULL;
}

static bool take_body(struct request *request, const char *bytes, size_t len)
{
    char *grown;

    if (request->body_too_long || request->body_len + len > BODY_MAX) {
        request->body_too_long = true;
        request->body_dropped += len;
        /* Read on, so that the client gets to see the answer; but not for ever. */
        return request->body_dropped <= DROP_MAX;
    }
    grown = realloc(request->body, request->body_len + len);
    if (!grown)
        return false;
    request->body = grown;
    memcpy(request->body + request->body_len, bytes, len);
    request->body_len += len;
    return true;
}

static const char *known_method(const char *method)
{
    static const char *const known[] = { "GET", "HEAD", "POST", "DELETE" };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(method, known[i]) == 0)
            return known[i];
    return NULL;
}

/* Before a byte of the body is read, for where it ends is not known. */
static bool refuse_headers(struct request *request)
{
    const char *wrong = headers_wrong(request);

    if (!wrong)
        return false;
    answer_error(request, MHD_HTTP_BAD_REQUEST, "INVALID", wrong);
    if (request->answer)
        MHD_add_response_header(request->answer, "Connection", "close");
    return true;
}

/* libmicrohttpd calls it when the headers are there, for each part of the body, at its end, and after
 * a connection was resumed. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *bytes,
                              size_t *len, void **context)
{
    struct request *request = *context;

    (void)arg;
    (void)connection;
    (void)url;
    (void)version;
    if (!request || !request->text || request->hung_up)
        return MHD_NO;
    if (!request->begun) {
        request->begun = true;
        request->method = known_method(method);
        request->server->requests++;
        return refuse_headers(request)
                   ? MHD_queue_response(connection, request->code, request->answer)
                   : MHD_YES;
    }
    if (*len > 0) {
        if (!take_body(request, bytes, *len))
            return MHD_NO;
        *len = 0;
        return MHD_YES;
    }
    arrival_complete(connection);
    if (!request->answer && !request->job)
        route(request);
    if (request->answer && !request->suspended)
        return MHD_queue_response(connection, request->code, request->answer);
    return request->suspended ? MHD_YES : MHD_NO;
}

/* A peer whose machine is gone says nothing: the kernel finds out, also while we only listen. */
static void connection_changed(void *arg, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode what)
{
    struct server *server = arg;
    int fd = connection_fd(connection), on = 1, idle = 10, gone = PEER_GONE_MS;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        arrival_free(server, *context);
        *context = NULL;
        server->connections--;
        return;
    }
    *context = arrival_new(server, connection, fd);
    server->connections++;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone, sizeof gone);
}

/* We decode by ourselves (uri.c): a name may have a NUL or a slash in it. */
static size_t leave_escaped(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

static void quiet(void *arg, const char *format, va_list list)
{
    (void)arg;
    (void)format;
    (void)list;
}

bool http_start(struct server *server, int listen_fd, const char *cert, const char *key)
{
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, (intptr_t)server->limits.connections + SPARE, NULL },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_SIZE, NULL },
        { MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL },
        { MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL },
        { MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)quiet, NULL },
        { MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL },
        { MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)request_began, server },
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)request_completed, server },
        { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, server },
        { MHD_OPTION_END, 0, NULL },
        { MHD_OPTION_END, 0, NULL },
        { MHD_OPTION_END, 0, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    size_t end = 0;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    if (cert) {
        while (options[end].option != MHD_OPTION_END)
            end++;
        options[end++] =
            (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert };
        options[end++] =
            (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key };
        options[end] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0,
                                                (void *)(uintptr_t)tls_versions };
        flags |= MHD_USE_TLS;
    }
    server->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, server, MHD_OPTION_ARRAY,
                                      options, MHD_OPTION_END);
    return server->daemon != NULL;
}

void http_stop(struct server *server)
{
    if (!server->daemon)
        return;
    while (server->suspended) { /* libmicrohttpd cannot stop while one is */
        server->suspended->hung_up = true;
        request_wake(server->suspended);
    }
    MHD_run(server->daemon);
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
}
