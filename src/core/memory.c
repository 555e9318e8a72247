/* SPDX-License-Identifier: MIT */
/* hf_free() and hf_allocator_set(): the memory that callers see. */
#include "core/request.h"
#include "util/alloc.h"

void hf_free(void *memory)
{
    hfi_free(memory);
}

hf_status hf_allocator_set(const hf_allocator *allocator)
{
    hf_allocator whole;

    if (!allocator || !hfi_struct_copy(&whole, sizeof whole, allocator, allocator->size,
                                       offsetof(hf_allocator, arg)))
        return HF_INVALID;
    if (!whole.allocate || !whole.resize || !whole.release)
        return HF_INVALID;
    return hfi_alloc_set(&whole) ? HF_OK : HF_IN_USE;
}
