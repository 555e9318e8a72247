/* SPDX-License-Identifier: MIT */
/*
 * All nodes, asked one after the other over connections of one's own, by somebody who may block: the doctor and
 * `holdfast redlock`. The store's links belong to who drives it, and need not be there at all. One thread, no lock.
 */
#ifndef HFI_RL_SURVEY_H
#define HFI_RL_SURVEY_H

#include "engine/redis/ask.h"
#include "engine/redlock/heal.h"

struct rl_surveyed {
    struct hfi_ask *ask; /* NULL: it cannot be reached ... */
    hf_error why;        /* ... or does not say what it is: why; else HF_OK */
    struct rl_told told; /* UNKNOWN: see `why` */
};

struct rl_survey {
    const struct hfi_redis_conf *conf;
    char key[HFI_PREFIX_MAX + sizeof "rl:cluster"];
    unsigned n;
    struct rl_surveyed nodes[HFI_NODES_MAX];
};

/* `conf` lives longer. hfi_rl_survey_done() in any case. */
void hfi_rl_survey_init(struct rl_survey *survey, const struct hfi_redis_conf *conf);
void hfi_rl_survey_done(struct rl_survey *survey);
/* Connect to those that are not connected, and ask all what they are. */
void hfi_rl_survey_look(struct rl_survey *survey);
void hfi_rl_survey_views(const struct rl_survey *survey, struct hfi_node_view *ret_views);
const char *hfi_rl_survey_name(const struct rl_survey *survey, unsigned node);

/* A call of a script on the cluster's key: begin, say (heal.h), send. The letter of its answer; 0: `err` has why
 * there is none of ours. */
void hfi_rl_survey_begin(const struct rl_survey *survey, struct hfi_command *command,
                         const struct hfi_script *script);
char hfi_rl_survey_send(struct rl_survey *survey, unsigned node, struct hfi_command *command,
                        hf_error *err);

#endif
