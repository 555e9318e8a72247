/* SPDX-License-Identifier: MIT */
/* An engine module that does nothing, and several that are wrong in one way each. */
#include "engine/engine.h"

#if defined(MODULE_NEEDS)
/* Needs what nobody has, as a module does whose client library is not installed. */
int hfi_there_is_no_such_function(void);
#endif

#if !defined(MODULE_SYMBOL)
const struct hfi_engine *hfi_engine_entry(void);

const struct hfi_engine *hfi_engine_entry(void)
{
    static const struct hfi_promises promises = {
#if defined(MODULE_NAME)
        .name = "another",
        .schemes = "another",
#else
        .name = "redis",
        .schemes = "redis rediss",
#endif
    };
    static const struct hfi_engine engine = {
#if defined(MODULE_ABI)
        .abi = HFI_ENGINE_ABI + 1,
#else
        .abi = HFI_ENGINE_ABI,
#endif
        .promises = &promises,
    };

#if defined(MODULE_NEEDS)
    hfi_there_is_no_such_function();
#endif
    return &engine;
}
#else
int unit_no_entry;
#endif
