/* SPDX-License-Identifier: MIT */
/*
 * Being told that a lease is lost, in both ways: a callback from a thread of the
 * library, and a descriptor for a poll loop. Here two leases are lost: one because
 * somebody breaks it, one because it may be held for a second only.
 */
#include "example.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int calls;

static void on_lost(hf_lease *lease, hf_status reason, const char *why, void *arg)
{
    (void)lease;
    printf("callback of the %s lease: %s (%s)\n", (const char *)arg, hf_status_name(reason), why);
    atomic_fetch_add(&calls, 1);
}

/* Work in small steps, and stop when the descriptor says so. */
static void work_until_lost(hf_lease *lease)
{
    struct pollfd lost = { .fd = hf_lease_fd(lease), .events = POLLIN };
    int steps = 0;

    expect(lost.fd >= 0, "a descriptor");
    while (poll(&lost, 1, 10) == 0 && steps < 1000)
        steps++;
    printf("stopped working; the lease is %s now\n",
           hf_lease_state(lease) == HF_STATE_LOST ? "lost" : "held");
    expect(hf_lease_state(lease) == HF_STATE_LOST, "lost, by the state too");
    expect(hf_lease_remaining_ms(lease) == 0, "with nothing left");
}

static hf_lease *take(hf_store *store, const char *which, int64_t max_hold_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = "example/lost";
    request.name_len = HF_CSTRING;
    request.max_hold_ms = max_hold_ms;
    request.on_lost = on_lost;
    request.on_lost_arg = (void *)(uintptr_t)which;
    must(hf_acquire(store, &request, &lease, &err), &err);
    return lease;
}

/* Releasing what is lost is a status and never somebody else's release. */
static void end(hf_lease *lease)
{
    expect(hf_release(lease, NULL) == HF_LOST, "hf_release() says LOST");
}

int main(int argc, char **argv)
{
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    needs(url_of(argc, argv), HF_CAP_BREAK | HF_CAP_TOKEN | HF_CAP_TTL);
    store = open_store(argc, argv);
    lease = take(store, "broken", 0);
    must(hf_lease_break(store, "example/lost", HF_CSTRING, hf_lease_token(lease), &err), &err);
    work_until_lost(lease);
    end(lease);

    lease = take(store, "limited", 1000);
    work_until_lost(lease);
    end(lease);

    for (int i = 0; i < 3000 && atomic_load(&calls) < 2; i++)
        usleep(10 * 1000);
    expect(atomic_load(&calls) == 2, "each was told once");
    close_store(store);
    return 0;
}
