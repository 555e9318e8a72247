/* SPDX-License-Identifier: MIT */
/*
 * Keys and values of ours in memcached. Pure.
 *
 * A lease is one item. Its key is the prefix, "l:" and the name; or, where that would be longer
 * than memcached's 250 bytes or has a byte that cannot be in a key, the prefix, "L:" and the name's
 * 128-bit hash. Its value is a line for people and programs, then the name, then the label:
 *
 *   holdfast1 <owner, 32 hex> <- or d: detached> <ttl ms> <since, unix ms> <name len> <label len>\n
 *
 * The name is always in it and always compared: two names with one hash get an error, never one lock.
 *
 * A cell's key has "c:" or "C:"; its value is "holdfastc1 <version> <name len>\n", the name, the bytes.
 */
#ifndef HFI_MC_RECORD_H
#define HFI_MC_RECORD_H

#include "engine/engine.h"

#define HFI_MC_KEY_MAX    250
#define HFI_MC_PREFIX_MAX 100
#define HFI_MC_HEAD_MAX   160 /* the first line of a value */
#define HFI_MC_RECORD_MAX (HFI_MC_HEAD_MAX + HF_NAME_MAX + HF_LABEL_MAX)

struct hfi_mc_key {
    unsigned len;
    char text[HFI_MC_KEY_MAX];
};

/* `kind`: 'l' or 'c'. `prefix` has at most HFI_MC_PREFIX_MAX bytes, all fit for a key. */
void hfi_mc_key(const char *prefix, char kind, const struct hfi_name *name,
                struct hfi_mc_key *ret_key);
bool hfi_mc_key_byte(unsigned char byte); /* can it be in a key? */

struct hfi_mc_record {
    unsigned char owner[HFI_OWNER_LEN];
    bool detached;
    int64_t ttl_ms, since_ms;
    const unsigned char *name;
    uint32_t name_len;
    const char *label; /* not terminated */
    uint32_t label_len;
};

/* Its length. */
size_t hfi_mc_record_write(const struct hfi_mc_record *record, char ret_text[HFI_MC_RECORD_MAX]);
/* false: it is not one of ours. Points into `text`. */
bool hfi_mc_record_read(const char *text, size_t len, struct hfi_mc_record *ret_record);

struct hfi_mc_cell {
    uint64_t version;
    const unsigned char *name;
    uint32_t name_len;
    const void *bytes;
    size_t len;
};

/* The first line and the name, before the bytes; its length. */
size_t hfi_mc_cell_head(const struct hfi_mc_cell *cell,
                        char ret_text[HFI_MC_HEAD_MAX + HF_NAME_MAX]);
bool hfi_mc_cell_read(const char *text, size_t len, struct hfi_mc_cell *ret_cell);

#endif
