/* SPDX-License-Identifier: MIT */
/*
 * What the URL says to the client library:
 *
 *   mysql://[user[:password]@][host[:port]]/database?socket=&tls=&verify=&ca=&cert=&key=&option_file=&option_group=
 *
 * and password_file=, password_env= (core/secret.c). No host: what the option file says, or the local socket. Errors name the part and never its value: what stands
 * in the wrong place may be a password.
 */
#include "engine/mariadb/internal.h"

#include "core/secret.h"
#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_status wrong(hf_error *err, const char *what)
{
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: %s", what);
}

/* `len` bytes of a URL, decoded, as a string of their own. */
static hf_status keep(const char *from, size_t len, const char *what, char **ret_text,
                      hf_error *err)
{
    char *text = hfi_malloc(len + 1);

    if (!text)
        return hfi_error_memory(err);
    memcpy(text, from, len);
    text[len] = 0;
    if (!hfi_url_decode(text)) {
        explicit_bzero(text, len);
        hfi_free(text);
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: the %s is malformed (%%XX)", what);
    }
    *ret_text = text;
    return HF_OK;
}

static hf_status take_user(const char *from, size_t len, struct maria_conf *conf, hf_error *err)
{
    const char *colon = memchr(from, ':', len);
    size_t user = colon ? (size_t)(colon - from) : len;
    hf_status status = HF_OK;

    if (user > 0)
        status = keep(from, user, "user", &conf->user, err);
    if (status == HF_OK && colon)
        status = keep(colon + 1, len - user - 1, "password", &conf->password, err);
    return status;
}

static hf_status take_port(const char *from, const char *end, struct maria_conf *conf,
                           hf_error *err)
{
    unsigned port = 0;

    for (; from < end && *from >= '0' && *from <= '9' && port <= 65535; from++)
        port = port * 10 + (unsigned)(*from - '0');
    if (from < end || port == 0 || port > 65535)
        return wrong(err, "the port must be a number from 1 to 65535");
    conf->port = port;
    return HF_OK;
}

static hf_status take_host(const char *from, const char *end, struct maria_conf *conf,
                           hf_error *err)
{
    const char *stop = from;
    hf_status status = HF_OK;

    if (from < end && *from == '[') {
        stop = memchr(from, ']', (size_t)(end - from));
        if (!stop)
            return wrong(err, "the address lacks a ']'");
        status = keep(from + 1, (size_t)(stop - from - 1), "host", &conf->host, err);
        stop++;
    } else {
        while (stop < end && *stop != ':')
            stop++;
        if (stop > from)
            status = keep(from, (size_t)(stop - from), "host", &conf->host, err);
    }
    if (status == HF_OK && stop < end && *stop != ':')
        return wrong(err, "something follows the address");
    if (status == HF_OK && stop < end)
        status = take_port(stop + 1, end, conf, err);
    return status;
}

static hf_status take_place(const char *rest, struct maria_conf *conf, hf_error *err)
{
    const char *at, *end, *slash;
    hf_status status = HF_OK;

    if (strncmp(rest, "//", 2) != 0)
        return wrong(err, "mysql:// must be followed by the server and /database");
    rest += 2;
    slash = strchr(rest, '/');
    end = slash ? slash : rest + strlen(rest);
    at = memrchr(rest, '@', (size_t)(end - rest));
    if (at)
        status = take_user(rest, (size_t)(at - rest), conf, err);
    if (status == HF_OK)
        status = take_host(at ? at + 1 : rest, end, conf, err);
    if (status != HF_OK)
        return status;
    if (!slash || !slash[1])
        return wrong(err, "a database is needed: mysql://host/database");
    if (strchr(slash + 1, '/'))
        return wrong(err, "one database, without a '/' in it");
    return keep(slash + 1, strlen(slash + 1), "database", &conf->database, err);
}

static hf_status take_text(struct hfi_url *url, const char *key, char **ret_text, hf_error *err)
{
    const char *value = hfi_url_take(url, key);

    if (!value)
        return HF_OK;
    *ret_text = hfi_strdup(value);
    return *ret_text ? HF_OK : hfi_error_memory(err);
}

