/* SPDX-License-Identifier: MIT */
/* Scripts of the user's: what running one (script.c) and the servers' caches (script_cache.c) share. Under the lock of the
 * reactor. */
#ifndef HFI_REDIS_SCRIPT_H
#define HFI_REDIS_SCRIPT_H

#include "engine/native.h"
#include "engine/redis/internal.h"

/* Kept until the op is finished: the command is built from it when it is sent. */
struct redis_user_script {
    struct hfi_script script;
    char text[];
};

/* A copy with its SHA-1. NULL: out of memory. */
struct redis_user_script *redis_user_script_new(const char *text, size_t len);
/* `text` is a script, or a SHA-1 in hex: the latter, in lower case. */
void redis_script_sha(const char *text, size_t len, char ret_sha[HFI_SCRIPT_SHA_LEN + 1]);

/* LOAD, EXISTS, FLUSH: at the one server, or at every master. */
void redis_script_cache(struct redis_store *store, struct hfi_op *op);
/* Free what was kept for it, and finish it. */
void redis_script_finish(struct redis_store *store, struct hfi_op *op, hf_status status,
                         const hf_error *err);
/* The op ends with the error that the server gave. */
void redis_script_refused(struct redis_store *store, struct hfi_op *op,
                          const struct hfi_reply *reply, const hf_error *err);

#endif
