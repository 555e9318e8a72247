/* SPDX-License-Identifier: MIT */
/*
 * A memcached store's URL. Errors name the part and its byte in the URL as it was given, and quote
 * nothing of it: what stands in the wrong place may be half of a password.
 */
#include "engine/memcached/conf.h"

#include "core/secret.h"
#include "engine/memcached/record.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_MAX   253
#define PATH_MOST  107 /* sun_path, without its end */
#define SECRET_MAX 200 /* of a user and of a password: the server reads both from one short line */
#define PREFIX     "hf:"

#define LIMIT_MIN_MS 10
#define LIMIT_MAX_MS (INT64_C(10) * 60 * 1000)

static hf_status parse(struct memcached_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_place(struct memcached_conf *conf, const struct hfi_url *url, hf_error *err);
static hf_status parse_login(struct memcached_conf *conf, const struct hfi_url *url,
                             const char *from, const char *to, hf_error *err);
static hf_status parse_host(struct memcached_conf *conf, const struct hfi_url *url,
                            const char *from, const char *to, hf_error *err);
static hf_status parse_socket(struct memcached_conf *conf, const struct hfi_url *url,
                              const char *from, hf_error *err);
static hf_status take_secret(struct memcached_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status take_prefix(struct memcached_conf *conf, struct hfi_url *url, hf_error *err);

hf_status memcached_conf_parse(struct hfi_url *url, struct memcached_conf **ret_conf, hf_error *err)
{
    struct memcached_conf *conf = hfi_calloc(1, sizeof *conf);
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    status = parse(conf, url, err);
    if (status != HF_OK) {
        memcached_conf_free(conf);
        return status;
    }
    *ret_conf = conf;
    return HF_OK;
}

void memcached_conf_free(struct memcached_conf *conf)
{
    if (!conf)
        return;
    hfi_free(conf->host);
    hfi_free(conf->path);
    hfi_free(conf->shown);
    hfi_free(conf->location);
    hfi_free(conf->prefix);
    hfi_secret_wipe(conf->user);
    hfi_secret_wipe(conf->password);
    hfi_free(conf);
}

static hf_status parse(struct memcached_conf *conf, struct hfi_url *url, hf_error *err)
{
    hf_status status = parse_place(conf, url, err);
    size_t size;

    conf->connect_ms = 2000;
    conf->op_ms = 5000;
    conf->poll_ms = 100;
    if (status == HF_OK)
        status = take_secret(conf, url, err);
    if (status == HF_OK)
        status = take_prefix(conf, url, err);
    if (status == HF_OK)
        status = hfi_url_take_duration(url, "connect_timeout", LIMIT_MIN_MS, LIMIT_MAX_MS,
                                       &conf->connect_ms, err);
    if (status == HF_OK)
        status =
            hfi_url_take_duration(url, "op_timeout", LIMIT_MIN_MS, LIMIT_MAX_MS, &conf->op_ms, err);
    if (status == HF_OK)
        status = hfi_url_take_duration(url, "poll", 1, LIMIT_MAX_MS, &conf->poll_ms, err);
    if (status != HF_OK)
        return status;

    size = strlen(url->scheme) + strlen(conf->shown) + sizeof "://";
    conf->location = hfi_malloc(size);
    if (!conf->location)
        return hfi_error_memory(err);
    snprintf(conf->location, size, "%s://%s", url->scheme, conf->shown);
    return HF_OK;
}

/* ---- what stands before the '?' -------------------------------------------------------- */

static hf_status wrong(const struct hfi_url *url, const char *at, const char *what, const char *why,
                       hf_error *err)
{
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: %s at byte %zu %s", what,
                         strlen(url->scheme) + 1 + (size_t)(at - url->rest), why);
}

/* A copy of what stands there, decoded. */
static hf_status decode(const struct hfi_url *url, const char *from, const char *to,
                        const char *what, char **ret_text, hf_error *err)
{
    char *text = hfi_strndup(from, (size_t)(to - from));

    if (!text)
        return hfi_error_memory(err);
    if (!hfi_url_decode(text)) {
        hfi_secret_wipe(text);
        return wrong(url, from, what, "has a bad %XX", err);
    }
    *ret_text = text;
    return HF_OK;
}

static hf_status parse_place(struct memcached_conf *conf, const struct hfi_url *url, hf_error *err)
{
    bool is_socket = strcmp(url->scheme, "memcached+unix") == 0;
    const char *from = url->rest + 2, *end, *at = NULL;
    hf_status status;

    if (strncmp(url->rest, "//", 2) != 0)
        return wrong(url, url->rest, "the host", "must follow \"//\"", err);
    end = from + strcspn(from, "/");
    for (const char *c = from; c < end; c++)
        if (*c == '@')
            at = c;
    if (at) {
        status = parse_login(conf, url, from, at, err);
        if (status != HF_OK)
            return status;
        from = at + 1;
    }
    if (is_socket && from != end)
        return wrong(url, from, "the path", "must begin with '/'", err);
    if (strchr(end, '@')) /* it may be the end of a password */
        return wrong(url, strchr(end, '@'), "an '@'",
                     "after a '/': a '/' in a password is written %2F, an '@' in a path %40", err);
    if (is_socket)
        return parse_socket(conf, url, end, err);
    if (*end && end[1])
        return wrong(url, end, "a path", "has no meaning here (a socket: memcached+unix:)", err);
    if (memchr(from, ',', (size_t)(end - from)))
        return wrong(url, memchr(from, ',', (size_t)(end - from)), "a second host",
                     "has no meaning here: a lock lives on one server", err);
    return parse_host(conf, url, from, end, err);
}

static bool is_word(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!memcached_key_byte((unsigned char)*c))
            return false;
    return *text != 0 && strlen(text) <= SECRET_MAX;
}

