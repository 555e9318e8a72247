/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4), for what must not be guessed back from its hash. hash.h is faster and hides nothing. */
#ifndef HFI_SHA256_H
#define HFI_SHA256_H
#include <stddef.h>
#define HFI_SHA256_LEN 32
void hfi_sha256(const void *bytes, size_t len, unsigned char ret_hash[HFI_SHA256_LEN]);
#endif
