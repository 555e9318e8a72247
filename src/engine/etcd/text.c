/* SPDX-License-Identifier: MIT */
/* Growing texts, and base64. See text.h. */
#include "engine/etcd/text.h"

#include "util/alloc.h"

#include <stdio.h>
#include <string.h>

#define TEXT_FIRST 512
#define TEXT_MAX   (64u << 20)

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Room for `more` bytes and a NUL. */
static char *reserve(struct etcd_text *text, size_t more)
{
    size_t room = text->room ? text->room : TEXT_FIRST;
    char *bytes;

    if (text->failed)
        return NULL;
    if (text->room - text->len > more)
        return text->bytes + text->len;
    while (room - text->len <= more && room <= TEXT_MAX)
        room *= 2;
    bytes = room <= TEXT_MAX ? hfi_realloc(text->bytes, room) : NULL;
    if (!bytes) {
        text->failed = true;
        return NULL;
    }
    text->bytes = bytes;
    text->room = room;
    return text->bytes + text->len;
}

bool etcd_reserve(struct etcd_text *text, size_t more)
{
    return reserve(text, more) != NULL;
}

void etcd_add_bytes(struct etcd_text *text, const void *bytes, size_t len)
{
    char *at = reserve(text, len);

    if (!at)
        return;
    if (len > 0)
        memcpy(at, bytes, len);
    at[len] = 0;
    text->len += len;
}

void etcd_add(struct etcd_text *text, const char *more)
{
    etcd_add_bytes(text, more, strlen(more));
}

void etcd_add_number(struct etcd_text *text, int64_t number)
{
    char digits[24];

    etcd_add_bytes(text, digits,
                   (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
}

void etcd_add_base64(struct etcd_text *text, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    char *to = reserve(text, (len + 2) / 3 * 4);

    if (!to)
        return;
    for (size_t i = 0; i < len; i += 3, to += 4) {
        unsigned group = (unsigned)from[i] << 16;

        if (i + 1 < len)
            group |= (unsigned)from[i + 1] << 8;
        if (i + 2 < len)
            group |= from[i + 2];
        to[0] = digits64[group >> 18];
        to[1] = digits64[group >> 12 & 63];
        to[2] = i + 1 < len ? digits64[group >> 6 & 63] : '=';
        to[3] = i + 2 < len ? digits64[group & 63] : '=';
    }
    *to = 0;
    text->len += (len + 2) / 3 * 4;
}

void etcd_add_quoted(struct etcd_text *text, const char *more)
{
    char escaped[8];

    etcd_add(text, "\"");
    for (; *more; more++) {
        if (*more == '"' || *more == '\\' || (unsigned char)*more < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)*more);
            etcd_add(text, escaped);
        } else {
            etcd_add_bytes(text, more, 1);
        }
    }
    etcd_add(text, "\"");
}

void etcd_text_done(struct etcd_text *text)
{
    if (text->bytes)
        explicit_bzero(text->bytes, text->len);
    hfi_free(text->bytes);
    *text = (struct etcd_text){ 0 };
}

static int value64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t etcd_unbase64(const char *text, size_t len, void *ret_bytes, size_t room)
{
    unsigned char *to = ret_bytes;
    size_t used = 0;
    unsigned group = 0, bits = 0;

    while (len > 0 && text[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++) {
        int value = value64(text[i]);

        if (value < 0)
            return SIZE_MAX;
        group = (group << 6 | (unsigned)value) & 0xffff;
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        if (used == room)
            return SIZE_MAX;
        to[used++] = (unsigned char)(group >> bits & 0xff);
    }
    return used;
}
