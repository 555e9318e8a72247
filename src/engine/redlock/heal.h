/* SPDX-License-Identifier: MIT */
/*
 * Epochs, inside: what heal.c (probing, healing), heal_start.c (a new cluster), heal_wire.c
 * (commands, answers and texts) and join.c (hf_redlock_join()) share.
 */
#ifndef REDLOCK_HEAL_H
#define REDLOCK_HEAL_H

#include "engine/redlock/internal.h"

#define REDLOCK_START_STALE_MS 3000 /* an older marker of a starter may be overwritten */
#define REDLOCK_START_LIMIT_MS 1000 /* no install later than this after the first mark was sent */

/*
 *          tick                all have answered       a plan
 *   idle --------> looking ------------------> decide ----------> step --+
 *    ^               ^                           |                       |
 *    +---------------|---- nothing to do, stuck -+                       |
 *                    +---------------------------------------------------+
 */
struct redlock_healing {
    unsigned looks;    /* rounds of status under way */
    unsigned steps;    /* rounds of a step under way: nothing is decided meanwhile */
    bool eager;        /* the random pause before the first step has passed */
    int64_t look_ms;   /* probe all nodes then; HFI_NEVER */
    int64_t looked_ms; /* when all were last asked */
    int64_t lost_ms;   /* since when the data seems permanently lost; 0: it does not */
    unsigned failures; /* probes without progress, for the pauses after them */
    unsigned streak;   /* steps since there was nothing to do */
    enum hfi_heal_step last;
    /* A start that is under way: its marker, since when, and which nodes carry it. */
    unsigned char start_id[HFI_EPOCH_ID];      /* a start: its id ... */
    int64_t start_ms;                          /* ... since when it is under way ... */
    uint32_t sent;                             /* ... the nodes that were sent its markers ... */
    uint32_t mine;                             /* ... those that carry them ... */
    void (*then)(struct redlock_store *store); /* ... and what comes next */
};

/* ---- heal_wire.c -------------------------------------------------------------------------- */

/* The answer to `status`. */
struct redlock_told {
    struct hfi_node_view view;
    uint64_t floor, names;
};

/* Arguments of the scripts, behind their key. */
void redlock_say_mark(struct hfi_command *command, const unsigned char *marker,
                      int64_t overwrite_ms);
void redlock_say_seal(struct hfi_command *command, const struct hfi_epoch *expected,
                      const struct hfi_epoch *epoch);
void redlock_say_install(struct hfi_command *command, const unsigned char *marker,
                         const struct hfi_node_view *as, const struct hfi_epoch *epoch,
                         uint64_t floor);
/* false: it is not an answer of ours. */
bool redlock_read_status(const struct hfi_reply *reply, struct redlock_told *ret_told);
/* The marker that is there now, of what `mark` said; NULL: it is initialised, or no answer of ours. */
const unsigned char *redlock_read_marker(const struct hfi_reply *reply);

/* The text for a person about a plan that is STUCK. `whys`: errors of nodes that do not answer;
 * NULL: not known. */
hf_status redlock_stuck_text(const struct hfi_redis_conf *conf, const struct hfi_node_view *views,
                             unsigned n, enum hfi_stuck why, const hf_error *const *whys,
                             hf_error *err);

/* The text of `why` without the node's address before it. */
const char *redlock_why(const struct hfi_redis_conf *conf, unsigned node, const hf_error *why);

/* ---- heal.c --------------------------------------------------------------------------------- */

/* Look at all nodes again: in `from_ms` to `from_ms + spread_ms` from now, or earlier. */
void redlock_heal_soon(struct redlock_store *store, int64_t from_ms, int64_t spread_ms);
void redlock_heal_again(struct redlock_store *store); /* after a pause that grows */
/* A step's round; unless `over` is changed, all nodes are probed when the last round has ended. */
struct redlock_round *redlock_heal_round(struct redlock_store *store,
                                         const struct hfi_script *script,
                                         redlock_answer_fn *answer);
/* An answer whose content does not matter; the end of a round (or of what counted as one). */
void redlock_heal_answered(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                           const struct hfi_reply *reply, const hf_error *err);
void redlock_heal_stepped(struct redlock_store *store);
void redlock_heal_views(const struct redlock_store *store,
                        struct hfi_node_view ret_views[HFI_NODES_MAX]);

/* ---- heal_start.c ----------------------------------------------------------------------------- */

void redlock_start(struct redlock_store *store); /* all nodes are up and empty */

#endif
