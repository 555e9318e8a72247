/* SPDX-License-Identifier: MIT */
/*
 * Deadlock detection: circles across threads, processes, names and kinds are found, one of each
 * gives up and the rest goes on; and what is no circle is left alone. Three files of cases, one
 * process for each engine.
 *
 * Checks run every 20 ms here instead of every second. hf_deadlock_list(), which checks at once,
 * shows that nobody is stuck, without waiting.
 */
#ifndef DEADLOCK_H
#define DEADLOCK_H

#include "contract.h"

int deadlock_threads(void);
int deadlock_sessions(void);
int deadlock_quiet(void);

#define NEEDED (HF_CAP_WAITERS | HF_CAP_TOKEN)

int deadlock_setup(void **state);
#define FOUND(function) cmocka_unit_test_setup_teardown(function, deadlock_setup, contract_teardown)

/* How many there are, as of now. */
size_t circles(hf_store *store);

/* A thread that takes one thing, meets the others, and takes a second one. */
struct party {
    hf_store *store;
    hf_acquire_request first, second;
    pthread_barrier_t *ready;
    uint64_t token; /* of the first */
    hf_status status;
    hf_error err;
    _Atomic bool ended;
    pthread_t thread;
};

void party_start(struct party *party);

#endif
