/* SPDX-License-Identifier: MIT */
/*
 * Work that may take long, for a caller that may not: a call into a library whose
 * server is away. It runs on a thread of its own and is waited for only for a limited time.
 */
#ifndef CLI_WITHIN_H
#define CLI_WITHIN_H

#include <stdbool.h>
#include <stdint.h>

/* Call work(arg) and wait for it for at most limit_ms. true: it is done. false: it goes on, and `arg` is its
 * own from now on; after that the process may only be left by _exit() or a signal. */
bool within(int64_t limit_ms, void (*work)(void *arg), void *arg);

#endif
