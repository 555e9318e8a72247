/* SPDX-License-Identifier: MIT */
/* Text and JSON. */
#include "out.h"

#include "holdfast/holdfast.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room(struct out *out, size_t more)
{
    size_t size = out->size ? out->size : 1024;
    char *grown;

    if (out->failed)
        return false;
    while (size - out->len < more)
        size *= 2;
    if (size == out->size)
        return true;
    grown = realloc(out->at, size);
    if (!grown) {
        out->failed = true;
        return false;
    }
    out->at = grown;
    out->size = size;
    return true;
}

void out_done(struct out *out)
{
    free(out->at);
    *out = (struct out){ 0 };
}

void out_bytes(struct out *out, const void *bytes, size_t len)
{
    if (len == 0 || !room(out, len))
        return;
    memcpy(out->at + out->len, bytes, len);
    out->len += len;
}

void out_print(struct out *out, const char *format, ...)
{
    va_list list;
    int len;

    va_start(list, format);
    len = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (len <= 0 || !room(out, (size_t)len + 1))
        return;
    va_start(list, format);
    vsnprintf(out->at + out->len, (size_t)len + 1, format, list);
    va_end(list);
    out->len += (size_t)len;
}

/* The bytes that a UTF-8 character has, by its first bytes; 0: not UTF-8. */
static size_t char_len(const unsigned char *at, size_t left)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = at[0] < 0x80             ? 1
                 : (at[0] & 0xe0) == 0xc0 ? 2
                 : (at[0] & 0xf0) == 0xe0 ? 3
                 : (at[0] & 0xf8) == 0xf0 ? 4
                                          : 0;
    uint32_t c = len > 1 ? at[0] & (0x7fu >> len) : at[0];

    if (len == 0 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3f);
    }
    if (len > 1 && (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)))
        return 0;
    return len;
}

bool is_utf8(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    while (len > 0) {
        size_t step = char_len(at, len);

        if (step == 0)
            return false;
        at += step;
        len -= step;
    }
    return true;
}

static void put_key(struct out *out, const char *key)
{
    if (out->comma)
        out_bytes(out, ",", 1);
    if (key)
        out_print(out, "\"%s\":", key);
    out->comma = true;
}

void out_open(struct out *out, const char *key, char bracket)
{
    put_key(out, key);
    out_bytes(out, &bracket, 1);
    out->comma = false;
}

void out_close(struct out *out, char bracket)
{
    out_bytes(out, &bracket, 1);
    out->comma = true;
}

static void put_string(struct out *out, const unsigned char *at, size_t len)
{
    size_t from = 0;

    out_bytes(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        char escape[HFI_JSON_ESCAPE];
        /* Somebody reads it on a terminal; U+2028 and U+2029 end a line in JavaScript; < > & mean something in HTML. */
        size_t unseen = hfi_json_unseen(at + i, len - i, escape);

        if (at[i] >= 0x20 && at[i] != 0x7f && !strchr("\"\\<>&", at[i]) && !unseen)
            continue;
        out_bytes(out, at + from, i - from);
        if (unseen)
            out_bytes(out, escape, strlen(escape));
        else
            out_print(out, "\\u%04x", at[i]);
        i += unseen ? unseen - 1 : 0;
        from = i + 1;
    }
    out_bytes(out, at + from, len - from);
    out_bytes(out, "\"", 1);
}

void out_text(struct out *out, const char *key, const void *bytes, size_t len)
{
    char quoted[HFI_QUOTED_MAX];

    put_key(out, key);
    if (is_utf8(bytes, len)) {
        put_string(out, bytes, len);
    } else {
        hfi_quote_name(bytes, len, quoted, sizeof quoted);
        put_string(out, (const unsigned char *)quoted, strlen(quoted));
    }
}

void out_word(struct out *out, const char *key, const char *word)
{
    if (word)
        out_text(out, key, word, strlen(word));
    else
        out_null(out, key);
}

void out_int(struct out *out, const char *key, int64_t number)
{
    put_key(out, key);
    out_print(out, "%" PRId64, number);
}

void out_u64(struct out *out, const char *key, uint64_t number)
{
    put_key(out, key);
    out_print(out, "\"%" PRIu64 "\"", number);
}

void out_bool(struct out *out, const char *key, bool value)
{
    put_key(out, key);
    out_print(out, "%s", value ? "true" : "false");
}

void out_null(struct out *out, const char *key)
{
    put_key(out, key);
    out_bytes(out, "null", 4);
}

void out_name(struct out *out, const void *name, size_t len)
{
    char hex[2 * HF_NAME_MAX + 1];

    out_text(out, "name", name, len);
    if (len > HF_NAME_MAX || is_utf8(name, len))
        return;
    hfi_hex(name, len, hex);
    out_word(out, "name_hex", hex);
}
