/* SPDX-License-Identifier: MIT */
/*
 * Cancellers. One may serve any number of requests, of any stores; fired once, it
 * stays fired. Firing stops each follower under the canceller's lock, and a follower leaves under
 * that lock too: so its memory is valid while it is stopped.
 */
#include "core/cancel.h"

#include "core/wait.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/process.h"

struct hfi_table hfi_cancels = { .slot_size = (sizeof(struct hfi_cancel) + 63) / 64 * 64,
                                 .kind = HFI_KIND_CANCEL };

/* The canceller of a handle, locked. */
static hf_status find_locked(hf_cancel *handle, struct hfi_cancel **ret_cancel)
{
    struct hfi_cancel *cancel = hfi_slot_find(&hfi_cancels, handle);

    if (!cancel)
        return HF_INVALID;
    if (!hfi_slot_ours(&cancel->slot, hfi_process_id()))
        return HF_FORKED;

    pthread_mutex_lock(&cancel->lock);
    if (!hfi_slot_is(&cancel->slot, handle)) {
        pthread_mutex_unlock(&cancel->lock);
        return HF_INVALID;
    }
    *ret_cancel = cancel;
    return HF_OK;
}

hf_status hf_cancel_open(hf_cancel **ret_cancel)
{
    struct hfi_cancel *cancel;

    if (!ret_cancel)
        return HF_INVALID;
    hfi_alloc_seal();
    cancel = hfi_slot_take(&hfi_cancels);
    if (!cancel)
        return HF_NO_MEMORY;

    /* A slot that was free at the fork may have been in use by a thread of the parent at that
     * moment. */
    if (!hfi_slot_ours(&cancel->slot, hfi_process_id()))
        pthread_mutex_init(&cancel->lock, NULL);
    hfi_slot_own(&cancel->slot, hfi_process_id());
    pthread_mutex_lock(&cancel->lock);
    hfi_list_init(&cancel->followers);
    cancel->fired = false;
    *ret_cancel = hfi_slot_publish(&cancel->slot, HFI_KIND_CANCEL);
    pthread_mutex_unlock(&cancel->lock);
    return HF_OK;
}

hf_status hf_cancel_fire(hf_cancel *handle)
{
    struct hfi_cancel *cancel;
    hf_status status = find_locked(handle, &cancel);

    if (status != HF_OK)
        return status;
    cancel->fired = true;
    for (struct hfi_list *node = cancel->followers.next; node != &cancel->followers;
         node = node->next)
        hfi_wait_stop(hfi_container(node, struct hfi_wait, followed), HF_CANCELLED);
    pthread_mutex_unlock(&cancel->lock);
    return HF_OK;
}

hf_status hf_cancel_close(hf_cancel *handle)
{
    struct hfi_cancel *cancel;
    hf_status status = find_locked(handle, &cancel);

    if (status != HF_OK)
        return status;
    if (!hfi_list_empty(&cancel->followers)) {
        pthread_mutex_unlock(&cancel->lock);
        return HF_IN_USE;
    }
    hfi_slot_retire(&cancel->slot);
    pthread_mutex_unlock(&cancel->lock);
    hfi_slot_give(&hfi_cancels, cancel);
    return HF_OK;
}

hf_status hfi_cancel_look(hf_cancel *handle)
{
    struct hfi_cancel *cancel;
    hf_status status = find_locked(handle, &cancel);

    if (status != HF_OK)
        return status;
    status = cancel->fired ? HF_CANCELLED : HF_OK;
    pthread_mutex_unlock(&cancel->lock);
    return status;
}

hf_status hfi_cancel_check(hf_cancel *handle, hf_error *err)
{
    hf_status status = hfi_cancel_look(handle);

    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    return status == HF_OK ? HF_OK : hfi_error_set(err, status, 0, "%s", hf_status_text(status));
}

hf_status hfi_wait_follow(struct hfi_wait *wait, hf_cancel *handle)
{
    struct hfi_cancel *cancel;
    hf_status status = find_locked(handle, &cancel);

    if (status != HF_OK)
        return status;
    if (cancel->fired)
        status = HF_CANCELLED;
    else {
        wait->cancel = cancel;
        hfi_list_append(&cancel->followers, &wait->followed);
    }
    pthread_mutex_unlock(&cancel->lock);
    return status;
}

bool hfi_wait_follow_task(struct hfi_wait *wait, struct hfi_cancel *stop)
{
    bool fired;

    pthread_mutex_lock(&stop->lock);
    fired = stop->fired;
    if (!fired) {
        wait->cancel = stop;
        hfi_list_append(&stop->followers, &wait->followed);
    }
    pthread_mutex_unlock(&stop->lock);
    return !fired;
}
