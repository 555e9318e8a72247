#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hf_status add_100(hf_lease *lease, hf_store *bank, hf_error *err)
{
    char text[24];
    uint64_t token;
    void *old;
    hf_status status = hf_lease_fence(lease, &token, err);

    if (status == HF_OK) /* claim before reading */
        status = hf_guard_claim(bank, "balance", HF_CSTRING, token, &old, NULL, err);
    if (status != HF_OK)
        return status; /* HF_FENCED: a newer holder was here */
    snprintf(text, sizeof text, "%ld", (old ? strtol(old, NULL, 10) : 0) + 100);
    hf_free(old);
    return hf_guard_set(bank, "balance", HF_CSTRING, token, text, strlen(text), err);
}
