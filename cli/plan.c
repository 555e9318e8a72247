/* SPDX-License-Identifier: MIT */
/* When a running command has to be ended: see plan.h. Pure. */
#include "plan.h"

static struct run_step running(const struct run_plan *plan, const struct run_lease *lease,
                               int64_t now_ms);

struct run_step plan_next(const struct run_plan *plan, enum run_phase phase, int64_t kill_at_ms,
                          const struct run_lease *lease, int64_t now_ms)
{
    switch (phase) {
    case RUN_RUNNING:
        return running(plan, lease, now_ms);
    case RUN_ENDING:
        if (now_ms >= kill_at_ms)
            return (struct run_step){ RUN_KILL, now_ms };
        return (struct run_step){ RUN_SLEEP, kill_at_ms };
    case RUN_KILLED:
        break;
    }
    return (struct run_step){ RUN_SLEEP, PLAN_NEVER };
}

static struct run_step running(const struct run_plan *plan, const struct run_lease *lease,
                               int64_t now_ms)
{
    int64_t grace_ms = plan->on_lost == ON_LOST_KILL ? 0 : plan->kill_after_ms;
    int64_t last_ms;

    if (plan->on_lost == ON_LOST_WARN)
        return (struct run_step){ RUN_SLEEP, PLAN_NEVER };

    /* Broken by an operator or forgotten by the store: that could not be foreseen, so TERM with the
     * grace that was asked for. */
    if (lease->lost && now_ms < lease->valid_until_ms)
        return plan->on_lost == ON_LOST_KILL ? (struct run_step){ RUN_KILL, now_ms }
                                             : (struct run_step){ RUN_TERM, now_ms + grace_ms };
    if (lease->valid_until_ms == PLAN_NEVER)
        return (struct run_step){ RUN_SLEEP, PLAN_NEVER };

    last_ms = lease->valid_until_ms - KILL_MARGIN_MS;
    if (now_ms >= last_ms) /* we were stopped or suspended past it: there is no time for TERM */
        return (struct run_step){ RUN_KILL, now_ms };
    if (now_ms >= last_ms - grace_ms)
        return (struct run_step){ RUN_TERM, last_ms };
    return (struct run_step){ RUN_SLEEP, last_ms - grace_ms };
}

int64_t plan_kill_after(int64_t asked_ms, int64_t ttl_ms, int64_t max_hold_ms)
{
    int64_t fits_ms = PLAN_NEVER;
    int64_t want_ms = asked_ms ? asked_ms : KILL_AFTER_DEFAULT_MS;

    if (ttl_ms)
        fits_ms = ttl_ms / 2;
    if (max_hold_ms && max_hold_ms / 2 < fits_ms)
        fits_ms = max_hold_ms / 2;

    if (want_ms <= fits_ms)
        return want_ms;
    if (asked_ms)
        return -1;
    return fits_ms * 2 / 3; /* a third of the ttl */
}
