/* SPDX-License-Identifier: MIT */
/*
 * The state of a lease. Every call that reads a lease with an end reads the clock too, so none of
 * these says "held" after its validity has ended, even if the keeper is late.
 */
#include "core/local_queue.h"
#include "core/request.h"
#include "util/clock.h"
#include "util/process.h"

#include <sys/eventfd.h>
#include <unistd.h>

static int64_t remaining_ms(const struct hfi_lease *lease)
{
    if (lease->term.valid_until_ms == HFI_NEVER)
        return hfi_lease_lost(lease) ? 0 : INT64_MAX;
    return hfi_term_remaining(&lease->term, hfi_now_ms());
}

static void fill(const struct hfi_lease *lease, hf_lease_info *info)
{
    int64_t age_ms = hfi_now_ms() - lease->since_ms;

    info->token = lease->token;
    info->state = lease->term.state;
    info->holds = lease->holds;
    info->remaining_ms = remaining_ms(lease);
    info->age_ms = age_ms > 0 ? age_ms : 0;
    /* A hand-over may be for a shorter time at first: the ttl is what the next renewal gives. */
    info->ttl_ms = lease->term.granted_ms ? lease->term.ttl_ms : 0;
    info->name_len = lease->claim.name.len;
    memcpy(info->name, lease->claim.name.bytes, lease->claim.name.len);
    info->wanted = atomic_load_explicit(&lease->level, memory_order_relaxed) == HFI_LEVEL_WANTED;
    info->asks = lease->asks;
    info->kind = hfi_shown_kind(lease->claim.mode, lease->claim.permits);
    if (lease->claim.flags & HFI_CLAIM_NUMBERED) {
        info->slot_count = lease->claim.permits;
        memcpy(info->slots, lease->claim.slots, info->slot_count * sizeof info->slots[0]);
    }
}

/* The caller knows all that has happened: its descriptor is readable again when something else has. */
static void seen(struct hfi_lease *lease)
{
    uint64_t count;

    if (lease->changed && lease->fd >= 0) {
        ssize_t got = read(lease->fd, &count, sizeof count);

        (void)got; /* the caller may have read it */
    }
    lease->changed = false;
}

hf_status hf_lease_get(hf_lease *handle, hf_lease_info *ret_info)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_lease_info info;
    size_t size = ret_info ? ret_info->size : 0;
    hf_status status;

    if (size < offsetof(hf_lease_info, state) || size > HFI_STRUCT_MAX)
        return HF_INVALID;
    status = hfi_lease_lock(handle, &lease, &next);
    if (status != HF_OK)
        return status;
    memset(&info, 0, sizeof info);
    fill(lease, &info);
    if (!hfi_lease_lost(lease))
        seen(lease);
    hfi_lease_unlock(lease, next);

    info.size = size;
    memcpy(ret_info, &info, size < sizeof info ? size : sizeof info);
    return HF_OK;
}

uint64_t hf_lease_token(hf_lease *handle)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    uint64_t token;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return 0;
    token = lease->token;
    hfi_lease_unlock(lease, next);
    return token;
}

hf_state hf_lease_state(hf_lease *handle)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_state state;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return HF_STATE_LOST;
    state = lease->term.state;
    hfi_lease_unlock(lease, next);
    return state;
}

int64_t hf_lease_remaining_ms(hf_lease *handle)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    int64_t left_ms;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return 0;
    left_ms = remaining_ms(lease);
    hfi_lease_unlock(lease, next);
    return left_ms;
}

bool hf_lease_wanted(hf_lease *handle)
{
    struct hfi_lease *lease = hfi_slot_find(&hfi_leases, handle);

    /* If the slot has begun another lease since, the handle has ended: either answer was right a moment ago. */
    return lease && atomic_load_explicit(&lease->level, memory_order_relaxed) == HFI_LEVEL_WANTED &&
           hfi_slot_is(&lease->slot, handle) && hfi_slot_ours(&lease->slot, hfi_process_id());
}

int hf_lease_fd(hf_lease *handle)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    uint64_t one = 1;
    int fd;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return -1;
    if (lease->fd < 0) {
        lease->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lease->fd >= 0 && lease->changed && write(lease->fd, &one, sizeof one) < 0) {
            close(lease->fd);
            lease->fd = -1;
        }
    }
    fd = lease->fd;
    hfi_lease_unlock(lease, next);
    return fd;
}
