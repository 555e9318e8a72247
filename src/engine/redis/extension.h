/* SPDX-License-Identifier: MIT */
/* What only the redis engine can do: see struct hfi_extension in engine/engine.h. */
#ifndef HFI_REDIS_EXTENSION_H
#define HFI_REDIS_EXTENSION_H

#include "engine/engine.h"

#define HFI_REDIS_EXTENSION "redis"

struct hfi_redis_extension {
    struct hfi_extension head;
    /* hf_script_kill(); wait_ms is positive. Blocks, on the calling thread, with connections of its own. */
    hf_status (*kill_script)(struct hfi_conf *conf, int64_t wait_ms, hf_error *err);
};

#endif
