/* SPDX-License-Identifier: MIT */
/*
 * The command of a `run`: started without a shell, in a process group of its
 * own, killed by the kernel if we die, and with the terminal if we have it.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "signals.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;      /* also its process group; 0: not started */
    int tty;        /* a descriptor of our terminal; -1: none is known */
    bool on_tty;    /* we were in the foreground of a terminal when we started it */
    bool has_tty;   /* its group is the terminal's foreground */
    bool wants_tty; /* it had the terminal: give it back when we are continued */
    bool exited;
    int status; /* then: as of waitpid(2) */
};

/*
 * Start argv[0] by PATH. Returns 0, or an errno: then nothing was started. Main thread only: the
 * kernel kills the child when the thread that started it ends.
 */
int child_start(struct child *child, char **argv, const struct signals *signals);
/*
 * After SIGCHLD: read its state. Returns the signal that stopped it, 0: not stopped. With
 * `end_group`, if it has exited, the rest of its group is killed.
 */
int child_look(struct child *child, bool end_group);
/* Has it ended, whether child_look() has seen that or not? */
bool child_has_ended(const struct child *child);
/* Send a signal to its whole group, and to the child itself if it has left the group. kin.h reaches
 * the rest. */
void child_signal(const struct child *child, int number);
/* Give its group the terminal, if it is ours to give. */
void child_give_tty(struct child *child);
/* Take the terminal back, if it was given. */
void child_take_tty(struct child *child);

#endif
