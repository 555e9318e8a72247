/* SPDX-License-Identifier: MIT */
/* The transitions of a barrier: see barrier_plan.h. Pure. */
#include "prim/barrier_plan.h"

#include <stdio.h>
#include <string.h>

#define REMEMBERED 64 /* generations whose outcome is remembered */

/* ---- the cell --------------------------------------------------------------------------------------- */

static bool is_phase(unsigned char phase)
{
    return phase == HFI_FILLING || phase == HFI_OPEN || phase == HFI_PASSED ||
           phase == HFI_BROKEN_UP;
}

bool hfi_barrier_get(struct hfi_barrier *barrier, const void *bytes, size_t len)
{
    struct hfi_reader from = { bytes, len };
    const unsigned char *head;
    uint64_t parties, high, low;

    if (!hfi_get_bytes(&from, 4, &head) || memcmp(head, "B1", 2) != 0 ||
        (head[2] != '1' && head[2] != '2') || !is_phase(head[3]) ||
        !hfi_get_number(&from, &parties) || parties == 0 || parties > HF_PARTICIPANTS_MAX ||
        !hfi_get_number(&from, &barrier->generation) || !hfi_get_number(&from, &high) ||
        !hfi_get_number(&from, &low) || high > UINT32_MAX || low > UINT32_MAX ||
        !hfi_get_text(&from, barrier->gone, sizeof barrier->gone) ||
        !hfi_participants_get(&barrier->participants, &from) ||
        !hfi_participants_get(&barrier->before, &from) || from.left != 0)
        return false;
    barrier->twice = head[2] == '2';
    barrier->phase = (enum hfi_barrier_phase)head[3];
    barrier->parties = (uint32_t)parties;
    barrier->broken = high << 32 | low;
    return true;
}

bool hfi_barrier_put(const struct hfi_barrier *barrier, struct hfi_buffer *to)
{
    char head[4] = { 'B', '1', barrier->twice ? '2' : '1', (char)barrier->phase };

    return hfi_put_bytes(to, head, sizeof head) && hfi_put_number(to, barrier->parties) &&
           hfi_put_number(to, barrier->generation) && hfi_put_number(to, barrier->broken >> 32) &&
           hfi_put_number(to, barrier->broken & UINT32_MAX) && hfi_put_text(to, barrier->gone) &&
           hfi_participants_put(&barrier->participants, to) &&
           hfi_participants_put(&barrier->before, to);
}

void hfi_barrier_new(struct hfi_barrier *barrier, uint32_t parties, bool twice)
{
    barrier->parties = parties;
    barrier->twice = twice;
    barrier->phase = HFI_PASSED;
    barrier->generation = barrier->broken = 0;
    barrier->gone[0] = 0;
    barrier->participants.count = barrier->before.count = 0;
}

/* ---- coming and going --------------------------------------------------------------------------------- */

static void begin_next(struct hfi_barrier *barrier, uint32_t parties, bool twice)
{
    barrier->broken = barrier->broken << 1 | (barrier->phase == HFI_BROKEN_UP);
    barrier->generation++;
    barrier->phase = HFI_FILLING;
    barrier->parties = parties;
    barrier->twice = twice;
    barrier->gone[0] = 0;
    barrier->before.count = barrier->participants.count;
    memcpy(barrier->before.items, barrier->participants.items,
           barrier->participants.count * sizeof barrier->participants.items[0]);
    barrier->participants.count = 0;
}

static void break_up(struct hfi_barrier *barrier, const char *who)
{
    barrier->phase = HFI_BROKEN_UP;
    snprintf(barrier->gone, sizeof barrier->gone, "%s", who);
}

/* token 0: any. */
static struct hfi_participant *find(struct hfi_participants *participants, const char *who,
                                    uint64_t token)
{
    struct hfi_participant *participant = hfi_participant_find(participants, who);

    return participant && (token == 0 || participant->token == token) ? participant : NULL;
}

