/* SPDX-License-Identifier: MIT */
/* The plain wire, what goes out and what comes back: see plain.h. */
#include "engine/redis/plain.h"

void hfi_plain_add_set(struct hfi_command *command, const struct hfi_name *name, const void *value,
                       size_t len, int64_t ttl_ms)
{
    hfi_command_add_text(command, "SET");
    hfi_command_add(command, name->bytes, name->len);
    hfi_command_add(command, value, len);
    hfi_command_add_text(command, "NX");
    hfi_command_add_text(command, "PX");
    hfi_command_add_number(command, ttl_ms);
}

enum hfi_plain_said hfi_plain_read(const struct hfi_reply *reply, int64_t ttl_ms, int64_t *ret_ms)
{
    const struct hfi_reply *time = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);

    *ret_ms = 0;
    if (reply->type == HFI_REPLY_STATE) {
        *ret_ms = ttl_ms;
        return HFI_PLAIN_GRANTED;
    }
    if (reply->type == HFI_REPLY_NIL)
        return HFI_PLAIN_TAKEN;
    switch (hfi_reply_letter(reply)) {
    case 'G':
        if (!time || time->integer <= 0)
            return HFI_PLAIN_ODD;
        *ret_ms = hfi_told_ms(time->integer);
        return HFI_PLAIN_GRANTED;
    case 'B':
        if (!time)
            return HFI_PLAIN_ODD;
        *ret_ms = hfi_told_ms(time->integer);
        return HFI_PLAIN_BUSY;
    case 'M':
        return HFI_PLAIN_KIND;
    default:
        return HFI_PLAIN_ODD;
    }
}
