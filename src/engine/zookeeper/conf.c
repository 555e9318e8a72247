/* SPDX-License-Identifier: MIT */
/* The tables of a zk: URL, and what follows from them. Pure but for memory. */
#include "engine/zookeeper/conf.h"

#include "util/error.h"

#include <string.h>

#define DEFAULT_ROOT "/holdfast"

static const struct hfi_form forms[] = {
    { "zk", ZK_PORT, ZK_HOSTS_MAX, HFI_FORM_PATH, NULL },
    { .scheme = NULL },
};

#define AT(member) offsetof(struct zk_conf, member)
static const struct hfi_param params[] = {
    { "timeout", HFI_PARAM_DURATION, AT(timeout_ms), ZK_TIMEOUT_MIN_MS, ZK_TIMEOUT_MAX_MS,
      ZK_TIMEOUT_MS, NULL },
    { "acl", HFI_PARAM_CHOICE, AT(acl), 0, 0, ZK_ACL_OPEN, "open creator read" },
    { .name = NULL },
};

const struct hfi_conf_type zk_conf_type = { sizeof(struct zk_conf), forms, params };

static hf_status finish_root(struct zk_conf *conf, hf_error *err);

hf_status zk_conf_finish(struct zk_conf *conf, hf_error *err)
{
    struct hfi_conf *url = &conf->url;
    hf_status status;

    for (size_t i = 0; i < url->host_count; i++)
        if (strchr(url->hosts[i].host, '%'))
            return hfi_error_set(
                err, HF_CONFIG, 0,
                "store URL: a host with a zone: ZooKeeper's library cannot connect "
                "to one");
    /* A digest identity is "user:password". */
    if (url->user && strchr(url->user, ':'))
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: the user has a ':'");
    if (url->user) {
        conf->auth = hfi_conf_print(url, "%s:%s", url->user, url->secret);
        if (!conf->auth)
            return hfi_error_memory(err);
    }
    if (!hfi_conf_given(url, "acl"))
        conf->acl = conf->auth ? ZK_ACL_CREATOR : ZK_ACL_OPEN;
    if (conf->acl != ZK_ACL_OPEN && !conf->auth)
        return hfi_conf_refuse(url, "acl", "needs a user and a password", err);
    status = finish_root(conf, err);
    if (status != HF_OK)
        return status;
    conf->location = hfi_conf_print(url, "%s%s", url->location, conf->root);
    return conf->location ? HF_OK : hfi_error_memory(err);
}

static hf_status wrong_path(const struct zk_conf *conf, const char *why, hf_error *err)
{
    return hfi_conf_refuse_path(&conf->url, conf->url.path, "the path", why, err);
}

/* Only plain words between slashes: the root becomes part of every path and text. */
static hf_status finish_root(struct zk_conf *conf, hf_error *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789-._~:";
    const char *path;
    hf_status status =
        hfi_conf_part(&conf->url, conf->url.path, strlen(conf->url.path), "the path", &path, err);
    size_t len = status == HF_OK ? strlen(path) : 0;

    if (status != HF_OK)
        return status;
    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len >= ZK_ROOT_MAX)
        return wrong_path(conf, "is longer than 512 bytes", err);
    conf->root = len ? hfi_conf_print(&conf->url, "/%.*s", (int)len, path) : DEFAULT_ROOT;
    if (!conf->root)
        return hfi_error_memory(err);
    for (const char *word = conf->root; *word; word += 1 + strcspn(word + 1, "/")) {
        size_t size = strcspn(word + 1, "/");

        if (size == 0 || strspn(word + 1, good) < size)
            return wrong_path(conf, "may have letters, digits and -._~: between slashes only", err);
        if ((size == 1 && word[1] == '.') || (size == 2 && memcmp(word + 1, "..", 2) == 0))
            return wrong_path(conf, "may not have \".\" or \"..\"", err);
        if (word == conf->root && size == 9 && memcmp(word + 1, "zookeeper", 9) == 0)
            return wrong_path(conf, "is the server's own: /zookeeper", err);
    }
    return HF_OK;
}
