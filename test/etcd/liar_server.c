/* SPDX-License-Identifier: MIT */
/* See liar_server.h. */
#include "liar_server.h"

#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define RULES_MAX  12
#define PREFIX_LEN 5
#define MORE_MAX   1024

static struct liar_rule rules[RULES_MAX + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long cut_after = -1;
static int dripping;
static atomic_long written;
static atomic_uint requests;
static atomic_int wake = -1; /* of the connection with the newest lasting stream */
static char more[MORE_MAX];  /* what it is to send */
static size_t more_len;

struct asked;

struct connection {
    struct asked *asked;
    int fd;
    int wake;        /* an eventfd(2): there is more for its lasting stream */
    int32_t lasting; /* id of that stream, or 0 */
    long written;
    bool over;
    nghttp2_session *session;
};

/* One request, kept until its connection ends. */
struct asked {
    struct asked *next;
    char path[80];
    struct liar_rule rule;
    size_t sent;
};

void liar_say(const struct liar_rule *list)
{
    size_t count = 0;

    pthread_mutex_lock(&lock);
    for (; list[count].path && count < RULES_MAX; count++)
        rules[count] = list[count];
    rules[count] = (struct liar_rule){ .path = NULL };
    pthread_mutex_unlock(&lock);
}

void liar_cut(long after, int drip)
{
    pthread_mutex_lock(&lock);
    cut_after = after;
    dripping = drip;
    pthread_mutex_unlock(&lock);
}

long liar_written(void)
{
    return atomic_load(&written);
}

unsigned liar_requests(void)
{
    return atomic_load(&requests);
}

bool liar_more(const void *bytes, size_t len)
{
    int to = atomic_load(&wake);

    if (to < 0)
        return false;
    pthread_mutex_lock(&lock);
    if (len > MORE_MAX - more_len)
        give_up("too much for the lasting stream");
    memcpy(more + more_len, bytes, len);
    more_len += len;
    pthread_mutex_unlock(&lock);
    return eventfd_write(to, 1) == 0;
}

static struct liar_rule rule_for(const char *path)
{
    struct liar_rule found = { .way = LIAR_SILENCE };

    pthread_mutex_lock(&lock);
    for (struct liar_rule *rule = rules; rule->path; rule++) {
        if (!strstr(path, rule->path))
            continue;
        found = *rule;
        if (rule->times == 1)
            rule->path = "no such path";
        else if (rule->times > 1)
            rule->times--;
        break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- bytes ------------------------------------------------------------------------------------ */

static void put_bytes(struct connection *connection, const void *bytes, size_t len)
{
    long most;
    int drip;

    pthread_mutex_lock(&lock);
    most = cut_after;
    drip = dripping;
    pthread_mutex_unlock(&lock);
    if (most >= 0 && connection->written + (long)len >= most) {
        len = most > connection->written ? (size_t)(most - connection->written) : 0;
        connection->over = true;
    }
    for (size_t done = 0; done < len;) {
        ssize_t sent =
            send(connection->fd, (const char *)bytes + done, drip ? 1 : len - done, MSG_NOSIGNAL);

        if (sent <= 0) {
            connection->over = true;
            return;
        }
        done += (size_t)sent;
        connection->written += sent;
    }
    atomic_store(&written, connection->written);
}

static void flush(struct connection *connection)
{
    const uint8_t *bytes;
    ssize_t len;

    while (!connection->over && (len = nghttp2_session_mem_send(connection->session, &bytes)) > 0)
        put_bytes(connection, bytes, (size_t)len);
}

/* ---- answers ------------------------------------------------------------------------------------ */

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                         strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct asked *asked = source->ptr;
    const struct liar_rule *rule = &asked->rule;
    const char *status = rule->status ? rule->status : "0";
    unsigned char prefix[PREFIX_LEN] = { 0 };
    size_t whole = PREFIX_LEN + rule->len, len = 0;
    nghttp2_nv trailers[2];

    (void)arg;
    for (int i = 0; i < 4; i++)
        prefix[1 + i] = (unsigned char)(rule->len >> 8 * (3 - i));
    if (rule->prefix)
        memcpy(prefix, rule->prefix, PREFIX_LEN);
    for (; len < room && asked->sent < whole; len++, asked->sent++)
        to[len] = asked->sent < PREFIX_LEN
                      ? prefix[asked->sent]
                      : ((const unsigned char *)rule->bytes)[asked->sent - PREFIX_LEN];
    if (asked->sent < whole)
        return (ssize_t)len;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (*status) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        trailers[0] = pair("grpc-status", status);
        trailers[1] = pair("grpc-message", rule->text ? rule->text : "");
        nghttp2_submit_trailer(session, id, trailers, rule->text ? 2 : 1);
    }
    return (ssize_t)len;
}

static void answer(struct connection *connection, int32_t id, struct asked *asked)
{
    const struct liar_rule *rule = &asked->rule;
    nghttp2_data_provider provider = { .source = { .ptr = asked }, .read_callback = on_read };
    nghttp2_nv headers[] = { pair(":status", rule->http ? rule->http : "200"),
                             pair("content-type", rule->type ? rule->type : "application/grpc"),
                             pair("grpc-status", rule->status ? rule->status : "0"),
                             pair("grpc-message", rule->text ? rule->text : "") };

    if (rule->bytes)
        nghttp2_submit_response(connection->session, id, headers, 2, &provider);
    else /* all in one frame of headers */
        nghttp2_submit_response(connection->session, id, headers,
                                rule->status && !*rule->status ? 2u : 4u, NULL);
}

/* What liar_more() said, as it is. */
static ssize_t on_read_more(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    size_t len;

    (void)session, (void)id, (void)flags, (void)source, (void)arg;
    pthread_mutex_lock(&lock);
    len = more_len < room ? more_len : room;
    memcpy(to, more, len);
    memmove(more, more + len, more_len - len);
    more_len -= len;
    pthread_mutex_unlock(&lock);
    return len > 0 ? (ssize_t)len : NGHTTP2_ERR_DEFERRED;
}

static void begin_lasting(struct connection *connection, int32_t id)
{
    nghttp2_data_provider provider = { .read_callback = on_read_more };
    nghttp2_nv headers[] = { pair(":status", "200"), pair("content-type", "application/grpc") };

    nghttp2_submit_response(connection->session, id, headers, 2, &provider);
    connection->lasting = id;
    pthread_mutex_lock(&lock);
    more_len = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&wake, connection->wake);
}

