/* SPDX-License-Identifier: MIT */
/* What a zk: URL says. */
#ifndef ZK_CONF_H
#define ZK_CONF_H

#include "core/url.h"

#define ZK_HOSTS_MAX      16
#define ZK_HOST_MAX       253
#define ZK_ROOT_MAX       512
#define ZK_PORT           2181
#define ZK_TIMEOUT_MS     10000
#define ZK_TIMEOUT_MIN_MS 1000
#define ZK_TIMEOUT_MAX_MS (24 * 3600 * 1000)

enum zk_acl {
    ZK_ACL_OPEN,    /* anybody may do anything */
    ZK_ACL_CREATOR, /* only who has authenticated as we have */
    ZK_ACL_READ     /* likewise, but everybody may look */
};

struct zk_host {
    char name[ZK_HOST_MAX + 1]; /* without brackets */
    uint16_t port;
};

struct zk_conf {
    struct zk_host hosts[ZK_HOSTS_MAX];
    size_t host_count;
    char root[ZK_ROOT_MAX + 1]; /* "/holdfast": where everything of ours lies */
    int64_t timeout_ms;         /* of the session, as we ask for it */
    enum zk_acl acl;
    char *auth;     /* "user:password", or NULL */
    char *location; /* for people, without secrets */
};

/* Take apart. HF_CONFIG names the part. Freed by zk_conf_free(), which accepts NULL. */
hf_status zk_conf_parse(struct hfi_url *url, struct zk_conf **ret_conf, hf_error *err);
void zk_conf_free(struct zk_conf *conf);

#endif
