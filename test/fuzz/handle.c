/* SPDX-License-Identifier: MIT */
/* Leases as text, as somebody hands them to hf_lease_adopt(): `holdfast unlock --lease ...`. On an engine in memory. */
#include "calls.h"
#include "fuzz.h"

#include "mem_engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static hf_store *store;
    static char good[HF_LEASE_TEXT_MAX];
    char *text = fuzz_text(data, len);
    hf_lease *lease = NULL;
    hf_error err = { .text = "" };
    hf_status status;

    if (!store) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

        mem_engine_register();
        MUST(hf_open("memblock:fuzz", NULL, &store, &err) == HF_OK);
        request.name = "job";
        request.name_len = HF_CSTRING;
        request.flags = HF_FLAG_DETACHED;
        request.ttl_ms = 3600000;
        MUST(hf_acquire(store, &request, &lease, &err) == HF_OK);
        MUST(hf_lease_export(lease, good) == HF_OK);
    }
    status = call_lease_adopt(store, "other", 5, text, 0, 0, &lease, &err);
    MUST(status == HF_INVALID || status == HF_NOT_FOUND);
    MUST(memchr(err.text, 0, sizeof err.text));
    free(text);
    return 0;
}
