/* SPDX-License-Identifier: MIT */
/*
 * What wire=plain says to a server, on one server (foreign.c) and on the nodes of Redlock (redlock/plain.c): the lock is a string
 * with an expiry at exactly the name, made by SET NX PX, and only who knows its value ends it or makes it last longer. No state:
 * any thread.
 */
#ifndef HFI_REDIS_PLAIN_H
#define HFI_REDIS_PLAIN_H

#include "engine/engine.h"
#include "engine/redis/command.h"
#include "engine/redis/reply.h"

/* scripts/README.md, "Foreign wire modes". */
extern const struct hfi_script hfi_script_plain_acquire, hfi_script_plain_release,
    hfi_script_plain_renew;

/* SET name value NX PX ttl_ms. */
void hfi_plain_add_set(struct hfi_command *command, const struct hfi_name *name, const void *value,
                       size_t len, int64_t ttl_ms);

enum hfi_plain_said {
    HFI_PLAIN_GRANTED,
    HFI_PLAIN_TAKEN, /* SET: there is such a key, be it by an earlier copy of this command; ask plain_acquire */
    HFI_PLAIN_BUSY,
    HFI_PLAIN_KIND, /* a key of another type */
    HFI_PLAIN_ODD   /* none of these */
};

/* The answer to an acquire: SET, plain_acquire, redisson_acquire. *ret_ms: how long it is granted; BUSY: after which time the key is
 * gone, 0: it does not expire. Else 0. */
enum hfi_plain_said hfi_plain_read(const struct hfi_reply *reply, int64_t ttl_ms, int64_t *ret_ms);

#endif
