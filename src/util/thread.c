/* SPDX-License-Identifier: MIT */
/* Threads of the library: see thread.h. */
#include "util/thread.h"

#include <signal.h>

int hfi_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
    error = pthread_create(ret_thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        (void)pthread_setname_np(*ret_thread, name);
    return error;
}
