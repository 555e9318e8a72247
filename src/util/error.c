/* SPDX-License-Identifier: MIT */
/*
 * Filling in the caller's hf_error. Text is built in a buffer of our own first,
 * because an argument may well be the text that is about to be overwritten.
 * Text that does not fit ends in "..." and never in half a character. Much of it comes from a
 * server: every text passes here, so control characters that a terminal or a log would obey are
 * removed here.
 */
#define HFI_ERROR_C
#include "util/error.h"
#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void keep(char *ret_text, const char *made, int len);

hf_status hfi_error_set(hf_error *err, hf_status status, int native, const char *format, ...)
{
    char made[HF_ERROR_TEXT_MAX];
    va_list args;
    int len;

    if (!err)
        return status;

    va_start(args, format);
    len = vsnprintf(made, sizeof made, format, args);
    va_end(args);

    err->status = status;
    err->native = native;
    keep(err->text, made, len);
    return status;
}

hf_status hfi_error_wrap(hf_error *err, const char *format, ...)
{
    char outer[HF_ERROR_TEXT_MAX], made[HF_ERROR_TEXT_MAX];
    va_list args;

    if (!err)
        return HF_INTERNAL;

    va_start(args, format);
    vsnprintf(outer, sizeof outer, format, args);
    va_end(args);

    keep(err->text, made, snprintf(made, sizeof made, "%s: %s", outer, err->text));
    return err->status;
}

void hfi_error_clear(hf_error *err)
{
    if (!err)
        return;
    err->status = HF_OK;
    err->native = 0;
    err->text[0] = 0;
}

hf_status hfi_error_memory(hf_error *err)
{
    return hfi_error_set(err, HF_NO_MEMORY, 0, "%s", hf_status_text(HF_NO_MEMORY));
}

/* Copy what vsnprintf() wrote; it returned `len`: negative, short enough, or more than fitted. */
static void keep(char *ret_text, const char *made, int len)
{
    size_t end;

    if (len < 0) {
        ret_text[0] = 0;
        return;
    }
    if (len < HF_ERROR_TEXT_MAX) {
        memcpy(ret_text, made, (size_t)len + 1);
        hfi_disarm(ret_text, false);
        return;
    }

    end = HF_ERROR_TEXT_MAX - sizeof "...";
    while (end > 0 && ((unsigned char)made[end] & 0xc0) == 0x80)
        end--;
    memcpy(ret_text, made, end);
    memcpy(ret_text + end, "...", sizeof "...");
    hfi_disarm(ret_text, false);
}
