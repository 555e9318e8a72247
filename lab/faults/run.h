/* SPDX-License-Identifier: MIT */
/*
 * One run: workers, one kind of fault that strikes again and again, and the judgement of what they wrote down. A cell of the
 * table is such a run with right clients, and one or two short ones with wrong clients.
 */
#ifndef FAULTS_RUN_H
#define FAULTS_RUN_H

#include "../../test/torture/checker.h"
#include "crew.h"

/* A fault: begin it, let it last, end it. It may be called again and again. */
struct fault {
    const char *name;
    void (*strike)(void *arg, uint64_t *dice);
    void *arg;
    bool through; /* holders stay while it lasts */
};

struct outcome {
    enum wrong wrong;
    bool began; /* all workers could open the store */
    unsigned strikes, hung, died;
    int64_t recover_ms,
        recover_max_ms; /* from the end of a fault to the next grant of the mutex: median, and longest */
    int64_t late_ms; /* of LOST, at most */
    unsigned losses;
    unsigned grants[LOCKS];
    unsigned ledger_done[LEDGERS], ledger_lost[LEDGERS], ledger_refused[LEDGERS];
    unsigned failed[STATUSES];
    uint64_t caps;
    hf_token_strength tokens;
    int64_t lease_ms;
    /* exclusion: double holds; tokens: those that went back or came twice */
    struct verdict verdict;
};

/* The director's own resources, kept from run to run. */
struct director {
    struct shared *shared;
    struct crew crew;
    uint64_t dice;
    bool complain; /* print what the checker has found to stderr */
};

struct outcome run_faults(struct director *director, const struct fault *fault, enum wrong wrong,
                          int64_t for_ms);

/* Something that the checker must never see of right clients, whatever the promises are. */
bool outcome_caught(const struct outcome *outcome);
unsigned outcome_acquisitions(const struct outcome *outcome);
/* {"acquisitions": ...}, without a line end. */
void outcome_print(const struct outcome *outcome, FILE *out);

/* How long a fault lasts: for a moment, or until after the lease that holds the mutex now has ended. (A lease that was handed
 * over is valid for longer than its ttl, until its first renewal.) */
int64_t fault_lasts_ms(const struct shared *shared, uint64_t *dice);
void fault_sleep_ms(int64_t ms);

/* Faults of our own side, which no server needs: clients killed, clients stopped past their ttl. `arg`: struct director. */
void strike_client_kill(void *director, uint64_t *dice);
void strike_client_stop(void *director, uint64_t *dice);

#endif
