/* SPDX-License-Identifier: MIT */
/*
 * What stands in a redis store's URL between the scheme and the '?':
 *
 *   //[user[:password]@]host[:port][,host[:port]...][/master][/db]
 *   //[user[:password]@]/path/to/socket
 *
 * User, password, host, master and path are %XX-decoded after they have been cut, so that any byte
 * can stand in them.
 */
#include "engine/redis/conf_parts.h"

#include "core/secret.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_MAX      253
#define SENTINEL_PORT 26379

static hf_status parse_user_info(struct hfi_redis_conf *conf, const struct hfi_url *url,
                                 const char *from, const char *to, hf_error *err);
static hf_status parse_hosts(struct hfi_redis_conf *conf, const struct hfi_url *url,
                             const char *from, const char *to, hf_error *err);
static hf_status parse_host(struct hfi_redis_conf *conf, const struct hfi_url *url,
                            const char *from, const char *to, hf_error *err);
static hf_status parse_port(const struct hfi_redis_conf *conf, const struct hfi_url *url,
                            const char *from, const char *to, uint16_t *ret_port, hf_error *err);
static hf_status parse_path(struct hfi_redis_conf *conf, const struct hfi_url *url,
                            const char *from, hf_error *err);
static hf_status parse_socket(struct hfi_redis_conf *conf, const struct hfi_url *url,
                              const char *from, hf_error *err);
static hf_status decode(const struct hfi_url *url, const char *from, const char *to,
                        const char *what, char **ret_text, hf_error *err);
static bool is_host(const char *host, bool bracketed);
static bool is_word(const char *text);
static bool show(struct hfi_address *address, bool bracketed);

hf_status hfi_conf_place(struct hfi_redis_conf *conf, const struct hfi_url *url, hf_error *err)
{
    bool is_socket = strcmp(url->scheme, "redis+unix") == 0;
    const char *from = url->rest + 2, *end, *at = NULL;
    hf_status status;

    if (strncmp(url->rest, "//", 2) != 0)
        return hfi_conf_wrong(url, url->rest, "the host", "must follow \"//\"", err);

    end = from + strcspn(from, "/");
    for (const char *c = from; c < end; c++)
        if (*c == '@')
            at = c;
    if (!is_socket && strchr(end, '@'))
        return hfi_conf_wrong(url, strchr(end, '@'), "an '@'",
                              "after a '/': a '/' in a password is written %2F", err);

    if (at) {
        status = parse_user_info(conf, url, from, at, err);
        if (status != HF_OK)
            return status;
        from = at + 1;
    }
    if (is_socket && from != end)
        return hfi_conf_wrong(url, from, "the path", "must begin with '/'", err);
    if (is_socket)
        return parse_socket(conf, url, end, err);

    status = parse_hosts(conf, url, from, end, err);
    return status == HF_OK ? parse_path(conf, url, end, err) : status;
}

/* ---- user and password ----------------------------------------------------------------------- */

/* "user:password", ":password", "user" (its password is elsewhere), "user:" (it has none). */
static hf_status parse_user_info(struct hfi_redis_conf *conf, const struct hfi_url *url,
                                 const char *from, const char *to, hf_error *err)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    const char *user_end = colon ? colon : to;
    hf_status status;

    if (from == to)
        return hfi_conf_wrong(url, from, "the user", "is empty", err);
    if (user_end > from) {
        status = decode(url, from, user_end, "the user", &conf->user, err);
        if (status != HF_OK)
            return status;
    }
    return colon ? decode(url, colon + 1, to, "the password", &conf->password, err) : HF_OK;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static hf_status parse_hosts(struct hfi_redis_conf *conf, const struct hfi_url *url,
                             const char *from, const char *to, hf_error *err)
{
    bool many = conf->way != HFI_WAY_SINGLE || strncmp(url->scheme, "redlock", 7) == 0;

    conf->addresses = hfi_calloc(HFI_HOSTS_MAX, sizeof *conf->addresses);
    if (!conf->addresses)
        return hfi_error_memory(err);

    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(to - from));
        hf_status status = parse_host(conf, url, from, comma ? comma : to, err);

        if (status != HF_OK || !comma)
            return status;
        from = comma + 1;
        if (!many)
            return hfi_conf_wrong(url, from, "a second host",
                                  "has no meaning here: redis+sentinel: and redis+cluster: take "
                                  "several",
                                  err);
        if (conf->address_count == HFI_HOSTS_MAX)
            return hfi_conf_wrong(url, from, "the host", "is one too many", err);
    }
}

static hf_status parse_host(struct hfi_redis_conf *conf, const struct hfi_url *url,
                            const char *from, const char *to, hf_error *err)
{
    struct hfi_address *address = &conf->addresses[conf->address_count++];
    bool bracketed = from < to && *from == '[';
    const char *name = from, *name_end = NULL;
    hf_status status;

    if (bracketed) {
        name = from + 1;
        name_end = memchr(name, ']', (size_t)(to - name));
        if (!name_end)
            return hfi_conf_wrong(url, from, "the host", "has no closing ']'", err);
    } else {
        name_end = memchr(name, ':', (size_t)(to - name));
        if (name_end && memchr(name_end + 1, ':', (size_t)(to - name_end - 1)))
            return hfi_conf_wrong(url, from, "the host",
                                  "has two ':' (an IPv6 address is written in [])", err);
        if (!name_end)
            name_end = to;
    }

    status = decode(url, name, name_end, "the host", &address->host, err);
    if (status != HF_OK)
        return status;
    if (!is_host(address->host, bracketed))
        return hfi_conf_wrong(
            url, from, "the host",
            *address->host ? "is neither a name nor an address ([...] for IPv6)" : "is empty", err);
    status = parse_port(conf, url, name_end + bracketed, to, &address->port, err);
    if (status != HF_OK)
        return status;
    return show(address, bracketed) ? HF_OK : hfi_error_memory(err);
}

