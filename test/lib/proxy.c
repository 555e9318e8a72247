/* SPDX-License-Identifier: MIT */
/*
 * The failing network; see proxy.h. One thread serves all connections; `lock` guards everything
 * except its sleep in poll(). It reads at once whatever arrives; faults apply only when it
 * forwards.
 */
#include "proxy.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define READ_SIZE       65536
#define SNIFF_ROOM      16 /* "SUBSCRIBE" may come in two reads */

struct chunk {
    struct chunk *next;
    int64_t due_ms;
    size_t len, sent;
    char bytes[];
};

struct flow {
    struct chunk *first, **last;
    size_t held;
    bool ended; /* the sender has closed: we close after the last byte */
};

struct connection {
    int fd[2]; /* PROXY_UP: where UP goes to, the server; PROXY_DOWN: the client. -1: gone */
    struct flow flow[2];
    bool push; /* it has subscribed */
    bool late; /* the client is gone; UP is kept */
    char sniffed[SNIFF_ROOM];
};

struct fault {
    int64_t delay_ms;
    unsigned drip;
    unsigned allowance; /* drip: bytes that may go in this millisecond */
    int64_t cut_after;  /* -1: never */
    bool blocked;
};

struct proxy {
    pthread_mutex_t lock;
    pthread_t thread;
    int listener, wake;
    uint16_t port;
    struct sockaddr_in server;
    enum proxy_kind chosen;
    struct fault fault[2][2]; /* [push][way] */
    struct connection *connections[CONNECTIONS_MAX];
    size_t count;
    int64_t bytes[2];
    unsigned made;
    int64_t drip_ms;
    bool refuse, stop, deliver, has_cut;
};

static void *serve(void *arg);

/* ---- settings ------------------------------------------------------------------------ */

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 128) != 0)
        give_up("proxy: %s", strerror(errno));
    return fd;
}

struct proxy *proxy_start(uint16_t server_port)
{
    struct sockaddr_in server = { .sin_family = AF_INET,
                                  .sin_port = htons(server_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    return proxy_start_to(&server);
}

struct proxy *proxy_start_to(const struct sockaddr_in *server)
{
    struct proxy *p = calloc(1, sizeof *p);

    if (!p)
        give_up("out of memory");
    pthread_mutex_init(&p->lock, NULL);
    p->server = *server;
    p->port = free_port();
    p->listener = listen_on(p->port);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int push = 0; push < 2; push++)
        for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++)
            p->fault[push][way].cut_after = -1;
    if (pthread_create(&p->thread, NULL, serve, p) != 0)
        give_up("proxy: no thread");
    return p;
}

uint16_t proxy_port(const struct proxy *p)
{
    return p->port;
}

const char *proxy_url(const struct proxy *p, const char *rest)
{
    static _Thread_local char texts[4][256];
    static _Thread_local unsigned turn;
    char *text = texts[turn++ % 4];

    snprintf(text, sizeof texts[0], "redis://127.0.0.1:%u%s", (unsigned)p->port, rest);
    return text;
}

static void begin(struct proxy *p)
{
    pthread_mutex_lock(&p->lock);
}

static void end(struct proxy *p)
{
    uint64_t one = 1;

    pthread_mutex_unlock(&p->lock);
    if (write(p->wake, &one, sizeof one) < 0 && errno != EAGAIN)
        give_up("proxy: %s", strerror(errno));
}

static bool is_meant(const struct proxy *p, bool push)
{
    return p->chosen == PROXY_ANY || push == (p->chosen == PROXY_PUSH);
}

#define EACH_MEANT(p, way, statement)                     \
    do {                                                  \
        begin(p);                                         \
        for (int push = 0; push < 2; push++)              \
            if (is_meant(p, push)) {                      \
                struct fault *f = &(p)->fault[push][way]; \
                statement;                                \
            }                                             \
        end(p);                                           \
    } while (0)

void proxy_choose(struct proxy *p, enum proxy_kind kind)
{
    begin(p);
    p->chosen = kind;
    end(p);
}

