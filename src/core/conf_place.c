/* SPDX-License-Identifier: MIT */
/*
 * Parses the part of a store's URL between the scheme and the '?':
 *
 *   //[user[:password]@]host[:port][,host[:port]...][/path]
 *   //[user[:password]@]/path/to/socket
 *   [//]path                                       a form without hosts (file:)
 *
 * User, password, host and the path of a socket are %XX-decoded after the URL is split, so they may
 * contain any byte. A host is a name, an IPv4 address, or an IPv6 address in [], with a zone
 * (%25eth0) if it needs one: a link-local address means nothing without it, and every client
 * resolves by getaddrinfo(3) or a library that knows zones. An empty port is a mistake; so is an
 * '@' in a path that follows hosts: it is more likely the end of a password with a '/' in it, which
 * would be shown.
 */
#include "core/conf.h"

#include "core/secret.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static hf_status read_user(struct hfi_conf *conf, const char *from, const char *to, hf_error *err);
static hf_status read_hosts(struct hfi_conf *conf, const char *from, const char *to, hf_error *err);
static hf_status read_host(struct hfi_conf *conf, const char *from, const char *to, hf_error *err);
static hf_status read_socket(struct hfi_conf *conf, const char *from, hf_error *err);
static hf_status set_path(struct hfi_conf *conf, const char *from, hf_error *err);
static hf_status set_location(struct hfi_conf *conf, hf_error *err);

static size_t byte_of(const struct hfi_conf *conf, const char *at)
{
    return strlen(conf->url->scheme) + 1 + (size_t)(at - conf->url->rest);
}

static hf_status wrong(const struct hfi_conf *conf, const char *at, const char *what,
                       const char *why, hf_error *err)
{
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: %s at byte %zu %s", what, byte_of(conf, at),
                         why);
}

static hf_status only_path(struct hfi_conf *conf, hf_error *err)
{
    const char *rest = conf->url->rest;

    if (strncmp(rest, "//", 2) == 0) {
        if (rest[2] != '/')
            return wrong(conf, rest + 2, "a host", "has no meaning here: SCHEME:PATH", err);
        rest += 2;
    }
    conf->path_at = byte_of(conf, rest);
    conf->path = hfi_conf_keep(conf, rest, strlen(rest));
    conf->location = conf->path ? hfi_conf_print(conf, "%s:%s", conf->scheme, conf->path) : NULL;
    return conf->location ? HF_OK : hfi_error_memory(err);
}

hf_status hfi_conf_place(struct hfi_conf *conf, hf_error *err)
{
    bool is_socket = conf->form->flags & HFI_FORM_SOCKET;
    const char *from = conf->url->rest + 2, *end, *at;
    hf_status status;

    if (conf->form->hosts_max == 0)
        return only_path(conf, err);
    if (strncmp(conf->url->rest, "//", 2) != 0)
        return wrong(conf, conf->url->rest, "the host", "must follow \"//\"", err);

    end = from + strcspn(from, "/");
    at = memrchr(from, '@', (size_t)(end - from));
    if (at) {
        status = read_user(conf, from, at, err);
        if (status != HF_OK)
            return status;
        from = at + 1;
    }
    if (is_socket && from != end)
        return wrong(conf, from, "the path", "must begin with '/'", err);
    if (!is_socket && strchr(end, '@'))
        return wrong(conf, strchr(end, '@'), "an '@'",
                     "after a '/': a '/' in a password is written %2F, an '@' in a path %40", err);
    status = is_socket ? read_socket(conf, end, err) : read_hosts(conf, from, end, err);
    if (status == HF_OK && !is_socket)
        status = set_path(conf, end, err);
    return status == HF_OK ? set_location(conf, err) : status;
}

/* A decoded copy. */
static hf_status decode(struct hfi_conf *conf, const char *from, const char *to, const char *what,
                        char **ret_text, hf_error *err)
{
    char *text = hfi_conf_keep(conf, from, (size_t)(to - from));

    if (!text)
        return hfi_error_memory(err);
    if (!hfi_url_decode(text))
        return wrong(conf, from, what, "has a bad %XX", err);
    *ret_text = text;
    return HF_OK;
}

/* ---- user and password ------------------------------------------------------------------------- */