static hf_status parse_login(struct memcached_conf *conf, const struct hfi_url *url,
                             const char *from, const char *to, hf_error *err)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    hf_status status = decode(url, from, colon ? colon : to, "the user", &conf->user, err);

    if (status == HF_OK && !is_word(conf->user))
        status = wrong(url, from, "the user", "must be one word of at most 200 bytes", err);
    if (status == HF_OK && colon)
        status = decode(url, colon + 1, to, "the password", &conf->password, err);
    if (status == HF_OK && colon && !is_word(conf->password))
        status =
            wrong(url, colon + 1, "the password", "must be one word of at most 200 bytes", err);
    return status;
}

static bool is_host(const char *host, bool bracketed)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    struct in6_addr address;
    char plain[INET6_ADDRSTRLEN + 1] = { 0 };
    size_t len = strcspn(host, "%"); /* a zone may follow: fe80::1%eth0 */

    if (!bracketed)
        return *host && strlen(host) <= HOST_MAX && strspn(host, good) == strlen(host);
    if (len < sizeof plain)
        memcpy(plain, host, len);
    return inet_pton(AF_INET6, plain, &address) == 1 && strlen(host) <= HOST_MAX;
}

static hf_status parse_port(const struct hfi_url *url, const char *from, const char *to,
                            uint16_t *ret_port, hf_error *err)
{
    char digits[8] = { 0 };
    size_t len = (size_t)(to - from);
    uint64_t port = MEMCACHED_PORT;

    if (len > 0 && *from != ':')
        return wrong(url, from, "the host", "goes on after its ']'", err);
    if (len > 0 && len <= sizeof digits)
        memcpy(digits, from + 1, len - 1);
    if (len > 0 && (len > sizeof digits || hfi_parse_u64(digits, 1, UINT16_MAX, &port)))
        return wrong(url, from + 1, "the port", "must be a number from 1 to 65535", err);
    *ret_port = (uint16_t)port;
    return HF_OK;
}