static hf_status parse_port(const struct hfi_redis_conf *conf, const struct hfi_url *url,
                            const char *from, const char *to, uint16_t *ret_port, hf_error *err)
{
    char digits[8] = { 0 };
    size_t len = (size_t)(to - from);
    uint64_t port = 0;

    *ret_port = conf->way == HFI_WAY_SENTINEL ? SENTINEL_PORT : HFI_PORT;
    if (len == 0)
        return HF_OK;
    if (*from != ':')
        return hfi_conf_wrong(url, from, "the host", "goes on after its ']'", err);

    if (len - 1 < sizeof digits)
        memcpy(digits, from + 1, len - 1);
    if (len - 1 >= sizeof digits || hfi_parse_u64(digits, 1, UINT16_MAX, &port))
        return hfi_conf_wrong(url, from + 1, "the port", "must be a number from 1 to 65535", err);
    *ret_port = (uint16_t)port;
    return HF_OK;
}

static bool is_host(const char *host, bool bracketed)
{
    struct in6_addr address;
    char plain[INET6_ADDRSTRLEN + 1] = { 0 };
    size_t len = strcspn(host, "%"); /* a zone may follow: fe80::1%eth0 */

    if (bracketed) {
        if (len < sizeof plain)
            memcpy(plain, host, len);
        return inet_pton(AF_INET6, plain, &address) == 1 && strlen(host) <= HOST_MAX;
    }
    return *host && strlen(host) <= HOST_MAX &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
               strlen(host);
}

static bool is_word(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return false;
    return *text != 0;
}

static bool show(struct hfi_address *address, bool bracketed)
{
    size_t size = strlen(address->host) + sizeof "[]:65535";

    address->shown = hfi_malloc(size);
    if (!address->shown)
        return false;
    snprintf(address->shown, size, bracketed ? "[%s]:%u" : "%s:%u", address->host,
             (unsigned)address->port);
    return true;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* "", "/", "/db", "/master", "/master/", "/master/db". */
static hf_status parse_path(struct hfi_redis_conf *conf, const struct hfi_url *url,
                            const char *from, hf_error *err)
{
    const char *wrong;
    uint64_t db = 0;

    if (*from == '/')
        from++;
    if (conf->way == HFI_WAY_SENTINEL) {
        const char *end = from + strcspn(from, "/");
        hf_status status = decode(url, from, end, "the master's name", &conf->master, err);

        if (status != HF_OK)
            return status;
        if (!is_word(conf->master))
            return hfi_conf_wrong(url, from, "the master's name", "is missing, or not one word",
                                  err);
        from = *end ? end + 1 : end;
    }
    if (!*from)
        return HF_OK;
    if (conf->way == HFI_WAY_CLUSTER)
        return hfi_conf_wrong(url, from, "the database", "has no meaning: a cluster has only one",
                              err);

    wrong = hfi_parse_u64(from, 0, INT32_MAX, &db);
    if (wrong)
        return hfi_conf_wrong(url, from, "the database", "must be a number", err);
    conf->db = (unsigned)db;
    return HF_OK;
}

static hf_status parse_socket(struct hfi_redis_conf *conf, const struct hfi_url *url,
                              const char *from, hf_error *err)
{
    char shown[4 * HFI_SOCKET_PATH_MAX + 4];
    hf_status status;

    conf->addresses = hfi_calloc(1, sizeof *conf->addresses);
    if (!conf->addresses)
        return hfi_error_memory(err);
    conf->address_count = 1;

    status = decode(url, from, from + strlen(from), "the path", &conf->addresses[0].path, err);
    if (status != HF_OK)
        return status;
    if (strlen(conf->addresses[0].path) < 2)
        return hfi_conf_wrong(url, from, "the path", "of the socket is missing", err);
    if (strlen(conf->addresses[0].path) > HFI_SOCKET_PATH_MAX)
        return hfi_conf_wrong(url, from, "the path", "is too long for a Unix socket", err);

    hfi_quote_name(conf->addresses[0].path, strlen(conf->addresses[0].path), shown, sizeof shown);
    conf->addresses[0].shown = hfi_strdup(shown);
    return conf->addresses[0].shown ? HF_OK : hfi_error_memory(err);
}

/* A copy of what stands there, decoded. */
static hf_status decode(const struct hfi_url *url, const char *from, const char *to,
                        const char *what, char **ret_text, hf_error *err)
{
    size_t len = (size_t)(to - from);
    char *text = hfi_strndup(from, len);

    if (!text)
        return hfi_error_memory(err);
    if (!hfi_url_decode(text)) {
        hfi_secret_wipe(text);
        return hfi_conf_wrong(url, from, what, "has a bad %XX", err);
    }
    explicit_bzero(text + strlen(text), len - strlen(text)); /* it may have become shorter */
    *ret_text = text;
    return HF_OK;
}
