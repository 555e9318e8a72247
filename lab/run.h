/* SPDX-License-Identifier: MIT */
/* An experiment from begin to end: servers, plays, verdicts. */
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "stage/stage.h"

enum run_end {
    RUN_DONE,
    RUN_MISSING, /* a server is not installed; `text` says which package */
    RUN_REFUSED, /* --store is not for this one; `text` says why */
    RUN_FAILED,  /* `text` says why */
    RUN_STOPPED, /* by a signal */
};

/* Told before the servers are started (way -1), before each run of a way, and when all is done (`experiment` is NULL). What is measured has no ways one by
 * one: way 0 stands for all. */
typedef void run_progress_fn(const struct experiment *experiment, int way, unsigned run,
                             unsigned runs);
void run_tell(run_progress_fn *tell);

/* Play `experiment` `repeat` times. The stage says where: stage->url is set for a server of the user, else NULL. */
enum run_end run_experiment(struct stage *stage, const struct experiment *experiment,
                            unsigned repeat, struct report *ret_report, char text[256]);

/* For an experiment whose own open() wants the common Redis server beside others: stage->url and naive clients are at it. */
void run_open_redis(struct stage *stage);
void run_close_redis(struct stage *stage);

/* The user's own Redis server, for naive clients too: redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]. `url` is kept, and cut into pieces in a copy
 * that lives as long as the program. false: not such a URL. */
bool run_at(struct stage *stage, const char *url);

#endif
