#include <holdfast/holdfast.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    request.name = "nightly";
    request.name_len = HF_CSTRING;
    request.wait_ms = 5000; /* 0: try once; HF_FOREVER */
    if (hf_open(argc > 1 ? argv[1] : NULL, NULL, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK)
        return fprintf(stderr, "%s\n", err.text), 1;

    printf("acquired, with token %llu\n", (unsigned long long)hf_lease_token(lease));
    return hf_release(lease, &err) != HF_OK || hf_close(store, 0) != HF_OK;
}
