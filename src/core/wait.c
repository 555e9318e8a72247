/* SPDX-License-Identifier: MIT */
/* Waiting requests: stopping them, and telling local waiters their outcome. */
#include "core/wait.h"

#include "core/call.h"
#include "core/cancel.h"
#include "core/local_queue.h"
#include "core/thread.h"
#include "util/futex.h"

void hfi_wait_init(struct hfi_wait *wait, struct hfi_store *store, struct hfi_lease *lease,
                   int64_t min_valid_ms)
{
    hfi_list_init(&wait->queued);
    hfi_list_init(&wait->listed);
    hfi_list_init(&wait->followed);
    wait->is_listed = false;
    wait->store = store;
    wait->cancel = NULL;
    wait->lease = lease;
    wait->shard = lease ? atomic_load_explicit(&lease->shard, memory_order_relaxed) : NULL;
    wait->call = NULL;
    wait->min_valid_ms = min_valid_ms;
    wait->tid = hfi_thread_tid();
    wait->passed = NULL;
    wait->tag = NULL;
    wait->words = NULL;
    atomic_init(&wait->word, HFI_WAIT_SLEEPING);
    atomic_init(&wait->stop, HF_OK);
    atomic_init(&wait->op, NULL);
}

void hfi_wait_list(struct hfi_wait *wait)
{
    struct hfi_store *store = wait->store;
    bool closing;

    if (wait->is_listed)
        return;
    pthread_mutex_lock(&store->lock);
    hfi_list_append(&store->waits, &wait->listed);
    closing = atomic_load(&store->closing.on);
    pthread_mutex_unlock(&store->lock);
    wait->is_listed = true;
    if (closing)
        hfi_wait_stop(wait, HF_CANCELLED); /* hf_close() may have gone through the list before */
}

void hfi_wait_leave(struct hfi_wait *wait)
{
    if (wait->is_listed) {
        pthread_mutex_lock(&wait->store->lock);
        hfi_list_remove(&wait->listed);
        pthread_mutex_unlock(&wait->store->lock);
        wait->is_listed = false;
    }
    if (wait->cancel) {
        pthread_mutex_lock(&wait->cancel->lock);
        hfi_list_remove(&wait->followed);
        pthread_mutex_unlock(&wait->cancel->lock);
        wait->cancel = NULL;
    }
}

static void cancel_op(struct hfi_wait *wait, struct hfi_op *op, int status)
{
    atomic_store(&op->stop, status);
    if (wait->store->drive == HFI_INLINE && wait->call && hfi_workers_cancel(wait->call))
        return;
    hfi_store_engine(wait->store)->cancel(wait->store->opened, op, (hf_status)status);
}

/* Either we see the request to stop here, or the thread that stops us sees the op. */
void hfi_wait_in_store(struct hfi_wait *wait, struct hfi_op *op)
{
    int stop;

    atomic_store(&wait->op, op);
    stop = atomic_load(&wait->stop);
    if (stop != HF_OK)
        cancel_op(wait, op, stop);
}

void hfi_wait_stop(struct hfi_wait *wait, hf_status status)
{
    int none = HF_OK;
    uint32_t sleeping = HFI_WAIT_SLEEPING;
    struct hfi_op *op;

    if (!atomic_compare_exchange_strong(&wait->stop, &none, (int)status))
        return; /* it was stopped before */
    hfi_self.stopping++;
    op = atomic_load(&wait->op);
    if (op)
        cancel_op(wait, op, (int)status);
    else if (wait->call)
        hfi_call_stop_local(wait->call);
    else if (atomic_compare_exchange_strong(&wait->word, &sleeping, HFI_WAIT_STOPPED))
        hfi_futex_wake(&wait->word, 1, false);
    hfi_self.stopping--;
}

void hfi_wait_tell(struct hfi_wait *wait, uint32_t word)
{
    if (wait->call) {
        hfi_call_told(wait->call, word);
        return;
    }
    /* Between these two the waiter may return, and its stack may be reused. Waking an address on
     * which nobody sleeps does no harm. */
    if (atomic_exchange(&wait->word, word) <= HFI_WAIT_STOPPED)
        hfi_futex_wake(&wait->word, 1, false);
}
