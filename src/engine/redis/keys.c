/* SPDX-License-Identifier: MIT */
/* The keys of a name, and other arguments of a command. */
#include "engine/redis/internal.h"

#include "util/text.h"

#include <string.h>

/* "P{T}" into ret_key; returns its length. The name's braces are escaped, so that the tag is the
 * whole name and every key of a name is in one slot. */
static size_t name_key(const struct redis_store *store, const struct hfi_name *name,
                       char ret_key[REDIS_KEY_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = strlen(store->conf->prefix);

    memcpy(ret_key, store->conf->prefix, len);
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

uint32_t redis_name_slot(const struct redis_store *store, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];

    return hfi_key_slot(key, name_key(store, name, key));
}

static void set_slot(struct redis_call *call, const char *key, size_t len)
{
    if (call->store->slots)
        call->command.slot = hfi_key_slot(key, len);
}

void redis_add_keys(struct redis_call *call, const struct hfi_name *name, bool all)
{
    char key[REDIS_KEY_MAX];
    size_t len = name_key(call->store, name, key);

    set_slot(call, key, len);
    hfi_command_add(&call->command, key, len);
    if (!all)
        return;
    key[len] = ':';
    key[len + 1] = 'w';
    hfi_command_add(&call->command, key, len + 2);
    key[len + 1] = 'q';
    hfi_command_add(&call->command, key, len + 2);
}

size_t redis_cell_key(const struct redis_store *store, const struct hfi_name *name,
                      char ret_key[REDIS_KEY_MAX])
{
    size_t len = name_key(store, name, ret_key);

    memcpy(ret_key + len, ":c", 2);
    return len + 2;
}

void redis_add_cell_key(struct redis_call *call, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];
    size_t len = redis_cell_key(call->store, name, key);

    set_slot(call, key, len);
    hfi_command_add(&call->command, key, len);
}

void redis_add_owner(struct redis_call *call, const unsigned char *owner)
{
    char hex[2 * HFI_OWNER_LEN + 1];

    hfi_hex(owner, HFI_OWNER_LEN, hex);
    hfi_command_add(&call->command, hex, 2 * HFI_OWNER_LEN);
}
