/* SPDX-License-Identifier: MIT */
/* A 128-bit hash of bytes (SipHash-1-3-128 with a fixed key). The same in every process and
 * version: engines store it. Not a defence against an enemy that picks names. */
#ifndef HFI_HASH_H
#define HFI_HASH_H
#include <stddef.h>
#include <stdint.h>
void hfi_hash128(const void *bytes, size_t len, uint64_t ret_hash[2]);
/* A 32-bit checksum for records: CRC-32C, by the processor's own instruction where it has one. */
uint32_t hfi_checksum(const void *bytes, size_t len);
/* The same number without that instruction. */
uint32_t hfi_checksum_portable(const void *bytes, size_t len);
#endif