void proxy_delay(struct proxy *p, enum proxy_way way, int64_t ms)
{
    EACH_MEANT(p, way, f->delay_ms = ms);
}

void proxy_drip(struct proxy *p, enum proxy_way way, unsigned bytes)
{
    EACH_MEANT(p, way, f->drip = f->allowance = bytes);
}

void proxy_block(struct proxy *p, enum proxy_way way, bool blocked)
{
    EACH_MEANT(p, way, f->blocked = blocked);
}

void proxy_cut_after(struct proxy *p, enum proxy_way way, int64_t bytes)
{
    EACH_MEANT(p, way, f->cut_after = bytes; p->has_cut = false);
}

bool proxy_has_cut(struct proxy *p)
{
    bool has;

    begin(p);
    has = p->has_cut;
    end(p);
    return has;
}

void proxy_refuse(struct proxy *p, bool refused)
{
    begin(p);
    p->refuse = refused;
    end(p);
}

int64_t proxy_bytes(struct proxy *p, enum proxy_way way)
{
    int64_t bytes;

    begin(p);
    bytes = p->bytes[way];
    end(p);
    return bytes;
}

unsigned proxy_connections(struct proxy *p)
{
    unsigned made;

    begin(p);
    made = p->made;
    end(p);
    return made;
}

int64_t proxy_held(struct proxy *p, enum proxy_way way)
{
    int64_t held = 0;

    begin(p);
    for (size_t i = 0; i < p->count; i++)
        if (is_meant(p, p->connections[i]->push))
            held += (int64_t)p->connections[i]->flow[way].held;
    end(p);
    return held;
}

/* ---- connections, with the lock held ---------------------------------------------------- */

static void drop_flow(struct flow *flow)
{
    while (flow->first) {
        struct chunk *chunk = flow->first;

        flow->first = chunk->next;
        free(chunk);
    }
    flow->last = &flow->first;
    flow->held = 0;
}

static void hang_up(struct connection *c, enum proxy_way way)
{
    if (c->fd[way] >= 0)
        close(c->fd[way]);
    c->fd[way] = -1;
}

static void cut(struct connection *c)
{
    for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++) {
        hang_up(c, way);
        drop_flow(&c->flow[way]);
    }
}

/* What a client says on the connection that listens: Redis, PostgreSQL, MariaDB. */
static const char *const push_words[] = { "\r\nSUBSCRIBE", "\r\nsubscribe", "LISTEN \"", "hear`(",
                                          "bell`(" };

static void sniff(struct connection *c, const char *bytes, size_t len)
{
    char both[SNIFF_ROOM + READ_SIZE];
    size_t kept = strnlen(c->sniffed, SNIFF_ROOM);

    memcpy(both, c->sniffed, kept);
    memcpy(both + kept, bytes, len);
    len += kept;
    for (size_t i = 0; i < sizeof push_words / sizeof *push_words; i++)
        if (memmem(both, len, push_words[i], strlen(push_words[i])))
            c->push = true;
    kept = len < SNIFF_ROOM - 1 ? len : SNIFF_ROOM - 1;
    memcpy(c->sniffed, both + len - kept, kept);
    c->sniffed[kept] = 0;
}

/* Read all that the sender of this direction has written. */
static void take_in(struct proxy *p, struct connection *c, enum proxy_way way)
{
    int from = c->fd[1 - way];
    static _Thread_local char bytes[READ_SIZE]; /* a test may have several proxies */
    ssize_t n;

    while (from >= 0 && (n = recv(from, bytes, sizeof bytes, 0)) > 0) {
        struct flow *flow = &c->flow[way];
        struct chunk *chunk = malloc(sizeof *chunk + (size_t)n);

        if (!chunk)
            give_up("out of memory");
        p->bytes[way] += n;
        if (way == PROXY_UP)
            sniff(c, bytes, (size_t)n);
        *chunk = (struct chunk){ .due_ms = clock_ms() + p->fault[c->push][way].delay_ms,
                                 .len = (size_t)n };
        memcpy(chunk->bytes, bytes, (size_t)n);
        *flow->last = chunk;
        flow->last = &chunk->next;
        flow->held += (size_t)n;
    }
    if (from >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR)))
        c->flow[way].ended = true;
}

