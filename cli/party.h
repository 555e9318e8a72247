/* SPDX-License-Identifier: MIT */
/* What latch and barrier share: the name of this participant, and a wait that a signal ends. */
#ifndef CLI_PARTY_H
#define CLI_PARTY_H

#include "canceller.h"
#include "holdfast/primitives.h"
#include "run.h"

/* --as, or a name of this process: "host:4711". */
const char *party_who(const struct cli *cli);
/* How long to wait: -n, -w or for ever. */
int64_t party_wait_ms(const struct cli *cli);
/* The request of latch and barrier: with the name and --parties. */
hf_party_request party_request(const struct cli *cli, hf_cancel *cancel);
/* The exit code of a wait that failed, after a message. `ended_by`: the signal that ended it, if
 * one did. */
int party_failure(const struct cli *cli, const hf_error *err, const struct signal_event *ended_by);

/* Open the store and wait in `call`; a signal that was typed ends us afterwards. Returns the exit code. */
typedef hf_status party_call(struct cli *cli, hf_store *store, hf_cancel *cancel, hf_error *err);
int party_wait(struct cli *cli, party_call *call);

#endif
