/* SPDX-License-Identifier: MIT */
/*
 * A memcached store's URL, taken apart and checked.
 *
 *   memcached://[user:password@]host[:port][?prefix=...]
 *   memcached+unix://[user:password@]/path/to/socket
 */
#ifndef MEMCACHED_CONF_H
#define MEMCACHED_CONF_H

#include "holdfast/holdfast.h"

#include <stdbool.h>

#define MEMCACHED_PORT 11211

struct hfi_url;

struct memcached_conf {
    char *host; /* without brackets; NULL: a Unix socket */
    char *path; /* of the Unix socket */
    uint16_t port;
    char *shown;           /* "10.0.0.4:11211" or the path: for errors */
    char *location;        /* the whole, without secrets */
    char *user, *password; /* both or neither. From the URL, password_file=, password_env= */
    char *prefix;          /* of all keys of ours; prefix=, default "hf:" */
    int64_t connect_ms;    /* connect_timeout=, default 2 s: one attempt, all of it */
    int64_t op_ms;         /* op_timeout=, default 5 s: for a reply */
    int64_t poll_ms;       /* poll=, default 100 ms: the longest pause of a waiter between tries */
};

/* Takes every parameter it knows. HF_CONFIG names the part; HF_DENIED: a file cannot be read. */
hf_status memcached_conf_parse(struct hfi_url *url, struct memcached_conf **ret_conf,
                               hf_error *err);
void memcached_conf_free(struct memcached_conf *conf); /* wipes the password; NULL is fine */

#endif
