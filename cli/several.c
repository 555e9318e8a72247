/* SPDX-License-Identifier: MIT */
/*
 * More than one name at once, for `run --also` and `run --any`. The library's calls for that block, so they run on a
 * thread of their own, while the main thread reads signals.
 */
#include "acquire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct work {
    hf_store *store;
    hf_acquire_request *requests;
    size_t count;
    bool any;
    size_t *chosen;
    hf_lease **leases;
    hf_status status;
    hf_error err;
    int done; /* an eventfd */
};

static void *work_run(void *arg)
{
    struct work *work = arg;
    uint64_t one = 1;

    work->status = work->any ? hf_acquire_any(work->store, work->requests, work->count,
                                              work->chosen, work->leases, &work->err)
                             : hf_acquire_all(work->store, work->requests, work->count,
                                              work->leases, &work->err);
    while (write(work->done, &one, sizeof one) < 0 && errno == EINTR)
        ;
    return NULL;
}

static bool has_any(const struct acquiring *acquiring)
{
    return acquiring->any && acquiring->any->count > 0;
}

bool several_wanted(const struct acquiring *acquiring)
{
    return has_any(acquiring) || (acquiring->also && acquiring->also->count > 0);
}

static size_t count_names(const struct acquiring *acquiring)
{
    return has_any(acquiring) ? acquiring->any->count : 1 + acquiring->also->count;
}

static hf_acquire_request *make_requests(const struct acquiring *acquiring, int64_t wait_ms,
                                         hf_cancel *cancel)
{
    size_t count = count_names(acquiring);
    hf_acquire_request *requests = must_alloc(count * sizeof *requests);

    for (size_t i = 0; i < count; i++) {
        requests[i] = acquiring->request;
        requests[i].wait_ms = wait_ms;
        requests[i].cancel = cancel;
        if (has_any(acquiring))
            requests[i].name = acquiring->any->items[i];
        else if (i > 0)
            requests[i].name = acquiring->also->items[i - 1];
        requests[i].name_len = strlen(requests[i].name);
    }
    return requests;
}

/* Until it is done; a signal ends it early. */
static void read_signals(struct acquiring *acquiring, const struct work *work, hf_cancel *cancel,
                         int *ret_stop)
{
    struct pollfd polled[] = { { .fd = acquiring->signals->fd, .events = POLLIN },
                               { .fd = work->done, .events = POLLIN } };

    while (!polled[1].revents) {
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return; /* the join waits for it then */
        if (polled[0].revents && acquire_ended(acquiring, ret_stop))
            hf_cancel_fire(cancel);
    }
}

hf_status several_acquire(struct acquiring *acquiring, int64_t wait_ms, int *ret_stop,
                          hf_lease **ret_leases, hf_error *err)
{
    struct work work = { .store = acquiring->store->store,
                         .count = count_names(acquiring),
                         .any = has_any(acquiring),
                         .chosen = &acquiring->chosen,
                         .leases = ret_leases,
                         .done = eventfd(0, EFD_CLOEXEC) };
    hf_cancel *cancel = NULL;
    pthread_t thread;

    *err = (hf_error){ .status = HF_NO_MEMORY, .text = "no thread could be started" };
    if (work.done < 0 || hf_cancel_open(&cancel) != HF_OK) {
        if (work.done >= 0)
            close(work.done);
        return HF_NO_MEMORY;
    }
    work.requests = make_requests(acquiring, wait_ms, cancel);
    work.status = HF_NO_MEMORY;
    if (pthread_create(&thread, NULL, work_run, &work) == 0) {
        read_signals(acquiring, &work, cancel, ret_stop);
        pthread_join(thread, NULL);
        *err = work.err;
    }
    hf_cancel_close(cancel);
    close(work.done);
    free(work.requests);

    if (work.status == HF_OK && (*ret_stop || acquiring->ended_by.number)) {
        /* Granted at the last moment: release them, we are leaving. */
        hf_release_all(ret_leases, work.any ? 1 : work.count, NULL);
        return HF_CANCELLED;
    }
    return work.status;
}
