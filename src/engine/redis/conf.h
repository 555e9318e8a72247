/* SPDX-License-Identifier: MIT */
/*
 * The parsed URL of a redis store: servers, user, and options.
 *
 *   redis://[user[:password]@]host[:port][/db]        rediss:// the same over TLS
 *   redis+unix:///path/to/socket[?db=N]
 *   redis+sentinel://[user:password@]h1[:26379],h2,.../master[/db]
 *   redis+cluster://[user:password@]h1[:6379],h2,...
 *   (the redlock engine's struct begins with this one)
 */
#ifndef HFI_REDIS_CONF_H
#define HFI_REDIS_CONF_H

#include "engine/conf.h"

#define HFI_PREFIX_MAX     128 /* bytes of prefix= */
#define REDIS_PREFIX       "hf:"
#define HFI_PORT           6379
#define REDIS_LIMIT_MIN_MS 1
#define REDIS_LIMIT_MAX_MS (10 * 60 * 1000)

struct hfi_tls_context;

enum redis_topology_kind { REDIS_TOPOLOGY_SINGLE, REDIS_TOPOLOGY_SENTINEL, REDIS_TOPOLOGY_CLUSTER };
enum hfi_wire { HFI_WIRE_NATIVE, HFI_WIRE_PLAIN, HFI_WIRE_REDISSON };

struct hfi_redis_conf {
    struct hfi_conf url;
    enum redis_topology_kind topology;
    const char *master; /* sentinel: the name of the master set */
    uint32_t db;        /* of the path, or db= */

    const char *sentinel_user, *sentinel_password; /* NULL: none */
    /* made by redis_conf_finish(): bad files are refused at open */
    struct hfi_tls_context *tls_context;

    int64_t connect_ms;      /* connect_timeout=, default 2 s: one attempt, all of it */
    int64_t op_ms;           /* op_timeout=, default 5 s: for a reply */
    int64_t ping_ms;         /* ping=: a quiet subscriber is pinged; default 2 s */
    const char *client_name; /* for CLIENT SETNAME: "holdfast:" and the label, cleaned */

    const char *prefix;       /* of all our keys and channels; prefix=, default "hf:" */
    enum hfi_wire wire;       /* wire=native|plain|redisson */
    int64_t repair_expiry_ms; /* repair_expiry=, wire=plain; 0: off */
    uint32_t sync;            /* sync=N: replicas that must have a grant; 0: none */
    int64_t sync_ms;          /* sync_timeout=, default 1 s */
    int64_t poll_ms;          /* poll=, foreign wires: the longest pause between attempts; default
                               * 100 ms */

    const char *location; /* with the master and the database: "redis://10.0.0.4:6379/0" */
};

extern const struct hfi_conf_type redis_conf_type;

/* Rows that redis and redlock have in common. */
#define REDIS_AT(member) offsetof(struct hfi_redis_conf, member)
#define REDIS_PARAMS                                                                   \
    { "db", HFI_PARAM_NUMBER, REDIS_AT(db), 0, INT32_MAX, 0, NULL },                   \
        { "connect_timeout",                                                           \
          HFI_PARAM_DURATION,                                                          \
          REDIS_AT(connect_ms),                                                        \
          REDIS_LIMIT_MIN_MS,                                                          \
          REDIS_LIMIT_MAX_MS,                                                          \
          2000,                                                                        \
          NULL },                                                                      \
        { "op_timeout",                                                                \
          HFI_PARAM_DURATION,                                                          \
          REDIS_AT(op_ms),                                                             \
          REDIS_LIMIT_MIN_MS,                                                          \
          REDIS_LIMIT_MAX_MS,                                                          \
          5000,                                                                        \
          NULL },                                                                      \
        { "ping",                                                                      \
          HFI_PARAM_DURATION,                                                          \
          REDIS_AT(ping_ms),                                                           \
          REDIS_LIMIT_MIN_MS,                                                          \
          REDIS_LIMIT_MAX_MS,                                                          \
          2000,                                                                        \
          NULL },                                                                      \
    {                                                                                  \
        "prefix", HFI_PARAM_TEXT, REDIS_AT(prefix), 0, HFI_PREFIX_MAX, 0, REDIS_PREFIX \
    }

/* ... and those of a wire on which waiting is trying again. */
#define REDIS_PLAIN_PARAMS                                                                        \
    { "poll", HFI_PARAM_DURATION, REDIS_AT(poll_ms), REDIS_LIMIT_MIN_MS, REDIS_LIMIT_MAX_MS, 100, \
      NULL },                                                                                     \
    {                                                                                             \
        "repair_expiry", HFI_PARAM_DURATION, REDIS_AT(repair_expiry_ms), REDIS_LIMIT_MIN_MS,      \
            HF_DURATION_MAX_MS, 0, NULL                                                           \
    }

/* Checks and computed values after the tables, also for redlock. `label` becomes part of the
 * client's name. HF_CONFIG names the part; HF_DENIED: a file cannot be read. redis_conf_done() may
 * be called after a failure. */
hf_status redis_conf_finish(struct hfi_redis_conf *conf, const char *label, hf_error *err);
void redis_conf_done(struct hfi_redis_conf *conf);

#endif
