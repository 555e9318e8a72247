/* SPDX-License-Identifier: MIT */
/*
 * All our descendants: the command, what it started, and so on. As a child subreaper we stay the
 * ancestor of all of them, also of those that changed their process group or session and of those
 * that lost their parent. So all of them can be found, stopped and ended.
 *
 * They are found in /proc. A process that forks while we read is found the next time: the caller
 * repeats until nothing is left. Main thread.
 */
#ifndef CLI_KIN_H
#define CLI_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define KIN_NAMED 8 /* processes that are named, of those that cannot be signalled */

struct kin {
    pid_t *strangers; /* children that we had before exec: not the command's */
    size_t stranger_count;
};

/* Which of them. Zero: all. */
struct kin_choice {
    pid_t session;          /* only this one's */
    pid_t but_group;        /* this group has got the signal already: it is only counted */
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

/* Before the command is started: become the subreaper of our descendants, and note the children
 * that are not the command's. */
void kin_begin(struct kin *kin);
/* Send `number` (0: only count) to each. TERM also continues stopped processes, which would not
 * receive it otherwise. */
struct kin_seen kin_signal(const struct kin *kin, int number, const struct kin_choice *choice);
/* Reap the processes that we inherited, but not `command`. false: we have no descendants left. */
bool kin_reap(const struct kin *kin, pid_t command);

#endif
