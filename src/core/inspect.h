/* SPDX-License-Identifier: MIT */
/* Inspecting a store, for core itself. */
#ifndef HFI_INSPECT_H
#define HFI_INSPECT_H

#include "core/task.h"

#define HFI_LOOK_GLOB      1u
#define HFI_LOOK_CONTENDED 2u /* leave out names that nobody waits for */

/* Ask the engine, and make a view of its answer; the tags are still on the labels. The store is kept open
 * by the caller. *ret_view is freed by hf_free(). */
hf_status hfi_look(struct hfi_store *store, const void *pattern, uint32_t len, unsigned how,
                   hf_view **ret_view, hf_error *err);

/* Likewise as a child of a task: step() begins it and returns what this returns; when it has ended, it takes the view. HF_OK:
 * *ret_view. Else task->error is filled in. */
hf_status hfi_look_begin(struct hfi_task *task, const void *pattern, uint32_t len, unsigned how);
hf_status hfi_look_end(struct hfi_task *task, hf_status got, hf_view **ret_view);

#endif
