/* SPDX-License-Identifier: MIT */
/* The records of the embedded store's lease file: what a damaged file, or another process, left there. */
#include "fuzz.h"

#include "engine/lmdb/lm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    uint8_t what = fuzz_byte(&in);
    size_t key_len = what & 1 ? LM_KEY_FULL : what & 2 ? fuzz_byte(&in) % 32 : LM_KEY_NAME;
    unsigned char key[32] = { 0 };
    struct lm_name name;
    MDB_val value;
    void *exact;

    for (size_t i = 0; i < sizeof key && i < key_len; i++)
        key[i] = fuzz_byte(&in);
    exact = fuzz_exact(in.at, in.len);
    value = (MDB_val){ in.len, exact };
    (void)hfi_lm_record_sound(key, key_len, exact, in.len);
    /* By chance no checksum ever fits: put in the right one. */
    if (what & 4 && in.len >= LM_NAME_FIXED && in.len <= sizeof name) {
        uint64_t hash[2];

        memcpy(hash, key, sizeof hash);
        memcpy(&name, exact, in.len);
        if (LM_NAME_FIXED + name.name_len + name.label_len <= sizeof name)
            (void)hfi_lm_name_seal(&name, hash);
        memcpy(exact, &name, in.len);
    }
    if (hfi_lm_name_parse(key, &value, &name) == 0) {
        MUST(name.name_len > 0 && name.name_len <= HF_NAME_MAX);
        MUST(LM_NAME_FIXED + name.name_len + name.label_len == in.len);
        MUST(hfi_lm_record_sound(key, LM_KEY_NAME, exact, in.len));
    }
    free(exact);
    return 0;
}
