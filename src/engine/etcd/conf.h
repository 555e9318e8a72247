/* SPDX-License-Identifier: MIT */
/*
 * The parsed URL of an etcd store.
 *
 *   etcd://[user[:password]@]h1[:2379][,h2[:2379]...][/prefix][?...]    etcds:// the same over TLS
 */
#ifndef HFI_ETCD_CONF_H
#define HFI_ETCD_CONF_H

#include "engine/conf.h"

#define ETCD_HOSTS_MAX  16
#define ETCD_PREFIX_MAX 128 /* bytes */
#define ETCD_PORT       2379

struct etcd_conf {
    struct hfi_conf url;
    int64_t connect_ms; /* connect_timeout=, default 2 s */
    int64_t op_ms;      /* op_timeout=, default 5 s: for an answer, all attempts together */
    int64_t ping_ms;    /* ping=, default 2 s: how often the server is checked while watches are
                         * open */

    const char *prefix;   /* of all our keys, without a '/' at its end; default "holdfast" */
    const char *location; /* with the prefix */
};

extern const struct hfi_conf_type etcd_conf_type;

/* The path becomes prefix and location. HF_CONFIG. */
hf_status etcd_conf_finish(struct etcd_conf *conf, hf_error *err);

#endif
