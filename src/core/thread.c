/* SPDX-License-Identifier: MIT */
/* Thread ids. */
#include "core/thread.h"

#include "util/process.h"

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
