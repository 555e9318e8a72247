/* SPDX-License-Identifier: MIT */
/*
 * Stopping a `run` (Ctrl-Z, SIGTSTP, SIGTTIN, SIGTTOU). While we are stopped the lease is not
 * renewed, so nothing may run under it: first the command stops, then we do.
 *
 *            the signal         everything has stopped
 *   running ------------> asked ----------------------> stopped -- SIGCONT --> running, if the lease is good
 *                           |   after STOP_MS                ^
 *                           +-- SIGSTOP to what moves ------+
 *                           |   after GIVE_UP_MS more
 *                           +-- continued, and said: not everything could be stopped
 *
 * A process that no signal interrupts at the moment (state D of proc(5)) counts as stopped once it was sent SIGSTOP:
 * it cannot come back from its system call before SIGCONT. It may be for good in that state: a shell in vfork(2) waits
 * for its child, which we have stopped before it could exec.
 *
 * The supervisor keeps running all this time: if the lease is lost meanwhile, the command is ended
 * and not stopped.
 *
 * A yield (wanted.h) stops the command in the same way, by SIGSTOP at once, and then gives the lease away instead of stopping us.
 *
 * What stops: all descendants of the command, if the lease can expire meanwhile. If it cannot,
 * because it has no ttl, processes that have left our session are spared: a daemon that others use
 * need not stop with a job. Main thread.
 */
#include "run.h"

#include "util/clock.h"

#include <unistd.h>

#define LOOK_MS 20
#define STOP_MS 500 /* for programs that reset the terminal before they stop */
#define GIVE_UP_MS \
    5000 /* a process stops when it is next scheduled, which may be late on a busy machine */

/* Can the lease end while we are stopped? That of an outer run may: we do not know its ttl. */
static bool can_run_out(const struct run *run)
{
    const struct args *args = &run->cli->args;

    return !run->lease || args->ttl_ms || args->max_hold_ms || run->store.info.default_ttl_ms;
}

static struct kin_choice chosen(const struct run *run)
{
    if (run->stop.yields)
        return (struct kin_choice){ 0 };
    return (struct kin_choice){ .session = can_run_out(run) ? 0 : getsid(0) };
}

void suspend_begin(struct run *run, int number, bool group)
{
    int64_t now_ms = hfi_now_ms();

    /* A command that is being ended is not stopped: KILL must come in time. */
    if (run->stop.number || run->phase != RUN_RUNNING)
        return;
    if (!group)
        child_signal(&run->child, number);
    run->stop = (struct run_stop){
        .number = number, .group = group, .force_ms = now_ms + STOP_MS, .give_up_ms = PLAN_NEVER
    };
}

void suspend_begin_yield(struct run *run)
{
    child_take_tty(&run->child); /* a command that is stopped does not receive Ctrl-C: we do */
    run->stop = (struct run_stop){
        .number = SIGSTOP, .yields = true, .force_ms = hfi_now_ms(), .give_up_ms = PLAN_NEVER
    };
}

/* All has stopped. */
static int64_t rest(struct run *run, int64_t until_ms)
{
    struct run_stop *stop = &run->stop;

    if (stop->yields) {
        wanted_go(run);
        return until_ms;
    }
    if (stop->group)
        child_take_tty(&run->child);
    signals_stop(stop->number, stop->group);
    supervise_resume(run);
    return hfi_now_ms();
}

int64_t suspend_go_on(struct run *run, int64_t until_ms)
{
    struct run_stop *stop = &run->stop;
    struct kin_choice choice = chosen(run);
    int64_t now_ms = hfi_now_ms();
    struct kin_seen seen;

    if (stop->number && run->phase != RUN_RUNNING)
        suspend_end(run); /* the lease was lost meanwhile */
    if (!stop->number || run->wanted.away)
        return until_ms;

    seen = kin_signal(&run->kin, 0, &choice);
    if (seen.moving == 0 || (stop->blocked && seen.moving == seen.blocked)) {
        if (seen.alive == 0) /* all have ended, or /proc hides them */
            child_signal(&run->child, SIGSTOP);
        return rest(run, until_ms);
    }
    if (now_ms >= stop->give_up_ms) {
        say_error("not %s: process %d of the command cannot be stopped",
                  stop->yields ? "yielding" : "stopping", (int)seen.pids[0]);
        if (stop->yields)
            wanted_keep(run);
        supervise_resume(run);
        return now_ms;
    }
    if (now_ms >= stop->force_ms) {
        if (!stop->forced) /* counted from the first SIGSTOP, which may have been sent late */
            stop->give_up_ms = now_ms + GIVE_UP_MS;
        stop->forced = true;
        stop->blocked = seen.moving == seen.blocked;
        kin_signal(&run->kin, SIGSTOP, &choice);
    }
    return now_ms + LOOK_MS < until_ms ? now_ms + LOOK_MS : until_ms;
}

void suspend_end(struct run *run)
{
    struct kin_choice choice = chosen(run);

    if (run->stop.yields && run->child.wants_tty)
        child_give_tty(&run->child);
    child_signal(&run->child, SIGCONT);
    if (run->stop.forced)
        kin_signal(&run->kin, SIGCONT, &choice);
    run->stop = (struct run_stop){ 0 };
}
