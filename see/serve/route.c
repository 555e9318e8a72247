/* SPDX-License-Identifier: MIT */
/* Which request goes where, and whether it may: Host, Origin, rights, method, store. In this order, so
 * that a stranger learns nothing about what is here. */
#include "serve.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct target {
    unsigned right;
    bool has_store;
    bool in_line; /* it reads rows: without a token after all others */
    route_fn *get, *post, *remove;
} targets[ROUTE_COUNT] = {
    [ROUTE_ASSET] = { 0, false, false, api_asset, NULL, NULL },
    [ROUTE_METRICS] = { RIGHT_READ, false, true, metrics_answer, NULL, NULL },
    [ROUTE_HEALTH] = { 0, false, false, api_health, NULL, NULL },
    [ROUTE_READY] = { 0, false, false, api_ready, NULL, NULL },
    [ROUTE_OPENAPI] = { 0, false, false, api_openapi, NULL, NULL },
    [ROUTE_STORES] = { RIGHT_READ, false, true, api_stores, NULL, NULL },
    [ROUTE_NAMES] = { RIGHT_READ, true, true, api_names, NULL, NULL },
    [ROUTE_NAME] = { RIGHT_READ, true, true, api_name, NULL, NULL },
    [ROUTE_BREAK] = { RIGHT_BREAK, true, false, NULL, api_break, NULL },
    [ROUTE_WATCH] = { RIGHT_READ, false, false, watch_answer, NULL, NULL },
    [ROUTE_ACQUIRE] = { RIGHT_LEASE, true, false, NULL, lease_acquire, NULL },
    [ROUTE_LEASE] = { RIGHT_LEASE, false, false, lease_show, NULL, lease_release },
    [ROUTE_RENEW] = { RIGHT_LEASE, false, false, NULL, lease_renew, NULL },
};

static bool from_here(struct request *request)
{
    const struct hosts *hosts = &request->server->hosts;
    const char *host = request_header(request, "Host");
    const char *site = request_header(request, "Sec-Fetch-Site");

    if (!host_allowed(hosts, host)) {
        answer_error(request, MHD_HTTP_FORBIDDEN, "FORBIDDEN",
                     "Host: not a name of this server (--host adds one)");
        return false;
    }
    if (!origin_allowed(hosts, request_header(request, "Origin"), host) ||
        (site && strcmp(site, "cross-site") == 0 && strcmp(request->text, "/") != 0)) {
        answer_error(request, MHD_HTTP_FORBIDDEN, "FORBIDDEN", "Origin: another site");
        return false;
    }
    return true;
}

static bool may(struct request *request, unsigned right)
{
    const struct client *client =
        rights_find(&request->server->rights, request_header(request, "Authorization"));

    if (client) {
        request->rights = client->rights;
        request->has_token = client->token_len > 0;
        strcpy(request->client, client->name);
    }
    arrival_is(request, false);
    if ((request->rights & right) == right)
        return true;
    if (!request->has_token)
        answer_error(request, MHD_HTTP_UNAUTHORIZED, "UNAUTHORIZED", "a bearer token is needed");
    else
        answer_error(request, MHD_HTTP_FORBIDDEN, "FORBIDDEN",
                     right == RIGHT_READ    ? "this token may not read"
                     : right == RIGHT_BREAK ? "this token may not break leases"
                                            : "this token may not take leases");
    return false;
}

static route_fn *by_method(const struct request *request, const struct target *target)
{
    if (!request->method)
        return NULL;
    if (strcmp(request->method, "POST") == 0)
        return target->post;
    if (strcmp(request->method, "DELETE") == 0)
        return target->remove;
    /* libmicrohttpd leaves the body out, but of a stream it would send the end. */
    if (strcmp(request->method, "HEAD") == 0 && target->get == watch_answer)
        return NULL;
    return target->get;
}

static void refuse_method(struct request *request)
{
    answer_error(request, MHD_HTTP_METHOD_NOT_ALLOWED, "INVALID", "another method is needed");
    if (request->answer)
        MHD_add_response_header(request->answer, "Allow", route_methods(request->uri.route));
}

/* A browser sends a form of another site without asking; JSON it asks for first, and is refused. */
static bool body_is_fine(struct request *request)
{
    const char *type = request_header(request, "Content-Type");

    if (request->body_too_long) {
        answer_error(request, MHD_HTTP_CONTENT_TOO_LARGE, "INVALID",
                     "the body is longer than 8192 bytes");
        return false;
    }
    if (request->body_len > 0 && (!type || strncasecmp(type, "application/json", 16) != 0)) {
        answer_error(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "INVALID",
                     "Content-Type: application/json is needed");
        return false;
    }
    return true;
}

void route(struct request *request)
{
    struct server *server = request->server;
    const char *wrong = uri_parse(request->text, &request->uri);
    const struct target *target = &targets[request->uri.route];
    struct store *store = NULL;
    route_fn *go;

    if (!from_here(request))
        return;
    if (wrong || request->uri.route == ROUTE_NONE) {
        answer_error(request, wrong ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_NOT_FOUND,
                     wrong ? "INVALID" : "NOT_FOUND", wrong ? wrong : "no such path");
        return;
    }
    if (!may(request, target->right))
        return;
    go = by_method(request, target);
    if (!go) {
        refuse_method(request);
        return;
    }
    if (!body_is_fine(request))
        return;
    if (target->has_store) {
        if (request->uri.store >= server->store_count) {
            answer_error(request, MHD_HTTP_NOT_FOUND, "NOT_FOUND", "no such store");
            return;
        }
        store = &server->stores[request->uri.store];
    }
    if (server->stopping) {
        answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "UNAVAILABLE",
                     "holdfast serve is stopping");
        return;
    }
    if (target->in_line && !request->has_token)
        line_join(request, go, store);
    else
        go(request, store);
}
