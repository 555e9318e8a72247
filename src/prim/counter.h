/* SPDX-License-Identifier: MIT */
/*
 * A step on a counter, as an engine with HFI_NATIVE_COUNTER does it: HFI_OP_COUNTER. Where there is
 * none, counter.c makes it of a cell.
 */
#ifndef HFI_COUNTER_H
#define HFI_COUNTER_H

#include "engine/engine.h"

enum hfi_counter_verb {
    HFI_COUNTER_ADD,    /* value -> ret_value; HF_OVERFLOW: nothing has changed */
    HFI_COUNTER_GET,    /* -> ret_value; one that is not there is 0 */
    HFI_COUNTER_SET,    /* value */
    HFI_COUNTER_SET_IF, /* value, if it is `expected`; HF_CHANGED: it is ret_value */
    HFI_COUNTER_DELETE
};

/*
 * Core keeps it, with the name's bytes, until the op is finished. HF_MISMATCH: the name is a cell of another
 * kind. Nothing but GET is ever sent twice: what may have been done is HF_UNKNOWN.
 */
struct hfi_counter_op {
    enum hfi_counter_verb verb;
    struct hfi_name name;
    int64_t value, expected;
    int64_t ret_value;
};

#endif
