/* SPDX-License-Identifier: MIT */
/*
 * The tables of a PostgreSQL store's URL, and what it says to libpq: every parameter that libpq knows passes
 * through.
 *
 * Several hosts are tried by us, one after the other: libpq's asynchronous connecting has no time limit for
 * each of them.
 */
#include "engine/postgres/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SCHEMA "public"

#define FLAGS (HFI_FORM_PATH | HFI_FORM_LIBRARY | HFI_FORM_USER_ALONE | HFI_FORM_SECRET_ALONE)

static const struct hfi_form forms[] = {
    { "postgresql", 0, POSTGRES_HOSTS_MAX, FLAGS, NULL },
    { "postgres", 0, POSTGRES_HOSTS_MAX, FLAGS, NULL },
    { .scheme = NULL },
};

static const struct hfi_param params[] = {
    SQL_PARAMS,
    { "schema", HFI_PARAM_TEXT, SQL_AT(schema), 0, SQL_SCHEMA_MAX, 0, NULL },
    { "", HFI_PARAM_REST, offsetof(struct postgres_url, rest), 0, 0, 0, NULL },
    { .name = NULL },
};

const struct hfi_conf_type postgres_conf_type = { sizeof(struct postgres_url), forms, params };

static hf_status set(struct postgres_conf *conf, const char *key, const char *value, hf_error *err)
{
    char *copy;
    unsigned i = 0;

    while (i < conf->count && strcmp(conf->keys[i], key) != 0)
        i++;
    if (i == POSTGRES_KEYWORDS_MAX)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: too many parameters");
    copy = hfi_strdup(value);
    if (copy && i == conf->count) {
        conf->keys[i] = hfi_strdup(key);
        conf->count += conf->keys[i] != NULL;
    }
    if (!copy || !conf->keys[i]) {
        hfi_free(copy);
        return hfi_error_memory(err);
    }
    if (conf->values[i])
        explicit_bzero(conf->values[i], strlen(conf->values[i]));
    hfi_free(conf->values[i]);
    conf->values[i] = copy;
    return HF_OK;
}

static const char *get(const struct postgres_conf *conf, const char *key)
{
    for (unsigned i = 0; i < conf->count; i++)
        if (strcmp(conf->keys[i], key) == 0)
            return conf->values[i];
    return NULL;
}

/* "h1,h2" and "1,": libpq's lists of hosts and ports. */
static hf_status set_hosts(struct postgres_conf *conf, struct hfi_conf *url, hf_error *err)
{
    const char *hosts = "", *ports = "";
    bool any_host = false, any_port = false;
    hf_status status = HF_OK;

    for (size_t i = 0; i < url->host_count && hosts && ports; i++) {
        const struct hfi_address *at = &url->hosts[i];
        const char *host = at->host ? at->host : at->path ? at->path : "";
        const char *between = i ? "," : "";

        any_host = any_host || *host;
        any_port = any_port || at->port;
        hosts = hfi_conf_print(url, "%s%s%s", hosts, between, host);
        ports = at->port ? hfi_conf_print(url, "%s%s%u", ports, between, (unsigned)at->port)
                         : hfi_conf_print(url, "%s%s", ports, between);
    }
    if (!hosts || !ports)
        return hfi_error_memory(err);
    if (any_host)
        status = set(conf, "host", hosts, err);
    if (status == HF_OK && any_port)
        status = set(conf, "port", ports, err);
    return status;
}

/* The part of the URL before the parameters. */
static hf_status set_place(struct postgres_conf *conf, struct hfi_conf *url, hf_error *err)
{
    const char *database;
    hf_status status = set_hosts(conf, url, err);

    if (status == HF_OK && url->user)
        status = set(conf, "user", url->user, err);
    if (status == HF_OK && url->secret)
        status = set(conf, "password", url->secret, err);
    if (status == HF_OK && *url->path) {
        status = hfi_conf_part(url, url->path, strlen(url->path), "the database", &database, err);
        if (status == HF_OK)
            status = set(conf, "dbname", database, err);
    }
    return status;
}

static bool is_keyword(const char *key)
{
    PQconninfoOption *options = PQconndefaults();
    bool found = false;

    for (PQconninfoOption *o = options; o && o->keyword && !found; o++)
        found = strcmp(o->keyword, key) == 0;
    PQconninfoFree(options);
    return found;
}

/* Parameters without a row are passed to libpq if it knows them. */
static hf_status set_rest(struct postgres_conf *conf, const struct postgres_url *url, hf_error *err)
{
    hf_status status = HF_OK;

    for (size_t i = 0; i < url->rest.count && status == HF_OK; i++) {
        const char *key = url->rest.items[i].key, *value = url->rest.items[i].value;

        if (strcmp(key, "ssl") == 0 && strcmp(value, "true") == 0)
            status = set(conf, "sslmode", "require", err); /* as libpq itself has it, for JDBC */
        else if (!is_keyword(key))
            status = hfi_conf_refuse(&url->sql.url, key, "is not known", err);
        else if (url->sql.url.secret && strcmp(key, "password") == 0)
            status = hfi_conf_refuse(&url->sql.url, key, "names a second password", err);
        else
            status = set(conf, key, value, err);
    }
    return status;
}

/* Split "a,b,c" into a list; a single value applies to all. */
static hf_status split(const char *list, char **places, unsigned *count, hf_error *err)
{
    unsigned n = 0;

    for (const char *at = list; at; n++) {
        const char *end = at + strcspn(at, ",");

        if (n == POSTGRES_HOSTS_MAX)
            return hfi_error_set(err, HF_CONFIG, 0, "store URL: more than %d hosts",
                                 POSTGRES_HOSTS_MAX);
        places[n] = hfi_strndup(at, (size_t)(end - at));
        if (!places[n])
            return hfi_error_memory(err);
        at = *end ? end + 1 : NULL;
    }
    *count = n;
    return HF_OK;
}

