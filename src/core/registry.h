/* SPDX-License-Identifier: MIT */
/*
 * Which engine serves a scheme. The table is fixed; an engine's module is looked
 * for beside libholdfast itself, then where it was installed; nothing of a URL
 * ever reaches dlopen(3). Modules are loaded once and stay. Any thread; no lock.
 */
#ifndef HFI_REGISTRY_H
#define HFI_REGISTRY_H

#include "engine/engine.h"

/*
 * The engine for `scheme` (lower case). HF_CONFIG: no engine has that scheme.
 * HF_UNSUPPORTED: its engine is not part of this build or cannot be loaded.
 * HF_VERSION: its module is of another build.
 */
hf_status hfi_registry_find(const char *scheme, const struct hfi_engine **ret_engine,
                            hf_error *err);

/* Static builds and tests: add an engine, which must live for ever. Its schemes win over those of
 * the table and of engines added before it. At most HFI_REGISTRY_ADDED_MAX. */
#define HFI_REGISTRY_ADDED_MAX 16
void hfi_registry_add(const struct hfi_engine *engine);

#endif
