/* SPDX-License-Identifier: MIT */
/*
 * hf_acquire_async(), and what is different in an acquire that no thread waits for, also as the child of a task. The steps
 * themselves are those of acquire.c. Runs on any thread.
 */
#include "core/acquire.h"
#include "util/error.h"

hf_status hf_acquire_async(hf_store *handle, const hf_acquire_request *request, hf_done_fn *done,
                           void *arg, hf_op **ret_op, hf_error *err)
{
    struct hfi_store *store;
    struct hfi_call *call;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    call = done ? hfi_call_new(store, HFI_TO_LOOP) : NULL;
    if (!call) {
        hfi_store_leave(store);
        return done ? hfi_error_memory(err) : hfi_error_set(err, HF_INVALID, 0, "done: NULL");
    }
    hfi_call_callback(call, done, arg);
    status = hfi_acquire_to(call, handle, request, err);
    if (status == HF_OK) {
        if (ret_op)
            *ret_op = (hf_op *)(uintptr_t)atomic_load(&call->slot.handle); /* NOLINT */
        hfi_ok(err);
        hfi_call_unref(call);
    } else {
        hfi_call_drop(call);
    }
    hfi_store_leave(store);
    return status;
}

hf_status hfi_acquire_prepare_async(struct hfi_call *call, hf_error *err)
{
    struct hfi_store *store = call->store;

    call->waited = call->may_wait;
    call->lease->in_loop = hfi_call_in_loop(call);
    if (store->drive == HFI_BLOCKING &&
        !hfi_pool_start(&store->pool, hfi_workers_lane(store, call->may_wait)))
        return hfi_error_memory(err);
    if (call->deadline_ms != HFI_NEVER && !(call->timed = hfi_keeper_reserve(store)))
        return hfi_error_memory(err);
    if (call->receiver == HFI_TO_LOOP)
        (void)hfi_slot_publish(&call->slot, HFI_KIND_OP);
    hfi_call_listen(call, true);
    hfi_call_arm(call);
    return HF_OK;
}

void hfi_acquire_send(struct hfi_call *call)
{
    if (call->store->drive == HFI_BLOCKING) {
        hfi_workers_submit(call, hfi_acquire_answered);
        return;
    }
    atomic_fetch_add(&call->refs, 1); /* it may be answered before submit() returns */
    hfi_call_send(call, hfi_acquire_answered, false);
    hfi_wait_in_store(&call->wait, &call->op);
    hfi_call_unref(call);
}

/*
 * A call whose acquire fails sends the next local waiter to the store; that may be an asynchronous
 * call, and fail too. The outermost call of a thread submits them one after the other, so that a
 * long queue does not become a deep stack.
 */
void hfi_acquire_go(struct hfi_call *call)
{
    static _Thread_local struct hfi_call *waiting, **end;

    call->after = NULL;
    if (end) {
        *end = call;
        end = &call->after;
        return;
    }
    end = &waiting;
    while (call) {
        hfi_acquire_submit(call);
        call = waiting;
        waiting = call ? call->after : NULL;
        if (!waiting)
            end = &waiting;
    }
    end = NULL;
}
