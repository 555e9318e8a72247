/* SPDX-License-Identifier: MIT */
/*
 * Names on a server: see names.h.
 *
 * Which slot of a cluster a key belongs to: CRC16 (XMODEM: polynomial 0x1021, from 0, not
 * reflected) modulo 16384, of the text between the first '{' and the first '}' after it if that is
 * not empty, else of the whole key.
 */
#include "engine/redis/names.h"

#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define SLOTS 16384u

static const uint16_t nibble[16] = {
    0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
    0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef
};

static uint32_t crc16(const unsigned char *bytes, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc = (crc << 4 ^ nibble[crc >> 12 ^ bytes[i] >> 4]) & 0xffff;
        crc = (crc << 4 ^ nibble[crc >> 12 ^ (bytes[i] & 15u)]) & 0xffff;
    }
    return crc;
}

uint32_t hfi_key_slot(const void *key, size_t len)
{
    const unsigned char *open = len ? memchr(key, '{', len) : NULL;

    if (open) {
        size_t left = len - (size_t)(open + 1 - (const unsigned char *)key);
        const unsigned char *shut = memchr(open + 1, '}', left);

        if (shut && shut > open + 1)
            return crc16(open + 1, (size_t)(shut - open - 1)) % SLOTS;
    }
    return crc16(key, len) % SLOTS;
}

size_t redis_name_key(const char *prefix, const struct hfi_name *name, char ret_key[REDIS_KEY_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = strlen(prefix);

    memcpy(ret_key, prefix, len);
    ret_key[len++] = '{';
    for (uint32_t i = 0; i < name->len; i++) {
        unsigned char byte = name->bytes[i];

        if (byte == '%' || byte == '{' || byte == '}') {
            ret_key[len++] = '%';
            ret_key[len++] = digits[byte >> 4];
            ret_key[len++] = digits[byte & 15];
        } else {
            ret_key[len++] = (char)byte;
        }
    }
    ret_key[len++] = '}';
    return len;
}

void redis_add_owner(struct hfi_command *command, const unsigned char *owner)
{
    char hex[2 * HFI_OWNER_LEN + 1];

    hfi_hex(owner, HFI_OWNER_LEN, hex);
    hfi_command_add(command, hex, 2 * HFI_OWNER_LEN);
}

static void name_inbox(struct redis_inbox_name *ret_name, const char *prefix,
                       const unsigned char *id, size_t len)
{
    char hex[REDIS_INBOX_ID_LEN + 1];

    hfi_hex(id, len, hex);
    ret_name->len =
        (size_t)snprintf(ret_name->text, sizeof ret_name->text, "%sinbox:%s", prefix, hex);
}

void redis_inbox_name_make(struct redis_inbox_name *ret_name, const char *prefix)
{
    unsigned char id[REDIS_INBOX_ID_LEN / 2];

    hfi_random_bytes(id, sizeof id);
    name_inbox(ret_name, prefix, id, sizeof id);
}

void redis_inbox_name_of(struct redis_inbox_name *ret_name, const char *prefix,
                         const unsigned char client[REDIS_CLIENT_LEN])
{
    name_inbox(ret_name, prefix, client, REDIS_CLIENT_LEN);
}

bool redis_inbox_name_is(const struct redis_inbox_name *name, const char *channel, size_t len)
{
    return len == name->len && memcmp(channel, name->text, len) == 0;
}
