/* SPDX-License-Identifier: MIT */
/*
 * zk://[user:password@]host[:port][,host[:port]...][/root][?timeout=10s&acl=open|creator|read]
 *
 * User and password are %XX-decoded after they have been cut; a host may be an IPv6 address in
 * brackets. Pure but for memory.
 */
#include "engine/zookeeper/conf.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_ROOT "/holdfast"
#define SHOWN_MAX    (ZK_HOSTS_MAX * (ZK_HOST_MAX + 9) + ZK_ROOT_MAX + 8)

static hf_status parse_place(struct zk_conf *conf, const struct hfi_url *url, hf_error *err);
static hf_status parse_user(struct zk_conf *conf, const char *from, const char *to, hf_error *err);
static hf_status parse_hosts(struct zk_conf *conf, const char *from, const char *to, hf_error *err);
static hf_status parse_root(struct zk_conf *conf, const char *root, hf_error *err);
static hf_status parse_acl(struct zk_conf *conf, const char *acl, hf_error *err);
static bool show(struct zk_conf *conf);

hf_status zk_conf_parse(struct hfi_url *url, struct zk_conf **ret_conf, hf_error *err)
{
    struct zk_conf *conf = hfi_calloc(1, sizeof *conf);
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    conf->timeout_ms = ZK_TIMEOUT_MS;
    status = parse_place(conf, url, err);
    if (status == HF_OK)
        status = hfi_url_take_duration(url, "timeout", ZK_TIMEOUT_MIN_MS, ZK_TIMEOUT_MAX_MS,
                                       &conf->timeout_ms, err);
    if (status == HF_OK)
        status = parse_acl(conf, hfi_url_take(url, "acl"), err);
    if (status == HF_OK && !show(conf))
        status = hfi_error_memory(err);
    if (status != HF_OK) {
        zk_conf_free(conf);
        return status;
    }
    *ret_conf = conf;
    return HF_OK;
}

void zk_conf_free(struct zk_conf *conf)
{
    if (!conf)
        return;
    if (conf->auth)
        explicit_bzero(conf->auth, strlen(conf->auth));
    hfi_free(conf->auth);
    hfi_free(conf->location);
    hfi_free(conf);
}

static hf_status parse_place(struct zk_conf *conf, const struct hfi_url *url, hf_error *err)
{
    const char *from = url->rest + 2, *end, *at = NULL;
    hf_status status = HF_OK;

    if (strncmp(url->rest, "//", 2) != 0)
        return hfi_error_set(err, HF_CONFIG, 0, "host: must follow \"zk://\"");
    end = from + strcspn(from, "/");
    for (const char *c = from; c < end; c++)
        if (*c == '@')
            at = c;
    if (strchr(end, '@'))
        return hfi_error_set(err, HF_CONFIG, 0,
                             "an '@' after a '/': a '/' in a password is written %%2F");

    if (at)
        status = parse_user(conf, from, at, err);
    if (status == HF_OK)
        status = parse_hosts(conf, at ? at + 1 : from, end, err);
    return status == HF_OK ? parse_root(conf, end, err) : status;
}

/* A digest identity is "user:password": both are needed, and the user has no colon. */
static hf_status parse_user(struct zk_conf *conf, const char *from, const char *to, hf_error *err)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    char *user = colon ? hfi_strndup(from, (size_t)(colon - from)) : NULL;
    char *password = colon ? hfi_strndup(colon + 1, (size_t)(to - colon - 1)) : NULL;
    hf_status status = HF_OK;

    if (!colon)
        status =
            hfi_error_set(err, HF_CONFIG, 0, "user: needs a password (zk://user:password@...)");
    else if (!user || !password)
        status = hfi_error_memory(err);
    else if (!hfi_url_decode(user) || !hfi_url_decode(password))
        status = hfi_error_set(err, HF_CONFIG, 0, "user or password: a malformed %%XX");
    else if (!user[0] || strchr(user, ':'))
        status = hfi_error_set(err, HF_CONFIG, 0, "user: empty, or has a ':'");
    else {
        size_t size = strlen(user) + strlen(password) + 2;

        conf->auth = hfi_malloc(size);
        if (conf->auth)
            snprintf(conf->auth, size, "%s:%s", user, password);
        else
            status = hfi_error_memory(err);
    }
    if (password)
        explicit_bzero(password, strlen(password));
    hfi_free(password);
    hfi_free(user);
    return status;
}

/* Nothing that would mean something else to the library: it takes one text of all hosts. */
static bool is_host(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "-._") == len;
}

static hf_status parse_port(const char *from, const char *to, uint16_t *ret_port, hf_error *err)
{
    char text[8];
    uint64_t port = 0;

    if (to - from >= (int)sizeof text)
        return hfi_error_set(err, HF_CONFIG, 0, "port: must be 1 to 65535");
    snprintf(text, sizeof text, "%.*s", (int)(to - from), from);
    if (hfi_parse_u64(text, 1, 65535, &port))
        return hfi_error_set(err, HF_CONFIG, 0, "port: must be 1 to 65535");
    *ret_port = (uint16_t)port;
    return HF_OK;
}

