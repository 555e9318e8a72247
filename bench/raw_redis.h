/* SPDX-License-Identifier: MIT */
/*
 * The limit for Redis: a client by hand. One blocking socket, commands formatted once and sent as
 * they are, replies only looked at for where they end. It knows no errors but bench_die().
 */
#ifndef BENCH_RAW_REDIS_H
#define BENCH_RAW_REDIS_H

#include <stddef.h>
#include <stdint.h>

#define RAW_SHA   41 /* with its NUL */
#define RAW_OWNER 32 /* hex digits */

/* One connection. */
struct raw_redis {
    int fd;
    size_t begin, end; /* of what came and was not yet taken */
    char in[65536];
};

/* A command as bytes. */
struct raw_command {
    size_t len;
    char bytes[1024];
};

struct raw_redis *raw_redis_open(uint16_t port);
void raw_redis_close(struct raw_redis *redis);

/* "*3\r\n$3\r\nSET\r\n..."; words are C strings, the last is NULL. */
void raw_redis_format(struct raw_command *command, const char *const *words);
void raw_redis_send(struct raw_redis *redis, const void *bytes, size_t len);
/* Wait for the next reply, and return its raw bytes; valid until the next call. An error reply is
 * ours: bench_die(). */
const char *raw_redis_reply(struct raw_redis *redis, size_t *ret_len);
/* Replies that are complete in what has come; the rest is waited for if there is none. */
size_t raw_redis_replies(struct raw_redis *redis);
/* Send the words, return the reply. */
const char *raw_redis_ask(struct raw_redis *redis, size_t *ret_len, const char *const *words);
/* SCRIPT LOAD. */
void raw_redis_load(struct raw_redis *redis, const char *text, char ret_sha[RAW_SHA]);

/* ---- one acquire and one release ----------------------------------------------------------- */

struct raw_pair {
    struct raw_command acquire, release;
    char *acquire_owner, *release_owner; /* the position of its bytes in them */
    uint64_t owner;                      /* counts up: each acquisition has its own */
};

/* The two script calls that Holdfast sends: loads our own scripts, and formats their calls for `name`. Stays where it is. */
void raw_pair_init(struct raw_pair *pair, struct raw_redis *redis, const char *name);
/* A new owner, for both commands. */
void raw_pair_next(struct raw_pair *pair);
/* Acquire, wait for the reply, release, wait for the reply. */
void raw_pair_do(struct raw_pair *pair, struct raw_redis *redis);

#endif
