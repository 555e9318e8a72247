/* SPDX-License-Identifier: MIT */
/* Writing without ever blocking the caller: see outlet.h. Any thread. */
#include "outlet.h"

#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_MAX   65536 /* bytes that wait for a reader */
#define ORDER_MS    20    /* how long the caller waits for a message, so that the order is kept */
#define PATIENCE_MS 300   /* at the end: for a reader that reads nothing */
#define DRAIN_MS    5000  /* at the end: for our own thread, while there is room */

struct outlet_piece {
    struct outlet_piece *next;
    size_t len;
    char bytes[];
};

static void *pour(void *arg);
static bool start(struct outlet *outlet);
static bool wait_until_empty(struct outlet *outlet, int64_t until_ms);
static bool has_room(int fd);

void outlet_put(struct outlet *outlet, const char *bytes, size_t len)
{
    struct outlet_piece *piece = malloc(sizeof *piece + len);

    if (!piece)
        return;
    piece->next = NULL;
    piece->len = len;
    memcpy(piece->bytes, bytes, len);

    pthread_mutex_lock(&outlet->mutex);
    if (outlet->bytes + len > QUEUE_MAX || !start(outlet)) {
        free(piece);
    } else {
        if (outlet->last)
            outlet->last->next = piece;
        else
            outlet->first = piece;
        outlet->last = piece;
        outlet->bytes += len;
        pthread_cond_broadcast(&outlet->changed);
        if (!outlet->late)
            outlet->late = !wait_until_empty(outlet, hfi_now_ms() + ORDER_MS);
    }
    pthread_mutex_unlock(&outlet->mutex);
}

bool outlet_is_empty(struct outlet *outlet)
{
    bool empty;

    pthread_mutex_lock(&outlet->mutex);
    empty = !outlet->first;
    pthread_mutex_unlock(&outlet->mutex);
    return empty;
}

void outlet_drain(struct outlet *outlet)
{
    int64_t began_ms = hfi_now_ms();
    int64_t room_ms = began_ms;
    bool empty;

    do {
        pthread_mutex_lock(&outlet->mutex);
        empty = wait_until_empty(outlet, hfi_now_ms() + ORDER_MS);
        pthread_mutex_unlock(&outlet->mutex);
        if (!empty && has_room(outlet->fd))
            room_ms = hfi_now_ms(); /* our thread has not run yet */
    } while (!empty && hfi_now_ms() < room_ms + PATIENCE_MS && hfi_now_ms() < began_ms + DRAIN_MS);
}

/* With the mutex. */
static bool wait_until_empty(struct outlet *outlet, int64_t until_ms)
{
    while (outlet->first) {
        int64_t left_ms = until_ms - hfi_now_ms();
        struct timespec until;

        if (left_ms <= 0)
            return false;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)left_ms * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&outlet->changed, &outlet->mutex, &until);
    }
    return true;
}

static bool has_room(int fd)
{
    struct pollfd polled = { .fd = fd, .events = POLLOUT };

    return poll(&polled, 1, 0) == 1 && polled.revents == POLLOUT;
}

/* ---- the thread ------------------------------------------------------------------- */

/* With the mutex. */
static bool start(struct outlet *outlet)
{
    pthread_condattr_t attr;
    pthread_t thread;
    sigset_t all, before;

    if (outlet->started)
        return true;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&outlet->changed, &attr); /* nobody has used it yet */
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the others */
    if (pthread_create(&thread, NULL, pour, outlet) == 0) {
        pthread_detach(thread); /* nothing may ever wait for this thread */
        outlet->started = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return outlet->started;
}

/* Until it is written, or cannot be. */
static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, bytes, len);
        struct pollfd polled = { .fd = fd, .events = POLLOUT };

        if (done >= 0) {
            bytes += done;
            len -= (size_t)done;
        } else if (errno == EAGAIN) {
            poll(&polled, 1, -1); /* the parent process made it so */
        } else if (errno != EINTR) {
            return; /* the reader has gone: there is nowhere else to write to */
        }
    }
}

static void *pour(void *arg)
{
    struct outlet *outlet = arg;

    pthread_mutex_lock(&outlet->mutex);
    for (;;) {
        struct outlet_piece *piece = outlet->first;

        if (!piece) {
            pthread_cond_wait(&outlet->changed, &outlet->mutex);
            continue;
        }
        pthread_mutex_unlock(&outlet->mutex);
        write_all(outlet->fd, piece->bytes, piece->len);
        pthread_mutex_lock(&outlet->mutex);

        outlet->first = piece->next;
        if (!outlet->first) {
            outlet->last = NULL;
            outlet->late = false;
        }
        outlet->bytes -= piece->len;
        free(piece);
        pthread_cond_broadcast(&outlet->changed);
    }
    return NULL;
}
