/* SPDX-License-Identifier: MIT */
/* The keys of a name, and other arguments of a command. */
#include "engine/redis/internal.h"

#include <string.h>

uint32_t redis_name_slot(const struct redis_store *store, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];

    return hfi_key_slot(key, redis_name_key(store->conf->prefix, name, key));
}

static void set_slot(struct redis_call *call, const char *key, size_t len)
{
    if (call->store->slots)
        call->command.slot = hfi_key_slot(key, len);
}

void redis_add_keys(struct redis_call *call, const struct hfi_name *name, bool all)
{
    char key[REDIS_KEY_MAX];
    size_t len = redis_name_key(call->store->conf->prefix, name, key);

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

uint32_t redis_renewal_keys(const struct redis_store *store)
{
    return store->slots ? 1 : 2;
}

void redis_add_renewal_keys(struct redis_call *call, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];
    size_t len = redis_name_key(call->store->conf->prefix, name, key);

    redis_add_keys(call, name, false);
    if (redis_renewal_keys(call->store) == 1)
        return;
    memcpy(key + len, ":w", 2);
    hfi_command_add(&call->command, key, len + 2);
}

size_t redis_cell_key(const struct redis_store *store, const struct hfi_name *name,
                      char ret_key[REDIS_KEY_MAX])
{
    size_t len = redis_name_key(store->conf->prefix, name, ret_key);

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
