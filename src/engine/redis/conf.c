/* SPDX-License-Identifier: MIT */
/*
 * The tables of a redis store's URL, and the checks after them. A combination without a meaning is
 * refused, not ignored.
 */
#include "engine/redis/conf.h"

#include "engine/kit/tls.h"
#include "util/error.h"
#include "util/text.h"

#include <string.h>

#define SENTINEL_PORT 26379
#define SYNC_MAX      100
#define CLIENT_PREFIX "holdfast:"
#define CLIENT_MAX    120

static const struct hfi_param sentinel_params[] = {
    { "sentinel_user", HFI_PARAM_TEXT, REDIS_AT(sentinel_user), 0, 0, 0, NULL },
    { "sentinel_password", HFI_PARAM_SECRET, REDIS_AT(sentinel_password), 0, 0, 0, NULL },
    { .name = NULL },
};

#define PLAIN  (HFI_FORM_SECRET_ALONE | HFI_FORM_TLS_CHOICE | HFI_FORM_TLS_NAME)
#define SECURE (PLAIN | HFI_FORM_TLS)
static const struct hfi_form forms[] = {
    { "redis", HFI_PORT, 1, PLAIN | HFI_FORM_PATH, NULL },
    { "rediss", HFI_PORT, 1, SECURE | HFI_FORM_PATH, NULL },
    { "redis+unix", 0, 1, PLAIN | HFI_FORM_SOCKET, NULL },
    { "redis+sentinel", SENTINEL_PORT, HFI_HOSTS_MAX, PLAIN | HFI_FORM_PATH, sentinel_params },
    { "rediss+sentinel", SENTINEL_PORT, HFI_HOSTS_MAX, SECURE | HFI_FORM_PATH, sentinel_params },
    { "redis+cluster", HFI_PORT, HFI_HOSTS_MAX, PLAIN | HFI_FORM_PATH, NULL },
    { "rediss+cluster", HFI_PORT, HFI_HOSTS_MAX, SECURE | HFI_FORM_PATH, NULL },
    { .scheme = NULL },
};

static const struct hfi_param params[] = {
    REDIS_PARAMS,
    { "wire", HFI_PARAM_CHOICE, REDIS_AT(wire), 0, 0, HFI_WIRE_NATIVE, "native plain redisson" },
    REDIS_PLAIN_PARAMS,
    { "sync", HFI_PARAM_NUMBER, REDIS_AT(sync), 0, SYNC_MAX, 0, NULL },
    { "sync_timeout", HFI_PARAM_DURATION, REDIS_AT(sync_ms), REDIS_LIMIT_MIN_MS, REDIS_LIMIT_MAX_MS,
      1000, NULL },
    { .name = NULL },
};

const struct hfi_conf_type redis_conf_type = { sizeof(struct hfi_redis_conf), forms, params };

static hf_status finish_path(struct hfi_redis_conf *conf, hf_error *err);
static hf_status check(const struct hfi_redis_conf *conf, hf_error *err);
static hf_status make_client_name(struct hfi_redis_conf *conf, const char *label, hf_error *err);
static hf_status make_location(struct hfi_redis_conf *conf, hf_error *err);

hf_status redis_conf_finish(struct hfi_redis_conf *conf, const char *label, hf_error *err)
{
    hf_status status;

    conf->topology = strstr(conf->url.scheme, "sentinel")  ? REDIS_TOPOLOGY_SENTINEL
                     : strstr(conf->url.scheme, "cluster") ? REDIS_TOPOLOGY_CLUSTER
                                                           : REDIS_TOPOLOGY_SINGLE;
    status = finish_path(conf, err);
    if (status == HF_OK)
        status = check(conf, err);
    if (status == HF_OK)
        status = make_client_name(conf, label, err);
    if (status == HF_OK)
        status = make_location(conf, err);
    if (status == HF_OK && conf->url.tls.on)
        status = hfi_tls_context_new(&conf->url.tls, &conf->tls_context, err);
    return status;
}

void redis_conf_done(struct hfi_redis_conf *conf)
{
    if (conf)
        hfi_tls_context_free(conf->tls_context);
}

/* ---- the path ---------------------------------------------------------------------------------- */

static bool is_word(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return false;
    return *text != 0;
}

