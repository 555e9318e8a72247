/* SPDX-License-Identifier: MIT */
/*
 * All nodes, asked one after the other over connections of one's own, by somebody who may block: the doctor and
 * `holdfast redlock`. The store's links belong to who drives it, and need not be there at all. One thread, no lock.
 */
#ifndef REDLOCK_SURVEY_H
#define REDLOCK_SURVEY_H

#include "engine/redis/ask.h"
#include "engine/redlock/heal.h"

struct redlock_probed {
    struct hfi_ask *ask;      /* NULL: it cannot be reached ... */
    hf_error why;             /* ... or does not say what it is: why; else HF_OK */
    struct redlock_told told; /* UNKNOWN: see `why` */
};

struct redlock_probe {
    const struct hfi_redis_conf *conf;
    char key[HFI_PREFIX_MAX + sizeof "rl:cluster"];
    unsigned n;
    struct redlock_probed nodes[HFI_NODES_MAX];
};

/* `conf` lives longer. redlock_probe_done() in any case. */
void redlock_probe_init(struct redlock_probe *probe, const struct hfi_redis_conf *conf);
void redlock_probe_done(struct redlock_probe *probe);
/* Connect to those that are not connected, and ask all what they are. */
void redlock_probe_look(struct redlock_probe *probe);
void redlock_probe_views(const struct redlock_probe *probe, struct hfi_node_view *ret_views);
const char *redlock_probe_name(const struct redlock_probe *probe, unsigned node);

/* A call of a script on the cluster's key: begin, say (heal.h), send. The letter of its answer; 0: `err` has why
 * there is none of ours. */
void redlock_probe_begin(const struct redlock_probe *probe, struct hfi_command *command,
                         const struct hfi_script *script);
char redlock_probe_send(struct redlock_probe *probe, unsigned node, struct hfi_command *command,
                        hf_error *err);

#endif
