/* SPDX-License-Identifier: MIT */
/* The participants of a latch or a barrier: see participants.h. Pure. */
#include "prim/participants.h"

#include <stdio.h>
#include <string.h>

struct hfi_participant *hfi_participant_find(struct hfi_participants *participants, const char *who)
{
    for (uint32_t i = 0; i < participants->count; i++)
        if (strcmp(participants->items[i].who, who) == 0)
            return &participants->items[i];
    return NULL;
}

bool hfi_participant_add(struct hfi_participants *participants, char flag, uint64_t token,
                         const char *who)
{
    struct hfi_participant *participant = &participants->items[participants->count];

    if (participants->count == HF_PARTICIPANTS_MAX)
        return false;
    participant->flag = flag;
    participant->token = token;
    snprintf(participant->who, sizeof participant->who, "%s", who);
    participants->count++;
    return true;
}

void hfi_participant_remove(struct hfi_participants *participants,
                            struct hfi_participant *participant)
{
    size_t behind = (size_t)(&participants->items[participants->count] - (participant + 1));

    memmove(participant, participant + 1, behind * sizeof *participant);
    participants->count--;
}

uint32_t hfi_participants_with(const struct hfi_participants *participants, char flag)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < participants->count; i++)
        count += participants->items[i].flag == flag;
    return count;
}

bool hfi_participants_put(const struct hfi_participants *participants, struct hfi_buffer *to)
{
    if (!hfi_put_number(to, participants->count))
        return false;
    for (uint32_t i = 0; i < participants->count; i++) {
        const struct hfi_participant *participant = &participants->items[i];

        if (!hfi_put_bytes(to, &participant->flag, 1) || !hfi_put_number(to, participant->token) ||
            !hfi_put_text(to, participant->who))
            return false;
    }
    return true;
}

bool hfi_participants_get(struct hfi_participants *participants, struct hfi_reader *from)
{
    uint64_t count;

    participants->count = 0;
    if (!hfi_get_number(from, &count) || count > HF_PARTICIPANTS_MAX)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        struct hfi_participant *participant = &participants->items[participants->count];
        const unsigned char *flag;

        if (!hfi_get_bytes(from, 1, &flag) || !hfi_get_number(from, &participant->token) ||
            !hfi_get_text(from, participant->who, sizeof participant->who) ||
            participant->who[0] == 0)
            return false;
        participant->flag = (char)*flag;
        participants->count++;
    }
    return true;
}
