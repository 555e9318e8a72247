/* SPDX-License-Identifier: MIT */
/* The request for a lease that is held, made from its slot: see again.h. Any thread. */
#include "core/again.h"

#include "core/term.h"
#include "deadlock/session.h"
#include "util/clock.h"

static uint64_t flags_of(const struct hfi_lease *lease)
{
    return (lease->watch ? HF_FLAG_WATCH : 0) | (lease->reentrant ? HF_FLAG_REENTRANT : 0) |
           (lease->pass ? 0 : HF_FLAG_STRICT) |
           (lease->claim.flags & HFI_CLAIM_NUMBERED ? HF_FLAG_NUMBERED : 0) |
           (lease->unchecked ? HF_FLAG_NO_DEADLOCK_CHECK : 0) |
           (lease->claim.flags & HFI_CLAIM_DETACHED && lease->min_hold_ms == 0 ? HF_FLAG_DETACHED
                                                                               : 0) |
           (lease->term.ttl_ms > 0 && !lease->term.renew ? HF_FLAG_NO_RENEW : 0);
}

/* What is left until then; 0: nothing, or it is not set. */
static int64_t left_ms(int64_t until_ms)
{
    int64_t left = until_ms ? until_ms - hfi_now_ms() : 0;

    return left > 0 ? left : 0;
}

/* The ttl may have become shorter since (hf_renew()). */
static int64_t linger_of(const struct hfi_lease *lease)
{
    int64_t most_ms = lease->term.ttl_ms / 2;
    int64_t ms = lease->linger.ms < most_ms ? lease->linger.ms : most_ms;

    return ms > 0 ? ms : HF_LINGER_NEVER;
}

void hfi_again_set(struct hfi_again *again, const struct hfi_lease *lease, int64_t wait_ms)
{
    const struct hfi_claim *claim = &lease->claim;
    hf_acquire_request *request = &again->request;

    *request = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
    memcpy(again->name, claim->name.bytes, claim->name.len);
    request->name = again->name;
    request->name_len = claim->name.len;
    request->kind = hfi_shown_kind(claim->mode, claim->permits);
    if (request->kind == HF_KIND_SEMAPHORE) {
        /* The size may have been set lower since: then the store refuses it, and not the check of the request. */
        request->capacity = claim->capacity > claim->permits ? claim->capacity : claim->permits;
        request->permits = claim->permits;
    }
    request->flags = flags_of(lease);
    request->wait_ms = wait_ms;
    request->ttl_ms = lease->term.ttl_ms;
    request->max_hold_ms = lease->term.max_hold_ms;
    request->min_hold_ms = left_ms(lease->stay_ms);
    request->min_valid_ms = lease->min_valid_ms;
    request->lock_delay_ms = claim->lock_delay_ms;
    request->linger_ms = linger_of(lease);
    request->scope = lease->scoped ? lease->scope : 0;
    request->on_event = lease->events.fn;
    request->on_event_arg = lease->events.arg;
    if (claim->label) { /* without the tag of its wait */
        size_t len = strcspn(claim->label, (const char[]){ HFI_TAG_MARK, 0 });

        memcpy(again->label, claim->label, len);
        again->label[len] = 0;
        request->label = again->label;
    }
}
