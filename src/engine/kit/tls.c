/* SPDX-License-Identifier: MIT */
/*
 * Where TLS comes from: compiled in, or a module that is loaded for the first store with TLS. The libraries of TLS take longer
 * to load than a lock takes, so a store without TLS does not load them.
 */
#include "engine/kit/tls.h"

#include "engine/engine.h"
#include "util/error.h"
#include "util/module.h"

#include <string.h>

/* Only there where it is compiled in. A weak reference would not take it out of libholdfast.a. */
#ifndef HFI_TLS_COMPILED_IN
#pragma weak hfi_tls_entry
#endif

static hf_status find_module(const struct hfi_tls_module **ret_module, hf_error *err)
{
    hfi_tls_entry_fn *entry = hfi_tls_entry;
    void *symbol = NULL;
    hf_status status = HF_OK;

    if (!entry) {
        status = hfi_module_open("tls", "TLS", "hfi_tls_entry", &symbol, err);
        if (status != HF_OK)
            return status;
        memcpy(&entry, &symbol,
               sizeof entry); /* ISO C has no cast from data to function pointers */
    }
    *ret_module = entry();
    if ((*ret_module)->abi != HFI_ENGINE_ABI)
        return hfi_error_set(
            err, HF_VERSION, 0,
            "the module of TLS is of another build: interface %u, this library needs %u",
            (*ret_module)->abi, HFI_ENGINE_ABI);
    return HF_OK;
}

hf_status hfi_tls_context_new(const struct hfi_tls_conf *conf, struct hfi_tls_context **ret_context,
                              hf_error *err)
{
    const struct hfi_tls_module *module = NULL;
    hf_status status = find_module(&module, err);

    return status == HF_OK ? module->context_new(conf, ret_context, err) : status;
}

void hfi_tls_context_free(struct hfi_tls_context *context)
{
    if (context)
        context->free(context);
}
