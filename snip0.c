#include <holdfast/holdfast.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    request.name = "report";
    request.name_len = HF_CSTRING; /* the name ends with a NUL */
    request.wait_ms = 5000;        /* 0: try once; HF_FOREVER */
    if (hf_open(argc > 1 ? argv[1] : NULL, NULL, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK) {
        fprintf(stderr, "%s: %s\n", hf_status_name(err.status), err.text);
        return 1;
    }
    printf("held, token %llu\n", (unsigned long long)hf_lease_token(lease));
    /* ... the work ... */
    return hf_release(lease, &err) != HF_OK || hf_close(store, 0) != HF_OK;
}