/* "user:password", ":password", "user" (its password is elsewhere), "user:" (it has none). */
static hf_status read_user(struct hfi_conf *conf, const char *from, const char *to, hf_error *err)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    const char *user_end = colon ? colon : to;
    char *text = NULL;
    hf_status status;

    if (from == to)
        return wrong(conf, from, "the user", "is empty", err);
    if (user_end > from) {
        status = decode(conf, from, user_end, "the user", &text, err);
        if (status != HF_OK)
            return status;
        conf->user = text;
    }
    if (!colon)
        return HF_OK;
    status = decode(conf, colon + 1, to, "the password", &text, err);
    if (status == HF_OK)
        conf->secret = text;
    return status;
}

/* ---- hosts ------------------------------------------------------------------------------------- */

static hf_status read_hosts(struct hfi_conf *conf, const char *from, const char *to, hf_error *err)
{
    conf->hosts = hfi_calloc(conf->form->hosts_max, sizeof *conf->hosts);
    if (!conf->hosts)
        return hfi_error_memory(err);

    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(to - from));
        hf_status status = read_host(conf, from, comma ? comma : to, err);

        if (status != HF_OK || !comma)
            return status;
        from = comma + 1;
        if (conf->form->hosts_max == 1)
            return wrong(conf, from, "a second host", "has no meaning here: there is one server",
                         err);
        if (conf->host_count == conf->form->hosts_max)
            return wrong(conf, from, "the host", "is one too many", err);
    }
}

static bool has_only(const char *text, size_t len, const char *more)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    for (size_t i = 0; i < len; i++)
        if (!strchr(good, text[i]) && !strchr(more, text[i]))
            return false;
    return true;
}

static bool is_host(const char *host, bool bracketed)
{
    size_t len = strlen(host), plain_len = strcspn(host, "%");
    char plain[INET6_ADDRSTRLEN + 1] = { 0 };
    struct in6_addr address;

    if (len == 0 || len > HFI_HOST_MAX)
        return false;
    if (!bracketed)
        return has_only(host, len, ".-_");
    if (plain_len >= sizeof plain)
        return false;
    memcpy(plain, host, plain_len);
    if (inet_pton(AF_INET6, plain, &address) != 1)
        return false;
    if (plain_len == len)
        return true;
    len -= plain_len + 1; /* of the zone: the name of an interface, or its number */
    return len > 0 && len < IF_NAMESIZE && has_only(host + plain_len + 1, len, ".-_");
}

static hf_status read_port(struct hfi_conf *conf, const char *from, const char *to,
                           struct hfi_address *address, hf_error *err)
{
    char digits[8] = { 0 };
    size_t len = (size_t)(to - from);
    uint64_t port = conf->form->port;

    if (len > 0 && *from != ':')
        return wrong(conf, from, "the host", "continues after its ']'", err);
    if (len > 0 && len <= sizeof digits)
        memcpy(digits, from + 1, len - 1);
    if (len > 0 && (len > sizeof digits || hfi_parse_u64(digits, 1, UINT16_MAX, &port)))
        return wrong(conf, from + 1, "the port", "must be a number from 1 to 65535", err);
    address->port = (uint16_t)port;
    return HF_OK;
}

static hf_status show(struct hfi_conf *conf, struct hfi_address *address, bool bracketed,
                      hf_error *err)
{
    const char *host = address->host ? address->host : "";

    address->shown = address->port ? hfi_conf_print(conf, bracketed ? "[%s]:%u" : "%s:%u", host,
                                                    (unsigned)address->port)
                                   : hfi_conf_print(conf, bracketed ? "[%s]" : "%s", host);
    return address->shown ? HF_OK : hfi_error_memory(err);
}

/* A library's host may be the path of a socket, or of its directory; '@': one without a file. */
static bool is_library_path(const struct hfi_conf *conf, const char *host)
{
    return conf->form->flags & HFI_FORM_LIBRARY && (*host == '/' || *host == '@');
}

