#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stdio.h>

/* true: held. false: not held, and *ret_retry says whether trying again makes sense. */
bool try_report(hf_store *store, hf_lease **ret_lease, bool *ret_retry)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_error err;

    request.name = "report";
    request.name_len = HF_CSTRING;
    request.wait_ms = 5000;
    *ret_retry = true;
    switch (hf_acquire(store, &request, ret_lease, &err)) {
    case HF_OK:
        return true;
    case HF_TIMEOUT: /* another holder works on it */
        return false;
    case HF_UNAVAILABLE: /* the server is away */
    case HF_UNKNOWN:     /* the answer was lost; nothing is held by us */
        fprintf(stderr, "%s\n", err.text);
        return false;
    default: /* HF_DENIED, HF_MISMATCH, HF_INVALID, ...: it would fail again */
        fprintf(stderr, "%s (%d): %s\n", hf_status_text(err.status), (int)err.status, err.text);
        *ret_retry = false;
        return false;
    }
}
