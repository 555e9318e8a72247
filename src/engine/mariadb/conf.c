/* SPDX-License-Identifier: MIT */
/*
 * The tables of a MariaDB store's URL, and what it says to the client library:
 *
 *   mysql://[user[:password]@][host[:port]]/database?socket=&tls=&verify=&ca=&cert=&key=&option_file=&option_group=
 *
 * No host: what the option file says, or the local socket.
 */
#include "engine/mariadb/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

#define FLAGS                                                                         \
    (HFI_FORM_PATH | HFI_FORM_LIBRARY | HFI_FORM_USER_ALONE | HFI_FORM_SECRET_ALONE | \
     HFI_FORM_TLS_CHOICE)

static const struct hfi_form forms[] = {
    { "mysql", 0, 1, FLAGS, NULL },
    { "mariadb", 0, 1, FLAGS, NULL },
    { .scheme = NULL },
};

#define AT(member) offsetof(struct maria_url, member)
static const struct hfi_param params[] = {
    SQL_PARAMS,
    { "socket", HFI_PARAM_TEXT, AT(socket), 0, 0, 0, NULL },
    { "option_file", HFI_PARAM_TEXT, AT(file), 0, 0, 0, NULL },
    { "option_group", HFI_PARAM_TEXT, AT(group), 0, 0, 0, NULL },
    { "schema", HFI_PARAM_REFUSED, 0, 0, 0, 0, "is PostgreSQL's: here it is the /database" },
    { .name = NULL },
};

const struct hfi_conf_type maria_conf_type = { sizeof(struct maria_url), forms, params };

static hf_status set_database(struct maria_conf *conf, struct hfi_conf *url, hf_error *err)
{
    if (!*url->path)
        return hfi_conf_refuse_path(url, url->path, "the database",
                                    "is missing: mysql://host/database", err);
    if (strchr(url->path, '/'))
        return hfi_conf_refuse_path(url, strchr(url->path, '/'), "the database",
                                    "must be one, without a '/' in it", err);
    return hfi_conf_part(url, url->path, strlen(url->path), "the database", &conf->database, err);
}

static hf_status set_socket(struct maria_conf *conf, const struct maria_url *url, hf_error *err)
{
    const struct hfi_address *host = &url->sql.url.hosts[0];

    conf->socket = url->socket ? url->socket : host->path;
    if (url->socket &&
        (host->path || host->port || (host->host && strcmp(host->host, "localhost") != 0)))
        return hfi_conf_refuse(&url->sql.url, "socket",
                               "is of this host: no other one, and no port", err);
    return HF_OK;
}

static enum maria_tls tls_of(const struct hfi_tls_conf *tls)
{
    if (!tls->given)
        return MARIA_TLS_ASIS;
    if (!tls->on)
        return MARIA_TLS_OFF;
    return tls->verify ? MARIA_TLS_VERIFY : MARIA_TLS_ON;
}

static const char *make_location(const struct maria_conf *conf, struct hfi_conf *url)
{
    return conf->socket
               ? hfi_conf_print(url, "mariadb://%s/%s", conf->socket, conf->database)
               : hfi_conf_print(url, "mariadb://%s/%s", url->hosts[0].shown, conf->database);
}

hf_status maria_parse(struct sql_store *store, struct sql_conf *sql, hf_error *err)
{
    const struct maria_url *given = (const struct maria_url *)sql;
    struct maria_conf *conf = hfi_calloc(1, sizeof *conf);
    struct hfi_conf *url = &sql->url;
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    store->native = conf;
    conf->user = url->user;
    conf->password = url->secret;
    conf->host = url->hosts[0].host;
    conf->port = url->hosts[0].port;
    conf->file = given->file;
    conf->group = given->group;
    conf->tls = tls_of(&url->tls);
    conf->ca = url->tls.ca;
    conf->cert = url->tls.cert;
    conf->key = url->tls.key;
    status = set_database(conf, url, err);
    if (status == HF_OK)
        status = set_socket(conf, given, err);
    if (status != HF_OK)
        return status;
    store->location = make_location(conf, url);
    return store->location ? HF_OK : hfi_error_memory(err);
}

void maria_free_conf(struct sql_store *store)
{
    hfi_free(store->native);
    store->native = NULL;
}
