/* SPDX-License-Identifier: MIT */
/*
 * `lock --for PID`: a process in the background that keeps a lease renewed
 * while PID lives, releases it when PID has ended, and ends when the lease has.
 *
 * It is forked before the library is touched, for a fork of a process with
 * threads is no good place to begin. Until it is told which lease, it waits; if
 * the process that forked it ends without a word, it ends too. It keeps nothing of
 * what it inherited but the pipe and PID's descriptor: a shell that captures the
 * output of `lock` would wait for ever for it.
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
