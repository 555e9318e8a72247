/* SPDX-License-Identifier: MIT */
/*
 * Real memcached servers for tests: started, killed, stopped, continued and started again by the
 * test that owns them. test/lib/server.h says what holds for all servers.
 */
#ifndef TEST_MEMCACHED_CACHE_H
#define TEST_MEMCACHED_CACHE_H

#include "server.h"

#define CACHE_OPTIONS 24

struct cache {
    uint16_t port;              /* 0: it listens at `socket` */
    char dir[SERVER_PATH_ROOM]; /* of its socket; "" if it has none */
    char socket[SERVER_PATH_ROOM];
    pid_t pid; /* 0: not running */
    const char *options[CACHE_OPTIONS];
};

/* Start it and wait until it answers. `options`, NULL-terminated or NULL, live as long as it does. */
struct cache *cache_start(const char *const *options);
struct cache *cache_start_socket(const char *const *options);
void cache_kill(struct cache *cache);
void cache_restart(struct cache *cache); /* same port, same options, and empty */
void cache_pause(struct cache *cache);   /* SIGSTOP, and wait until it has stopped */
void cache_continue(struct cache *cache);
void cache_free(struct cache *cache); /* NULL is fine */

/* Say something to it on a connection of our own, and return what it answers, up to and with the
 * last of `lines` lines; static, good until the next call. */
const char *cache_say(struct cache *cache, const char *text, unsigned lines);
/* The same, with a value that may have any bytes: "ms KEY <len> <flags>" and it. */
const char *cache_set(struct cache *cache, const char *key, const void *value, size_t len,
                      const char *flags);
/* One number of its `stats`. */
long long cache_stat(struct cache *cache, const char *name);
/* "memcached://127.0.0.1:PORT" and what follows; static, good until the next call but three. */
const char *cache_url(uint16_t port, const char *rest);

#endif