/* "", "db", "master", "master/", "master/db". */
static hf_status finish_path(struct hfi_redis_conf *conf, hf_error *err)
{
    struct hfi_conf *url = &conf->url;
    const char *from = url->path;
    uint64_t db = 0;

    if (conf->topology == REDIS_TOPOLOGY_SENTINEL) {
        size_t len = strcspn(from, "/");
        hf_status status = hfi_conf_part(url, from, len, "the master's name", &conf->master, err);

        if (status != HF_OK)
            return status;
        if (!is_word(conf->master))
            return hfi_conf_refuse_path(url, from, "the master's name",
                                        "is missing, or not one word", err);
        from += len + (from[len] == '/');
    }
    if (!*from)
        return HF_OK;
    if (conf->topology == REDIS_TOPOLOGY_CLUSTER)
        return hfi_conf_refuse_path(url, from, "the database",
                                    "has no meaning: a cluster has only one", err);
    if (hfi_parse_u64(from, 0, INT32_MAX, &db))
        return hfi_conf_refuse_path(url, from, "the database", "must be a number", err);
    if (hfi_conf_given(url, "db") && db && db != conf->db)
        return hfi_conf_refuse(url, "db", "and the path name two databases", err);
    if (db)
        conf->db = (uint32_t)db;
    return HF_OK;
}

/* ---- what goes with what ----------------------------------------------------------------------- */

/* A {tag} of the prefix is that of every key: all names of the store are in one slot of a cluster, so that several cells can
 * be changed in one step (commit.c). */
static bool prefix_fits(const char *prefix)
{
    size_t open = strcspn(prefix, "{}"), shut;

    if (!prefix[open])
        return true;
    shut = open + 1 + strcspn(prefix + open + 1, "{}");
    return prefix[open] == '{' && prefix[shut] == '}' && shut > open + 1 &&
           !prefix[shut + 1 + strcspn(prefix + shut + 1, "{}")];
}

static hf_status check(const struct hfi_redis_conf *conf, hf_error *err)
{
    const struct hfi_conf *url = &conf->url;

    if (conf->db && conf->topology == REDIS_TOPOLOGY_CLUSTER)
        return hfi_conf_refuse(url, "db", "must be 0: a cluster has no other", err);
    if (conf->sentinel_user && !conf->sentinel_password)
        return hfi_conf_refuse(url, "sentinel_user",
                               "needs sentinel_password_file= or sentinel_password_env=", err);
    if (conf->repair_expiry_ms && conf->wire != HFI_WIRE_PLAIN)
        return hfi_conf_refuse(url, "repair_expiry", "has a meaning with wire=plain only", err);
    if (!prefix_fits(conf->prefix))
        return hfi_conf_refuse(url, "prefix", "may have one {tag}, and no other braces", err);
    if (conf->sync > 0 && conf->topology == REDIS_TOPOLOGY_CLUSTER)
        return hfi_conf_refuse(url, "sync", "has no meaning with redis+cluster", err);
    if (conf->sync > 0 && conf->wire != HFI_WIRE_NATIVE)
        return hfi_conf_refuse(url, "sync", "has a meaning with wire=native only", err);
    if (conf->sync > 0 && conf->sync_ms >= conf->op_ms)
        return hfi_conf_refuse(url, "sync_timeout", "must be shorter than op_timeout", err);
    return HF_OK;
}

static hf_status make_client_name(struct hfi_redis_conf *conf, const char *label, hf_error *err)
{
    char *name = hfi_conf_print(&conf->url, CLIENT_PREFIX "%.*s", CLIENT_MAX, label ? label : "");

    conf->client_name = name;
    if (!name)
        return hfi_error_memory(err);
    for (; *name; name++) /* the server takes printable ASCII only, and no spaces */
        if (*name <= ' ' || *name >= 0x7f)
            *name = '_';
    return HF_OK;
}

/* ---- for people -------------------------------------------------------------------------------- */

static hf_status make_location(struct hfi_redis_conf *conf, hf_error *err)
{
    const char *place = conf->url.location;
    bool is_socket = conf->url.hosts[0].path != NULL;
    char master[HFI_QUOTED_MAX];

    if (conf->master)
        place = hfi_conf_print(
            &conf->url, "%s/%s", place,
            hfi_quote_name(conf->master, strlen(conf->master), master, sizeof master));
    if (place && is_socket && conf->db)
        place = hfi_conf_print(&conf->url, "%s?db=%u", place, conf->db);
    else if (place && !is_socket && conf->topology != REDIS_TOPOLOGY_CLUSTER)
        place = hfi_conf_print(&conf->url, "%s/%u", place, conf->db);
    if (conf->wire == HFI_WIRE_NATIVE)
        place = hfi_conf_select(&conf->url, place, "prefix",
                                strcmp(conf->prefix, REDIS_PREFIX) == 0 ? NULL : conf->prefix);
    else /* the prefix does not apply to names there */
        place = hfi_conf_select(&conf->url, place, "wire",
                                conf->wire == HFI_WIRE_PLAIN ? "plain" : "redisson");
    conf->location = place;
    return place ? HF_OK : hfi_error_memory(err);
}
