/* SPDX-License-Identifier: MIT */
/*
 * Leases that the library gives without a callback for events (adopted ones, those of latches and barriers): their own descriptor tells.
 * lib/ asks for it when somebody listens. The descriptor ends with the lease, so libuv lets go of it before any call that ends the lease.
 */
#include "internal.h"

#include <stdlib.h>

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void let_go(struct slot *slot)
{
    if (slot->watch)
        uv_close((uv_handle_t *)slot->watch, on_closed);
    slot->watch = NULL;
}

/* What has become of it since it was looked at. */
static void look(struct slot *slot)
{
    static const hf_event events[] = { [HF_STATE_HELD] = HF_EVENT_HELD,
                                       [HF_STATE_AT_RISK] = HF_EVENT_AT_RISK,
                                       [HF_STATE_LOST] = HF_EVENT_LOST };
    hf_lease_info info = HF_LEASE_INFO_INIT;

    if (hf_lease_get(slot->lease, &info) != HF_OK || info.state == HF_STATE_LOST) {
        info.state = HF_STATE_LOST;
        let_go(slot); /* it stays readable from now on */
    }
    if (info.state != slot->told)
        deliver_event(slot, events[info.state], NULL);
    slot->told = info.state;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct slot *slot = poll->data;

    (void)status;
    (void)events;
    store_run(slot->store, look, slot);
}

static void start(struct slot *slot)
{
    struct store *store = slot->store;
    int fd = slot->lease ? hf_lease_fd(slot->lease) : -1;

    slot->watch = fd >= 0 ? calloc(1, sizeof *slot->watch) : NULL;
    if (!slot->watch)
        return;
    if (uv_poll_init(store->loop, slot->watch, fd) != 0) {
        free(slot->watch);
        slot->watch = NULL;
        return;
    }
    slot->watch->data = slot;
    uv_poll_start(slot->watch, UV_READABLE, on_readable);
    uv_unref((uv_handle_t *)slot->watch);
}

void watch_start(struct slot *slot)
{
    if (slot->watched)
        return;
    slot->watched = true;
    slot->told = HF_STATE_HELD;
    start(slot);
}

void watch_pause(struct slot *slot)
{
    let_go(slot);
}

void watch_resume(struct slot *slot)
{
    if (slot->watched && !slot->watch)
        start(slot);
}

void watches(struct store *store, void (*each)(struct slot *))
{
    for (uint32_t i = 0; i < store->chunk_count * SLOTS_IN_CHUNK; i++) {
        struct slot *slot = slot_at(store, i, USE_LEASE);

        if (slot && slot->watched)
            each(slot);
    }
}
