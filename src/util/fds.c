/* SPDX-License-Identifier: MIT */
/*
 * Which sockets are ours: see fds.h. A table by descriptor, whose parts are allocated when needed
 * and never freed. Any thread; the handler of fork(3) reads it in the child.
 *
 * A library that closes its socket by itself (ZooKeeper's) tells us later. So the table keeps the
 * inode too: in the child a descriptor is closed only if it still is that socket.
 */
#include "util/fds.h"

#include "util/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_FDS 1024
#define PARTS    1024 /* descriptors above a million are not noted */

struct part {
    _Atomic uint64_t inodes[PART_FDS]; /* 0: not ours */
};

static _Atomic(struct part *) parts[PARTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The inode of a socket; 0: it is not a socket. */
static uint64_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? (uint64_t)st.st_ino : 0;
}

/* Async-signal-safe, as code in a forked child must be. */
static void in_child(void)
{
    int saved = errno;

    for (int i = 0; i < PARTS; i++) {
        struct part *part = atomic_load_explicit(&parts[i], memory_order_acquire);

        for (int k = 0; part && k < PART_FDS; k++) {
            uint64_t inode = atomic_load_explicit(&part->inodes[k], memory_order_relaxed);

            atomic_store_explicit(&part->inodes[k], 0, memory_order_relaxed);
            if (inode != 0 && inode_of(i * PART_FDS + k) == inode)
                close(i * PART_FDS + k);
        }
    }
    errno = saved;
}

static void start(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* NULL: there is none, and none can be made. */
static _Atomic uint64_t *place_of(int fd, int make)
{
    struct part *part, *fresh, *expected = NULL;

    if (fd < 0 || fd >= PARTS * PART_FDS)
        return NULL;
    part = atomic_load_explicit(&parts[fd / PART_FDS], memory_order_acquire);
    if (!part && make) {
        fresh = hfi_calloc(1, sizeof *fresh);
        if (!fresh)
            return NULL;
        part = fresh;
        if (!atomic_compare_exchange_strong(&parts[fd / PART_FDS], &expected, fresh)) {
            hfi_free(fresh);
            part = expected;
        }
    }
    return part ? &part->inodes[fd % PART_FDS] : NULL;
}

int hfi_fd_note(int fd)
{
    _Atomic uint64_t *place = place_of(fd, 1);

    pthread_once(&once, start);
    if (place)
        atomic_store_explicit(place, inode_of(fd), memory_order_release);
    return fd;
}

void hfi_fd_forget(int fd)
{
    _Atomic uint64_t *place = place_of(fd, 0);

    if (place)
        atomic_store_explicit(place, 0, memory_order_release);
}
