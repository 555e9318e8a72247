/* SPDX-License-Identifier: MIT */
/* Those who take part in a latch or a barrier, as its cell lists them. Pure: no I/O. */
#ifndef HFI_MEMBERS_H
#define HFI_MEMBERS_H

#include "holdfast/primitives.h"
#include "prim/change.h"

/* One who takes part. Its lease is that of the name, a NUL, and `who`. */
struct hfi_member {
    char flag;
    uint64_t token; /* of its lease, or a number by chance where the engine has none; 0: no lease */
    char who[HF_PARTICIPANT_MAX + 1];
};

struct hfi_members {
    uint32_t count;
    struct hfi_member items[HF_PARTICIPANTS_MAX];
};

/* NULL: not there. */
struct hfi_member *hfi_member_find(struct hfi_members *members, const char *who);
/* false: there is no room. */
bool hfi_member_add(struct hfi_members *members, char flag, uint64_t token, const char *who);
void hfi_member_remove(struct hfi_members *members, struct hfi_member *member);
uint32_t hfi_members_with(const struct hfi_members *members, char flag);

bool hfi_members_put(const struct hfi_members *members, struct hfi_buffer *to);
bool hfi_members_get(struct hfi_members *members, struct hfi_reader *from);

#endif
