/* SPDX-License-Identifier: MIT */
/* The encoding of cells: see record.h. Pure. */
#include "prim/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool hfi_put_bytes(struct hfi_buffer *to, const void *bytes, size_t len)
{
    char *room = hfi_buffer_reserve(to, len);

    if (!room)
        return false;
    if (len > 0)
        memcpy(room, bytes, len);
    to->len += len;
    return true;
}

bool hfi_put_number(struct hfi_buffer *to, uint64_t number)
{
    char digits[HFI_DIGITS + 8];

    snprintf(digits, sizeof digits, "%0*" PRIu64, HFI_DIGITS, number);
    return hfi_put_bytes(to, digits, HFI_DIGITS);
}

bool hfi_put_text(struct hfi_buffer *to, const char *text)
{
    size_t len = strlen(text);

    return hfi_put_number(to, len) && hfi_put_bytes(to, text, len);
}

bool hfi_get_bytes(struct hfi_reader *from, size_t len, const unsigned char **ret_bytes)
{
    if (from->left < len)
        return false;
    *ret_bytes = from->at;
    from->at += len;
    from->left -= len;
    return true;
}

bool hfi_get_number(struct hfi_reader *from, uint64_t *ret_number)
{
    const unsigned char *digits;
    uint64_t number = 0;

    if (!hfi_get_bytes(from, HFI_DIGITS, &digits))
        return false;
    for (int i = 0; i < HFI_DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(digits[i] - '0');
    }
    *ret_number = number;
    return true;
}

bool hfi_get_text(struct hfi_reader *from, char *ret_text, size_t size)
{
    const unsigned char *bytes;
    uint64_t len;

    if (!hfi_get_number(from, &len) || len >= size || !hfi_get_bytes(from, (size_t)len, &bytes) ||
        memchr(bytes, 0, (size_t)len))
        return false;
    memcpy(ret_text, bytes, (size_t)len);
    ret_text[len] = 0;
    return true;
}