/* The number of bytes of this direction that may be forwarded now. */
static size_t allowed(const struct proxy *p, const struct connection *c, enum proxy_way way)
{
    const struct fault *f = &p->fault[c->push][way];
    const struct chunk *chunk = c->flow[way].first;
    size_t n = chunk->len - chunk->sent;

    if (c->late)
        return p->deliver ? n : 0;
    if (f->blocked || chunk->due_ms > clock_ms())
        return 0;
    if (f->drip && n > f->allowance)
        n = f->allowance;
    if (f->cut_after >= 0 && (int64_t)n > f->cut_after)
        n = (size_t)f->cut_after;
    return n;
}

static void has_gone(struct flow *flow, size_t n)
{
    struct chunk *chunk = flow->first;

    chunk->sent += n;
    flow->held -= n;
    if (chunk->sent < chunk->len)
        return;
    flow->first = chunk->next;
    if (!flow->first)
        flow->last = &flow->first;
    free(chunk);
}

static void hand_on(struct proxy *p, struct connection *c, enum proxy_way way)
{
    struct fault *f = &p->fault[c->push][way];
    struct flow *flow = &c->flow[way];

    while (flow->first && c->fd[way] >= 0) {
        size_t n = allowed(p, c, way);
        ssize_t sent;

        if (!c->late && !f->blocked && flow->first->due_ms <= clock_ms() && f->cut_after == 0) {
            f->cut_after = -1;
            p->has_cut = true;
            cut(c);
            return;
        }
        if (n == 0)
            return;
        sent = send(c->fd[way], flow->first->bytes + flow->first->sent, n, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0) {
            cut(c);
            return;
        }
        if (f->drip)
            f->allowance -= (unsigned)sent;
        if (f->cut_after > 0 && !c->late)
            f->cut_after -= sent;
        has_gone(flow, (size_t)sent);
    }
    if (flow->ended && !flow->first && c->fd[way] >= 0 && !f->blocked)
        shutdown(c->fd[way], SHUT_WR);
}

/* A late connection, whose client is gone, is over when the server has hung up after its last
 * answer. */
static bool is_over(const struct proxy *p, const struct connection *c)
{
    if (c->fd[PROXY_UP] < 0)
        return true;
    if (c->late)
        return p->deliver && c->flow[PROXY_DOWN].ended;
    if (c->fd[PROXY_DOWN] < 0)
        return true;
    /* One side has closed, and all that it wrote has been forwarded. */
    return (c->flow[PROXY_UP].ended && !c->flow[PROXY_UP].first) ||
           (c->flow[PROXY_DOWN].ended && !c->flow[PROXY_DOWN].first);
}

static void move_bytes(struct proxy *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->count; i++) {
        struct connection *c = p->connections[i];

        for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++) {
            take_in(p, c, way);
            hand_on(p, c, way);
        }
        if (c->late && p->deliver && !c->flow[PROXY_UP].first && c->fd[PROXY_UP] >= 0)
            shutdown(c->fd[PROXY_UP], SHUT_WR);
        if (c->late)
            drop_flow(&c->flow[PROXY_DOWN]);
        if (is_over(p, c)) {
            cut(c);
            free(c);
        } else {
            p->connections[kept++] = c;
        }
    }
    p->count = kept;
}

static void welcome(struct proxy *p)
{
    int client, on = 1;

    while ((client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct connection *c = calloc(1, sizeof *c);
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (!c || server < 0)
            give_up("proxy: out of memory or descriptors");
        /* A server that is dead refuses at once on loopback, and one that is stopped accepts. */
        if (p->refuse || p->count == CONNECTIONS_MAX ||
            connect(server, (struct sockaddr *)&p->server, sizeof p->server) != 0) {
            close(client);
            close(server);
            free(c);
            continue;
        }
        fcntl(server, F_SETFL, O_NONBLOCK);
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->fd[PROXY_DOWN] = client;
        c->fd[PROXY_UP] = server;
        for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++)
            c->flow[way].last = &c->flow[way].first;
        p->connections[p->count++] = c;
        p->made++;
    }
}

