/* SPDX-License-Identifier: MIT */
/* One `holdfast run`, or another verb that runs a command under a lease: run.c prepares and ends it,
 * supervise.c watches over the command. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "acquire.h"
#include "child.h"
#include "kin.h"
#include "nest.h"
#include "plan.h"
#include "wanted.h"

struct run;

/* What a verb adds to a run. Each may be NULL. Those that return bool: false ends the run with
 * *ret_code. */
struct run_hooks {
    bool nests;                                     /* may run under the lease of an outer run */
    bool (*before)(struct run *run, int *ret_code); /* the store is open, and nothing is acquired */
    bool (*acquire)(struct run *run, int *ret_code); /* instead of hf_acquire(): sets run->lease and
                                     * run->tokens[0] */
    bool (*entered)(struct run *run, int *ret_code); /* the lease is ours, no command runs yet */
    int (*ended)(struct run *run, int code);         /* the command has ended; returns the exit
                                                      * code */
    hf_status (*release)(hf_lease *lease, hf_error *err); /* instead of hf_release() */
    bool (*again)(struct run *run, int code);             /* after everything: run again? */
};

/* ending.c: the command must end, with all that it started. */
struct run_ending {
    int64_t killed_ms; /* when KILL was sent first */
    bool left;         /* something that the command started may still be alive */
    bool denied;       /* we may not signal any of it */
    bool gave_up;      /* what is still alive cannot be ended; that was said */
};

/* suspend.c: we were told to stop, and stop when nothing moves any more. */
struct run_stop {
    int number;   /* by which signal; 0: not now */
    bool group;   /* and our process group with us */
    bool forced;  /* by SIGSTOP */
    bool yields;  /* not because of a signal: nothing may run while the lease is away (wanted.h) */
    bool blocked; /* the last check found only processes that no signal interrupts, and SIGSTOP was
                   * sent after it */
    int64_t force_ms, give_up_ms;
};

struct run {
    struct cli *cli;
    const struct run_hooks *hooks;
    struct cli_store store;
    struct signals signals;
    struct status_out status;
    struct nest nest;
    struct run_plan plan;

    /* What we run under: leases of our own, or that of the outer run. */
    size_t count;            /* names: NAME and every --also */
    hf_lease **leases;       /* of each, in the order of the command line */
    hf_lease *lease;         /* the first; NULL: nested */
    uint64_t *tokens;        /* of each */
    struct nest_hold *holds; /* likewise */
    int lease_fd;            /* readable when something has happened to one of them */
    int outer;               /* nested: the connection; else -1 */
    int64_t outer_grace_ms;  /* nested: from TERM to KILL if the outer run is killed */
    int64_t held_since_ms;
    int64_t waited_ms, held_ms; /* how long, of the last round */
    bool acquired;              /* likewise */
    bool at_risk;               /* a renewal is late; that was said */
    int64_t hold_until_ms;      /* --min-hold */

    struct child child;
    enum run_phase phase;
    int64_t kill_at_ms;
    struct kin kin; /* the command and all that it started */
    struct run_ending ending;
    struct run_stop stop;
    struct run_wanted wanted;
    struct run_lease known; /* about the lease, when it was last read */
    size_t lost_name;       /* whose lease was lost */
    bool lost_by_limit;     /* ... because of --max-hold: it is still ours to give back */
    bool unclosed;          /* a thread that releases or closes goes on */
    bool unsettled;         /* the store did not answer at the end: do not wait for it again */
    bool lost;              /* the command ran, or was about to run, without its lease: exit 76 */
    int timer;              /* CLOCK_BOOTTIME, so that it fires at once after a suspend; -1: none */
    struct signal_event ended_by; /* a signal that came when the command had ended already */
    int die_of; /* a signal typed at the terminal that ended the command or us; 0: none */
};

/* May an inner run share our lease? */
bool run_shares(const struct run *run);
/* From the options to the exit code. */
int run_under(struct cli *cli, const struct run_hooks *hooks);
/* The attempts to write something at the end; all zero before the first. */
struct run_tries {
    bool said;  /* a message said that it is tried again */
    bool doubt; /* one of them may have been done */
};
/* For `ended`: the write failed with *err. Returns true after a pause if it should be tried again,
 * because the store is away and we still hold the lease. A signal ends it. After an attempt whose
 * outcome is unknown, err's status says so until one succeeds. */
bool run_again(const struct run *run, hf_error *err, struct run_tries *tries);

/* ---- run_names.c */

/* Take --any apart: names with commas between them. The first stands for the name until one is acquired. EXIT_FINE or
 * EXIT_USAGE. */
int run_read_any(struct cli *cli);
/* --cell: what others see while we hold the (first) name. false: *ret_code, after a message. */
bool run_bind_cells(const struct run *run, int *ret_code);

/* ---- metrics_file.c */

/* --metrics-file: how it went. `code`: the exit code. */
void metrics_file_write(const struct run *run, int code);

/* ---- supervise.c */

/* Supervise the command until it and every inner run have ended; then hold the lease until
 * hold_until_ms. A signal ends that too: run->ended_by. */
void supervise(struct run *run);
/* We are continued: so is the command, but only under its lease. */
void supervise_resume(struct run *run);

/* ---- ending.c */

/* TERM to everything; KILL is due in grace_ms. */
void ending_term(struct run *run, int64_t grace_ms);
/* KILL to everything. */
void ending_kill(struct run *run);
/* Signal what is left of the command again. Returns when to call this again, at most until_ms. */
int64_t ending_chase(struct run *run, int64_t until_ms);
/* Is there something that could still be ended? */
bool ending_is_on(const struct run *run);

/* ---- suspend.c */

/* Stop the command because of signal `number`, and then ourselves. With `group` the terminal has stopped the
 * command already, and our process group is stopped with us. */
void suspend_begin(struct run *run, int number, bool group);
/* Stop the command by SIGSTOP, and then wanted_go(). */
void suspend_begin_yield(struct run *run);
/* Take the next step of stopping. Returns when to call this again, at most until_ms. */
int64_t suspend_go_on(struct run *run, int64_t until_ms);
/* Continue what was stopped. */
void suspend_end(struct run *run);

#endif
