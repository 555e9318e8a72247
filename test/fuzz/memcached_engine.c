/* SPDX-License-Identifier: MIT */
/*
 * The memcached engine with the fuzzer as its server: first the ops, then what the server says. In it the byte 1 becomes the number
 * ("opaque") of the oldest request that was not answered.
 */
#include "fake_wire.h"
#include "ops.h"

#include <ctype.h>

const struct hfi_engine *hfi_engine_entry(void);

static void sent(struct fake_wire *wire, const char *bytes, size_t len)
{
    for (size_t i = 0; i + 2 < len; i++)
        if (bytes[i] == ' ' && bytes[i + 1] == 'O' && isdigit((unsigned char)bytes[i + 2]))
            fake_wire_asked(wire, (uint32_t)strtoul(bytes + i + 2, NULL, 10));
}

static size_t say(struct fake_wire *wire, struct fuzz_input piece, char *to)
{
    size_t len = 0;

    for (size_t i = 0; i < piece.len; i++)
        if (piece.at[i] == 1)
            len += (size_t)sprintf(to + len, "%u", fake_wire_next(wire));
        else
            to[len++] = (char)piece.at[i];
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct fake_wire_calls calls = { sent, say };
    struct fuzz_input in = { data, len };
    struct fuzz_input ops = fuzz_piece(&in, 16);

    fake_wire_begin(&calls, in);
    fuzz_ops(hfi_engine_entry(), "memcached://127.0.0.1:1", true, ops);
    fake_wire_end();
    return 0;
}
