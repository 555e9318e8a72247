/* SPDX-License-Identifier: MIT */
/* A call of the library that waits, and that a signal ends: it takes its place back and returns. */
#ifndef CLI_CANCELLER_H
#define CLI_CANCELLER_H

#include "cli.h"
#include "signals.h"

#include <pthread.h>

struct canceller {
    hf_cancel *cancel; /* for the call */
    const struct signals *signals;
    int stop; /* a descriptor that ends the thread */
    pthread_t thread;
    struct signal_event ended_by; /* after canceller_end(): number 0: none */
};

/* From now on a signal that would end us fires canceller->cancel. false after a message. */
bool canceller_begin(struct canceller *canceller, const struct signals *signals);
void canceller_end(struct canceller *canceller);

#endif