/* host, host:port, [address], [address]:port */
static hf_status parse_host(struct zk_host *host, const char *from, const char *to, hf_error *err)
{
    bool bracketed = from < to && *from == '[';
    const char *close = bracketed ? memchr(from, ']', (size_t)(to - from)) : NULL;
    const char *end = bracketed ? close : memchr(from, ':', (size_t)(to - from));
    const char *name = from + bracketed;

    if (bracketed && !close)
        return hfi_error_set(err, HF_CONFIG, 0, "host: a '[' without its ']'");
    if (!end)
        end = to;
    if (end - name > ZK_HOST_MAX)
        return hfi_error_set(err, HF_CONFIG, 0, "host: longer than %d bytes", ZK_HOST_MAX);
    snprintf(host->name, sizeof host->name, "%.*s", (int)(end - name), name);
    if (bracketed ? strspn(host->name, "0123456789abcdefABCDEF:.") != strlen(host->name) ||
                        !strchr(host->name, ':')
                  : !is_host(host->name))
        return hfi_error_set(err, HF_CONFIG, 0,
                             host->name[0] ? "host: not a host name or address" : "host: empty");
    host->port = ZK_PORT;
    end += bracketed;
    if (end == to)
        return HF_OK;
    if (*end != ':')
        return hfi_error_set(err, HF_CONFIG, 0, "host: something after its ']'");
    return parse_port(end + 1, to, &host->port, err);
}

static hf_status parse_hosts(struct zk_conf *conf, const char *from, const char *to, hf_error *err)
{
    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(to - from));
        hf_status status;

        if (conf->host_count == ZK_HOSTS_MAX)
            return hfi_error_set(err, HF_CONFIG, 0, "host: more than %d", ZK_HOSTS_MAX);
        status = parse_host(&conf->hosts[conf->host_count++], from, comma ? comma : to, err);
        if (status != HF_OK || !comma)
            return status;
        from = comma + 1;
    }
}

/* A path of plain words, for it becomes part of every path and of every text. */
static hf_status parse_root(struct zk_conf *conf, const char *root, hf_error *err)
{
    size_t len = strlen(root);

    while (len > 0 && root[len - 1] == '/')
        len--;
    if (len > ZK_ROOT_MAX)
        return hfi_error_set(err, HF_CONFIG, 0, "path: longer than %d bytes", ZK_ROOT_MAX);
    snprintf(conf->root, sizeof conf->root, "%.*s", (int)len, root);
    if (len == 0)
        snprintf(conf->root, sizeof conf->root, DEFAULT_ROOT);
    for (const char *word = conf->root; *word; word += 1 + strcspn(word + 1, "/")) {
        size_t size = strcspn(word + 1, "/");

        if (size == 0 || strspn(word + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-._~:") < size)
            return hfi_error_set(err, HF_CONFIG, 0,
                                 "path: between slashes only letters, digits and -._~:");
        if ((size == 1 && word[1] == '.') || (size == 2 && memcmp(word + 1, "..", 2) == 0))
            return hfi_error_set(err, HF_CONFIG, 0, "path: no \".\" and no \"..\"");
        if (word == conf->root && size == 9 && memcmp(word + 1, "zookeeper", 9) == 0)
            return hfi_error_set(err, HF_CONFIG, 0, "path: /zookeeper is the server's own");
    }
    return HF_OK;
}

static hf_status parse_acl(struct zk_conf *conf, const char *acl, hf_error *err)
{
    conf->acl = conf->auth ? ZK_ACL_CREATOR : ZK_ACL_OPEN;
    if (!acl)
        return HF_OK;
    if (strcmp(acl, "open") == 0)
        conf->acl = ZK_ACL_OPEN;
    else if (strcmp(acl, "creator") == 0)
        conf->acl = ZK_ACL_CREATOR;
    else if (strcmp(acl, "read") == 0)
        conf->acl = ZK_ACL_READ;
    else
        return hfi_error_set(err, HF_CONFIG, 0, "acl: must be open, creator or read");
    if (conf->acl != ZK_ACL_OPEN && !conf->auth)
        return hfi_error_set(err, HF_CONFIG, 0, "acl: %s needs a user and a password", acl);
    return HF_OK;
}

static bool show(struct zk_conf *conf)
{
    char text[SHOWN_MAX];
    size_t used = (size_t)snprintf(text, sizeof text, "zk://");

    for (size_t i = 0; i < conf->host_count; i++) {
        const struct zk_host *host = &conf->hosts[i];
        bool bracketed = strchr(host->name, ':') != NULL;

        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s:%u", i ? "," : "",
                             bracketed ? "[" : "", host->name, bracketed ? "]" : "", host->port);
    }
    snprintf(text + used, sizeof text - used, "%s", conf->root);
    conf->location = hfi_strdup(text);
    return conf->location != NULL;
}
