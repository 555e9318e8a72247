/* SPDX-License-Identifier: MIT */
/*
 * A `run` whose lease others want: --on-wanted tells the command by a signal, --yield-signal lets the command (or anybody) give the
 * lease away for a while. The library tells a thread of its own, which writes a letter into a pipe; all else is done by the main
 * thread.
 *
 *            the signal, and others wait       all has stopped                  granted again
 *   running ---------------------------> stopping -----------> away ------------------------> running: "granted"
 *      ^  |                                 | cannot be stopped   | not in time, no store
 *      |  | nobody waits: "kept"            v                     v
 *      +--+<--------------------------- running: "kept"        the lease is lost: the command is ended
 *
 * Nothing of the command runs while the lease is away. suspend.c stops and continues it.
 */
#ifndef CLI_WANTED_H
#define CLI_WANTED_H

#include "cli.h"

struct run;

struct run_wanted {
    int letters[2];   /* a pipe; 0 and 0: there is none */
    int on_wanted;    /* --on-wanted: sent to the command; 0: none */
    int yield_signal; /* --yield-signal; 0: none */
    bool away;        /* the lease is being yielded, and `op` is under way */
    bool back;        /* `op` has ended, with `status` */
    /* the lease may have been granted in the store's loop: then its events come from there */
    bool looped;
    bool owes;         /* the command gets `on_wanted` when it is ready for it */
    int64_t look_ms;   /* until we look at that again */
    bool not_regained; /* it is lost because it was not granted again */
    hf_op *op;
    hf_status status;
    hf_lease *lease; /* what was granted */
};

/* Check the options. EXIT_FINE, or EXIT_USAGE after a message. */
int wanted_check(const struct cli *cli);
/* Before the lease is acquired: what it asks for more. EXIT_FINE, or the exit code after a message. */
int wanted_prepare(struct run *run);
/* Add that to the request. */
void wanted_request(struct run *run, hf_acquire_request *request);

/* What to poll for, -1: nothing; and what to do if it is readable. */
int wanted_fd(const struct run *run);
void wanted_hear(struct run *run);
/* Is this the signal to yield? Then it is done, or begins. */
bool wanted_signal(struct run *run, int number);

/* suspend.c: all has stopped, and the lease is given away; or it could not be stopped, and is kept. */
void wanted_go(struct run *run);
void wanted_keep(struct run *run);
/* The descriptor and time limit of the store's loop; -1: none. */
int wanted_loop_fd(const struct run *run);
int64_t wanted_loop_until(const struct run *run, int64_t until_ms);
void wanted_loop(struct run *run);
/* The command has ended. If the lease is away, do not wait for it: run->lease is what we have then. */
void wanted_end(struct run *run);
/* A signal that ends the command comes while the lease is away: do not wait for it any longer. */
void wanted_give_up(struct run *run);

#endif
