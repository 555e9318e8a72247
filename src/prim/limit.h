/* SPDX-License-Identifier: MIT */
/* A rate limit's decision as an op, for an engine that takes it by itself: HFI_NATIVE_LIMIT. */
#ifndef HFI_LIMIT_H
#define HFI_LIMIT_H

#include "engine/engine.h"
#include "prim/limit_plan.h"

/*
 * Decide as hfi_limit_decide() does, by the server's clock, and in one step for everybody. HF_OK:
 * `answer` is filled in, but for `len`; also if it says no. HF_MISMATCH: something else is under the
 * name. A TAKE or BACK is never sent twice.
 */
struct hfi_limit_op {
    struct hfi_name name;
    struct hfi_limit_rule rule;
    struct hfi_limit_ask ask;
    struct hfi_limit_answer answer;
};

#endif
