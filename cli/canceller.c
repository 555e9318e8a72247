/* SPDX-License-Identifier: MIT */
/* Signals while the main thread waits in the library: read by a thread of its own. See canceller.h. */
#include "canceller.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *attend(void *arg)
{
    struct canceller *canceller = arg;
    struct pollfd polled[] = { { .fd = canceller->signals->fd, .events = POLLIN },
                               { .fd = canceller->stop, .events = POLLIN } };
    struct signal_event event;

    while (poll(polled, 2, -1) < 0 ? errno == EINTR : !polled[1].revents) {
        while (polled[0].revents && signals_next(canceller->signals, &event)) {
            if (signal_stops(event.number))
                signals_stop(event.number, false);
            if (!signal_ends(event.number))
                continue;
            canceller->ended_by = event;
            hf_cancel_fire(canceller->cancel);
            return NULL;
        }
    }
    return NULL;
}

bool canceller_begin(struct canceller *canceller, const struct signals *signals)
{
    *canceller = (struct canceller){ .signals = signals, .stop = eventfd(0, EFD_CLOEXEC) };
    if (canceller->stop >= 0 && hf_cancel_open(&canceller->cancel) == HF_OK &&
        pthread_create(&canceller->thread, NULL, attend, canceller) == 0)
        return true;
    say_error("no thread for signals: %s", strerror(errno));
    if (canceller->cancel)
        hf_cancel_close(canceller->cancel);
    if (canceller->stop >= 0)
        close(canceller->stop);
    return false;
}

void canceller_end(struct canceller *canceller)
{
    uint64_t one = 1;

    if (write(canceller->stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(canceller->thread, NULL);
    close(canceller->stop);
    hf_cancel_close(canceller->cancel);
}
