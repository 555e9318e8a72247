/* SPDX-License-Identifier: MIT */
/* SHA-1 (FIPS 180-4): only as the name that Redis gives to a script. It protects nothing. */
#ifndef HFI_SHA1_H
#define HFI_SHA1_H
#include <stddef.h>
#define HFI_SHA1_LEN 20
void hfi_sha1(const void *bytes, size_t len, unsigned char ret_hash[HFI_SHA1_LEN]);
#endif
