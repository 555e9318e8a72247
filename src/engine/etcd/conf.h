/* SPDX-License-Identifier: MIT */
/*
 * An etcd store's URL, taken apart and checked.
 *
 *   etcd://[user[:password]@]h1[:2379][,h2[:2379]...][/prefix][?...]    etcds:// the same over TLS
 *
 * Errors name the part and its byte in the URL, and quote nothing of it: what stands in the wrong
 * place may be half of a password.
 */
#ifndef HFI_ETCD_CONF_H
#define HFI_ETCD_CONF_H

#include "holdfast/holdfast.h"

#include <stdbool.h>

#define ETCD_HOSTS_MAX  16
#define ETCD_PREFIX_MAX 128 /* bytes */
#define ETCD_PORT       2379

struct hfi_url;

struct etcd_conf {
    size_t host_count;
    struct {
        char *base;  /* "http://10.0.0.4:2379" */
        char *shown; /* "10.0.0.4:2379" */
    } hosts[ETCD_HOSTS_MAX];
    char *user, *password; /* NULL: none; from the URL, password_file=, password_env= */

    bool tls, tls_verify; /* verify=off turns it off */
    char *tls_ca;         /* ca=FILE; NULL: the system's */
    char *tls_cert, *tls_key;

    int64_t connect_ms; /* connect_timeout=, default 2 s */
    int64_t op_ms;      /* op_timeout=, default 5 s: for an answer, all attempts together */
    int64_t ping_ms;    /* ping=, default 2 s: while watches are open, is the server there? */

    char *prefix;   /* of all keys of ours, without a '/' at its end; default "holdfast" */
    char *location; /* the whole, without secrets */
};

/* Take apart what is left of `url`; takes every parameter it knows. HF_CONFIG names the part;
 * HF_DENIED: a file cannot be read. etcd_conf_free() wipes the password. */
hf_status etcd_conf_parse(struct hfi_url *url, struct etcd_conf **ret_conf, hf_error *err);
void etcd_conf_free(struct etcd_conf *conf);

#endif