static hf_status read_host(struct hfi_conf *conf, const char *from, const char *to, hf_error *err)
{
    struct hfi_address *address = &conf->hosts[conf->host_count++];
    bool bracketed = from < to && *from == '[';
    const char *name = from + bracketed;
    const char *end = memchr(name, bracketed ? ']' : ':', (size_t)(to - name));
    char *host = NULL;
    hf_status status;

    if (bracketed && !end)
        return wrong(conf, from, "the host", "has no closing ']'", err);
    if (!end)
        end = to;
    if (!bracketed &&
        memchr(name, ':', (size_t)(to - name)) != memrchr(name, ':', (size_t)(to - name)))
        return wrong(conf, from, "the host", "has two ':' (an IPv6 address is written in [])", err);
    if (end == name && !bracketed && conf->form->flags & HFI_FORM_LIBRARY) {
        status = read_port(conf, end, to, address, err); /* the library knows a host */
        return status == HF_OK ? show(conf, address, false, err) : status;
    }

    status = decode(conf, name, end, "the host", &host, err);
    if (status != HF_OK)
        return status;
    if (!bracketed && is_library_path(conf, host))
        address->path = host;
    else if (is_host(host, bracketed))
        address->host = host;
    else
        return wrong(conf, from, "the host",
                     *host ? "is neither a name nor an address ([...] for IPv6)" : "is empty", err);
    status = read_port(conf, end + bracketed, to, address, err);
    if (status == HF_OK && address->path)
        address->shown = address->path;
    else if (status == HF_OK)
        status = show(conf, address, bracketed, err);
    return status;
}

/* ---- paths --------------------------------------------------------------------------------------- */

static hf_status read_socket(struct hfi_conf *conf, const char *from, hf_error *err)
{
    char shown[4 * HFI_SOCKET_PATH_MAX + 4];
    struct hfi_address *address;
    hf_status status;

    conf->hosts = address = hfi_calloc(1, sizeof *conf->hosts);
    if (!address)
        return hfi_error_memory(err);
    conf->host_count = 1;
    status = decode(conf, from, from + strlen(from), "the path", &address->path, err);
    if (status != HF_OK)
        return status;
    if (strlen(address->path) < 2)
        return wrong(conf, from, "the path", "of the socket is missing", err);
    if (strlen(address->path) > HFI_SOCKET_PATH_MAX)
        return wrong(conf, from, "the path", "is too long for a Unix socket", err);
    hfi_quote_name(address->path, strlen(address->path), shown, sizeof shown);
    address->shown = hfi_conf_keep(conf, shown, strlen(shown));
    return address->shown ? HF_OK : hfi_error_memory(err);
}

/* "", "/" and, if the form has a path, "/path". */
static hf_status set_path(struct hfi_conf *conf, const char *from, hf_error *err)
{
    from += *from == '/';
    if (*from && !(conf->form->flags & HFI_FORM_PATH))
        return wrong(conf, from, "a path", "has no meaning here", err);
    conf->path_at = byte_of(conf, from);
    conf->path = hfi_conf_keep(conf, from, strlen(from));
    return conf->path ? HF_OK : hfi_error_memory(err);
}

hf_status hfi_conf_part(struct hfi_conf *conf, const char *from, size_t len, const char *what,
                        const char **ret_text, hf_error *err)
{
    char *text = hfi_conf_keep(conf, from, len);

    if (!text)
        return hfi_error_memory(err);
    if (!hfi_url_decode(text))
        return hfi_conf_refuse_path(conf, from, what, "has a bad %XX", err);
    *ret_text = text;
    return HF_OK;
}

/* ---- for people ---------------------------------------------------------------------------------- */

const char *hfi_conf_select(struct hfi_conf *conf, const char *location, const char *key,
                            const char *value)
{
    char *text, *to;

    if (!location || !value)
        return location;
    text = hfi_malloc(strlen(location) + strlen(key) + 3 * strlen(value) + sizeof "?=");
    if (!text)
        return NULL;

    to = text + sprintf(text, "%s%c%s=", location, strchr(location, '?') ? '&' : '?', key);
    for (const unsigned char *c = (const unsigned char *)value; *c; c++)
        if (*c > ' ' && *c < 0x7f && !strchr("%&#+", *c))
            *to++ = (char)*c;
        else
            to += sprintf(to, "%%%02X", *c);
    location = hfi_conf_keep(conf, text, (size_t)(to - text));
    hfi_free(text);
    return location;
}

static hf_status set_location(struct hfi_conf *conf, hf_error *err)
{
    size_t size = strlen(conf->scheme) + sizeof "://";
    char *text, *to;

    for (size_t i = 0; i < conf->host_count; i++)
        size += strlen(conf->hosts[i].shown) + 1;
    text = hfi_malloc(size);
    if (!text)
        return hfi_error_memory(err);
    to = stpcpy(stpcpy(text, conf->scheme), "://");
    for (size_t i = 0; i < conf->host_count; i++)
        to = stpcpy(stpcpy(to, i ? "," : ""), conf->hosts[i].shown);
    conf->location = hfi_conf_keep(conf, text, strlen(text));
    hfi_free(text);
    return conf->location ? HF_OK : hfi_error_memory(err);
}