static hf_status split_hosts(struct postgres_conf *conf, hf_error *err)
{
    const char *host = get(conf, "host"), *hostaddr = get(conf, "hostaddr"),
               *port = get(conf, "port");
    unsigned hosts = 0, addresses = 0, ports = 0;
    hf_status status = HF_OK;

    if (host)
        status = split(host, conf->host, &hosts, err);
    if (status == HF_OK && hostaddr)
        status = split(hostaddr, conf->hostaddr, &addresses, err);
    if (status == HF_OK && port)
        status = split(port, conf->port, &ports, err);
    if (status != HF_OK)
        return status;
    if (addresses && hosts && addresses != hosts)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: host and hostaddr differ in number");
    conf->hosts = hosts > addresses ? hosts : addresses;
    if (!conf->hosts)
        conf->hosts = 1;
    if (ports > 1 && ports != conf->hosts)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: hosts and ports differ in number");
    for (unsigned i = 1; ports == 1 && i < conf->hosts; i++) {
        conf->port[i] = hfi_strdup(conf->port[0]);
        if (!conf->port[i])
            return hfi_error_memory(err);
    }
    return HF_OK;
}

/* Defaults that locks need, unless the URL says otherwise: the loss of a host is noticed, and
 * standbys are skipped. */
static hf_status set_defaults(struct postgres_conf *conf, hf_error *err)
{
    static const char *const table[][2] = { { "fallback_application_name", "holdfast" },
                                            { "keepalives_idle", "15" },
                                            { "keepalives_interval", "5" },
                                            { "keepalives_count", "3" },
                                            { "tcp_user_timeout", "30000" } };
    hf_status status = HF_OK;

    for (size_t i = 0; i < sizeof table / sizeof *table && status == HF_OK; i++)
        if (!get(conf, table[i][0]))
            status = set(conf, table[i][0], table[i][1], err);
    if (status == HF_OK && conf->hosts > 1 && !get(conf, "target_session_attrs") &&
        !secure_getenv("PGTARGETSESSIONATTRS"))
        status = set(conf, "target_session_attrs", "read-write", err);
    return status;
}

static hf_status make_location(struct sql_store *store, const struct postgres_conf *conf,
                               struct hfi_conf *url, hf_error *err)
{
    const char *host = get(conf, "host"), *port = get(conf, "port"), *db = get(conf, "dbname");
    char shown[512];
    char plain[1024];

    if (!host)
        host = get(conf, "hostaddr");
    snprintf(plain, sizeof plain, "%s%s%s%s%s", host ? host : "", port ? ":" : "", port ? port : "",
             db ? "/" : "", db ? db : "");
    store->location = hfi_conf_print(url, "postgresql://%s",
                                     hfi_quote_name(plain, strlen(plain), shown, sizeof shown));
    store->location = hfi_conf_select(
        url, store->location, "schema",
        strcmp(store->conf.schema, DEFAULT_SCHEMA) == 0 ? NULL : store->conf.schema);
    return store->location ? HF_OK : hfi_error_memory(err);
}

hf_status postgres_parse(struct sql_store *store, struct sql_conf *sql, hf_error *err)
{
    struct postgres_url *url = (struct postgres_url *)sql;
    struct postgres_conf *conf = hfi_calloc(1, sizeof *conf);
    const char *seconds;
    uint64_t value;
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    store->native = conf;
    if (!store->conf.schema[0])
        store->conf.schema = DEFAULT_SCHEMA;
    status = set_place(conf, &sql->url, err);
    if (status == HF_OK)
        status = set_rest(conf, url, err);
    if (status == HF_OK)
        status = split_hosts(conf, err);
    if (status == HF_OK)
        status = set_defaults(conf, err);
    seconds = get(conf, "connect_timeout"); /* libpq's own, in seconds; 0: as long as it takes */
    if (status == HF_OK && seconds && !hfi_parse_u64(seconds, 0, 600, &value))
        store->conf.connect_ms = value ? (int64_t)value * 1000 : HF_DURATION_MAX_MS;
    if (status == HF_OK)
        status = make_location(store, conf, &sql->url, err);
    return status;
}

void postgres_free_conf(struct sql_store *store)
{
    struct postgres_conf *conf = store->native;

    if (!conf)
        return;
    for (unsigned i = 0; i < conf->count; i++) {
        if (conf->values[i])
            explicit_bzero(conf->values[i], strlen(conf->values[i]));
        hfi_free(conf->values[i]);
        hfi_free(conf->keys[i]);
    }
    for (unsigned i = 0; i < POSTGRES_HOSTS_MAX; i++) {
        hfi_free(conf->host[i]);
        hfi_free(conf->hostaddr[i]);
        hfi_free(conf->port[i]);
    }
    hfi_free(conf);
    store->native = NULL;
}

void postgres_words(const struct sql_store *store, const char *text, char *ret_words, size_t size)
{
    const char *secret = get(store->native, "password");
    const char *at = text ? text : "";
    size_t used = 0;

    if (secret && *secret && strstr(at, secret))
        at = "(words with the password in them)";
    for (; *at && used + 1 < size; at++) {
        if (*at == '\n' && (!at[1] || at[1] == '\n'))
            continue;
        ret_words[used++] = *at == '\n' ? ';' : (unsigned char)*at < 32 ? ' ' : *at;
    }
    ret_words[used] = 0;
}
