/* SPDX-License-Identifier: MIT */
/*
 * All nodes, asked one after the other over connections of the probe's own, on a thread that may block: for the doctor and
 * for the calls that do not open the store (status.c, join.c). No lock.
 */
#ifndef REDLOCK_PROBE_H
#define REDLOCK_PROBE_H

#include "engine/redis/ask.h"
#include "engine/redlock/heal.h"

struct redlock_probed {
    struct hfi_ask *ask;      /* NULL: not reachable ... */
    hf_error why;             /* ... or does not say what it is: why; else HF_OK */
    struct redlock_told told; /* UNKNOWN: see `why` */
};

struct redlock_probe {
    const struct hfi_redis_conf *conf;
    char key[HFI_PREFIX_MAX + sizeof "rl:cluster"];
    unsigned n;
    struct redlock_probed nodes[HFI_NODES_MAX];
    /* of the last probe, for the pure functions of quorum.h */
    struct hfi_node_view views[HFI_NODES_MAX];
};

/* `conf` lives longer. redlock_probe_done() in any case. */
void redlock_probe_init(struct redlock_probe *probe, const struct hfi_redis_conf *conf);
void redlock_probe_done(struct redlock_probe *probe);
/* Connect to the nodes that are not connected, and ask all for their state. */
void redlock_probe_look(struct redlock_probe *probe);
const char *redlock_probe_name(const struct redlock_probe *probe, unsigned node);
const char *redlock_probe_why(const struct redlock_probe *probe, unsigned node); /* it is UNKNOWN */
/* The text for a person about a plan that is STUCK. */
hf_status redlock_probe_stuck(const struct redlock_probe *probe, enum hfi_stuck why, hf_error *err);

/* A call of a script on the cluster's key: begin, say (heal.h), send. The letter of its answer; 0: `err` has why
 * there is none of ours. */
void redlock_probe_begin(const struct redlock_probe *probe, struct hfi_command *command,
                         const struct hfi_script *script);
char redlock_probe_send(struct redlock_probe *probe, unsigned node, struct hfi_command *command,
                        hf_error *err);

#endif
