/* SPDX-License-Identifier: MIT */
/* Flags and messages: see protocol.h. Pure. */
#include "engine/redis/protocol.h"

#include "util/text.h"

#define FLAG_WAIT     1
#define FLAG_BARGE    2
#define FLAG_DETACHED 4
#define FLAG_HEARS    8

#define HEAD_LEN (2 + 2 * HFI_OWNER_LEN)

int64_t redis_acquire_flags(const struct hfi_op *op, bool hears)
{
    return (op->may_wait ? FLAG_WAIT : 0) | (op->claim->flags & HFI_CLAIM_BARGE ? FLAG_BARGE : 0) |
           (op->claim->flags & HFI_CLAIM_DETACHED ? FLAG_DETACHED : 0) | (hears ? FLAG_HEARS : 0);
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* The digits at *at, and beyond them. false: more than 64 bits. */
static bool read_number(const char **at, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (; *at < end && is_digit(**at); ++*at) {
        unsigned digit = (unsigned)(**at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

bool redis_message_read(const char *payload, size_t len, struct redis_message *ret_message)
{
    const char *at = payload + HEAD_LEN, *end = payload + len;

    if (len < HEAD_LEN || payload[1] != ' ' ||
        !hfi_unhex(payload + 2, 2 * HFI_OWNER_LEN, ret_message->owner, HFI_OWNER_LEN))
        return false;
    ret_message->letter = payload[0];
    ret_message->count = 0;
    while (ret_message->count < REDIS_MESSAGE_NUMBERS && end - at > 1 && *at == ' ' &&
           is_digit(at[1])) {
        at++;
        if (!read_number(&at, end, &ret_message->numbers[ret_message->count++]))
            return false;
    }
    if (at < end && *at == ' ')
        at++;
    ret_message->rest = at;
    ret_message->rest_len = (size_t)(end - at);
    return true;
}
