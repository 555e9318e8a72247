/* SPDX-License-Identifier: MIT */
/* Threads of the library. */
#ifndef HFI_UTIL_THREAD_H
#define HFI_UTIL_THREAD_H

#include <pthread.h>

/* Start one with all signals blocked, so that no handler of the program runs on it, and with a name of at most 15 bytes. 0, or
 * why it could not be started. */
int hfi_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg);

#endif
