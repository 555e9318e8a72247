/* SPDX-License-Identifier: MIT */
/*
 * Taking again what one already has. Reentrancy is asked for in the request. A
 * thread that holds the name gets the same lease again, its hold count one higher,
 * and each acquire needs its release. Without the flag a thread that asks twice
 * waits for itself.
 *
 * Code that moves between threads says who "we" are by a scope of its own.
 */
#include "example.h"

#include <inttypes.h>

static hf_status take(hf_store *store, unsigned flags, uint64_t scope, hf_lease **ret_lease)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_error err;

    request.name = "example/account";
    request.name_len = HF_CSTRING;
    request.flags = flags;
    request.scope = scope;
    return hf_acquire(store, &request, ret_lease, &err);
}

static uint32_t holds(hf_lease *lease)
{
    hf_lease_info info = { .size = sizeof info };

    expect(hf_lease_get(lease, &info) == HF_OK, "a look at the lease");
    return info.holds;
}

/* A function that takes the lock itself, and is also called by functions that hold it. */
static void deposit(hf_store *store)
{
    hf_lease *lease;
    hf_error err;

    expect(take(store, HF_FLAG_REENTRANT, 0, &lease) == HF_OK, "re-entered");
    printf("  deposit: %" PRIu32 " holds, token %" PRIu64 "\n", holds(lease),
           hf_lease_token(lease));
    must(hf_release(lease, &err), &err);
}

int main(int argc, char **argv)
{
    hf_store *store = open_store(argc, argv);
    hf_lease *lease, *other;
    hf_error err;

    expect(take(store, HF_FLAG_REENTRANT, 0, &lease) == HF_OK, "acquired");
    printf("transfer: %" PRIu32 " hold, token %" PRIu64 "\n", holds(lease), hf_lease_token(lease));
    deposit(store);
    expect(holds(lease) == 1, "one hold is left");
    expect(take(store, 0, 0, &other) == HF_BUSY, "busy without the flag");
    must(hf_release(lease, &err), &err);

    /* The scope is what counts, whichever thread it is in. */
    expect(take(store, HF_FLAG_REENTRANT, 7, &lease) == HF_OK, "scope 7");
    expect(take(store, HF_FLAG_REENTRANT, 8, &other) == HF_BUSY, "scope 8 is somebody else");
    expect(take(store, HF_FLAG_REENTRANT, 7, &other) == HF_OK && other == lease, "scope 7 again");
    must(hf_release(other, &err), &err);
    must(hf_release(lease, &err), &err);
    printf("scopes: 7 came in twice, 8 did not\n");
    close_store(store);
    return 0;
}
