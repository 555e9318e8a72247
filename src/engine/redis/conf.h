/* SPDX-License-Identifier: MIT */
/*
 * A redis store's URL, taken apart and checked: what to connect to, as whom, and
 * how the store is to behave.
 *
 *   redis://[user[:password]@]host[:port][/db]        rediss:// the same over TLS
 *   redis+unix:///path/to/socket[?db=N]
 *   redis+sentinel://[user:password@]h1[:26379],h2,.../master[/db]
 *   redis+cluster://[user:password@]h1[:6379],h2,...
 *   (the redlock engine parses its list with hfi_conf_parse too)
 */
#ifndef HFI_REDIS_CONF_H
#define HFI_REDIS_CONF_H

#include "holdfast/holdfast.h"

#include <stdbool.h>

#define HFI_HOSTS_MAX       64
#define HFI_PREFIX_MAX      128 /* bytes of prefix= */
#define HFI_PORT            6379
#define HFI_SOCKET_PATH_MAX 107 /* sun_path, without its end */

struct hfi_tls_context;
struct hfi_url;

struct hfi_address {
    char *host; /* without brackets; NULL: a Unix socket */
    char *path; /* of the Unix socket */
    uint16_t port;
    char *shown; /* "10.0.0.4:6379", "[::1]:6379" or the path: for errors */
};

enum hfi_redis_way { HFI_WAY_SINGLE, HFI_WAY_SENTINEL, HFI_WAY_CLUSTER };
enum hfi_wire { HFI_WIRE_NATIVE, HFI_WIRE_PLAIN, HFI_WIRE_REDISSON };

struct hfi_redis_conf {
    enum hfi_redis_way way;
    size_t address_count;
    struct hfi_address *addresses;
    char *master; /* sentinel: the name of the master set */
    unsigned db;

    char *user, *password; /* NULL: none. From the URL, password_file=, password_env= */
    char *sentinel_user, *sentinel_password; /* sentinel_user=, sentinel_password_file= ..._env= */

    bool tls;
    bool tls_verify;          /* verify=off turns it off */
    char *tls_ca;             /* ca=FILE; NULL: the system's */
    char *tls_cert, *tls_key; /* cert=FILE key=FILE */
    char *tls_name;           /* sni=NAME: for SNI and verification; NULL: the host */
    struct hfi_tls_context
        *tls_context; /* made by hfi_conf_parse(): bad files are refused at open */

    int64_t connect_ms; /* connect_timeout=, default 2 s: one attempt, all of it */
    int64_t op_ms;      /* op_timeout=, default 5 s: for a reply */
    int64_t ping_ms;    /* a quiet subscriber is pinged; default 2 s */
    char *client_name;  /* for CLIENT SETNAME: "holdfast:" and the label, cleaned */

    char *prefix;             /* of all keys and channels of ours; prefix=, default "hf:" */
    enum hfi_wire wire;       /* wire=native|plain|redisson */
    int64_t repair_expiry_ms; /* repair_expiry=, wire=plain; 0: off */
    unsigned sync;            /* sync=N: replicas that must have a grant; 0: none */
    int64_t sync_ms;          /* sync_timeout=, default 1 s */
    int64_t poll_ms;          /* poll=, foreign wires: between tries at most; default 100 ms */
    bool cluster_push;        /* reserved */

    char *location; /* the whole, without secrets: "redis://10.0.0.4:6379/0" */
};

/* Take apart what is left of `url`; takes every parameter it knows. `label` becomes part of the
 * client name. HF_CONFIG names the part; HF_DENIED: a file cannot be read. The password is wiped
 * from memory by hfi_conf_free(). */
hf_status hfi_conf_parse(struct hfi_url *url, const char *label, struct hfi_redis_conf **ret_conf,
                         hf_error *err);
void hfi_conf_free(struct hfi_redis_conf *conf);

#endif
