/* SPDX-License-Identifier: MIT */
/* Ops: what core hands to an engine. */
#ifndef HFI_OP_H
#define HFI_OP_H

#include "engine/engine.h"

#include <stdatomic.h>

/* Zero the engine's struct in a room. Most are small, and a size that the compiler knows needs no call. */
static inline void hfi_room_zero(unsigned char *room, uint32_t size)
{
    if (size <= 64)
        memset(room, 0, 64);
    else
        memset(room, 0, size);
}

/* Prepare an op. Its error text is 512 bytes and is not wiped: the first byte says that it is empty. */
static inline void hfi_op_init(struct hfi_op *op, const struct hfi_engine *engine,
                               enum hfi_op_kind kind, struct hfi_claim *claim, int64_t deadline_ms)
{
    op->kind = kind;
    op->deadline_ms = deadline_ms;
    op->may_wait = false;
    op->blocking = op->hurried = false;
    op->ret_lingers = op->ret_queued = false;
    op->claim = claim;
    op->done = NULL;
    op->error.status = HF_OK;
    op->error.native = 0;
    op->error.text[0] = 0;
    atomic_store_explicit(&op->stop, 0, memory_order_relaxed);
    atomic_store_explicit(&op->finished, 0, memory_order_relaxed);
    hfi_room_zero(op->room, engine->op_size);
}

static inline bool hfi_op_finished(const struct hfi_op *op)
{
    return atomic_load_explicit(&op->finished, memory_order_acquire) != 0;
}

/* Of an op that is finished. */
static inline hf_status hfi_op_status(const struct hfi_op *op)
{
    return (hf_status)(atomic_load_explicit(&op->finished, memory_order_acquire) - 1);
}

#endif
