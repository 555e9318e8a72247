/* SPDX-License-Identifier: MIT */
/*
 * Handles fork(). A child has a copy of every socket, and while it has one the server does not see
 * the connection end when the parent dies: a lock that belongs to the connection would stay held.
 * So a child closes all of them before fork() returns in it. (exec closes them anyway: all are
 * close-on-exec.)
 *
 * A connection that is being made at that moment is not in the list: the thread that makes one
 * reads sql_forks() before and after, and makes another one if it has changed.
 */
#include "engine/sql/native_lock.h"

#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sql_store *stores;
static _Atomic unsigned forks;

/* No other code takes store->lock and locks->lock together. */
static void before(void)
{
    pthread_mutex_lock(&list_lock);
    for (struct sql_store *store = stores; store; store = store->fork_next) {
        pthread_mutex_lock(&store->lock);
        if (store->locks)
            pthread_mutex_lock(&store->locks->lock);
    }
    atomic_fetch_add(&forks, 1);
}

static void unlock_all(void)
{
    for (struct sql_store *store = stores; store; store = store->fork_next) {
        if (store->locks)
            pthread_mutex_unlock(&store->locks->lock);
        pthread_mutex_unlock(&store->lock);
    }
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    for (struct sql_store *store = stores; store; store = store->fork_next)
        sql_abandon(store);
    unlock_all();
    stores = NULL; /* the child has none of them */
}

static void start(void)
{
    pthread_atfork(before, unlock_all, in_child);
}

void sql_fork_add(struct sql_store *store)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&list_lock);
    store->fork_next = stores;
    stores = store;
    pthread_mutex_unlock(&list_lock);
}

void sql_fork_remove(struct sql_store *store)
{
    pthread_mutex_lock(&list_lock);
    for (struct sql_store **at = &stores; *at; at = &(*at)->fork_next)
        if (*at == store) {
            *at = store->fork_next;
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

static bool is_same_store(const struct sql_store *a, const struct sql_store *b)
{
    return a->driver == b->driver && strcmp(a->location, b->location) == 0;
}

void sql_each(const struct sql_store *store, void (*visit)(struct sql_store *store, void *arg),
              void *arg)
{
    pthread_mutex_lock(&list_lock);
    for (struct sql_store *one = stores; one; one = one->fork_next)
        if (is_same_store(one, store))
            visit(one, arg);
    pthread_mutex_unlock(&list_lock);
}

unsigned sql_forks(void)
{
    return atomic_load(&forks);
}
