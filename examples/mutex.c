/* SPDX-License-Identifier: MIT */
/*
 * One of us at a time, with a token. Each lease of a name gets a larger token
 * than the one before it: pass the token on to whatever you write to, so that it can refuse a
 * writer whose lease has been superseded (see fenced.c).
 *
 * Run it in two terminals at once, on the same store, to see one wait for the other.
 */
#include "example.h"

#include <inttypes.h>

int main(int argc, char **argv)
{
    hf_store *store;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    uint64_t before = 0;
    hf_lease *lease;
    hf_error err;

    needs(url_of(argc, argv), HF_CAP_TOKEN);
    store = open_store(argc, argv);
    request.name = "example/mutex";
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER; /* 0, the default, would try once */

    for (int round = 1; round <= 3; round++) {
        must(hf_acquire(store, &request, &lease, &err), &err);
        printf("round %d: held, token %" PRIu64 "\n", round, hf_lease_token(lease));
        expect(hf_lease_token(lease) > before, "a larger token than before");
        before = hf_lease_token(lease);

        /* The work that only one may do at a time goes here. */

        must(hf_release(lease, &err), &err);
    }
    close_store(store);
    return 0;
}
