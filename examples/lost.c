/* SPDX-License-Identifier: MIT */
/*
 * What happens to a lease, told in both ways: a callback from a thread of the
 * library, and a descriptor for a poll loop. Here two leases are lost: one because
 * somebody breaks it, one because it may be held for a second only.
 */
#include "example.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int calls;

static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    (void)lease;
    if (event != HF_EVENT_LOST)
        return; /* at risk, or held again */
    printf("callback of the %s lease: lost (%s)\n", (const char *)arg, text);
    atomic_fetch_add(&calls, 1);
}

/* Work in small steps, look at the lease when the descriptor says so, and stop when it is lost. */
static void work_until_lost(hf_lease *lease)
{
    struct pollfd changed = { .fd = hf_lease_fd(lease), .events = POLLIN };
    hf_lease_info info = HF_LEASE_INFO_INIT;
    int steps = 0;

    expect(changed.fd >= 0, "a descriptor");
    while (info.state != HF_STATE_LOST && steps++ < 1000)
        if (poll(&changed, 1, 10) == 1)
            expect(hf_lease_get(lease, &info) == HF_OK, "its state");
    printf("stopped working; the lease is %s now\n", info.state == HF_STATE_LOST ? "lost" : "held");
    expect(info.state == HF_STATE_LOST, "lost");
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
    request.on_event = on_event;
    request.on_event_arg = (void *)(uintptr_t)which;
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
