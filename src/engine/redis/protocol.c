/* SPDX-License-Identifier: MIT */
/* Flags and messages: see protocol.h. Pure. */
#include "engine/redis/protocol.h"

#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_WAIT     1
#define FLAG_BARGE    2
#define FLAG_DETACHED 4
#define FLAG_HEARS    8

#define HEAD_LEN     (2 + 2 * HFI_OWNER_LEN)
#define RAW_HEAD_LEN (1 + HFI_OWNER_LEN)

int64_t redis_acquire_flags(const struct hfi_op *op, bool hears)
{
    return (op->may_wait ? FLAG_WAIT : 0) | (op->claim->flags & HFI_CLAIM_BARGE ? FLAG_BARGE : 0) |
           (op->claim->flags & HFI_CLAIM_DETACHED ? FLAG_DETACHED : 0) | (hears ? FLAG_HEARS : 0);
}

/* What comes behind a head of `head` bytes. */
static bool read_rest(const char *payload, size_t len, size_t head, unsigned most,
                      struct redis_message *ret_message)
{
    char *at = (char *)payload + head;
    unsigned count = 0;

    errno = 0;
    for (; count < most && *at == ' ' && isdigit((unsigned char)at[1]); count++)
        ret_message->numbers[count] = strtoull(at + 1, &at, 10);
    at += *at == ' ';
    ret_message->letter = payload[0];
    ret_message->count = count;
    ret_message->rest = at;
    ret_message->rest_len = len - (size_t)(at - payload);
    return errno == 0;
}

bool redis_message_read(const char *payload, size_t len, struct redis_message *ret_message)
{
    return len >= HEAD_LEN && payload[1] == ' ' &&
           hfi_unhex(payload + 2, 2 * HFI_OWNER_LEN, ret_message->owner, HFI_OWNER_LEN) &&
           read_rest(payload, len, HEAD_LEN, 4, ret_message);
}

bool redis_message_read_raw(const char *payload, size_t len, struct redis_message *ret_message)
{
    if (len < RAW_HEAD_LEN)
        return false;
    memcpy(ret_message->owner, payload + 1, HFI_OWNER_LEN);
    return read_rest(payload, len, RAW_HEAD_LEN, payload[0] == 'A' ? 0 : REDIS_MESSAGE_NUMBERS,
                     ret_message);
}

bool redis_numbers_read(const char *bytes, size_t len, uint32_t permits,
                        uint32_t ret_slots[HF_SLOTS_MAX])
{
    const unsigned char *at = (const unsigned char *)bytes;

    if (permits > HF_SLOTS_MAX || len != 4 * (size_t)permits)
        return false;
    for (uint32_t i = 0; i < permits; i++, at += 4) {
        ret_slots[i] = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        if (ret_slots[i] >= HF_CAPACITY_MAX || (i > 0 && ret_slots[i] <= ret_slots[i - 1]))
            return false;
    }
    return true;
}
