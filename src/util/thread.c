/* SPDX-License-Identifier: MIT */
/* Threads of the library: see thread.h. */
#include "util/thread.h"

#include "util/alloc.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

/* A thread names itself: to name another one takes three system calls on /proc. */
struct start {
    const char *name;
    void *(*run)(void *);
    void *arg;
};

static void *begin(void *arg)
{
    struct start start = *(struct start *)arg;

    hfi_free(arg);
    (void)prctl(PR_SET_NAME, start.name);
    return start.run(start.arg);
}

int hfi_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg)
{
    struct start *start = hfi_malloc(sizeof *start);
    sigset_t all, before;
    int error;

    if (!start)
        return ENOMEM;
    *start = (struct start){ name, run, arg };

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
    error = pthread_create(ret_thread, NULL, begin, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        hfi_free(start);
    return error;
}
