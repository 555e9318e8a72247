/* SPDX-License-Identifier: MIT */
#include "shim.h"

#include "_cgo_export.h"

#include <poll.h>

void hfgo_done(const hf_result *result, void *arg)
{
    goDone((hf_result *)result, arg);
}

void hfgo_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    goEvent(lease, event, (char *)text, arg);
}

hf_status hfgo_decide(const hf_cell *old, hf_cell_change *change, void *arg)
{
    return goDecide((hf_cell *)old, change, arg);
}

hf_status hfgo_acquire(hf_store *store, struct hfgo_frame *frame)
{
    return hf_acquire(store, &frame->request, &frame->lease, &frame->error);
}

hf_status hfgo_release(hf_lease *lease, struct hfgo_frame *frame)
{
    return hf_release(lease, &frame->error);
}

int hfgo_readable(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };

    return poll(&poller, 1, 0) > 0;
}
