/* SPDX-License-Identifier: MIT */
/* Acquiring for `run` and `lock`: the wait is shown to the user, and a signal ends it at once. */
#ifndef CLI_ACQUIRE_H
#define CLI_ACQUIRE_H

#include "cli.h"
#include "signals.h"
#include "status.h"
#include "store.h"

#define SESSION_VARIABLE "HOLDFAST_SESSION" /* what the outer runs hold: hf_session_get() */

/* Check the options that both verbs share: -n with -w, -s with --slots and so on. EXIT_FINE or
 * EXIT_USAGE. */
int acquire_check(const struct cli *cli);
/* The request that the options ask for. */
hf_acquire_request acquire_request(const struct cli *cli);

struct acquiring {
    const struct cli *cli;
    struct cli_store *store;
    struct signals *signals;
    struct status_out *status; /* may be closed */
    hf_acquire_request request;
    const struct texts *also; /* more names for the same; NULL: none */
    const struct texts *any;  /* --any: one of these instead of the request's name; NULL: none */
    size_t chosen;            /* ... which one; set with the lease */
    int passed_over;          /* a signal that does nothing while we wait; 0: none */
    struct signal_event ended_by; /* set when a signal ended the waiting; else number 0 */
};

/*
 * Acquire. true: we hold *ret_leases, that of the name and then those of all `also`. false: we hold
 * nothing and wait for nothing, and *ret_code is the exit code, after a message: that of -E (which
 * may be 0) or 75 if it was busy, 128 + signal if a signal ended the wait.
 */
bool acquire(struct acquiring *acquiring, hf_lease **ret_leases, int *ret_code);
/* It was not acquired: say why. Returns the exit code. */
int acquire_failure(const struct acquiring *acquiring, const hf_error *err);
/* Read the signals that came. true: one of them ends the wait, for good or because it stops us. */
bool acquire_ended(struct acquiring *acquiring, int *ret_stop);

/* ---- several.c: more than one name -------------------------------------------- */

/* Are there more names than one? */
bool several_wanted(const struct acquiring *acquiring);
/* Acquire the request's name and all `also`, or one of `any`, at most for wait_ms, on a thread of its own so that signals
 * are seen meanwhile. HF_CANCELLED: one of them ended it; *ret_stop: to stop only. */
hf_status several_acquire(struct acquiring *acquiring, int64_t wait_ms, int *ret_stop,
                          hf_lease **ret_leases, hf_error *err);

/* ---- held_by.c: what a failure says about the holder ------------------------------------------ */

#define HELD_BY_MAX 512

/* Look once at what was not acquired, for a moment at most: "; held by ...", or "" if nothing is known. */
void held_by(const struct acquiring *acquiring, char ret_text[HELD_BY_MAX]);

/* ---- wait_line.c: showing what we wait for ---------------------------------- */

struct wait_line;

/* Begin to show the wait: on a terminal as one line, on a status descriptor as an event per change.
 * NULL: there is neither. */
struct wait_line *wait_line_begin(struct acquiring *acquiring);
/* Erase the line and stop. Accepts NULL. */
void wait_line_end(struct wait_line *line);

#endif
