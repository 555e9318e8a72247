/* SPDX-License-Identifier: MIT */
/*
 * Modules: parts of the library that are loaded when they are needed first, lib/holdfast/NAME.so. Engines are, and TLS, so
 * that a program pays for no library that it does not use.
 */
#ifndef HFI_MODULE_H
#define HFI_MODULE_H

#include "holdfast/holdfast.h"

/* Is there such a module, whether it can be loaded or not? */
bool hfi_module_is_there(const char *name);
/* Load the module `name`, unless it is loaded, and find its `symbol`. A module stays for ever. `what` is its name in errors.
 * HF_UNSUPPORTED, HF_DENIED. */
hf_status hfi_module_open(const char *name, const char *what, const char *symbol, void **ret_symbol,
                          hf_error *err);

#endif
