/* SPDX-License-Identifier: MIT */
/* An etcd store's URL, taken apart and checked: see conf.h. What is not understood is refused. */
#include "engine/etcd/conf.h"

#include "core/secret.h"
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

#define CONNECT_MS   2000
#define OP_MS        5000
#define PING_MS      2000
#define LIMIT_MIN_MS 1
#define LIMIT_MAX_MS (10 * 60 * 1000)
#define PREFIX       "holdfast"
#define HOST_MAX     253

static hf_status parse(struct etcd_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_place(struct etcd_conf *conf, const struct hfi_url *url, hf_error *err);
static hf_status parse_host(struct etcd_conf *conf, const struct hfi_url *url, const char *from,
                            const char *to, hf_error *err);
static hf_status parse_prefix(struct etcd_conf *conf, const struct hfi_url *url, const char *from,
                              hf_error *err);
static hf_status parse_user(struct etcd_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_tls(struct etcd_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_limits(struct etcd_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status make_location(struct etcd_conf *conf, const struct hfi_url *url, hf_error *err);

hf_status etcd_conf_parse(struct hfi_url *url, struct etcd_conf **ret_conf, hf_error *err)
{
    struct etcd_conf *conf = hfi_calloc(1, sizeof *conf);
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    status = parse(conf, url, err);
    if (status != HF_OK) {
        etcd_conf_free(conf);
        return status;
    }
    *ret_conf = conf;
    return HF_OK;
}

void etcd_conf_free(struct etcd_conf *conf)
{
    if (!conf)
        return;
    for (size_t i = 0; i < conf->host_count; i++) {
        hfi_free(conf->hosts[i].base);
        hfi_free(conf->hosts[i].shown);
    }
    hfi_secret_wipe(conf->user);
    hfi_secret_wipe(conf->password);
    hfi_free(conf->tls_ca);
    hfi_free(conf->tls_cert);
    hfi_free(conf->tls_key);
    hfi_free(conf->prefix);
    hfi_free(conf->location);
    hfi_free(conf);
}

static hf_status parse(struct etcd_conf *conf, struct hfi_url *url, hf_error *err)
{
    hf_status status;

    conf->tls = strcmp(url->scheme, "etcds") == 0;
    status = parse_place(conf, url, err);
    if (status == HF_OK)
        status = parse_user(conf, url, err);
    if (status == HF_OK)
        status = parse_tls(conf, url, err);
    if (status == HF_OK)
        status = parse_limits(conf, url, err);
    if (status == HF_OK)
        status = make_location(conf, url, err);
    return status;
}

/* ---- what is wrong, and where ------------------------------------------------------------------ */

static hf_status wrong(const struct hfi_url *url, const char *at, const char *what, const char *why,
                       hf_error *err)
{
    size_t byte = strlen(url->scheme) + 1 + (size_t)(at - url->rest);

    return hfi_error_set(err, HF_CONFIG, 0, "store URL: %s at byte %zu %s", what, byte, why);
}

static hf_status wrong_param(const struct hfi_url *url, const char *key, hf_status status,
                             const char *why, hf_error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            at = url->params[i].at;
    return hfi_error_set(err, status, 0, "store URL: parameter '%s' at byte %zu %s", key, at, why);
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

/* ---- the place ----------------------------------------------------------------------------------- */

static hf_status parse_place(struct etcd_conf *conf, const struct hfi_url *url, hf_error *err)
{
    const char *from = url->rest + 2, *end, *at = NULL, *colon;
    hf_status status = HF_OK;

    if (strncmp(url->rest, "//", 2) != 0)
        return wrong(url, url->rest, "the host", "must follow \"//\"", err);
    end = from + strcspn(from, "/");
    for (const char *c = from; c < end; c++)
        if (*c == '@')
            at = c;
    if (strchr(end, '@'))
        return wrong(url, strchr(end, '@'), "an '@'",
                     "after a '/': a '/' in a password is written %2F", err);
    if (at) {
        colon = memchr(from, ':', (size_t)(at - from));
        if ((colon ? colon : at) == from)
            return wrong(url, from, "the user", "is empty", err);
        status = decode(url, from, colon ? colon : at, "the user", &conf->user, err);
        if (status == HF_OK && colon)
            status = decode(url, colon + 1, at, "the password", &conf->password, err);
        from = at + 1;
    }
    while (status == HF_OK) {
        const char *comma = memchr(from, ',', (size_t)(end - from));

        if (conf->host_count == ETCD_HOSTS_MAX)
            return wrong(url, from, "the host", "is one too many", err);
        status = parse_host(conf, url, from, comma ? comma : end, err);
        if (!comma)
            break;
        from = comma + 1;
    }
    return status == HF_OK ? parse_prefix(conf, url, end, err) : status;
}

static bool is_host(const char *host, bool bracketed)
{
    struct in6_addr address;

    if (bracketed)
        return inet_pton(AF_INET6, host, &address) == 1;
    return *host && strlen(host) <= HOST_MAX &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
               strlen(host);
}

static hf_status parse_port(const struct hfi_url *url, const char *from, const char *to,
                            unsigned *ret_port, hf_error *err)
{
    char digits[8] = { 0 };
    size_t len = (size_t)(to - from);
    uint64_t port = ETCD_PORT;

    if (len > 0 && *from != ':')
        return wrong(url, from, "the host", "goes on after its ']'", err);
    if (len > 0 && len - 1 < sizeof digits)
        memcpy(digits, from + 1, len - 1);
    if (len > 0 && (len > sizeof digits || hfi_parse_u64(digits, 1, UINT16_MAX, &port)))
        return wrong(url, from + 1, "the port", "must be a number from 1 to 65535", err);
    *ret_port = (unsigned)port;
    return HF_OK;
}

static hf_status parse_host(struct etcd_conf *conf, const struct hfi_url *url, const char *from,
                            const char *to, hf_error *err)
{
    bool bracketed = from < to && *from == '[';
    const char *name = from + bracketed;
    const char *name_end = memchr(name, bracketed ? ']' : ':', (size_t)(to - name));
    char *host = NULL, shown[HOST_MAX + 16], base[sizeof shown + 16];
    unsigned port = 0;
    hf_status status;

    if (bracketed && !name_end)
        return wrong(url, from, "the host", "has no closing ']'", err);
    if (!bracketed && name_end && memchr(name_end + 1, ':', (size_t)(to - name_end - 1)))
        return wrong(url, from, "the host", "has two ':' (an IPv6 address is written in [])", err);
    if (!name_end)
        name_end = to;
    status = decode(url, name, name_end, "the host", &host, err);
    if (status == HF_OK && !is_host(host, bracketed))
        status =
            wrong(url, from, "the host",
                  *host ? "is neither a name nor an address ([...] for IPv6)" : "is empty", err);
    if (status == HF_OK)
        status = parse_port(url, name_end + bracketed, to, &port, err);
    if (status == HF_OK) {
        snprintf(shown, sizeof shown, bracketed ? "[%s]:%u" : "%s:%u", host, port);
        snprintf(base, sizeof base, "%s://%s", conf->tls ? "https" : "http", shown);
        conf->hosts[conf->host_count].shown = hfi_strdup(shown);
        conf->hosts[conf->host_count].base = hfi_strdup(base);
        conf->host_count++;
        if (!conf->hosts[conf->host_count - 1].shown || !conf->hosts[conf->host_count - 1].base)
            status = hfi_error_memory(err);
    }
    hfi_free(host);
    return status;
}

/* "/team/locks/" is the prefix "team/locks". */
static hf_status parse_prefix(struct etcd_conf *conf, const struct hfi_url *url, const char *from,
                              hf_error *err)
{
    hf_status status;
    size_t len;

    from += *from == '/';
    if (!*from) {
        conf->prefix = hfi_strdup(PREFIX);
        return conf->prefix ? HF_OK : hfi_error_memory(err);
    }
    status = decode(url, from, from + strlen(from), "the prefix", &conf->prefix, err);
    if (status != HF_OK)
        return status;
    len = strlen(conf->prefix);
    while (len > 0 && conf->prefix[len - 1] == '/')
        conf->prefix[--len] = 0;
    if (len == 0 || len > ETCD_PREFIX_MAX)
        return wrong(url, from, "the prefix", "must have 1 to 128 bytes", err);
    return HF_OK;
}

/* ---- who we are ------------------------------------------------------------------------------------ */

static hf_status parse_user(struct etcd_conf *conf, struct hfi_url *url, hf_error *err)
{
    const char *user = hfi_url_take(url, "user");
    hf_status status;

    if (user && conf->user)
        return wrong_param(url, "user", HF_CONFIG, "is in the URL already", err);
    if (user && !(conf->user = hfi_strdup(user)))
        return hfi_error_memory(err);
    status = hfi_secret_take(url, "password", &conf->password, err);
    if (status == HF_OK && !conf->user != !conf->password)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               conf->user ? "store URL: a user without a password: give "
                                            "password_file= or password_env="
                                          : "store URL: a password without a user");
    return status;
}

/* ---- parameters -------------------------------------------------------------------------------------- */

static hf_status take_text(struct hfi_url *url, const char *key, char **ret_text, hf_error *err)
{
    const char *value = hfi_url_take(url, key);

    if (!value)
        return HF_OK;
    *ret_text = hfi_strdup(value);
    return *ret_text ? HF_OK : hfi_error_memory(err);
}

static hf_status check_file(const struct hfi_url *url, const char *key, const char *path,
                            hf_error *err)
{
    char why[128];

    if (!path || access(path, R_OK) == 0)
        return HF_OK;
    snprintf(why, sizeof why, "names a file that cannot be read: %s", strerror(errno));
    return wrong_param(url, key, HF_DENIED, why, err);
}

static hf_status parse_tls(struct etcd_conf *conf, struct hfi_url *url, hf_error *err)
{
    static const char *const keys[] = { "verify", "ca", "cert", "key" };
    const char *verify;
    hf_status status;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !conf->tls; i++)
        if (hfi_url_take(url, keys[i]))
            return wrong_param(url, keys[i], HF_CONFIG, "has a meaning with TLS only: etcds:", err);
    if (!conf->tls)
        return HF_OK;
    verify = hfi_url_take(url, "verify");
    if (verify && strcmp(verify, "on") != 0 && strcmp(verify, "off") != 0)
        return wrong_param(url, "verify", HF_CONFIG, "must be on or off", err);
    conf->tls_verify = !verify || strcmp(verify, "on") == 0;
    status = take_text(url, "ca", &conf->tls_ca, err);
    if (status == HF_OK)
        status = take_text(url, "cert", &conf->tls_cert, err);
    if (status == HF_OK)
        status = take_text(url, "key", &conf->tls_key, err);
    if (status == HF_OK && !conf->tls_cert != !conf->tls_key)
        status = wrong_param(url, conf->tls_cert ? "cert" : "key", HF_CONFIG,
                             "needs the other of cert= and key=", err);
    if (status == HF_OK)
        status = check_file(url, "ca", conf->tls_ca, err);
    if (status == HF_OK)
        status = check_file(url, "cert", conf->tls_cert, err);
    if (status == HF_OK)
        status = check_file(url, "key", conf->tls_key, err);
    return status;
}

static hf_status parse_limits(struct etcd_conf *conf, struct hfi_url *url, hf_error *err)
{
    hf_status status;

    conf->connect_ms = CONNECT_MS;
    conf->op_ms = OP_MS;
    conf->ping_ms = PING_MS;
    status = hfi_url_take_duration(url, "connect_timeout", LIMIT_MIN_MS, LIMIT_MAX_MS,
                                   &conf->connect_ms, err);
    if (status == HF_OK)
        status =
            hfi_url_take_duration(url, "op_timeout", LIMIT_MIN_MS, LIMIT_MAX_MS, &conf->op_ms, err);
    if (status == HF_OK)
        status =
            hfi_url_take_duration(url, "ping", LIMIT_MIN_MS, LIMIT_MAX_MS, &conf->ping_ms, err);
    return status;
}

/* ---- for people ---------------------------------------------------------------------------------------- */

static hf_status make_location(struct etcd_conf *conf, const struct hfi_url *url, hf_error *err)
{
    char prefix[HFI_QUOTED_MAX];
    FILE *out;
    size_t size = 0;
    char *text = NULL;

    out = open_memstream(&text, &size);
    if (!out)
        return hfi_error_memory(err);
    fprintf(out, "%s://", url->scheme);
    for (size_t i = 0; i < conf->host_count; i++)
        fprintf(out, "%s%s", i ? "," : "", conf->hosts[i].shown);
    fprintf(out, "/%s", hfi_quote_name(conf->prefix, strlen(conf->prefix), prefix, sizeof prefix));
    if (fclose(out) == 0 && text)
        conf->location = hfi_strdup(text);
    free(text);
    return conf->location ? HF_OK : hfi_error_memory(err);
}
