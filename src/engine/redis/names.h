/* SPDX-License-Identifier: MIT */
/* Names on a server, for Redis and Redlock: the key of a name, its slot, an owner, an inbox. */
#ifndef HFI_REDIS_NAMES_H
#define HFI_REDIS_NAMES_H

#include "engine/engine.h"
#include "engine/redis/command.h"
#include "engine/redis/conf.h"

/* Of all keys of a store: prefix= and what Redlock puts behind it. */
#define REDIS_STORE_PREFIX_MAX (HFI_PREFIX_MAX + sizeof "rl:" - 1)
#define REDIS_KEY_MAX \
    (REDIS_STORE_PREFIX_MAX + 3 * HF_NAME_MAX + 4) /* "P{T}:w", each byte escaped */
#define REDIS_INBOX_ID_LEN 32                      /* hex digits */

/* "P{T}" into ret_key; returns its length. The name's braces are escaped, so that the tag is the whole name (or
 * that of P, if it has one) and every key of a name is in one slot. */
size_t redis_name_key(const char *prefix, const struct hfi_name *name, char ret_key[REDIS_KEY_MAX]);

/* CRC16 of the hash tag (or whole key) modulo 16384. */
uint32_t hfi_key_slot(const void *key, size_t len);

/* An owner as an argument: in hex. */
void redis_add_owner(struct hfi_command *command, const unsigned char *owner);

/* The channel on which a store gets messages. */
struct redis_inbox_name {
    size_t len;
    char text[REDIS_STORE_PREFIX_MAX + sizeof "inbox:" + REDIS_INBOX_ID_LEN];
};

void redis_inbox_name_make(struct redis_inbox_name *ret_name, const char *prefix);
/* The inbox of a client of the Redis engine. */
#define REDIS_CLIENT_LEN 8
void redis_inbox_name_of(struct redis_inbox_name *ret_name, const char *prefix,
                         const unsigned char client[REDIS_CLIENT_LEN]);
bool redis_inbox_name_is(const struct redis_inbox_name *name, const char *channel, size_t len);

#endif
