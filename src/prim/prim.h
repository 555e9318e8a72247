/* SPDX-License-Identifier: MIT */
/*
 * What every call of a primitive has: the store, which stays open for as long as the call lasts,
 * the name, and the verb of its error texts.
 */
#ifndef HFI_PRIM_H
#define HFI_PRIM_H

#include "core/store.h"

struct hfi_prim {
    struct hfi_store *store;
    hf_store *handle; /* the caller's; NULL: the call came with a lease */
    /* it counts this call, which came with a lease; NULL: the store counts it */
    struct hfi_shard *shard;
    const char *verb;     /* "count", "barrier" */
    struct hfi_name name; /* a script has none */
};

/* Find the store of a handle, check the name, and that the engine has `caps`. The name's bytes stay the caller's. After
 * HF_OK hfi_prim_leave() is due. */
hf_status hfi_prim_enter(struct hfi_prim *prim, hf_store *store, const char *verb, const void *name,
                         size_t name_len, uint64_t caps, hf_error *err);
void hfi_prim_leave(struct hfi_prim *prim);

static inline uint64_t hfi_prim_caps(const struct hfi_prim *prim)
{
    return hfi_store_promises(prim->store)->caps;
}

/* Its name from now on; the bytes stay the caller's. */
void hfi_prim_rename(struct hfi_prim *prim, const void *name, uint32_t len);

/* HF_UNSUPPORTED, with what the engine lacks of `caps`. */
hf_status hfi_prim_unsupported(struct hfi_store *store, const char *verb, uint64_t caps,
                               hf_error *err);
/* Fill in err: "<location>: <verb> '<name>': ...", or without a name. Returns status. */
hf_status hfi_prim_error(const struct hfi_prim *prim, hf_status status, const hf_error *inner,
                         hf_error *err);

/* wait_ms of a caller as a moment of hfi_now_ms(); false: no such wait. */
bool hfi_until(int64_t wait_ms, int64_t *ret_until_ms);

#endif
