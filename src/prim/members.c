/* SPDX-License-Identifier: MIT */
/* Those who take part: see members.h. Pure. */
#include "prim/members.h"

#include <stdio.h>
#include <string.h>

struct hfi_member *hfi_member_find(struct hfi_members *members, const char *who)
{
    for (uint32_t i = 0; i < members->count; i++)
        if (strcmp(members->items[i].who, who) == 0)
            return &members->items[i];
    return NULL;
}

bool hfi_member_add(struct hfi_members *members, char flag, uint64_t token, const char *who)
{
    struct hfi_member *member = &members->items[members->count];

    if (members->count == HF_PARTICIPANTS_MAX)
        return false;
    member->flag = flag;
    member->token = token;
    snprintf(member->who, sizeof member->who, "%s", who);
    members->count++;
    return true;
}

void hfi_member_remove(struct hfi_members *members, struct hfi_member *member)
{
    size_t behind = (size_t)(&members->items[members->count] - (member + 1));

    memmove(member, member + 1, behind * sizeof *member);
    members->count--;
}

uint32_t hfi_members_with(const struct hfi_members *members, char flag)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < members->count; i++)
        count += members->items[i].flag == flag;
    return count;
}

bool hfi_members_put(const struct hfi_members *members, struct hfi_buffer *to)
{
    if (!hfi_put_number(to, members->count))
        return false;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct hfi_member *member = &members->items[i];

        if (!hfi_put_bytes(to, &member->flag, 1) || !hfi_put_number(to, member->token) ||
            !hfi_put_text(to, member->who))
            return false;
    }
    return true;
}

bool hfi_members_get(struct hfi_members *members, struct hfi_reader *from)
{
    uint64_t count;

    members->count = 0;
    if (!hfi_get_number(from, &count) || count > HF_PARTICIPANTS_MAX)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        struct hfi_member *member = &members->items[members->count];
        const unsigned char *flag;

        if (!hfi_get_bytes(from, 1, &flag) || !hfi_get_number(from, &member->token) ||
            !hfi_get_text(from, member->who, sizeof member->who) || member->who[0] == 0)
            return false;
        member->flag = (char)*flag;
        members->count++;
    }
    return true;
}