static void play(struct connection *connection, int32_t id, struct asked *asked)
{
    asked->rule = rule_for(asked->path);
    atomic_fetch_add(&requests, 1);
    switch (asked->rule.way) {
    case LIAR_ANSWER:
        answer(connection, id, asked);
        break;
    case LIAR_RESET:
        nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, id, asked->rule.error);
        break;
    case LIAR_GOAWAY:
        nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE, id > 2 ? id - 2 : 0,
                              asked->rule.error, NULL, 0);
        break;
    case LIAR_FRAMES:
        flush(connection);
        put_bytes(connection, asked->rule.bytes, asked->rule.len);
        break;
    case LIAR_LASTS:
        begin_lasting(connection, id);
        break;
    case LIAR_SILENCE:
        break;
    case LIAR_CLOSE:
    case LIAR_NOT_H2:
        connection->over = true;
        break;
    }
}

/* ---- what nghttp2 tells --------------------------------------------------------------------------- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct connection *connection = arg;
    struct asked *asked = calloc(1, sizeof *asked);

    if (!asked)
        give_up("out of memory");
    asked->next = connection->asked;
    connection->asked = asked;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, asked);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    struct asked *asked = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags, (void)arg;
    if (asked && name_len == 5 && memcmp(name, ":path", 5) == 0 && len < sizeof asked->path)
        memcpy(asked->path, value, len);
    return 0;
}

/* A request is whole, or (Watch) has its first message. */
static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct asked *asked = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_DATA && asked && !asked->rule.path && asked->sent == 0) {
        play(arg, frame->hd.stream_id, asked);
        asked->rule.path = "played";
    }
    return 0;
}

/* Bytes of the client, or 0: it has gone. What the lasting stream is to send meanwhile is sent. */
static ssize_t receive(struct connection *connection, uint8_t *bytes, size_t room)
{
    struct pollfd fds[] = { { .fd = connection->fd, .events = POLLIN },
                            { .fd = connection->wake, .events = POLLIN } };
    eventfd_t count;

    while (poll(fds, 2, -1) >= 0 && !fds[0].revents) {
        (void)eventfd_read(connection->wake, &count);
        nghttp2_session_resume_data(connection->session, connection->lasting);
        flush(connection);
        if (connection->over)
            return 0;
    }
    return recv(connection->fd, bytes, room, 0);
}

static void *serve(void *arg)
{
    struct connection connection = { .fd = (int)(intptr_t)arg, .wake = eventfd(0, EFD_CLOEXEC) };
    nghttp2_session_callbacks *callbacks;
    struct liar_rule first = rule_for("connected");
    uint8_t bytes[16384];
    ssize_t got;
    int on = 1;

    setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (first.way == LIAR_NOT_H2) {
        put_bytes(&connection, first.bytes, first.len);
        shutdown(connection.fd, SHUT_WR);
        while (recv(connection.fd, bytes, sizeof bytes, 0) > 0)
            ;
        close(connection.fd);
        close(connection.wake);
        return NULL;
    }
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        give_up("out of memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_server_new(&connection.session, callbacks, &connection);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(connection.session, NGHTTP2_FLAG_NONE, NULL, 0);
    for (;;) {
        flush(&connection);
        if (connection.over || (got = receive(&connection, bytes, sizeof bytes)) <= 0 ||
            nghttp2_session_mem_recv(connection.session, bytes, (size_t)got) != got)
            break;
    }
    nghttp2_session_del(connection.session);
    while (connection.asked) {
        struct asked *asked = connection.asked;

        connection.asked = asked->next;
        free(asked);
    }
    {
        int mine = connection.wake;

        atomic_compare_exchange_strong(&wake, &mine, -1);
    }
    close(connection.wake);
    close(connection.fd);
    return NULL;
}

static void *listen_on(void *arg)
{
    int fd = (int)(intptr_t)arg, client;
    pthread_t thread;

    while ((client = accept(fd, NULL, NULL)) >= 0) {
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) != 0)
            close(client);
        else
            pthread_detach(thread);
    }
    return NULL;
}

uint16_t liar_start(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, listen_on, (void *)(intptr_t)fd) != 0)
        give_up("no listener");
    pthread_detach(thread);
    return ntohs(address.sin_port);
}
