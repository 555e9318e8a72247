/* SPDX-License-Identifier: MIT */
/*
 * Calls that may take long, such as a call into a library whose server is away, for a caller that
 * must not wait. The call runs on a thread of its own, and the caller waits for a limited time
 * only.
 */
#ifndef CLI_WITHIN_H
#define CLI_WITHIN_H

#include <stdbool.h>
#include <stdint.h>

/* Call work(arg) and wait for it for at most limit_ms. true: it is done. false: the work goes on
 * and owns `arg` from now on; after that the process may end only by _exit() or a signal. */
bool within(int64_t limit_ms, void (*work)(void *arg), void *arg);
/* Start the thread for the next within() already now, while there is something else to wait for. */
void within_prepare(void);

#endif
