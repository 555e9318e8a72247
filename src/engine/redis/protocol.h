/* SPDX-License-Identifier: MIT */
/* What the scripts of Redis and of Redlock have in common: the flags of an acquire, and messages to
 * an inbox. */
#ifndef HFI_REDIS_PROTOCOL_H
#define HFI_REDIS_PROTOCOL_H

#include "engine/engine.h"

/* `hears`: the server of the name also has our inbox, and so knows whether we listen. */
int64_t redis_acquire_flags(const struct hfi_op *op, bool hears);

#define REDIS_MESSAGE_NUMBERS 5 /* Redlock: at most 4 */

/* "<letter> <owner> <number> ... <rest>" (Redlock), "<letter><owner> <number> ..." with its raw bytes (Redis) */
struct redis_message {
    char letter;
    unsigned char owner[HFI_OWNER_LEN];
    unsigned count; /* of the numbers that are there */
    uint64_t numbers[REDIS_MESSAGE_NUMBERS];
    size_t rest_len;
    const char *rest; /* in the payload */
};

/* `payload` ends with a NUL, beyond `len`. false: it is not one of ours; any client may publish
 * there. */
bool redis_message_read(const char *payload, size_t len, struct redis_message *ret_message);
bool redis_message_read_raw(const char *payload, size_t len, struct redis_message *ret_message);

/* The numbers of `permits` permits, 4 bytes each, little-endian. false: not so many, not ascending, or beyond every capacity. */
bool redis_numbers_read(const char *bytes, size_t len, uint32_t permits,
                        uint32_t ret_slots[HF_SLOTS_MAX]);

#endif
