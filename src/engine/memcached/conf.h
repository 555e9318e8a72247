/* SPDX-License-Identifier: MIT */
/*
 * What a memcached store's URL says.
 *
 *   memcached://[user:password@]host[:port][?prefix=...]
 *   memcached+unix://[user:password@]/path/to/socket
 */
#ifndef MEMCACHED_CONF_H
#define MEMCACHED_CONF_H

#include "engine/conf.h"

#define MEMCACHED_PORT 11211

struct memcached_conf {
    struct hfi_conf url;
    const char *prefix; /* of all keys of ours; prefix=, default "hf:" */
    int64_t connect_ms; /* connect_timeout=, default 2 s: one attempt, all of it */
    int64_t op_ms;      /* op_timeout=, default 5 s: for a reply */
    int64_t poll_ms;    /* poll=, default 100 ms: the longest pause of a waiter between tries */

    const char *location; /* with the prefix */
};

extern const struct hfi_conf_type memcached_conf_type;

/* Checks that no single row of the table can express, and what follows from the rows: location. HF_CONFIG. */
hf_status memcached_conf_finish(struct memcached_conf *conf, hf_error *err);

#endif
