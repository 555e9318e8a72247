/* SPDX-License-Identifier: MIT */
/* The store and name of a primitive's call: see prim.h. Any thread. */
#include "prim/prim.h"

#include "core/lack.h"
#include "core/request.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <stdio.h>

hf_status hfi_prim_unsupported(struct hfi_store *store, const char *verb, uint64_t caps,
                               hf_error *err)
{
    char call[HF_ERROR_TEXT_MAX];

    snprintf(call, sizeof call, "%s: %s", store->host.location, verb);
    return hfi_unsupported(hfi_store_promises(store), caps, call, err);
}

hf_status hfi_prim_enter(struct hfi_prim *prim, hf_store *store, const char *verb, const void *name,
                         size_t name_len, uint64_t caps, hf_error *err)
{
    hf_status status;

    *prim = (struct hfi_prim){ .handle = store, .verb = verb };
    status = hfi_store_enter(store, &prim->store, err);
    if (status != HF_OK)
        return status;
    status = hfi_name_check(name, name_len, &prim->name.len, err);
    if (status == HF_OK && (hfi_store_promises(prim->store)->caps & caps) != caps)
        status = hfi_prim_unsupported(prim->store, verb, caps, err);
    if (status != HF_OK) {
        hfi_store_leave(prim->store);
        return status;
    }
    hfi_prim_rename(prim, name, prim->name.len);
    return HF_OK;
}

void hfi_prim_rename(struct hfi_prim *prim, const void *name, uint32_t len)
{
    prim->name.bytes = name;
    prim->name.len = len;
    hfi_hash128(name, len, prim->name.hash);
}

void hfi_prim_leave(struct hfi_prim *prim)
{
    if (prim->shard)
        hfi_shard_leave(prim->shard);
    else
        hfi_store_leave(prim->store);
}

hf_status hfi_prim_error(const struct hfi_prim *prim, hf_status status, const hf_error *inner,
                         hf_error *err)
{
    return hfi_store_error(prim->store, prim->verb, prim->name.len > 0 ? &prim->name : NULL, status,
                           inner, err);
}

bool hfi_until(int64_t wait_ms, int64_t *ret_until_ms)
{
    if (wait_ms < 0 && wait_ms != HF_FOREVER)
        return false;
    *ret_until_ms = wait_ms == HF_FOREVER ? HFI_NEVER
                    : wait_ms == 0        ? hfi_now_ms()
                                          : hfi_wait_end_ms(wait_ms);
    return true;
}
