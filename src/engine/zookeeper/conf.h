/* SPDX-License-Identifier: MIT */
/* What a zk: URL says: zk://[user:password@]host[:port][,host[:port]...][/root][?timeout=10s&acl=...] */
#ifndef ZK_CONF_H
#define ZK_CONF_H

#include "engine/conf.h"

#define ZK_HOSTS_MAX      16
#define ZK_ROOT_MAX       512
#define ZK_PORT           2181
#define ZK_TIMEOUT_MS     10000
#define ZK_TIMEOUT_MIN_MS 1000
#define ZK_TIMEOUT_MAX_MS (24 * 3600 * 1000)

enum zk_acl {
    ZK_ACL_OPEN,    /* every client may do everything */
    ZK_ACL_CREATOR, /* only a client that has authenticated as we have */
    ZK_ACL_READ     /* likewise, but everybody may read */
};

struct zk_conf {
    struct hfi_conf url;
    const char *root;     /* "/holdfast": everything of ours is below it */
    int64_t timeout_ms;   /* of the session, as we ask for it */
    enum zk_acl acl;      /* default: CREATOR with a user, else OPEN */
    const char *auth;     /* "user:password", or NULL */
    const char *location; /* with the root */
};

extern const struct hfi_conf_type zk_conf_type;

/* What follows from the tables: root, acl, auth, location. HF_CONFIG. */
hf_status zk_conf_finish(struct zk_conf *conf, hf_error *err);

#endif
