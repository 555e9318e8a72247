/* SPDX-License-Identifier: MIT */
/* What only the redlock engine can do: see struct hfi_extension in engine/engine.h. */
#ifndef HFI_REDLOCK_EXTENSION_H
#define HFI_REDLOCK_EXTENSION_H

#include "engine/engine.h"
#include "holdfast/redis.h"

#define HFI_REDLOCK_EXTENSION "redlock"

/* What get_status() returns: one block of hfi_malloc(). The caller gets a pointer to its first member; the nodes and their
 * texts are behind it. */
struct hfi_redlock_status {
    hf_redlock_status status;
    size_t count;
    hf_redlock_node nodes[];
};

#define HFI_REDLOCK_JOINED (-1) /* join_step(): there is no next step */

struct hfi_redlock_join; /* a join between two steps: the engine's */

/* get_status() and join_step() block for some round trips, over connections of their own. One thread at a time. */
struct hfi_redlock_extension {
    struct hfi_extension head;
    /* hf_redlock_get_status(). *ret_status is also set with a status that says why the store cannot be healed; NULL: no node
     * was asked. */
    hf_status (*get_status)(struct hfi_conf *conf, struct hfi_redlock_status **ret_status,
                            hf_error *err);
    /* hf_redlock_join(). `node` NULL: all; it is used during the call only. After HF_OK join_end() is due. */
    hf_status (*join_begin)(struct hfi_conf *conf, const char *node, bool force,
                            hfi_finding_fn *finding, void *arg, struct hfi_redlock_join **ret_join,
                            hf_error *err);
    /* Look at the nodes, and take the next step. HF_OK: the caller waits for *ret_rest_ms and calls again, unless it is
     * HFI_REDLOCK_JOINED. Any other status is final. */
    hf_status (*join_step)(struct hfi_redlock_join *join, int64_t *ret_rest_ms, hf_error *err);
    void (*join_end)(struct hfi_redlock_join *join);
};

#endif
