/* SPDX-License-Identifier: MIT */
/*
 * Requests without a token wait in line. Everything is done by one thread, and an answer with ten thousand names takes it some tens of
 * milliseconds: a few clients that ask for it again and again would delay every renewal of a lease. So such an answer is made between
 * two turns of the loop, and a turn reads and answers all requests that have a token.
 */
#include "serve.h"

#define LINE_MS 2 /* of a turn; one request at least */

static void leave(struct request *request)
{
    struct server *server = request->server;

    if (request->line_next)
        request->line_next->line_before = request->line_before;
    else
        server->line_last = request->line_before;
    if (request->line_before)
        request->line_before->line_next = request->line_next;
    else
        server->line_first = request->line_next;
    request->gone = NULL;
}

static void gone(struct request *request, bool delivered)
{
    (void)delivered;
    leave(request);
}

void line_join(struct request *request, route_fn *go, struct store *store)
{
    struct server *server = request->server;

    request->line_go = go;
    request->line_store = store;
    request->line_next = NULL;
    request->line_before = server->line_last;
    if (server->line_last)
        server->line_last->line_next = request;
    else
        server->line_first = request;
    server->line_last = request;
    request->gone = gone;
    request_wait(request);
}

void line_run(struct server *server)
{
    int64_t until_ms = clock_ms() + LINE_MS;

    while (server->line_first) {
        struct request *request = server->line_first;

        leave(request);
        if (request->hung_up)
            continue; /* libmicrohttpd ends it */
        request->line_go(request, request->line_store);
        if (!request->answer) { /* no memory: the connection is closed */
            request->hung_up = true;
            request_wake(request);
        }
        if (clock_ms() >= until_ms)
            return;
    }
}
