/* SPDX-License-Identifier: MIT */
/* The client of the naive ways: hiredis, one command at a time, keys with the prefix of the stage. An error reply, or no reply, ends the actor
 * (actor_fails()), but for redis_try(). In a format "{lock}" becomes the key PREFIXlock. */
#ifndef LAB_REDIS_H
#define LAB_REDIS_H

#include "stage.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>

/* "OK" or a number above 0; false: nil, 0. */
bool redis_ok(struct actor *me, const char *format, ...);
/* A number: of an integer reply, or of a string that is one; 0 for nil. */
int64_t redis_int(struct actor *me, const char *format, ...);
void redis_do(struct actor *me, const char *format, ...);
/* Any reply; freeReplyObject() it. */
redisReply *redis_ask(struct actor *me, const char *format, ...);
/* NULL: no answer, and the next call connects again. Errors are replies. */
redisReply *redis_try(struct actor *me, const char *format, ...);
redisReply *redis_vtry(struct actor *me, const char *format, va_list args);
/* The connection of an actor to another server than the stage's, from the next call on. */
void redis_use(struct actor *me, const char *host, int port);
/* The director's own commands to the stage's server; an error makes the stage unclear. */
int64_t stage_redis(struct stage *stage, const char *format, ...);

#endif
