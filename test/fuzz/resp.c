/* SPDX-License-Identifier: MIT */
/* Redis: replies as bytes. However they come in pieces, they mean the same. */
#include "fuzz.h"

#include "engine/redis/address.h"
#include "engine/redis/reply.h"

static size_t count_items(const struct hfi_reply *reply, int depth)
{
    struct hfi_redirect to;
    hf_error err = { .text = "" };
    size_t count = 1;

    MUST(depth <= 8);
    if (reply->type == HFI_REPLY_TEXT || reply->type == HFI_REPLY_STATE ||
        reply->type == HFI_REPLY_ERROR) {
        MUST(reply->text && reply->text[reply->len] == 0);
        (void)hfi_reply_status(reply, &err);
        MUST(memchr(err.text, 0, sizeof err.text));
        if (hfi_redirect_parse(reply, &to))
            MUST(to.slot < 16384 && to.port > 0);
    }
    for (size_t i = 0; i < reply->count; i++)
        count += count_items(&reply->items[i], depth + 1);
    return count;
}

/* Feed it in pieces of `step`; how many items came in all, and how it ended. */
static size_t read_in_steps(const uint8_t *data, size_t len, size_t step, hf_status *ret_status)
{
    struct hfi_reader *reader = hfi_reader_new();
    hf_status status = HF_OK;
    size_t items = 0;

    MUST(reader);
    for (size_t at = 0; at < len && status == HF_OK; at += step) {
        const struct hfi_reply *reply = NULL;

        MUST(hfi_reader_feed(reader, data + at, len - at < step ? len - at : step));
        do {
            reply = NULL;
            status = hfi_reader_next(reader, &reply);
            if (status == HF_OK && reply)
                items += count_items(reply, 0);
        } while (status == HF_OK && reply);
    }
    hfi_reader_free(reader);
    *ret_status = status;
    return items;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    hf_status whole, pieces;
    size_t items = read_in_steps(data, len, len ? len : 1, &whole);

    MUST(whole == HF_OK || whole == HF_CORRUPT);
    for (size_t step = 1; step <= 7; step += 3) {
        MUST(read_in_steps(data, len, step, &pieces) == items);
        MUST(pieces == whole);
    }
    return 0;
}
