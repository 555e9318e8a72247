/* SPDX-License-Identifier: MIT */
/* All allocations of the library, so that a program can replace malloc(3) and the oom suite can
 * fail allocation k. */
#ifndef HFI_ALLOC_H
#define HFI_ALLOC_H

#include "holdfast/holdfast.h"

void *hfi_malloc(size_t size);
void *hfi_calloc(size_t count, size_t size);
void *hfi_realloc(void *memory, size_t size);
char *hfi_strdup(const char *text);
char *hfi_strndup(const char *text, size_t len);
void hfi_free(void *memory);
/* Another allocator from now on. false: too late, after hfi_alloc_seal(). */
bool hfi_alloc_set(const hf_allocator *allocator);
void hfi_alloc_seal(void);
/* Tests only: the k-th allocation from now fails (k = 1 is the next), and every one after it if
 * `all`; 0: none. Returns how many allocations there were since the last call. */
unsigned long hfi_alloc_fail_at(unsigned long k, int all);
#endif
