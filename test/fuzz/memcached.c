/* SPDX-License-Identifier: MIT */
/* memcached: replies of the server, and the values of its items. */
#include "fuzz.h"

#include "engine/memcached/proto.h"
#include "engine/memcached/record.h"

/* As many replies as there are; none reaches past the end, and a piece never says more than the whole. */
static void replies(const char *bytes, size_t len)
{
    struct memcached_reply reply, again;
    size_t at = 0, used = 0, used_again = 0;

    while (at < len && memcached_parse(bytes + at, len - at, &reply, &used) == MEMCACHED_DONE) {
        MUST(used > 0 && used <= len - at);
        if (reply.text)
            MUST(reply.text >= bytes + at && reply.text + reply.len <= bytes + at + used);
        MUST(memcached_parse(bytes + at, used, &again, &used_again) == MEMCACHED_DONE);
        MUST(used_again == used && again.kind == reply.kind && again.cas == reply.cas);
        MUST(memcached_parse(bytes + at, used - 1, &again, &used_again) != MEMCACHED_DONE);
        at += used;
    }
}

static void records(const char *bytes, size_t len)
{
    char text[MEMCACHED_RECORD_MAX];
    struct memcached_record record, back;
    struct memcached_cell cell;

    if (memcached_record_read(bytes, len, &record)) {
        MUST((const char *)record.name + record.name_len == record.label);
        MUST(record.label + record.label_len == bytes + len);
        MUST(memcached_record_read(text, memcached_record_write(&record, text), &back));
        MUST(memcmp(back.owner, record.owner, HFI_OWNER_LEN) == 0);
    }
    if (memcached_cell_read(bytes, len, &cell))
        MUST((const char *)cell.bytes + cell.len == bytes + len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    bool record = fuzz_byte(&in) & 1;
    char *exact = fuzz_exact(in.at, in.len);

    if (record)
        records(exact, in.len);
    else
        replies(exact, in.len);
    free(exact);
    return 0;
}