hf_status hfi_barrier_arrive(struct hfi_barrier *barrier, uint32_t parties, bool twice,
                             const char *who, uint64_t token, uint64_t *ret_generation,
                             bool *ret_changed)
{
    bool same = barrier->parties == parties && barrier->twice == twice;
    bool over = barrier->phase == HFI_PASSED || barrier->phase == HFI_BROKEN_UP;

    *ret_changed = false;
    *ret_generation = barrier->generation;
    if (find(&barrier->participants, who, token))
        return HF_OK; /* we arrived already; if the generation was broken, the caller learns that */
    if (find(&barrier->before, who, token)) {
        --*ret_generation; /* likewise, and the others have begun the next one */
        return HF_OK;
    }
    if (!over && !same && barrier->participants.count > 0)
        return HF_MISMATCH;
    if (barrier->phase == HFI_OPEN)
        return HF_BUSY;

    /* An earlier incarnation of `who` was here. It is gone, since we hold its lease: so its
     * generation is broken. */
    if (!over && hfi_participant_find(&barrier->participants, who))
        break_up(barrier, who);
    if (barrier->phase != HFI_FILLING || !same)
        begin_next(barrier, parties, twice);
    if (!hfi_participant_add(&barrier->participants, HFI_HERE, token, who))
        return HF_FULL; /* never: there are no more than parties */
    if (barrier->participants.count == barrier->parties)
        barrier->phase = twice ? HFI_OPEN : HFI_PASSED;
    *ret_generation = barrier->generation;
    *ret_changed = true;
    return HF_OK;
}

hf_status hfi_barrier_withdraw(struct hfi_barrier *barrier, const char *who, uint64_t token,
                               uint64_t generation, bool *ret_changed)
{
    hf_status status = hfi_barrier_outcome(barrier, generation, true);
    struct hfi_participant *participant;

    *ret_changed = false;
    if (status != HF_TIMEOUT)
        return status;
    participant = find(&barrier->participants, who, token);
    if (participant)
        hfi_participant_remove(&barrier->participants, participant);
    *ret_changed = participant != NULL;
    return HF_TIMEOUT;
}

hf_status hfi_barrier_leave(struct hfi_barrier *barrier, const char *who, uint64_t token,
                            uint64_t *ret_generation, bool *ret_changed)
{
    struct hfi_participant *participant = find(&barrier->participants, who, token);
    const struct hfi_participant *was = token ? find(&barrier->before, who, token) : NULL;

    *ret_changed = false;
    *ret_generation = barrier->generation;
    if (!participant && was && was->flag == HFI_LEFT) {
        --*ret_generation; /* we had left, and the next generation has begun */
        return HF_OK;
    }
    if (!participant || barrier->phase == HFI_BROKEN_UP || barrier->phase == HFI_FILLING)
        return HF_BROKEN; /* while we are inside, a generation ends in no other way */
    if (participant->flag == HFI_LEFT)
        return HF_OK;
    participant->flag = HFI_LEFT;
    if (hfi_participants_with(&barrier->participants, HFI_HERE) == 0)
        barrier->phase = HFI_PASSED;
    *ret_changed = true;
    return HF_OK;
}

void hfi_barrier_break(struct hfi_barrier *barrier, const char *who, uint64_t token,
                       bool *ret_changed)
{
    const struct hfi_participant *participant = find(&barrier->participants, who, token);

    *ret_changed = (barrier->phase == HFI_FILLING || barrier->phase == HFI_OPEN) && participant &&
                   participant->flag == HFI_HERE;
    if (*ret_changed)
        break_up(barrier, who);
}

hf_status hfi_barrier_outcome(const struct hfi_barrier *barrier, uint64_t generation, bool open)
{
    uint64_t since = barrier->generation - generation;

    if (barrier->generation > generation) /* too long ago to know: assume that it was broken */
        return since > REMEMBERED || barrier->broken >> (since - 1) & 1 ? HF_BROKEN : HF_OK;
    if (barrier->generation < generation)
        return HF_BROKEN; /* the barrier was removed */
    switch (barrier->phase) {
    case HFI_PASSED:
        return HF_OK;
    case HFI_BROKEN_UP:
        return HF_BROKEN;
    case HFI_OPEN:
        return open ? HF_OK : HF_TIMEOUT;
    case HFI_FILLING:
        break;
    }
    return HF_TIMEOUT;
}
