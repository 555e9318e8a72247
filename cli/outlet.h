/* SPDX-License-Identifier: MIT */
/*
 * A descriptor that we write to and never wait for.
 *
 * While a command runs under a lease, a full pipe or a terminal under Ctrl-S
 * must not keep us from ending it in time, so no write may block. It is not
 * enough to ask poll(2) first: the command writes to the same pipe or terminal,
 * and may fill it between the question and our write; and room for one byte is
 * not room for a message. O_NONBLOCK belongs to the open file, which the command
 * shares, and would break its writes; opening the file anew through /proc is
 * refused for a pipe or a terminal of another user (sudo, su), and impossible for
 * a socket. So a thread of its own writes, and the caller waits for that thread for a moment only:
 * long enough that messages and the command's output keep their order if the reader reads, and too
 * short to matter if it does not. What is not written yet stays in a queue and comes out when the
 * reader reads again. A full queue drops whole messages, the new ones.
 */
#ifndef CLI_OUTLET_H
#define CLI_OUTLET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct outlet_piece;

struct outlet {
    int fd;
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t changed;
    struct outlet_piece *first, *last; /* to be written; the first may be half written */
    size_t bytes;                      /* in the queue */
    bool started;                      /* the thread */
    bool late; /* a wait for the thread has timed out, and the queue has not been empty since */
};

#define OUTLET_INIT(descriptor)                                 \
    {                                                           \
        .fd = (descriptor), .mutex = PTHREAD_MUTEX_INITIALIZER, \
        .changed = PTHREAD_COND_INITIALIZER                     \
    }

/* Write it, in one write(2) if that takes it. Any thread; never blocks. */
void outlet_put(struct outlet *outlet, const char *bytes, size_t len);
/* Has everything been written? */
bool outlet_is_empty(struct outlet *outlet);
/* Before the process ends: wait until everything is written, but not for a reader that reads nothing for
 * a while. */
void outlet_drain(struct outlet *outlet);

#endif
