/* SPDX-License-Identifier: MIT */
/* See loop.h. */
#include "loop.h"

#include <poll.h>

void loop_turn(hf_store *store, int at_most_ms)
{
    struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };
    int timeout_ms = hf_store_timeout_ms(store);

    CHECK(fd.fd >= 0);
    if (timeout_ms < 0 || timeout_ms > at_most_ms)
        timeout_ms = at_most_ms;
    CHECK(poll(&fd, 1, timeout_ms) >= 0);
    EXPECT(HF_OK, hf_store_process(store));
}

void keep_lease(const hf_result *result, void *arg)
{
    CHECK(result->status == HF_OK);
    *(hf_lease **)arg = result->lease;
}
