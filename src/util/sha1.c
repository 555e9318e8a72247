/* SPDX-License-Identifier: MIT */
/* SHA-1, written as in the standard: one call for all the bytes. */
#include "util/sha1.h"

#include "util/sha_blocks.h"

#include <stdint.h>
#include <string.h>

static uint32_t turn(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

/* The function and the constant of round i. */
static uint32_t step(int i, const uint32_t s[5])
{
    switch (i / 20) {
    case 0:
        return ((s[1] & s[2]) | (~s[1] & s[3])) + 0x5a827999;
    case 1:
        return (s[1] ^ s[2] ^ s[3]) + 0x6ed9eba1;
    case 2:
        return ((s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3])) + 0x8f1bbcdc;
    default:
        return (s[1] ^ s[2] ^ s[3]) + 0xca62c1d6;
    }
}

static void mix(uint32_t *state, const unsigned char block[HFI_SHA_BLOCK])
{
    uint32_t w[80], s[5];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

    memcpy(s, state, sizeof s);
    for (int i = 0; i < 80; i++) {
        uint32_t next = turn(s[0], 5) + step(i, s) + s[4] + w[i];

        s[4] = s[3];
        s[3] = s[2];
        s[2] = turn(s[1], 30);
        s[1] = s[0];
        s[0] = next;
    }
    for (int i = 0; i < 5; i++)
        state[i] += s[i];
}

void hfi_sha1(const void *bytes, size_t len, unsigned char ret_hash[HFI_SHA1_LEN])
{
    uint32_t state[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };

    hfi_sha_blocks(state, mix, bytes, len, ret_hash, HFI_SHA1_LEN);
}
