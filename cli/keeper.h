/* SPDX-License-Identifier: MIT */
/*
 * `lock --for PID`: a process in the background that keeps a lease renewed
 * while PID lives, releases it when PID has ended, and ends when the lease has.
 *
 * It is forked before the library is used, since a fork of a process with threads can do little.
 * Then it waits for the handle of the lease; if the process that forked it ends without sending
 * one, it ends too. It keeps no inherited descriptors but the pipe and the pidfd of PID: otherwise
 * a shell that captures the output of `lock` would wait for it for ever.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include "cli.h"

#include <sys/types.h>

struct keeper {
    pid_t pid;
    int to, from; /* pipes; -1: no keeper */
};

/* Fork it for process `pid`. EXIT_FINE, or the exit code after a message. */
int keeper_begin(const struct cli *cli, int64_t pid, struct keeper *ret_keeper);
/* Hand over the lease. EXIT_FINE: the keeper has it and renews it. */
int keeper_hand_over(struct keeper *keeper, const char *handle);

#endif