static hf_status parse_host(struct memcached_conf *conf, const struct hfi_url *url,
                            const char *from, const char *to, hf_error *err)
{
    bool bracketed = from < to && *from == '[';
    const char *name = from + bracketed;
    const char *end = memchr(name, bracketed ? ']' : ':', (size_t)(to - name));
    hf_status status;
    size_t size;

    if (bracketed && !end)
        return wrong(url, from, "the host", "has no closing ']'", err);
    if (!end)
        end = to;
    if (!bracketed && end < to && memchr(end + 1, ':', (size_t)(to - end - 1)))
        return wrong(url, from, "the host", "has two ':' (an IPv6 address is written in [])", err);
    status = decode(url, name, end, "the host", &conf->host, err);
    if (status == HF_OK && !is_host(conf->host, bracketed))
        status = wrong(
            url, from, "the host",
            *conf->host ? "is neither a name nor an address ([...] for IPv6)" : "is empty", err);
    if (status == HF_OK)
        status = parse_port(url, end + bracketed, to, &conf->port, err);
    if (status != HF_OK)
        return status;

    size = strlen(conf->host) + sizeof "[]:65535";
    conf->shown = hfi_malloc(size);
    if (!conf->shown)
        return hfi_error_memory(err);
    snprintf(conf->shown, size, bracketed ? "[%s]:%u" : "%s:%u", conf->host, (unsigned)conf->port);
    return HF_OK;
}

static hf_status parse_socket(struct memcached_conf *conf, const struct hfi_url *url,
                              const char *from, hf_error *err)
{
    char shown[4 * PATH_MOST + 4];
    hf_status status = decode(url, from, from + strlen(from), "the path", &conf->path, err);

    if (status != HF_OK)
        return status;
    if (strlen(conf->path) < 2)
        return wrong(url, from, "the path", "of the socket is missing", err);
    if (strlen(conf->path) > PATH_MOST)
        return wrong(url, from, "the path", "is too long for a Unix socket", err);
    conf->shown = hfi_strdup(hfi_quote_name(conf->path, strlen(conf->path), shown, sizeof shown));
    return conf->shown ? HF_OK : hfi_error_memory(err);
}

/* ---- parameters -------------------------------------------------------------------------- */

static hf_status wrong_param(const struct hfi_url *url, const char *key, hf_status status,
                             const char *why, hf_error *err)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            return hfi_error_set(err, status, 0, "store URL: parameter '%s' at byte %zu %s", key,
                                 url->params[i].at, why);
    return hfi_error_set(err, status, 0, "store URL: parameter '%s' %s", key, why);
}

static hf_status take_secret(struct memcached_conf *conf, struct hfi_url *url, hf_error *err)
{
    bool in_url = conf->password != NULL;
    hf_status status = hfi_secret_take(url, "password", &conf->password, err);

    if (status != HF_OK || in_url)
        return status;
    if (conf->user && !conf->password)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: a user without a password: give password_file= or "
                             "password_env=");
    if (conf->password && !conf->user)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: a password needs a user: user@ before the host");
    if (conf->password && !is_word(conf->password))
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: the password is not one word of at most 200 bytes");
    return HF_OK;
}

static hf_status take_prefix(struct memcached_conf *conf, struct hfi_url *url, hf_error *err)
{
    const char *prefix = hfi_url_take(url, "prefix");

    if (!prefix)
        prefix = PREFIX;
    for (const char *c = prefix; *c; c++)
        if (!memcached_key_byte((unsigned char)*c))
            return wrong_param(url, "prefix", HF_CONFIG, "has a space or a control character", err);
    if (strlen(prefix) > MEMCACHED_PREFIX_MAX)
        return wrong_param(url, "prefix", HF_CONFIG, "has more than 100 bytes", err);
    conf->prefix = hfi_strdup(prefix);
    return conf->prefix ? HF_OK : hfi_error_memory(err);
}
