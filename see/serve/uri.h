/* SPDX-License-Identifier: MIT */
/*
 * What a request line and its headers say: path, query, Host, Origin. Pure: all of it is fuzzed
 * (test/fuzz/serve.c).
 *
 * A name in a path or a query is its bytes in percent-encoding, one level: a "key". So a name with
 * a slash, a NUL or bytes that are no text has a key like every other.
 */
#ifndef SERVE_URI_H
#define SERVE_URI_H

#include "holdfast/holdfast.h"

#define KEY_MAX      (3 * HF_NAME_MAX + 1) /* with its NUL */
#define URI_MAX      4096
#define LEASE_ID_LEN 32

enum route {
    ROUTE_NONE,
    ROUTE_ASSET, /* / and what else has no /api in front */
    ROUTE_METRICS,
    ROUTE_HEALTH,
    ROUTE_READY,
    ROUTE_OPENAPI,
    ROUTE_STORES,
    ROUTE_NAMES,
    ROUTE_NAME,
    ROUTE_BREAK,
    ROUTE_WATCH,
    ROUTE_ACQUIRE,
    ROUTE_LEASE,
    ROUTE_RENEW,
    ROUTE_COUNT
};

struct bytes {
    unsigned char at[HF_NAME_MAX];
    size_t len;
    bool given;
};

struct uri {
    enum route route;
    char path[256]; /* ROUTE_ASSET */
    unsigned store; /* where the path has one */
    struct bytes name;
    char lease[LEASE_ID_LEN + 1];
    /* of the query */
    struct bytes prefix, after; /* ROUTE_NAMES */
    uint64_t limit;             /* ROUTE_NAMES; 0: not given */
    unsigned open_store;        /* ROUTE_WATCH, if open_name is given */
    struct bytes open_name;
};

/* NULL, or what is wrong: then the request is refused, whatever its path. An unknown path is
 * ROUTE_NONE, an unknown word in the query is ignored. */
const char *uri_parse(const char *text, struct uri *ret_uri);
/* The key of a name. */
void uri_key(const void *name, size_t len, char ret_key[KEY_MAX]);
/* The routes as openapi.json names them: "/api/v1/stores/{store}/names", and their methods: "GET". */
const char *route_path(enum route route);
const char *route_methods(enum route route);

/* Names under which this server may be asked: what a page of another site, whose name was made to
 * point at us (DNS rebinding), cannot say. An address (10.2.3.4, [2001:db8::7]) is always allowed: a
 * browser sends one only if the page itself came from it. */
struct hosts {
    const char *const *names; /* "localhost"; any port */
    size_t count;
};
bool host_allowed(const struct hosts *hosts, const char *host);
/* NULL (no browser, or the same site) is fine; else http(s):// and what `host` says. */
bool origin_allowed(const struct hosts *hosts, const char *origin, const char *host);

#endif
