/* SPDX-License-Identifier: MIT */
/*
 * What the URL says beyond the server: mode, tokens, schema, prefix, connections, create, window,
 * op_timeout. The rest of it is the driver's. Errors name the parameter and its byte, never its value.
 */
#include "engine/sql/internal.h"

#include "core/url.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_MIN_MS 10
#define LIMIT_MAX_MS (INT64_C(10) * 60 * 1000)
#define LINKS_MAX    1000

static const char *const modes[] = { "lease", "row", "session" };

static hf_status wrong(const struct hfi_url *url, const char *key, const char *why, hf_error *err)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            return hfi_error_set(err, HF_CONFIG, 0, "store URL: parameter '%s' at byte %zu %s", key,
                                 url->params[i].at, why);
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: parameter '%s' %s", key, why);
}

static bool mode_of(const char *word, enum sql_mode *ret_mode)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(word, modes[i]) == 0) {
            *ret_mode = (enum sql_mode)i;
            return true;
        }
    return false;
}

bool sql_conf_mode(const struct hfi_url *url, enum sql_mode *ret_mode)
{
    *ret_mode = SQL_MODE_LEASE;
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, "mode") == 0)
            return mode_of(url->params[i].value, ret_mode);
    return true;
}

bool sql_conf_tokens(const struct hfi_url *url)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, "tokens") == 0)
            return strcmp(url->params[i].value, "on") == 0;
    return false;
}

static hf_status take_mode(struct hfi_url *url, struct sql_conf *conf, hf_error *err)
{
    const char *word = hfi_url_take(url, "mode");

    conf->mode = SQL_MODE_LEASE;
    if (word && !mode_of(word, &conf->mode))
        return wrong(url, "mode", "must be lease, row or session", err);
    return HF_OK;
}

static hf_status take_switch(struct hfi_url *url, const char *key, bool *value, hf_error *err)
{
    const char *word = hfi_url_take(url, key);

    if (word && strcmp(word, "on") != 0 && strcmp(word, "off") != 0)
        return wrong(url, key, "must be on or off", err);
    if (word)
        *value = strcmp(word, "on") == 0;
    return HF_OK;
}

/* A part of names of tables, which stand in statements: letters that need no thought. */
static hf_status take_word(struct hfi_url *url, const char *key, const char *instead, size_t most,
                           char *ret_word, hf_error *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$";
    const char *word = hfi_url_take(url, key);

    if (!word)
        word = instead;
    if (strlen(word) > most)
        return wrong(url, key, "is too long", err);
    if (strspn(word, good) != strlen(word))
        return wrong(url, key, "may have letters, digits, '_', '-' and '$' only", err);
    if (strstr(word, "$$")) /* it would end the body of a function */
        return wrong(url, key, "may not have '$$'", err);
    memcpy(ret_word, word, strlen(word) + 1);
    return HF_OK;
}

/* pooler=session: sessions are ours, although somebody is between us and the server. */
static hf_status take_pooler(struct hfi_url *url, struct sql_conf *conf, hf_error *err)
{
    const char *word = hfi_url_take(url, "pooler");

    if (word && strcmp(word, "session") != 0)
        return wrong(url, "pooler", "must be session: no other way of pooling keeps locks", err);
    conf->pooled = word != NULL;
    return HF_OK;
}

static hf_status take_window(struct hfi_url *url, struct sql_conf *conf, hf_error *err)
{
    int64_t window_ms = 0;
    hf_status status = hfi_url_take_duration(url, "window", 3000, LIMIT_MAX_MS, &window_ms, err);

    conf->window_min_ms = window_ms ? window_ms : 3000;
    conf->window_max_ms = window_ms ? window_ms : 10000;
    return status;
}

hf_status sql_conf_parse(struct hfi_url *url, struct sql_conf *ret_conf, hf_error *err)
{
    struct sql_conf conf = { .connect_ms = 5000, .op_ms = 5000, .create = true };
    uint64_t links = 16;
    hf_status status = take_mode(url, &conf, err);

    if (status == HF_OK)
        status = take_switch(url, "tokens", &conf.tokens, err);
    if (status == HF_OK)
        status = take_switch(url, "create", &conf.create, err);
    if (status == HF_OK)
        status = take_word(url, "schema", "", 60, conf.schema, err);
    if (status == HF_OK)
        status = take_word(url, "prefix", "holdfast_", 40, conf.prefix, err);
    if (status == HF_OK)
        status = hfi_url_take_number(url, "connections", 1, LINKS_MAX, &links, err);
    if (status == HF_OK)
        status = take_pooler(url, &conf, err);
    if (status == HF_OK)
        status = take_window(url, &conf, err);
    if (status == HF_OK)
        status =
            hfi_url_take_duration(url, "op_timeout", LIMIT_MIN_MS, LIMIT_MAX_MS, &conf.op_ms, err);
    if (status == HF_OK && conf.tokens && conf.mode == SQL_MODE_LEASE)
        status =
            wrong(url, "tokens", "is for mode=row and mode=session: a lease has them anyway", err);
    conf.connections = (uint32_t)links;
    if (status == HF_OK)
        *ret_conf = conf;
    return status;
}
