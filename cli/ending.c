/* SPDX-License-Identifier: MIT */
/*
 * Ending the command of a `run` whose lease is lost, with everything that descends from it: also what has left
 * its process group or its session (kin.h). Signals are sent first, messages after that. A process
 * that cannot be ended, because it runs as another user or does not die of KILL, is named in a
 * message and on --status-fd. Main thread.
 */
#include "run.h"

#include "util/clock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define CHASE_MS 20 /* between two checks of what is left */
#define LATE_MS \
    1000 /* a process that is alive this long after KILL is not waited for, unless it is the command */

static void say_left(struct run *run, const struct kin_seen *seen, const char *why);

void ending_term(struct run *run, int64_t grace_ms)
{
    struct kin_choice others = { .but_group = run->child.exited ? 0 : run->child.pid,
                                 .but_trees = run->nest.pids,
                                 .tree_count = run->nest.inner_count };
    struct kin_seen seen;

    nest_tell(&run->nest, NEST_ENDING, (uint64_t)grace_ms); /* inner runs end their own commands */
    child_signal(&run->child, SIGTERM);
    child_signal(&run->child, SIGCONT); /* a stopped process does not receive TERM */
    seen = kin_signal(&run->kin, SIGTERM, &others);
    run->ending = (struct run_ending){ .left = true };
    run->ending.denied = seen.alive > 0 && seen.denied == seen.alive;
}

void ending_kill(struct run *run)
{
    struct kin_seen seen;

    nest_tell(&run->nest, NEST_LOST, 0);
    child_signal(&run->child, SIGKILL);
    seen = kin_signal(&run->kin, SIGKILL, &(struct kin_choice){ 0 });
    run->ending = (struct run_ending){ .left = true, .killed_ms = hfi_now_ms() };
    run->ending.denied = seen.alive > 0 && seen.denied == seen.alive;
}

bool ending_is_on(const struct run *run)
{
    return run->ending.left && !run->ending.gave_up;
}

int64_t ending_chase(struct run *run, int64_t until_ms)
{
    bool killing = run->phase == RUN_KILLED;
    int64_t now_ms = hfi_now_ms();
    struct kin_seen seen;

    /* Until KILL is due the command may end by itself, and so may what it leaves behind. */
    if (!ending_is_on(run) || (!killing && !run->child.exited))
        return until_ms;

    run->ending.left = kin_reap(&run->kin, run->child.exited ? 0 : run->child.pid);
    if (!run->ending.left)
        return now_ms; /* that was all */
    seen = kin_signal(&run->kin, killing ? SIGKILL : 0, &(struct kin_choice){ 0 });
    if (killing && seen.alive > 0 && seen.denied == seen.alive)
        say_left(run, &seen, strerror(EPERM));
    else if (killing && now_ms >= run->ending.killed_ms + LATE_MS)
        say_left(run, &seen, "it was killed, but does not end");
    return now_ms + CHASE_MS < until_ms ? now_ms + CHASE_MS : until_ms;
}

static void name_of(pid_t pid, char name[32])
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (!file || !fgets(name, 32, file))
        name[0] = 0;
    name[strcspn(name, "\n")] = 0;
    if (file)
        fclose(file);
}

/* Once: it outlives the lease. */
static void say_left(struct run *run, const struct kin_seen *seen, const char *why)
{
    json_t *event = status_begin(&run->status, "not_ended");
    json_t *pids = json_array();

    run->ending.gave_up = true;
    for (size_t i = 0; i < seen->named; i++) {
        char name[32];

        name_of(seen->pids[i], name);
        say_error("process %d (%s) was not ended in time and continues without the lease: %s",
                  (int)seen->pids[i], shown(name), why);
        json_array_append_new(pids, json_integer(seen->pids[i]));
    }
    if (seen->named == 0)
        say_error("a process that the command started was not ended in time: %s", why);
    json_object_set_new(event, "pids", pids);
    json_object_set_new(event, "reason", json_string(why));
    status_send(&run->status, event);
}
