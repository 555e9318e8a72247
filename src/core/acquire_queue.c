/* SPDX-License-Identifier: MIT */
/*
 * An acquire in the local queue: a thread sleeps there, and the acquire ends there, with a lease
 * that was passed on or because it was stopped. For asynchronous calls this runs on the thread that
 * tells them. local_queue.h has the queue itself.
 */
#include "core/acquire.h"
#include "core/task.h"
#include "util/futex.h"

/* A lease was passed to the call, in another slot, so its own slot is freed. `handle` NULL: none
 * was passed, and the call has left the queue. */
static void leave_queue(struct hfi_call *call, hf_status status, hf_lease *handle)
{
    struct hfi_lease *lease = call->lease;

    if (handle)
        hfi_acquire_note_held(call, handle);
    if (status == HF_TIMEOUT && call->tries)
        status = HF_BUSY;
    if (!handle)
        hfi_stats_failed(lease, status);
    hfi_call_result(call, status, handle, "acquire", &lease->claim.name, NULL);
    hfi_lease_leave(lease);
    hfi_call_end(call);
}

/* A try has waited here for tokens, and must ask the store after all: there it is a try again, which stands in no queue. */
static void try_again(struct hfi_call *call)
{
    if (!call->tries)
        return;
    call->may_wait = call->tries = false;
    call->deadline_ms = HFI_NEVER;
}

void hfi_call_told(struct hfi_call *call, uint32_t word)
{
    if (word == HFI_WAIT_GO) {
        try_again(call);
        hfi_acquire_go(call);
    } else
        leave_queue(call, HF_OK, call->wait.passed);
}

void hfi_call_stop_local(struct hfi_call *call)
{
    if (call->task)
        hfi_task_stop(call);
    else if (call->child == HFI_CHILD_PAUSE)
        hfi_task_stop_pause(call);
    else if (call->wait.shard && hfi_local_queue_leave(&call->wait))
        leave_queue(call, (hf_status)atomic_load(&call->wait.stop), NULL);
    else
        hfi_workers_hurry(call); /* or not submitted yet: submit() checks `stop` */
}

/* Sleep until hfi_wait_tell(). HF_OK: told. Otherwise we have left the queue, and this is why. */
static hf_status sleep_in_queue(struct hfi_call *call)
{
    struct hfi_wait *wait = &call->wait;
    int64_t until_ms = call->deadline_ms;
    uint32_t word;

    while ((word = atomic_load_explicit(&wait->word, memory_order_acquire)) < HFI_WAIT_PASSED) {
        bool late = until_ms != HFI_NEVER && hfi_now_ms() >= until_ms;

        if (word == HFI_WAIT_STOPPED || late) {
            if (hfi_local_queue_leave(wait))
                return word == HFI_WAIT_STOPPED ? (hf_status)atomic_load(&wait->stop) : HF_TIMEOUT;
            /* Another thread has taken us out of the queue and is about to tell us. */
            until_ms = HFI_NEVER;
            word = atomic_load_explicit(&wait->word, memory_order_acquire);
            if (word >= HFI_WAIT_PASSED)
                break;
        }
        hfi_futex_wait(&wait->word, word, until_ms, false);
    }
    return HF_OK;
}

void hfi_acquire_wait_queue(struct hfi_call *call)
{
    hf_status status;

    hfi_call_listen(call, false);
    status = sleep_in_queue(call);
    call->queued = false;
    call->waited = true;
    if (status == HF_OK && atomic_load(&call->wait.word) == HFI_WAIT_GO) {
        try_again(call);
        hfi_acquire_submit(call);
        return;
    }
    hfi_wait_leave(&call->wait);
    leave_queue(call, status, status == HF_OK ? call->wait.passed : NULL);
}
