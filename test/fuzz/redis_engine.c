/* SPDX-License-Identifier: MIT */
/*
 * The Redis engine with the fuzzer as its server: replies of scripts, maps of Sentinel and Cluster, redirections,
 * messages. The first byte chooses the URL, then come ops, then the replies.
 */
#include "fake_link.h"
#include "ops.h"

const struct hfi_engine *hfi_engine_entry(void);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const urls[] = {
        "redis://h",
        "redis+sentinel://a,b,c/m",
        "redis+cluster://a,b",
        "redis://h?wire=plain",
        "redis://h?wire=redisson",
        "redis://h?sync=1",
    };
    struct fuzz_input in = { data, len };
    const char *url = urls[fuzz_byte(&in) % (sizeof urls / sizeof *urls)];
    struct fuzz_input ops = fuzz_piece(&in, 16);

    fake_link_begin(in);
    fuzz_ops(hfi_engine_entry(), url, true, ops);
    fake_link_end();
    return 0;
}
