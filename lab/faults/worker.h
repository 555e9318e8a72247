/* SPDX-License-Identifier: MIT */
/* A worker process; see worker.c. */
#ifndef FAULTS_WORKER_H
#define FAULTS_WORKER_H

#include "shared.h"

struct worker {
    struct shared *shared;
    unsigned lane;
    uint64_t dice;
    hf_store *store, *vault;
    hf_store_info info;
};

/* The program is its own worker: PROGRAM --worker LANE FD. -1: these arguments say something else. */
int worker_arguments(int argc, char **argv);

/* Sleep, but not past the end of the run. */
void worker_nap_us(unsigned us);
/* A name of this run: "PREFIX/mutex". Static, good until the next call. */
const char *worker_name(const struct shared *shared, const char *what);

/* An update of the plain and of the guarded value, in two halves: the mutex is held in between. */
struct update {
    int64_t plain, guarded; /* as read; guarded -1: there is no guard, or it has refused */
    uint64_t token;
};
struct update update_begin(struct worker *worker, hf_lease *lease);
void update_end(struct worker *worker, struct update update);
/* One update of the counter or of the cell of the store itself. */
void update_store(struct worker *worker);

#endif
