/* SPDX-License-Identifier: MIT */
/*
 * Signals as events. While a verb holds or waits for something, every signal
 * that can be caught is blocked and read from a descriptor; nothing runs in a
 * handler, and no disposition is changed, so a child inherits them as we did.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;             /* polls readable when signals_next() has one */
    sigset_t before;    /* the mask we were started with, for a child */
    bool child_ignored; /* SIGCHLD was ignored when we were started */
};

struct signal_event {
    int number;
    bool typed; /* by the kernel: typed at the terminal, or its hang-up */
};

/* Block and open. false: no descriptor is left. */
bool signals_open(struct signals *signals);
/* The next one that is not ignored. false: none now. Never blocks. */
bool signals_next(const struct signals *signals, struct signal_event *ret_event);
/* Would it end a program that does nothing about it? */
bool signal_ends(int number);
/* Would it stop one? */
bool signal_stops(int number);
/*
 * Stop as the default action of `number` would, and return when continued. With
 * `group` the rest of our process group is stopped too. Returns at once where
 * the kernel does not stop processes that nobody could continue (an orphaned
 * process group), and where a SIGCONT has come meanwhile.
 */
void signals_stop(int number, bool group);
/*
 * Die of `number`, as a program without a handler would: the shell that waits
 * for us must see that its loop was interrupted. With `group` the rest of our
 * process group gets it too, as from the terminal. Returns only if it cannot be done.
 */
void signals_die(int number, bool group);

#endif