static hf_status take_switch(struct hfi_url *url, const char *key, bool *ret_given, bool *ret_on,
                             hf_error *err)
{
    const char *word = hfi_url_take(url, key);

    *ret_given = word != NULL;
    *ret_on = word && strcmp(word, "on") == 0;
    if (word && !*ret_on && strcmp(word, "off") != 0)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: parameter '%s' must be on or off", key);
    return HF_OK;
}

/* Certificates mean TLS; TLS means that the server's is verified, unless verify=off. */
static hf_status take_tls(struct hfi_url *url, struct maria_conf *conf, hf_error *err)
{
    bool tls_given, tls, verify_given, verify, any;
    hf_status status = take_switch(url, "tls", &tls_given, &tls, err);

    if (status == HF_OK)
        status = take_switch(url, "verify", &verify_given, &verify, err);
    if (status == HF_OK)
        status = take_text(url, "ca", &conf->ca, err);
    if (status == HF_OK)
        status = take_text(url, "cert", &conf->cert, err);
    if (status == HF_OK)
        status = take_text(url, "key", &conf->key, err);
    if (status != HF_OK)
        return status;
    any = verify_given || conf->ca || conf->cert || conf->key;
    if (tls_given && !tls && any)
        return wrong(err, "certificates, but tls=off");
    if (tls || any)
        conf->tls = verify_given && !verify ? MARIA_TLS_ON : MARIA_TLS_VERIFY;
    else if (tls_given)
        conf->tls = MARIA_TLS_OFF;
    return HF_OK;
}

static char *location_of(const struct maria_conf *conf)
{
    const char *host = conf->host ? conf->host : "";
    bool bare = strchr(host, ':') != NULL; /* IPv6 */
    size_t size = strlen(host) + strlen(conf->database) + (conf->socket ? strlen(conf->socket) : 0);
    char *text = hfi_malloc(size + 64);

    if (!text)
        return NULL;
    if (conf->socket)
        sprintf(text, "mariadb %s/%s", conf->socket, conf->database);
    else if (conf->port)
        sprintf(text, "mariadb %s%s%s:%u/%s", bare ? "[" : "", host, bare ? "]" : "", conf->port,
                conf->database);
    else
        sprintf(text, "mariadb %s/%s", host, conf->database);
    return text;
}

hf_status maria_parse(struct hfi_conn *conn, struct hfi_url *url, hf_error *err)
{
    struct maria_conf *conf = hfi_calloc(1, sizeof *conf);
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    conn->native = conf;
    status = take_place(url->rest, conf, err);
    if (status == HF_OK)
        status = hfi_secret_take(url, "password", &conf->password, err);
    if (status == HF_OK)
        status = take_text(url, "socket", &conf->socket, err);
    if (status == HF_OK)
        status = take_text(url, "option_file", &conf->file, err);
    if (status == HF_OK)
        status = take_text(url, "option_group", &conf->group, err);
    if (status == HF_OK)
        status = take_tls(url, conf, err);
    if (status == HF_OK && conn->conf.schema[0])
        status = wrong(err, "parameter 'schema' is PostgreSQL's: here it is the /database");
    if (status == HF_OK && conf->socket &&
        (conf->port || (conf->host && strcmp(conf->host, "localhost") != 0)))
        status = wrong(err, "socket= is of this host: no other one, and no port");
    if (status != HF_OK)
        return status;
    conn->location = location_of(conf);
    return conn->location ? HF_OK : hfi_error_memory(err);
}

void maria_free_conf(struct hfi_conn *conn)
{
    struct maria_conf *conf = conn->native;

    if (!conf)
        return;
    hfi_secret_wipe(conf->password);
    hfi_free(conf->user);
    hfi_free(conf->host);
    hfi_free(conf->database);
    hfi_free(conf->socket);
    hfi_free(conf->ca);
    hfi_free(conf->cert);
    hfi_free(conf->key);
    hfi_free(conf->file);
    hfi_free(conf->group);
    hfi_free(conf);
    conn->native = NULL;
}
