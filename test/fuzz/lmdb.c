/* SPDX-License-Identifier: MIT */
/* The records of the embedded store's lease file: what a damaged file, or another process, left there. */
#include "fuzz.h"

#include "engine/lmdb/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    uint8_t what = fuzz_byte(&in);
    size_t key_len = what & 1 ? LMDB_KEY_FULL : what & 2 ? fuzz_byte(&in) % 32 : LMDB_KEY_NAME;
    unsigned char key[32] = { 0 };
    struct lmdb_name name;
    MDB_val value;
    void *exact;

    for (size_t i = 0; i < sizeof key && i < key_len; i++)
        key[i] = fuzz_byte(&in);
    exact = fuzz_exact(in.at, in.len);
    value = (MDB_val){ in.len, exact };
    (void)lmdb_record_sound(key, key_len, exact, in.len);
    /* By chance no checksum ever fits: put in the right one. */
    if (what & 4 && in.len >= LMDB_NAME_FIXED && in.len <= sizeof name) {
        uint64_t hash[2];

        memcpy(hash, key, sizeof hash);
        memcpy(&name, exact, in.len);
        if (LMDB_NAME_FIXED + name.name_len + name.label_len <= sizeof name)
            (void)lmdb_name_seal(&name, hash);
        memcpy(exact, &name, in.len);
    }
    if (lmdb_name_parse(key, &value, &name) == 0) {
        MUST(name.name_len > 0 && name.name_len <= HF_NAME_MAX);
        MUST(LMDB_NAME_FIXED + name.name_len + name.label_len == in.len);
        MUST(lmdb_record_sound(key, LMDB_KEY_NAME, exact, in.len));
    }
    free(exact);
    return 0;
}
