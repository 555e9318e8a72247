/* SPDX-License-Identifier: MIT */
/*
 * Requests that do not arrive. The limit of libmicrohttpd starts anew with every byte: a client that sends
 * one now and then would have its connection for ever, and with --connections of them nobody else would
 * have one.
 */
#include "serve.h"

#include <stdlib.h>
#include <sys/socket.h>

#define ARRIVE_MS 45000 /* from the end of the request before */

struct arrival {
    struct arrival *next, *before;
    int fd;
    int64_t until_ms; /* INT64_MAX: the request is there */
};

static void arrival_set(struct MHD_Connection *connection, int64_t until_ms)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct arrival *arrival = info ? info->socket_context : NULL;

    if (arrival)
        arrival->until_ms = until_ms;
}

void arrival_begins(struct MHD_Connection *connection)
{
    arrival_set(connection, clock_ms() + ARRIVE_MS);
}

void arrival_complete(struct MHD_Connection *connection)
{
    arrival_set(connection, INT64_MAX);
}

struct arrival *arrival_new(struct server *server, int fd)
{
    struct arrival *arrival = calloc(1, sizeof *arrival);

    if (!arrival)
        return NULL;
    arrival->fd = fd;
    arrival->until_ms = clock_ms() + ARRIVE_MS;
    arrival->next = server->arrivals;
    if (arrival->next)
        arrival->next->before = arrival;
    server->arrivals = arrival;
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
    free(arrival);
}

/* libmicrohttpd finds the end of the stream, and closes. */
void arrivals_tick(struct server *server, int64_t now_ms)
{
    for (struct arrival *arrival = server->arrivals; arrival; arrival = arrival->next)
        if (now_ms >= arrival->until_ms)
            shutdown(arrival->fd, SHUT_RDWR);
}
