/* SPDX-License-Identifier: MIT */
/*
 * The library is for programs of one thread: a handle has no locks, for which we have the reactor's lock, and
 * all handles of a process share a counter and buffers for texts. So this lock is around every call of
 * it, the innermost of all; recursive, for what it calls back calls it again. Nothing that is done with
 * it takes long, but for closing on a connection that takes no more bytes: three seconds at most.
 *
 * A fork waits until nobody is inside: the child may open a store of its own.
 */
#include "engine/zookeeper/internal.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void zk_library_lock(void)
{
    pthread_mutex_lock(&lock);
}

void zk_library_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

    memcpy(&lock, &fresh, sizeof lock); /* its owner was a thread of the parent */
}

static void watch_forks(void)
{
    (void)pthread_atfork(zk_library_lock, zk_library_unlock, in_child);
}

void zk_library_use(void)
{
    pthread_once(&once, watch_forks);
}
