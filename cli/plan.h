/* SPDX-License-Identifier: MIT */
/*
 * When does a running command have to be ended because of its lease? Pure
 * decisions: no clock, no signal is sent here.
 *
 *              lease ends soon, or was lost          kill_at_ms
 *   RUNNING ---------------------------------> ENDING ----------> KILLED
 *      |     (TERM)                              |      (KILL)
 *      +-----------------------------------------+--------------> KILLED
 *            on-lost=kill, or too late for TERM (KILL)
 *
 * With on-lost=warn it stays RUNNING.
 */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "cli.h"

#define KILL_AFTER_DEFAULT_MS 5000
#define KILL_MARGIN_MS        50 /* for the scheduler: KILL is sent this long before the lease ends */
#define PLAN_NEVER            INT64_MAX

enum run_phase { RUN_RUNNING, RUN_ENDING, RUN_KILLED };
enum run_act { RUN_SLEEP, RUN_TERM, RUN_KILL };

struct run_plan {
    enum on_lost on_lost;
    int64_t kill_after_ms;
};

/* What is known about the lease. */
struct run_lease {
    int64_t valid_until_ms; /* PLAN_NEVER: no end */
    bool lost;
};

struct run_step {
    enum run_act act;
    int64_t until_ms; /* sleep: decide again then; TERM: KILL is due then */
};

struct run_step plan_next(const struct run_plan *plan, enum run_phase phase, int64_t kill_at_ms,
                          const struct run_lease *lease, int64_t now_ms);

/*
 * The time between TERM and KILL for a lease of ttl_ms and max_hold_ms (0: no
 * such limit), `asked_ms` of it asked for (0: none). -1: what was asked for does
 * not fit. A lease that is renewed at a third of its ttl has two thirds left at
 * worst; half of the ttl fits below that with room for a slow renewal.
 */
int64_t plan_kill_after(int64_t asked_ms, int64_t ttl_ms, int64_t max_hold_ms);

#endif
