/* SPDX-License-Identifier: MIT */
/* Random ids from getrandom(2), drawn in batches per thread, never the same after a fork. */
#ifndef HFI_RANDOM_H
#define HFI_RANDOM_H
#include <stddef.h>
#include <stdint.h>
void hfi_random_bytes(void *ret_bytes,
                      size_t len); /* aborts only if the kernel has no randomness */
uint64_t hfi_random_u64(void);
#endif
