/* SPDX-License-Identifier: MIT */
/* SCAN for names: see scan.h. */
#include "engine/redis/scan.h"

#include "engine/redis/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEYS  1000 /* keys that one SCAN visits */
#define QUEUE ":q"

void hfi_scan_add(struct hfi_command *command, const char *prefix, uint64_t cursor, bool waited)
{
    char pattern[2 * REDIS_STORE_PREFIX_MAX + sizeof "{*}" QUEUE]; /* each byte escaped */
    char number[24];
    size_t used = 0;

    snprintf(number, sizeof number, "%" PRIu64, cursor);
    /* The prefix is literal, although it may hold characters of patterns. */
    for (const char *at = prefix; *at; at++) {
        if (strchr("*?[]\\^", *at))
            pattern[used++] = '\\';
        pattern[used++] = *at;
    }
    used += (size_t)snprintf(pattern + used, sizeof pattern - used, "{*}%s", waited ? QUEUE : "");
    hfi_command_add_text(command, "SCAN");
    hfi_command_add_text(command, number);
    hfi_command_add_text(command, "MATCH");
    hfi_command_add(command, pattern, used);
    hfi_command_add_text(command, "COUNT");
    hfi_command_add_number(command, KEYS);
}

/* ---- the answer --------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The name of a key P{T}; its length, or 0: not the first key of a name. */
static size_t key_name(const char *prefix, const char *key, size_t len,
                       unsigned char ret_name[HF_NAME_MAX])
{
    size_t skip = strlen(prefix) + 1, used = 0;

    if (len < skip + 2 || key[skip - 1] != '{' || key[len - 1] != '}' ||
        memcmp(key, prefix, skip - 1) != 0)
        return 0;
    for (size_t i = skip; i < len - 1; i++) {
        int byte = (unsigned char)key[i];

        if (byte == '{' || byte == '}' || used == HF_NAME_MAX)
            return 0; /* another ending: a queue, or not our key */
        if (byte == '%') {
            int high = i + 2 < len ? hex_digit(key[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(key[i + 2]) : -1;

            if (high < 0 || low < 0)
                return 0;
            byte = 16 * high + low;
            i += 2;
        }
        ret_name[used++] = (unsigned char)byte;
    }
    return used;
}

/* Digits, up to 64 bits. */
bool hfi_scan_cursor(const struct hfi_reply *item, uint64_t *ret_cursor)
{
    uint64_t cursor = 0;

    if (!item || item->len == 0)
        return false;
    for (size_t i = 0; i < item->len; i++) {
        unsigned digit = (unsigned char)item->text[i] - (unsigned)'0';

        if (digit > 9 || cursor > (UINT64_MAX - digit) / 10)
            return false;
        cursor = 10 * cursor + digit;
    }
    *ret_cursor = cursor;
    return true;
}

/* Without the ending of a queue; 0: it has none. */
static size_t without_queue(const struct hfi_reply *key)
{
    size_t ending = sizeof QUEUE - 1;

    return key->len > ending && memcmp(key->text + key->len - ending, QUEUE, ending) == 0
               ? key->len - ending
               : 0;
}

hf_status hfi_scan_take(const struct hfi_reply *reply, const char *prefix, bool waited,
                        struct hfi_sink *sink, uint64_t *ret_cursor)
{
    const struct hfi_reply *keys = hfi_reply_at(reply, 1, HFI_REPLY_LIST);
    unsigned char name[HF_NAME_MAX];

    if (!keys || !hfi_scan_cursor(hfi_reply_at(reply, 0, HFI_REPLY_TEXT), ret_cursor))
        return HF_CORRUPT;
    for (size_t i = 0; i < keys->count; i++) {
        const struct hfi_reply *key = hfi_reply_at(keys, i, HFI_REPLY_TEXT);
        size_t whole = !key ? 0 : waited ? without_queue(key) : key->len;
        size_t len = key ? key_name(prefix, key->text, whole, name) : 0;

        if (len > 0 && !sink->name(sink, name, len))
            return HF_NO_MEMORY;
    }
    return HF_OK;
}
