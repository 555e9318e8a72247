/* SPDX-License-Identifier: MIT */
/*
 * The library is made for programs with one thread: a handle has no lock, for which we use the
 * reactor's lock, and all handles of a process share a counter and text buffers. So this lock is
 * held around every call of the library. It is the innermost lock, and recursive, since callbacks
 * call the library again. It is never held for long, except when a handle is closed on a connection
 * that takes no more bytes: three seconds at most.
 *
 * A fork waits until no thread is inside: so the child can open a store of its own.
 */
#include "engine/zookeeper/internal.h"

static pthread_mutex_t lock; /* from zk_library_use() on */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_lock(void)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

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
    make_lock(); /* its owner was a thread of the parent */
}

static void begin(void)
{
    make_lock();
    (void)pthread_atfork(zk_library_lock, zk_library_unlock, in_child);
}

void zk_library_use(void)
{
    pthread_once(&once, begin);
}
