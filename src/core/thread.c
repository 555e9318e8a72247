/* SPDX-License-Identifier: MIT */
/* Thread ids, and threads of the library. */
#include "core/thread.h"

#include "util/process.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

_Thread_local struct hfi_self hfi_self __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t last_id;

static void know_thyself(void)
{
    uint64_t process = hfi_process_id();

    if (hfi_self.process == process)
        return;
    hfi_self.process = process;
    hfi_self.id = atomic_fetch_add(&last_id, 1) + 1;
    hfi_self.tid = gettid();
}

uint64_t hfi_thread_id(void)
{
    know_thyself();
    return hfi_self.id;
}

int64_t hfi_thread_tid(void)
{
    know_thyself();
    return hfi_self.tid;
}

bool hfi_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int error;

    /* The new thread inherits the mask: no signal of the program is ever delivered to it. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(ret_thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return false;

    (void)pthread_setname_np(*ret_thread, name);
    return true;
}
