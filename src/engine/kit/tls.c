/* SPDX-License-Identifier: MIT */
/*
 * Where TLS comes from: compiled in, or a module that is loaded for the first store with TLS. The libraries of TLS take longer
 * to load than a lock takes, so a store without TLS does not load them.
 */
#include "engine/kit/tls.h"

#include "engine/engine.h"
#include "util/error.h"
#include "util/module.h"

/* Only there where it is compiled in. */
extern const struct hfi_tls_entry hfi_tls_entry __attribute__((weak));

static hf_status find_entry(const struct hfi_tls_entry **ret_entry, hf_error *err)
{
    void *symbol = NULL;
    hf_status status = HF_OK;

    if (&hfi_tls_entry) {
        *ret_entry = &hfi_tls_entry;
        return HF_OK;
    }
    status = hfi_module_open("tls", "TLS", "hfi_tls_entry", &symbol, err);
    if (status != HF_OK)
        return status;
    *ret_entry = symbol;
    if ((*ret_entry)->abi != HFI_ENGINE_ABI)
        return hfi_error_set(err, HF_VERSION, 0,
                             "the module of TLS is of another build: interface %u, we need %u",
                             (*ret_entry)->abi, HFI_ENGINE_ABI);
    return HF_OK;
}

hf_status hfi_tls_context_new(const struct hfi_tls_conf *conf, struct hfi_tls_context **ret_context,
                              hf_error *err)
{
    const struct hfi_tls_entry *entry = NULL;
    hf_status status = find_entry(&entry, err);

    return status == HF_OK ? entry->context_new(conf, ret_context, err) : status;
}

void hfi_tls_context_free(struct hfi_tls_context *context)
{
    if (context)
        context->free(context);
}
