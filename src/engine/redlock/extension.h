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

/* Both block, on the calling thread, with connections of their own. */
struct hfi_redlock_extension {
    struct hfi_extension head;
    /* hf_redlock_get_status(). *ret_status is also set with a status that says why the store cannot be healed; NULL: no node
     * was asked. */
    hf_status (*get_status)(struct hfi_conf *conf, struct hfi_redlock_status **ret_status,
                            hf_error *err);
    /* hf_redlock_join(). `node` NULL: all. */
    hf_status (*join)(struct hfi_conf *conf, const char *node, bool force, hfi_finding_fn *finding,
                      void *arg, hf_error *err);
};

#endif
