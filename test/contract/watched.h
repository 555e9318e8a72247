/* SPDX-License-Identifier: MIT */
/*
 * Watched leases: what the cases of wanted.c, yield.c and the faults share. A callback that notes what it is told, a client
 * that waits until it is cancelled or granted, and hf_yield() on a thread of its own.
 */
#ifndef WATCHED_H
#define WATCHED_H

#include "contract.h"

/* What a callback was told. */
struct told {
    _Atomic int wanted, unwanted, asked, lost, total;
    char text[HF_LABEL_MAX + 2]; /* of ASKED */
    _Atomic bool begun, ended;   /* of the callback that runs, if it is slow */
    bool slow, release;
    pthread_t thread;
    hf_lease *lease;
    hf_status released;
};

/* Try once, with HF_FLAG_WATCH and this callback. */
hf_acquire_request watched(const char *name, struct told *told);

bool readable(hf_lease *lease); /* its descriptor */
hf_lease_info lease_info(hf_lease *lease);

/* Another client waits, until it is cancelled. */
struct waiter {
    hf_store *store;
    hf_cancel *cancel;
    struct attempt attempt;
};

void waiter_start(struct waiter *waiter, hf_store *store, hf_acquire_request request);
void waiter_cancel(struct waiter *waiter);
/* It gets what it waits for, and gives it back. */
void waiter_granted(struct waiter *waiter);

/* hf_yield() on a thread of its own; attempt_join() ends it. */
void yielder_start(struct attempt *attempt, hf_lease *lease, int64_t wait_ms);

#endif
