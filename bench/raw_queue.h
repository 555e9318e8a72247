/* SPDX-License-Identifier: MIT */
/*
 * The limit for hand-offs on Redis: a queue by hand. Two connections, one for commands and one that
 * is subscribed to our channel; a release pops the next waiter, grants and publishes in one script.
 * It knows no deaths and no ttl: a holder or waiter that is killed blocks it for ever.
 */
#ifndef BENCH_RAW_QUEUE_H
#define BENCH_RAW_QUEUE_H

#include "raw_redis.h"

struct raw_queue {
    struct raw_redis *commands, *inbox;
    struct raw_command acquire, release;
};

/* Worker `index` on the one lock that there is. */
struct raw_queue *raw_queue_open(uint16_t port, size_t index);
/* The same for a semaphore of four. */
struct raw_queue *raw_permits_open(uint16_t port, size_t index);
void raw_queue_acquire(struct raw_queue *queue);
void raw_queue_release(struct raw_queue *queue);

#endif
