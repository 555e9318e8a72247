/* SPDX-License-Identifier: MIT */
/* An inspection of a store, for core itself. */
#ifndef HFI_INSPECT_H
#define HFI_INSPECT_H

#include "core/task.h"

/* All names with waiters; the tags are still on the labels. Blocks. The caller keeps the store
 * open. *ret_view is freed by hf_free(). */
hf_status hfi_inspect_contended(struct hfi_store *store, hf_view **ret_view, hf_error *err);

#endif
