/* SPDX-License-Identifier: MIT */
/* A look at a store, for core itself. */
#ifndef HFI_INSPECT_H
#define HFI_INSPECT_H

#include "core/store.h"

#define HFI_LOOK_GLOB      1u
#define HFI_LOOK_CONTENDED 2u /* leave out names that nobody waits for */

/* Ask the engine, and make a view of its answer; the tags are still on the labels. The store is kept open
 * by the caller. *ret_view is freed by hf_free(). */
hf_status hfi_look(struct hfi_store *store, const void *pattern, uint32_t len, unsigned how,
                   hf_view **ret_view, hf_error *err);

#endif
