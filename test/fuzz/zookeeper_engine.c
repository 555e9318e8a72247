/* SPDX-License-Identifier: MIT */
/* The ZooKeeper engine with the fuzzer as its server: first the ops, then the answers (fake_zookeeper.h). */
#include "fake_zookeeper.h"
#include "ops.h"

const struct hfi_engine *hfi_engine_entry(void);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    struct fuzz_input ops = fuzz_piece(&in, 16);

    fake_zookeeper_begin(in);
    fuzz_ops(hfi_engine_entry(), "zk://127.0.0.1:1", true, ops);
    return 0;
}
