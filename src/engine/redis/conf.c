/* SPDX-License-Identifier: MIT */
/*
 * A redis store's URL, taken apart and checked. A strict reading: what is not understood, or has no
 * meaning together with the rest, is refused rather than ignored.
 */
#include "engine/redis/conf.h"

#include "core/secret.h"
#include "engine/kit/tls.h"
#include "engine/redis/conf_parts.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS    2000
#define OP_MS         5000
#define PING_MS       2000
#define SYNC_MS       1000
#define POLL_MS       100
#define LIMIT_MIN_MS  1
#define LIMIT_MAX_MS  (10 * 60 * 1000)
#define SYNC_MAX      100
#define PREFIX        "hf:"
#define CLIENT_PREFIX "holdfast:"
#define CLIENT_MAX    120

static hf_status parse(struct hfi_redis_conf *conf, struct hfi_url *url, const char *label,
                       hf_error *err);
static hf_status parse_scheme(struct hfi_redis_conf *conf, const struct hfi_url *url,
                              hf_error *err);
static hf_status parse_db(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_user(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_tls(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_limits(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status parse_ways(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err);
static hf_status take_text(struct hfi_url *url, const char *key, char **ret_text, hf_error *err);
static hf_status take_switch(struct hfi_url *url, const char *key, bool *value, hf_error *err);
static hf_status make_client_name(struct hfi_redis_conf *conf, const char *label, hf_error *err);
static hf_status make_location(struct hfi_redis_conf *conf, const struct hfi_url *url,
                               hf_error *err);

hf_status hfi_conf_parse(struct hfi_url *url, const char *label, struct hfi_redis_conf **ret_conf,
                         hf_error *err)
{
    struct hfi_redis_conf *conf = hfi_calloc(1, sizeof *conf);
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);

    status = parse(conf, url, label, err);
    if (status != HF_OK) {
        hfi_conf_free(conf);
        return status;
    }
    *ret_conf = conf;
    return HF_OK;
}

void hfi_conf_free(struct hfi_redis_conf *conf)
{
    if (!conf)
        return;
    for (size_t i = 0; i < conf->address_count; i++) {
        hfi_free(conf->addresses[i].host);
        hfi_free(conf->addresses[i].path);
        hfi_free(conf->addresses[i].shown);
    }
    hfi_free(conf->addresses);
    hfi_free(conf->master);
    hfi_secret_wipe(conf->user);
    hfi_secret_wipe(conf->password);
    hfi_secret_wipe(conf->sentinel_user);
    hfi_secret_wipe(conf->sentinel_password);
    hfi_tls_context_free(conf->tls_context);
    hfi_free(conf->tls_ca);
    hfi_free(conf->tls_cert);
    hfi_free(conf->tls_key);
    hfi_free(conf->tls_name);
    hfi_free(conf->client_name);
    hfi_free(conf->prefix);
    hfi_free(conf->location);
    hfi_free(conf);
}

static hf_status parse(struct hfi_redis_conf *conf, struct hfi_url *url, const char *label,
                       hf_error *err)
{
    hf_status status = parse_scheme(conf, url, err);

    if (status == HF_OK)
        status = hfi_conf_place(conf, url, err);
    if (status == HF_OK)
        status = parse_db(conf, url, err);
    if (status == HF_OK)
        status = parse_user(conf, url, err);
    if (status == HF_OK)
        status = parse_tls(conf, url, err);
    if (status == HF_OK)
        status = parse_limits(conf, url, err);
    if (status == HF_OK)
        status = parse_ways(conf, url, err);
    if (status == HF_OK)
        status = make_client_name(conf, label, err);
    if (status == HF_OK)
        status = make_location(conf, url, err);
    return status;
}

static hf_status parse_scheme(struct hfi_redis_conf *conf, const struct hfi_url *url, hf_error *err)
{
    static const struct {
        const char *name;
        enum hfi_redis_way way;
        bool tls;
    } schemes[] = {
        { "redis", HFI_WAY_SINGLE, false },
        { "rediss", HFI_WAY_SINGLE, true },
        { "redis+unix", HFI_WAY_SINGLE, false },
        { "redis+sentinel", HFI_WAY_SENTINEL, false },
        { "rediss+sentinel", HFI_WAY_SENTINEL, true },
        { "redis+cluster", HFI_WAY_CLUSTER, false },
        { "rediss+cluster", HFI_WAY_CLUSTER, true },
        { "redlock", HFI_WAY_SINGLE, false },
        { "redlocks", HFI_WAY_SINGLE, true },
    };

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strcmp(url->scheme, schemes[i].name) == 0) {
            conf->way = schemes[i].way;
            conf->tls = schemes[i].tls;
            return HF_OK;
        }
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: '%s' is no scheme of Redis", url->scheme);
}

static hf_status parse_db(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err)
{
    uint64_t db = conf->db;
    hf_status status = hfi_url_take_number(url, "db", 0, INT32_MAX, &db, err);

    if (status != HF_OK)
        return status;
    if (conf->db && db != conf->db)
        return hfi_conf_wrong_param(url, "db", HF_CONFIG, "and the path name two databases", err);
    if (db && conf->way == HFI_WAY_CLUSTER)
        return hfi_conf_wrong_param(url, "db", HF_CONFIG, "must be 0: a cluster has no other", err);
    conf->db = (unsigned)db;
    return HF_OK;
}

/* ---- who we are ------------------------------------------------------------------------------ */

static hf_status parse_user(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err)
{
    bool both = conf->user != NULL;
    hf_status status = HF_OK;

    if (!both)
        status = take_text(url, "user", &conf->user, err);
    if (status == HF_OK && both && hfi_url_take(url, "user"))
        status = hfi_conf_wrong_param(url, "user", HF_CONFIG, "is in the URL already", err);
    if (status == HF_OK)
        status = hfi_secret_take(url, "password", &conf->password, err);
    if (status != HF_OK)
        return status;
    if (conf->user && !conf->password)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: a user without a password: give password_file= or "
                             "password_env= (or user:@ if it has none)");

    if (conf->way != HFI_WAY_SENTINEL)
        return HF_OK;
    status = take_text(url, "sentinel_user", &conf->sentinel_user, err);
    if (status == HF_OK)
        status = hfi_secret_take(url, "sentinel_password", &conf->sentinel_password, err);
    if (status == HF_OK && conf->sentinel_user && !conf->sentinel_password)
        status =
            hfi_conf_wrong_param(url, "sentinel_user", HF_CONFIG,
                                 "needs sentinel_password_file= or sentinel_password_env=", err);
    return status;
}

static hf_status make_client_name(struct hfi_redis_conf *conf, const char *label, hf_error *err)
{
    size_t skip = sizeof CLIENT_PREFIX - 1, len = label ? strnlen(label, CLIENT_MAX) : 0;

    conf->client_name = hfi_malloc(skip + len + 1);
    if (!conf->client_name)
        return hfi_error_memory(err);

    /* The server takes printable ASCII only, and no spaces. */
    memcpy(conf->client_name, CLIENT_PREFIX, skip);
    for (size_t i = 0; i < len; i++)
        conf->client_name[skip + i] = (char)(label[i] > ' ' && label[i] < 0x7f ? label[i] : '_');
    conf->client_name[skip + len] = 0;
    return HF_OK;
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static hf_status parse_tls(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err)
{
    static const char *const keys[] = { "verify", "ca", "cert", "key", "sni" };
    hf_status status = take_switch(url, "tls", &conf->tls, err);

    if (status != HF_OK)
        return status;
    if (conf->tls && conf->addresses[0].path)
        return hfi_conf_wrong_param(url, "tls", HF_CONFIG, "has no meaning for a Unix socket", err);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !conf->tls; i++)
        if (hfi_url_take(url, keys[i]))
            return hfi_conf_wrong_param(url, keys[i], HF_CONFIG,
                                        "has a meaning with TLS only: rediss: or tls=on", err);
    if (!conf->tls)
        return HF_OK;

    conf->tls_verify = true;
    status = take_switch(url, "verify", &conf->tls_verify, err);
    if (status == HF_OK)
        status = take_text(url, "ca", &conf->tls_ca, err);
    if (status == HF_OK)
        status = take_text(url, "cert", &conf->tls_cert, err);
    if (status == HF_OK)
        status = take_text(url, "key", &conf->tls_key, err);
    if (status == HF_OK)
        status = take_text(url, "sni", &conf->tls_name, err);
    if (status != HF_OK)
        return status;
    if (!conf->tls_cert != !conf->tls_key)
        return hfi_conf_wrong_param(url, conf->tls_cert ? "cert" : "key", HF_CONFIG,
                                    "needs the other of cert= and key=", err);
    return hfi_tls_context_new(&(struct hfi_tls_conf){ .verify = conf->tls_verify,
                                                       .ca = conf->tls_ca,
                                                       .cert = conf->tls_cert,
                                                       .key = conf->tls_key,
                                                       .name = conf->tls_name },
                               &conf->tls_context, err);
}

/* ---- how it behaves -------------------------------------------------------------------------- */

static hf_status parse_limits(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err)
{
    const struct {
        const char *key;
        int64_t *ms, usual_ms;
    } limits[] = {
        { "connect_timeout", &conf->connect_ms, CONNECT_MS },
        { "op_timeout", &conf->op_ms, OP_MS },
        { "ping", &conf->ping_ms, PING_MS },
        { "sync_timeout", &conf->sync_ms, SYNC_MS },
        { "poll", &conf->poll_ms, POLL_MS },
    };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        hf_status status;

        *limits[i].ms = limits[i].usual_ms;
        status = hfi_url_take_duration(url, limits[i].key, LIMIT_MIN_MS, LIMIT_MAX_MS, limits[i].ms,
                                       err);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

static hf_status parse_ways(struct hfi_redis_conf *conf, struct hfi_url *url, hf_error *err)
{
    const char *wire = hfi_url_take(url, "wire");
    uint64_t sync = 0;
    hf_status status;

    if (!wire || strcmp(wire, "native") == 0)
        conf->wire = HFI_WIRE_NATIVE;
    else if (strcmp(wire, "plain") == 0)
        conf->wire = HFI_WIRE_PLAIN;
    else if (strcmp(wire, "redisson") == 0)
        conf->wire = HFI_WIRE_REDISSON;
    else
        return hfi_conf_wrong_param(url, "wire", HF_CONFIG, "must be native, plain or redisson",
                                    err);

    status = hfi_url_take_duration(url, "repair_expiry", LIMIT_MIN_MS, HF_DURATION_MAX_MS,
                                   &conf->repair_expiry_ms, err);
    if (status == HF_OK && conf->repair_expiry_ms && conf->wire != HFI_WIRE_PLAIN)
        status = hfi_conf_wrong_param(url, "repair_expiry", HF_CONFIG,
                                      "has a meaning with wire=plain only", err);
    if (status == HF_OK)
        status = hfi_url_take_number(url, "sync", 0, SYNC_MAX, &sync, err);
    if (status != HF_OK)
        return status;
    conf->sync = (unsigned)sync;

    status = take_text(url, "prefix", &conf->prefix, err);
    if (status == HF_OK && !conf->prefix && !(conf->prefix = hfi_strdup(PREFIX)))
        status = hfi_error_memory(err);
    if (status != HF_OK)
        return status;
    if (strlen(conf->prefix) > HFI_PREFIX_MAX || strpbrk(conf->prefix, "{}"))
        return hfi_conf_wrong_param(url, "prefix", HF_CONFIG, "has at most 128 bytes and no braces",
                                    err);
    return HF_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static hf_status take_text(struct hfi_url *url, const char *key, char **ret_text, hf_error *err)
{
    const char *value = hfi_url_take(url, key);

    if (!value)
        return HF_OK;
    *ret_text = hfi_strdup(value);
    return *ret_text ? HF_OK : hfi_error_memory(err);
}

static hf_status take_switch(struct hfi_url *url, const char *key, bool *value, hf_error *err)
{
    const char *text = hfi_url_take(url, key);

    if (!text)
        return HF_OK;
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return hfi_conf_wrong_param(url, key, HF_CONFIG, "must be on or off", err);
    *value = text[1] == 'n';
    return HF_OK;
}

hf_status hfi_conf_wrong_param(const struct hfi_url *url, const char *key, hf_status status,
                               const char *wrong, hf_error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            at = url->params[i].at;
    return hfi_error_set(err, status, 0, "store URL: parameter '%s' at byte %zu %s", key, at,
                         wrong);
}

hf_status hfi_conf_wrong(const struct hfi_url *url, const char *at, const char *what,
                         const char *wrong, hf_error *err)
{
    size_t byte = strlen(url->scheme) + 1 + (size_t)(at - url->rest);

    return hfi_error_set(err, HF_CONFIG, 0, "store URL: %s at byte %zu %s", what, byte, wrong);
}

/* ---- for people ------------------------------------------------------------------------------ */

static hf_status make_location(struct hfi_redis_conf *conf, const struct hfi_url *url,
                               hf_error *err)
{
    const char *scheme = url->scheme;
    char master[HFI_QUOTED_MAX];
    FILE *out;
    size_t size = 0;
    char *text = NULL;

    out = open_memstream(&text, &size);
    if (!out)
        return hfi_error_memory(err);
    fprintf(out, "%s://", scheme);
    for (size_t i = 0; i < conf->address_count; i++)
        fprintf(out, "%s%s", i ? "," : "", conf->addresses[i].shown);
    if (conf->master)
        fprintf(out, "/%s",
                hfi_quote_name(conf->master, strlen(conf->master), master, sizeof master));
    if (conf->addresses[0].path && conf->db)
        fprintf(out, "?db=%u", conf->db);
    else if (!conf->addresses[0].path && conf->way != HFI_WAY_CLUSTER)
        fprintf(out, "/%u", conf->db);

    if (fclose(out) == 0 && text)
        conf->location = hfi_strdup(text);
    free(text);
    return conf->location ? HF_OK : hfi_error_memory(err);
}
