/* SPDX-License-Identifier: MIT */
/* hf_store_fd(), hf_store_timeout_ms(), hf_store_process(): the caller's event loop drives the store. */
#include "core/task.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

void hfi_loop_init(struct hfi_loop *loop)
{
    pthread_mutex_init(&loop->lock, NULL);
    hfi_list_init(&loop->done);
    loop->pending = 0;
    loop->used = loop->rung = false;
    loop->epoll_fd = loop->event_fd = -1;
}

void hfi_loop_done(struct hfi_loop *loop)
{
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->event_fd >= 0)
        close(loop->event_fd);
    loop->epoll_fd = loop->event_fd = -1;
}

/* With the lock. */
static void ring(struct hfi_store *store)
{
    struct hfi_loop *loop = &store->loop;
    uint64_t one = 1;

    hfi_closing_tell(store); /* there will be no hf_store_process() any more */
    if (loop->event_fd >= 0 && !loop->rung)
        loop->rung = write(loop->event_fd, &one, sizeof one) == sizeof one;
}

void hfi_loop_add(struct hfi_store *store, struct hfi_list *due)
{
    bool ours = hfi_self.processes == store; /* this thread calls back as soon as it has driven */

    /* All under one lock: once the call is in the list and the lock is free, hf_store_process() may
     * call back, and hf_close() may end the store. */
    pthread_mutex_lock(&store->loop.lock);
    hfi_list_append(&store->loop.done, due);
    if (ours)
        hfi_closing_tell(store);
    else
        ring(store);
    pthread_mutex_unlock(&store->loop.lock);
}

void hfi_loop_ring(struct hfi_store *store)
{
    pthread_mutex_lock(&store->loop.lock);
    ring(store);
    pthread_mutex_unlock(&store->loop.lock);
}

void hfi_loop_ring_timeout(struct hfi_store *store)
{
    /* The loop of a thread in hf_store_process() asks for the timeout before it sleeps. */
    if (hfi_self.processes != store && hfi_loop_drives(store))
        hfi_loop_ring(store);
}

bool hfi_loop_drives(struct hfi_store *store)
{
    bool used;

    pthread_mutex_lock(&store->loop.lock);
    used = store->loop.used;
    pthread_mutex_unlock(&store->loop.lock);
    return used;
}

static bool watch(int epoll_fd, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* With the lock. */
static bool open_loop(struct hfi_store *store)
{
    struct hfi_loop *loop = &store->loop;
    bool ok;

    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ok = loop->epoll_fd >= 0 && watch(loop->epoll_fd, loop->event_fd);
    if (ok && store->drive == HFI_EVENT)
        ok = watch(loop->epoll_fd, hfi_store_engine(store)->drive->fd(store->opened));
    if (!ok) {
        hfi_loop_done(loop);
        return false;
    }
    loop->used = true;
    ring(store); /* something may have been due before */
    return true;
}

int hf_store_fd(hf_store *handle)
{
    struct hfi_store *store;
    int fd;

    if (hfi_store_enter(handle, &store, NULL) != HF_OK)
        return -1;
    pthread_mutex_lock(&store->loop.lock);
    fd = store->loop.epoll_fd;
    if (fd < 0 && open_loop(store))
        fd = store->loop.epoll_fd;
    pthread_mutex_unlock(&store->loop.lock);
    hfi_store_leave(store);
    return fd;
}

int hf_store_timeout_ms(hf_store *handle)
{
    struct hfi_store *store;
    bool due;
    int timeout_ms;

    if (hfi_store_enter(handle, &store, NULL) != HF_OK)
        return -1;
    pthread_mutex_lock(&store->loop.lock);
    due = !hfi_list_empty(&store->loop.done);
    pthread_mutex_unlock(&store->loop.lock);
    due = due || hfi_notify_pending(store, HFI_WAY_LOOP);
    timeout_ms = due ? 0 : hfi_drive_timeout(store);
    hfi_store_leave(store);
    return timeout_ms;
}

hf_status hf_store_process(hf_store *handle)
{
    struct hfi_store *store;
    uint64_t count;
    hf_status status = hfi_store_enter(handle, &store, NULL);

    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&store->loop.lock);
    if (store->loop.rung && read(store->loop.event_fd, &count, sizeof count) == sizeof count)
        store->loop.rung = false;
    pthread_mutex_unlock(&store->loop.lock);

    hfi_self.processes = store;
    hfi_drive_poll(store);
    hfi_self.processes = NULL;
    hfi_notify_run(store, HFI_WAY_LOOP);
    hfi_loop_run(store);
    hfi_store_leave(store);
    return HF_OK;
}

static void deliver(struct hfi_call *call)
{
    if (call->task)
        hfi_task_deliver(call);
    else
        hfi_call_deliver(call);
}

void hfi_loop_run(struct hfi_store *store)
{
    const struct hfi_drive *drive = hfi_store_engine(store)->drive;
    struct hfi_loop *loop = &store->loop;
    struct hfi_list *node, *last;

    /* Callbacks may submit more: send that together. */
    if (drive->cork)
        drive->cork(store->opened, true);
    /* Only the calls that are due now: a callback may begin calls that are due at once, for
     * ever. */
    pthread_mutex_lock(&loop->lock);
    last = loop->done.prev;
    while ((node = hfi_list_pop(&loop->done))) {
        /* A callback may take its time: another thread of the caller may deliver the others. */
        if (!hfi_list_empty(&loop->done))
            ring(store);
        pthread_mutex_unlock(&loop->lock);
        deliver(hfi_container(node, struct hfi_call, due));
        pthread_mutex_lock(&loop->lock);
        if (node == last)
            break;
    }
    if (!hfi_list_empty(&loop->done))
        ring(store);
    pthread_mutex_unlock(&loop->lock);
    if (drive->cork)
        drive->cork(store->opened, false);
}
