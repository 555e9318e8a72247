/* SPDX-License-Identifier: MIT */
/* Lets a signal end a waiting call of the library: the call leaves its queue and returns. */
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

/* From now on a signal that would end the process fires canceller->cancel. false after a
 * message. */
bool canceller_begin(struct canceller *canceller, const struct signals *signals);
void canceller_end(struct canceller *canceller);

#endif
