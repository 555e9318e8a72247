/* SPDX-License-Identifier: MIT */
/*
 * What SHA-1 and SHA-256 have in common: blocks of 64 bytes, the length behind the last one, words whose first byte is the
 * highest. Pure.
 */
#ifndef HFI_SHA_BLOCKS_H
#define HFI_SHA_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HFI_SHA_BLOCK 64

typedef void hfi_sha_mix_fn(uint32_t *state, const unsigned char block[HFI_SHA_BLOCK]);

/* Mix all bytes and what follows them into `state`, and write its first `hash_len` bytes. */
static inline void hfi_sha_blocks(uint32_t *state, hfi_sha_mix_fn *mix, const void *bytes,
                                  size_t len, unsigned char *ret_hash, size_t hash_len)
{
    const unsigned char *at = bytes;
    unsigned char last[2 * HFI_SHA_BLOCK] = { 0 };
    size_t left = len, padded;

    for (; left >= HFI_SHA_BLOCK; left -= HFI_SHA_BLOCK, at += HFI_SHA_BLOCK)
        mix(state, at);
    if (left)
        memcpy(last, at, left);
    last[left] = 0x80;
    padded = left + 9 <= HFI_SHA_BLOCK ? HFI_SHA_BLOCK : 2 * HFI_SHA_BLOCK;
    for (size_t i = 0; i < 8; i++)
        last[padded - 1 - i] = (unsigned char)((uint64_t)len * 8 >> 8 * i);
    mix(state, last);
    if (padded > HFI_SHA_BLOCK)
        mix(state, last + HFI_SHA_BLOCK);
    for (size_t i = 0; i < hash_len; i++)
        ret_hash[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

#endif
