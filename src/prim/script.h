/* SPDX-License-Identifier: MIT */
/*
 * A script for the store, as an engine with HF_CAP_SCRIPTS runs it (HFI_OP_SCRIPT), and the tree of values
 * that is its answer.
 */
#ifndef HFI_SCRIPT_H
#define HFI_SCRIPT_H

#include "engine/engine.h"
#include "holdfast/redis.h"

#define HFI_SCRIPT_SHA_LEN 40

enum hfi_script_verb {
    HFI_SCRIPT_RUN,    /* script -> ret_value */
    HFI_SCRIPT_EXISTS, /* text, or a SHA-1 in hex -> ret_exists: every server has it */
    HFI_SCRIPT_FLUSH   /* every server forgets all */
};

/*
 * Everything that it points to is there during submit() only, but for itself.
 *
 * RUN is never sent again after it may have begun: HF_UNKNOWN. HF_INVALID: the script is at fault (it does
 * not compile, raised an error, or answered one) or, before it was sent, its keys are of several slots;
 * the text is the server's. HF_CANCELLED: somebody killed it.
 */
struct hfi_script_op {
    enum hfi_script_verb verb;
    const hf_script_request *script;
    const char *text; /* EXISTS */
    size_t len;
    hf_value *ret_value; /* the caller's to free */
    bool ret_exists;
};

/* One block holds a whole tree, so the root is freed and nothing else. */
struct hf_value {
    hf_value_kind kind;
    int64_t integer;
    const char *bytes; /* with a NUL behind them */
    size_t len;
    const struct hf_value *items;
    size_t count;
};

#endif