/* ---- the thread ------------------------------------------------------------------------ */

static void refill(struct proxy *p)
{
    int64_t now = clock_ms();

    if (now == p->drip_ms)
        return;
    p->drip_ms = now;
    for (int push = 0; push < 2; push++)
        for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++)
            p->fault[push][way].allowance = p->fault[push][way].drip;
}

/* Fill in what to poll; returns the time to sleep at most. */
static int prepare(struct proxy *p, struct pollfd *polls, nfds_t *ret_count)
{
    nfds_t n = 0;
    int timeout = 1000;

    polls[n++] = (struct pollfd){ .fd = p->wake, .events = POLLIN };
    polls[n++] = (struct pollfd){ .fd = p->listener, .events = POLLIN };
    for (size_t i = 0; i < p->count; i++) {
        struct connection *c = p->connections[i];

        for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++) {
            const struct fault *f = &p->fault[c->push][way];
            short events = c->flow[1 - way].ended ? 0 : POLLIN;
            struct chunk *chunk = c->flow[way].first;

            /* fd[way] is where this way's bytes go; the other way's come from it. */
            if (c->fd[way] < 0 || (events == 0 && !chunk))
                continue;
            if (chunk && !c->late && !f->blocked && (f->drip || chunk->due_ms > clock_ms()))
                timeout = 1;
            else if (chunk && (c->late ? p->deliver : !f->blocked))
                events |= POLLOUT;
            if (events)
                polls[n++] = (struct pollfd){ .fd = c->fd[way], .events = events };
        }
    }
    *ret_count = n;
    return timeout;
}

static void *serve(void *arg)
{
    struct proxy *p = arg;
    static _Thread_local struct pollfd polls[2 + 2 * CONNECTIONS_MAX];

    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        nfds_t count;
        uint64_t woken;
        int timeout = prepare(p, polls, &count);

        pthread_mutex_unlock(&p->lock);
        poll(polls, count, timeout);
        if (read(p->wake, &woken, sizeof woken) < 0 && errno != EAGAIN)
            give_up("proxy: %s", strerror(errno));
        pthread_mutex_lock(&p->lock);
        refill(p);
        welcome(p);
        move_bytes(p);
    }
    for (size_t i = 0; i < p->count; i++) {
        cut(p->connections[i]);
        free(p->connections[i]);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- acting at once ---------------------------------------------------------------------- */

void proxy_cut(struct proxy *p)
{
    begin(p);
    for (size_t i = 0; i < p->count; i++)
        if (is_meant(p, p->connections[i]->push) && !p->connections[i]->late)
            cut(p->connections[i]);
    end(p);
}

void proxy_cut_late(struct proxy *p)
{
    begin(p);
    for (size_t i = 0; i < p->count; i++) {
        struct connection *c = p->connections[i];

        if (!is_meant(p, c->push) || c->late)
            continue;
        take_in(p, c, PROXY_UP);
        c->late = true;
        hang_up(c, PROXY_DOWN);
    }
    end(p);
}

void proxy_deliver(struct proxy *p)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    for (bool left = true; left; sleep_ms(1)) {
        left = false;
        begin(p);
        p->deliver = true;
        for (size_t i = 0; i < p->count; i++)
            left |= p->connections[i]->late;
        p->deliver = left;
        end(p);
        if (clock_ms() > until_ms)
            give_up("proxy: the server does not take what came late");
    }
}

void proxy_heal(struct proxy *p)
{
    begin(p);
    for (int push = 0; push < 2; push++)
        for (enum proxy_way way = PROXY_UP; way <= PROXY_DOWN; way++)
            p->fault[push][way] = (struct fault){ .cut_after = -1 };
    p->refuse = false;
    end(p);
}

void proxy_stop(struct proxy *p)
{
    if (!p)
        return;
    begin(p);
    p->stop = true;
    end(p);
    pthread_join(p->thread, NULL);
    close(p->listener);
    close(p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
