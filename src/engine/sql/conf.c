/* SPDX-License-Identifier: MIT */
/*
 * Parameters of the URL that all SQL engines share (the table SQL_PARAMS), and checks. The driver
 * handles the rest.
 */
#include "engine/sql/internal.h"

#include <string.h>

#define WINDOW_MIN_MS 3000
#define WINDOW_MAX_MS 10000

/* A part of table names, which are put into statements: only letters that need no quoting. */
static hf_status check_word(const struct sql_conf *conf, const char *key, const char *word,
                            hf_error *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$";

    if (strspn(word, good) != strlen(word))
        return hfi_conf_refuse(&conf->url, key, "may have letters, digits, '_', '-' and '$' only",
                               err);
    if (strstr(word, "$$")) /* it would end the body of a function */
        return hfi_conf_refuse(&conf->url, key, "may not have '$$'", err);
    return HF_OK;
}

hf_status sql_conf_select(struct sql_store *store, struct hfi_conf *url, hf_error *err)
{
    static const char *const modes[] = { [SQL_MODE_ROW] = "row", [SQL_MODE_SESSION] = "session" };
    const struct sql_conf *conf = &store->conf;

    store->location = hfi_conf_select(url, store->location, "mode", modes[conf->mode]);
    store->location = hfi_conf_select(url, store->location, "prefix",
                                      strcmp(conf->prefix, SQL_PREFIX) != 0 ? conf->prefix : NULL);
    return store->location ? HF_OK : hfi_error_memory(err);
}

hf_status sql_conf_finish(struct sql_conf *conf, hf_error *err)
{
    hf_status status;

    if (!conf->schema)
        conf->schema = "";
    conf->connect_ms = 5000;
    conf->pooled = conf->pooler == 0;
    conf->window_min_ms = conf->window_ms ? conf->window_ms : WINDOW_MIN_MS;
    conf->window_max_ms = conf->window_ms ? conf->window_ms : WINDOW_MAX_MS;
    status = check_word(conf, "schema", conf->schema, err);
    if (status == HF_OK)
        status = check_word(conf, "prefix", conf->prefix, err);
    if (status == HF_OK && conf->tokens && conf->mode == SQL_MODE_LEASE)
        status = hfi_conf_refuse(&conf->url, "tokens",
                                 "is for mode=row and mode=session: a lease has them anyway", err);
    return status;
}
