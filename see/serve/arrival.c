/* SPDX-License-Identifier: MIT */
/*
 * Requests that do not arrive, and connections that are pushed out (places.h). The limit of libmicrohttpd starts anew with every byte: a client that sends
 * one now and then would have its connection for ever, and with --connections of them nobody else would
 * have one.
 */
#include "serve.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ARRIVE_MS 45000 /* from the end of the request before */
#define LOOK_MS   1000  /* how often we look for peers that are gone */

#define STREAMS_PART 4 /* of the connections: streams without a token */

struct arrival {
    struct place place;
    struct arrival *next, *before;
    struct server *server;
    int fd;
    int64_t until_ms; /* INT64_MAX: the request is there */
    struct request *request;
};

static struct arrival *arrival_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void arrival_set(struct MHD_Connection *connection, int64_t until_ms)
{
    struct arrival *arrival = arrival_of(connection);

    if (arrival)
        arrival->until_ms = until_ms;
}

void arrival_request(struct MHD_Connection *connection, struct request *request)
{
    struct arrival *arrival = arrival_of(connection);

    if (arrival)
        arrival->request = request;
}

void arrival_begins(struct MHD_Connection *connection)
{
    struct arrival *arrival = arrival_of(connection);

    arrival_set(connection, clock_ms() + ARRIVE_MS);
    if (arrival)
        places_is(&arrival->server->places, &arrival->place, arrival->place.has_token, false);
}

void arrival_complete(struct MHD_Connection *connection)
{
    arrival_set(connection, INT64_MAX);
}

/* After shutdown(2) libmicrohttpd finds the end of the stream, and closes. */
static void push_out(struct server *server, bool watching)
{
    struct place *place = places_push(&server->places, watching);

    if (place)
        shutdown(((struct arrival *)(void *)place)->fd, SHUT_RDWR);
}

void arrival_is(struct request *request, bool watching)
{
    struct server *server = request->server;
    struct arrival *arrival = arrival_of(request->connection);

    if (!arrival)
        return;
    places_is(&server->places, &arrival->place, request->has_token, watching);
    if (server->places.watching > server->limits.connections / STREAMS_PART)
        push_out(server, true);
}

struct arrival *arrival_new(struct server *server, struct MHD_Connection *connection, int fd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct arrival *arrival = calloc(1, sizeof *arrival);

    if (!arrival ||
        !places_add(&server->places, &arrival->place, info ? info->client_addr : NULL)) {
        free(arrival);
        return NULL;
    }
    arrival->server = server;
    arrival->fd = fd;
    arrival->until_ms = clock_ms() + ARRIVE_MS;
    arrival->next = server->arrivals;
    if (arrival->next)
        arrival->next->before = arrival;
    server->arrivals = arrival;
    if (server->places.count > server->limits.connections)
        push_out(server, false);
    return arrival;
}

void arrival_free(struct server *server, struct arrival *arrival)
{
    if (!arrival)
        return;
    if (arrival->next)
        arrival->next->before = arrival->before;
    if (arrival->before)
        arrival->before->next = arrival->next;
    else
        server->arrivals = arrival->next;
    request_free(arrival->request);
    places_remove(&server->places, &arrival->place);
    free(arrival);
}

static bool is_gone(const struct arrival *arrival, int64_t now_ms)
{
    struct pollfd look = { .fd = arrival->fd, .events = POLLRDHUP };

    /* What has just begun may still be read. */
    return arrival->until_ms - ARRIVE_MS + LOOK_MS <= now_ms && poll(&look, 1, 0) > 0;
}

/*
 * A part of a request that comes together with the end of its connection is one edge for its epoll: it reads the part, and would keep the place of a peer that is gone until IDLE_S is over.
 */
void arrivals_tick(struct server *server, int64_t now_ms)
{
    static int64_t look_ms;
    bool look = now_ms >= look_ms;

    if (look)
        look_ms = now_ms + LOOK_MS;
    for (struct arrival *arrival = server->arrivals; arrival; arrival = arrival->next)
        if (arrival->until_ms != INT64_MAX &&
            (now_ms >= arrival->until_ms || (look && is_gone(arrival, now_ms))))
            shutdown(arrival->fd, SHUT_RDWR);
}
