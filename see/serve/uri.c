/* SPDX-License-Identifier: MIT */
/* Paths, queries, Host and Origin. Pure. */
#include "uri.h"

#include "util/text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SEGMENTS_MAX 6 /* behind /api/v1 */

struct part {
    const char *at;
    size_t len;
};

static bool part_is(struct part part, const char *word)
{
    return part.len == strlen(word) && memcmp(part.at, word, part.len) == 0;
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One level of percent-encoding. `plus`: a '+' is a blank, as forms write it. */
static const char *decode(struct part part, bool plus, struct bytes *ret_bytes)
{
    struct bytes bytes = { .given = true };

    for (size_t i = 0; i < part.len; i++) {
        unsigned char c = (unsigned char)part.at[i];

        if (bytes.len == HF_NAME_MAX)
            return "a name in the URL has more than 512 bytes";
        if (c == '%') {
            if (part.len - i < 3 || hex_of(part.at[i + 1]) < 0 || hex_of(part.at[i + 2]) < 0)
                return "a % in the URL needs two hexadecimal digits";
            c = (unsigned char)(hex_of(part.at[i + 1]) * 16 + hex_of(part.at[i + 2]));
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        bytes.at[bytes.len++] = c;
    }
    *ret_bytes = bytes;
    return NULL;
}

void uri_key(const void *name, size_t len, char ret_key[KEY_MAX])
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    const unsigned char *bytes = name;
    char *to = ret_key;
    /* A segment of dots alone would be taken out of a URL by every client. */
    bool dots = (len == 1 || len == 2) && bytes[0] == '.' && bytes[len - 1] == '.';

    for (size_t i = 0; i < len && i < HF_NAME_MAX; i++) {
        if (bytes[i] && strchr(plain, bytes[i]) && !dots)
            *to++ = (char)bytes[i];
        else
            to += snprintf(to, 4, "%%%02X", bytes[i]);
    }
    *to = 0;
}

static bool number_of(struct part part, uint64_t max, uint64_t *ret_number)
{
    char text[24];

    if (part.len == 0 || part.len >= sizeof text)
        return false;
    memcpy(text, part.at, part.len);
    text[part.len] = 0;
    return !hfi_parse_u64(text, 0, max, ret_number);
}

static bool store_of(struct part part, unsigned *ret_store)
{
    uint64_t number;

    if (!number_of(part, 999, &number))
        return false;
    *ret_store = (unsigned)number;
    return true;
}

static bool lease_of(struct part part, char *ret_lease)
{
    if (part.len != LEASE_ID_LEN)
        return false;
    for (size_t i = 0; i < part.len; i++)
        if (hex_of(part.at[i]) < 0)
            return false;
    memcpy(ret_lease, part.at, part.len);
    ret_lease[part.len] = 0;
    return true;
}

/* /stores/N/... */
static const char *store_route(const struct part *parts, size_t count, struct uri *uri)
{
    const char *wrong;

    if (!store_of(parts[1], &uri->store))
        return NULL;
    if (count == 3 && part_is(parts[2], "names"))
        uri->route = ROUTE_NAMES;
    else if (count == 3 && part_is(parts[2], "leases"))
        uri->route = ROUTE_ACQUIRE;
    else if (count >= 4 && part_is(parts[2], "names")) {
        wrong = decode(parts[3], false, &uri->name);
        if (wrong)
            return wrong;
        if (uri->name.len == 0)
            return "the name in the URL is empty";
        if (count == 4)
            uri->route = ROUTE_NAME;
        else if (count == 5 && part_is(parts[4], "break"))
            uri->route = ROUTE_BREAK;
    }
    return NULL;
}

static const char *api_route(struct part path, struct uri *uri)
{
    struct part parts[SEGMENTS_MAX];
    size_t count = 0;

    while (path.len > 0) {
        const char *slash = memchr(path.at, '/', path.len);
        size_t len = slash ? (size_t)(slash - path.at) : path.len;

        if (count == SEGMENTS_MAX)
            return NULL;
        parts[count++] = (struct part){ path.at, len };
        path.at += len + (slash != NULL);
        path.len -= len + (slash != NULL);
    }
    if (count == 1 && part_is(parts[0], "stores"))
        uri->route = ROUTE_STORES;
    else if (count == 1 && part_is(parts[0], "watch"))
        uri->route = ROUTE_WATCH;
    else if (count == 1 && part_is(parts[0], "openapi.json"))
        uri->route = ROUTE_OPENAPI;
    else if (count >= 2 && part_is(parts[0], "stores"))
        return store_route(parts, count, uri);
    else if (count == 2 && part_is(parts[0], "leases") && lease_of(parts[1], uri->lease))
        uri->route = ROUTE_LEASE;
    else if (count == 3 && part_is(parts[0], "leases") && lease_of(parts[1], uri->lease) &&
             part_is(parts[2], "renew"))
        uri->route = ROUTE_RENEW;
    return NULL;
}

/* STORE/KEY */
static const char *parse_open(struct part value, struct uri *uri)
{
    const char *slash = memchr(value.at, '/', value.len);
    struct part store;

    if (!slash)
        return "open= is STORE/KEY";
    store = (struct part){ value.at, (size_t)(slash - value.at) };
    if (!store_of(store, &uri->open_store))
        return "open= begins with the number of a store";
    value = (struct part){ slash + 1, value.len - store.len - 1 };
    return decode(value, false, &uri->open_name);
}

static const char *parse_query(struct part query, struct uri *uri)
{
    const char *wrong = NULL;

    while (query.len > 0 && !wrong) {
        const char *end = memchr(query.at, '&', query.len);
        size_t len = end ? (size_t)(end - query.at) : query.len;
        const char *equals = memchr(query.at, '=', len);
        struct part key = { query.at, equals ? (size_t)(equals - query.at) : len };
        struct part value = { equals ? equals + 1 : query.at + len,
                              equals ? len - key.len - 1 : 0 };

        if (part_is(key, "prefix"))
            wrong = decode(value, true, &uri->prefix);
        else if (part_is(key, "after"))
            wrong = decode(value, true, &uri->after);
        else if (part_is(key, "limit") && !number_of(value, 100000, &uri->limit))
            wrong = "limit= is a number up to 100000";
        else if (part_is(key, "open"))
            wrong = parse_open(value, uri);
        query.at += len + (end != NULL);
        query.len -= len + (end != NULL);
    }
    return wrong;
}

const char *uri_parse(const char *text, struct uri *ret_uri)
{
    static const char api[] = "/api/v1/";
    struct uri uri = { 0 };
    size_t len = strlen(text);
    size_t path_len = strcspn(text, "?#");
    struct part query = { text + path_len, len - path_len };
    const char *wrong = NULL;

    if (len > URI_MAX)
        return "the URL is too long";
    if (query.len > 0 && *query.at == '?') {
        query.at++;
        query.len--;
        wrong = parse_query(query, &uri);
    }
    if (wrong)
        return wrong;
    if (path_len >= sizeof api - 1 && memcmp(text, api, sizeof api - 1) == 0) {
        wrong =
            api_route((struct part){ text + sizeof api - 1, path_len - (sizeof api - 1) }, &uri);
    } else if (part_is((struct part){ text, path_len }, "/metrics")) {
        uri.route = ROUTE_METRICS;
    } else if (part_is((struct part){ text, path_len }, "/healthz")) {
        uri.route = ROUTE_HEALTH;
    } else if (part_is((struct part){ text, path_len }, "/readyz")) {
        uri.route = ROUTE_READY;
    } else if (path_len > 0 && path_len < sizeof uri.path && text[0] == '/') {
        uri.route = ROUTE_ASSET;
        memcpy(uri.path, text, path_len);
    }
    if (!wrong)
        *ret_uri = uri;
    return wrong;
}

/* ---- the table ------------------------------------------------------------- */

static const struct {
    const char *path, *methods;
} routes[ROUTE_COUNT] = {
    [ROUTE_ASSET] = { NULL, "GET" },
    [ROUTE_METRICS] = { "/metrics", "GET" },
    [ROUTE_HEALTH] = { "/healthz", "GET" },
    [ROUTE_READY] = { "/readyz", "GET" },
    [ROUTE_OPENAPI] = { "/api/v1/openapi.json", "GET" },
    [ROUTE_STORES] = { "/api/v1/stores", "GET" },
    [ROUTE_NAMES] = { "/api/v1/stores/{store}/names", "GET" },
    [ROUTE_NAME] = { "/api/v1/stores/{store}/names/{key}", "GET" },
    [ROUTE_BREAK] = { "/api/v1/stores/{store}/names/{key}/break", "POST" },
    [ROUTE_WATCH] = { "/api/v1/watch", "GET" },
    [ROUTE_ACQUIRE] = { "/api/v1/stores/{store}/leases", "POST" },
    [ROUTE_LEASE] = { "/api/v1/leases/{lease}", "GET, DELETE" },
    [ROUTE_RENEW] = { "/api/v1/leases/{lease}/renew", "POST" },
};

const char *route_path(enum route route)
{
    return routes[route].path;
}

const char *route_methods(enum route route)
{
    return routes[route].methods;
}

/* ---- Host and Origin --------------------------------------------------------- */

/* "name", "name:port", "[v6]:port": the length of what is in front of the port; 0: not one. */
static size_t host_len(const char *host)
{
    size_t len =
        host[0] == '[' ? strcspn(host, "]") + (strchr(host, ']') != NULL) : strcspn(host, ":");
    const char *port = host + len;

    if (*port == ':')
        port += 1 + strspn(port + 1, "0123456789");
    return *port ? 0 : len;
}

/* As a browser writes it: four decimal numbers, or IPv6 in brackets. inet_pton(3) takes nothing else. */
static bool is_address(const char *host, size_t len)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    bool v6 = len > 2 && host[0] == '[' && host[len - 1] == ']';

    if (v6) {
        host++;
        len -= 2;
    }
    if (len >= sizeof text)
        return false;
    memcpy(text, host, len);
    text[len] = 0;
    return inet_pton(v6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

bool host_allowed(const struct hosts *hosts, const char *host)
{
    size_t len = host ? host_len(host) : 0;

    if (len > 0 && is_address(host, len))
        return true;
    for (size_t i = 0; i < hosts->count && len > 0; i++)
        if (strlen(hosts->names[i]) == len && strncasecmp(hosts->names[i], host, len) == 0)
            return true;
    return false;
}

bool origin_allowed(const struct hosts *hosts, const char *origin, const char *host)
{
    if (!origin)
        return true;
    if (strncmp(origin, "http://", 7) == 0)
        origin += 7;
    else if (strncmp(origin, "https://", 8) == 0)
        origin += 8;
    else
        return false;
    return host && host_allowed(hosts, origin) && strcasecmp(origin, host) == 0;
}
