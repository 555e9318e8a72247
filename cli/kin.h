/* SPDX-License-Identifier: MIT */
/*
 * Everything that descends from us: the command, what it started, what that
 * started. As a child subreaper we stay the ancestor of all of it, also of what
 * changed its process group or its session and of what lost its parent, so all of
 * it can be found, stopped and ended.
 *
 * It is found in /proc. Whatever forks while we read is found the next time:
 * the caller repeats until nothing is left. Main thread.
 */
#ifndef CLI_KIN_H
#define CLI_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define KIN_NAMED 8 /* processes that are named, of those that cannot be signalled */

struct kin {
    pid_t *strangers; /* children from before exec made us what we are */
    size_t stranger_count;
};

/* Which of them. Zero: all. */
struct kin_choice {
    pid_t session;          /* only this one's */
    pid_t but_group;        /* these have got the signal already; they are looked at and counted */
    const pid_t *but_trees; /* not these, nor what descends from them */
    size_t tree_count;
};

struct kin_seen {
    size_t alive;          /* processes, without those that have ended and wait to be reaped */
    size_t moving;         /* of these, not stopped */
    size_t blocked;        /* of those that move, in a system call that no signal interrupts */
    size_t denied;         /* of these, we may not signal */
    pid_t pids[KIN_NAMED]; /* the denied ones; with number 0, those that move */
    size_t named;
};

/* Before the command is started: become the reaper of all that descends from us, and note children that
 * are not the command's. */
void kin_begin(struct kin *kin);
/* Send `number` (0: only look) to each. TERM continues what is stopped: it could not hear it. */
struct kin_seen kin_signal(const struct kin *kin, int number, const struct kin_choice *choice);
/* Reap what was left to us, but not `command`. false: there is nothing more that descends from us. */
bool kin_reap(const struct kin *kin, pid_t command);

#endif
