/* SPDX-License-Identifier: MIT */
/* The Redlock engine with the fuzzer as all of its nodes: first the ops, then the replies. */
#include "fake_link.h"
#include "ops.h"

const struct hfi_engine *hfi_engine_entry(void);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    struct fuzz_input ops = fuzz_piece(&in, 16);

    fake_link_begin(in);
    fuzz_ops(hfi_engine_entry(), "redlock://a,b,c", true, ops);
    fake_link_end();
    return 0;
}
