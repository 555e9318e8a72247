/* SPDX-License-Identifier: MIT */
/*
 * SCAN, a page at a time, for the names that have keys on a server. The first key of a name is
 * P{T}: the prefix, and the name with some bytes escaped. A name that is waited for has a queue too, P{T}:q, so a
 * search for waiters (`waited`) need not look at the names that nobody waits for.
 */
#ifndef HFI_REDIS_SCAN_H
#define HFI_REDIS_SCAN_H

#include "engine/engine.h"
#include "engine/redis/command.h"
#include "engine/redis/reply.h"

void hfi_scan_add(struct hfi_command *command, const char *prefix, uint64_t cursor, bool waited);
/* The cursor in the answer to any kind of SCAN. false: it is none. */
bool hfi_scan_cursor(const struct hfi_reply *item, uint64_t *ret_cursor);
/* The answer: its names go to the sink. HF_OK: the next page is at *ret_cursor, 0: there is none. HF_CORRUPT, HF_NO_MEMORY. */
hf_status hfi_scan_take(const struct hfi_reply *reply, const char *prefix, bool waited,
                        struct hfi_sink *sink, uint64_t *ret_cursor);

#endif
