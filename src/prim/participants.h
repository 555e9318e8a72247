/* SPDX-License-Identifier: MIT */
/* The participants of a latch or a barrier, as its cell lists them. Pure: no I/O. */
#ifndef HFI_PARTICIPANTS_H
#define HFI_PARTICIPANTS_H

#include "holdfast/primitives.h"
#include "prim/record.h"

/* A participant. The name of its lease is the name of the latch, a NUL, and `who`. */
struct hfi_participant {
    char flag;
    uint64_t token; /* of its lease, or a random number if the engine has no tokens; 0: no lease */
    char who[HF_PARTICIPANT_MAX + 1];
};

struct hfi_participants {
    uint32_t count;
    struct hfi_participant items[HF_PARTICIPANTS_MAX];
};

/* NULL: not there. */
struct hfi_participant *hfi_participant_find(struct hfi_participants *participants,
                                             const char *who);
/* false: there is no room. */
bool hfi_participant_add(struct hfi_participants *participants, char flag, uint64_t token,
                         const char *who);
void hfi_participant_remove(struct hfi_participants *participants,
                            struct hfi_participant *participant);
uint32_t hfi_participants_with(const struct hfi_participants *participants, char flag);

bool hfi_participants_put(const struct hfi_participants *participants, struct hfi_buffer *to);
bool hfi_participants_get(struct hfi_participants *participants, struct hfi_reader *from);

#endif
