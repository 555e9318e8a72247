/* SPDX-License-Identifier: MIT */
/* The transitions of a latch: see latch_plan.h. Pure. */
#include "prim/latch_plan.h"

#include <stdio.h>
#include <string.h>

bool hfi_latch_get(struct hfi_latch *latch, const void *bytes, size_t len)
{
    struct hfi_reader from = { bytes, len };
    const unsigned char *head;
    uint64_t count;

    if (!hfi_get_bytes(&from, 2, &head) || memcmp(head, "L1", 2) != 0 ||
        !hfi_get_number(&from, &count) || count == 0 || count > HF_PARTICIPANTS_MAX ||
        !hfi_get_text(&from, latch->broken, sizeof latch->broken) ||
        !hfi_participants_get(&latch->participants, &from) || from.left != 0)
        return false;
    latch->count = (uint32_t)count;
    return true;
}

bool hfi_latch_put(const struct hfi_latch *latch, struct hfi_buffer *to)
{
    return hfi_put_bytes(to, "L1", 2) && hfi_put_number(to, latch->count) &&
           hfi_put_text(to, latch->broken) && hfi_participants_put(&latch->participants, to);
}

uint32_t hfi_latch_left(const struct hfi_latch *latch)
{
    uint32_t down = hfi_participants_with(&latch->participants, HFI_DOWN);

    return down >= latch->count ? 0 : latch->count - down;
}

hf_status hfi_latch_down(struct hfi_latch *latch, const char *who, bool *ret_changed)
{
    struct hfi_participant *participant = hfi_participant_find(&latch->participants, who);

    *ret_changed = false;
    if (latch->broken[0])
        return HF_BROKEN;
    if (hfi_latch_left(latch) == 0 || (participant && participant->flag == HFI_DOWN))
        return HF_OK; /* late, or the second time: it counts once */
    if (!participant && !hfi_participant_add(&latch->participants, HFI_DOWN, 0, who))
        return HF_FULL;
    if (participant)
        participant->flag = HFI_DOWN;
    *ret_changed = true;
    return HF_OK;
}

hf_status hfi_latch_join(struct hfi_latch *latch, const char *who, uint64_t token,
                         bool *ret_changed)
{
    struct hfi_participant *participant = hfi_participant_find(&latch->participants, who);

    *ret_changed = false;
    if (latch->broken[0])
        return HF_BROKEN;
    if (hfi_latch_left(latch) == 0 ||
        (participant && (participant->flag == HFI_DOWN || participant->token == token)))
        return HF_OK;
    if (!participant && !hfi_participant_add(&latch->participants, HFI_JOINED, token, who))
        return HF_FULL;
    if (participant)
        participant->token = token; /* it died and came back before anybody noticed */
    *ret_changed = true;
    return HF_OK;
}

void hfi_latch_break(struct hfi_latch *latch, const char *who, uint64_t token, bool *ret_changed)
{
    const struct hfi_participant *participant = hfi_participant_find(&latch->participants, who);

    *ret_changed = !latch->broken[0] && hfi_latch_left(latch) > 0 && participant &&
                   participant->flag == HFI_JOINED && participant->token == token;
    if (*ret_changed)
        snprintf(latch->broken, sizeof latch->broken, "%s", who);
}
