/* SPDX-License-Identifier: MIT */
/* The client of the naive ways; see redis.h. "{lock}" in a format becomes PREFIXlock before hiredis formats it. */
#include "redis.h"

#include "redis_server.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT_ROOM 2048
#define CALL_S      5 /* a server of this machine that says nothing for that long is stopped, or dead */

static void with_prefix(const char *format, const char *prefix, char ret_format[FORMAT_ROOM])
{
    size_t used = 0;

    for (; *format && used + strlen(prefix) + 2 < FORMAT_ROOM; format++) {
        if (*format == '{') {
            memcpy(ret_format + used, prefix, strlen(prefix));
            used += strlen(prefix);
        } else if (*format != '}') {
            ret_format[used++] = *format;
        }
    }
    ret_format[used] = 0;
}

static redisContext *connect_to(const char *host, int port, int limit_ms)
{
    struct timeval limit = limit_ms ? (struct timeval){ limit_ms / 1000, limit_ms % 1000 * 1000 }
                                    : (struct timeval){ CALL_S, 0 };
    redisContext *context = redisConnectWithTimeout(host, port, limit);

    if (context && !context->err)
        redisSetTimeout(context, limit);
    return context;
}

/* A server of ours wants a password; one of the user may want one, and another database. false: refused. */
static bool log_in(redisContext *context, const struct stage *stage)
{
    const char *password = stage->redis_password ? stage->redis_password : servers_password();
    redisReply *reply = NULL;
    bool in = true;

    if (password && stage->redis_user)
        reply = redisCommand(context, "AUTH %s %s", stage->redis_user, password);
    else if (password)
        reply = redisCommand(context, "AUTH %s", password);
    in = !password || (reply && reply->type != REDIS_REPLY_ERROR);
    if (reply)
        freeReplyObject(reply);
    if (!in || stage->redis_db == 0)
        return in;
    reply = redisCommand(context, "SELECT %d", stage->redis_db);
    in = reply && reply->type != REDIS_REPLY_ERROR;
    if (reply)
        freeReplyObject(reply);
    return in;
}

static redisContext *connect_stage(const struct stage *stage)
{
    redisContext *context = connect_to(stage->redis_host, stage->redis_port, 0);

    if (context && !context->err && !log_in(context, stage)) {
        context->err = REDIS_ERR_OTHER;
        snprintf(context->errstr, sizeof context->errstr, "the server refuses us");
    }
    return context;
}

/* The first request to another server of ours, with the password before it: a server that is stopped has both when it goes on. */
static redisReply *ask_first(struct actor *me, const char *full, va_list args)
{
    void *reply = NULL;

    redisAppendCommand(me->redis, "AUTH %s", servers_password());
    redisvAppendCommand(me->redis, full, args);
    if (redisGetReply(me->redis, &reply) != REDIS_OK)
        return NULL;
    freeReplyObject(reply);
    reply = NULL;
    (void)redisGetReply(me->redis, &reply);
    return reply;
}

static redisReply *ask(struct actor *me, const char *format, va_list args)
{
    char full[FORMAT_ROOM];
    bool other = !me->redis && me->redis_host; /* than the stage's */
    redisReply *reply;

    if (!me->redis)
        me->redis = other ? connect_to(me->redis_host, me->redis_port, me->redis_limit_ms)
                          : connect_stage(me->stage);
    if (!me->redis || me->redis->err)
        reply = NULL;
    else {
        with_prefix(format, me->stage->prefix, full);
        reply = other ? ask_first(me, full, args) : redisvCommand(me->redis, full, args);
    }
    if (!reply && me->redis) {
        snprintf(me->trouble, sizeof me->trouble, "%s", me->redis->errstr);
        redisFree(me->redis);
        me->redis = NULL;
    }
    return reply;
}

static redisReply *must_ask(struct actor *me, const char *format, va_list args)
{
    redisReply *reply = ask(me, format, args);

    if (!reply)
        actor_fails(me, "%s: %s", format, me->trouble[0] ? me->trouble : "no memory");
    if (reply->type == REDIS_REPLY_ERROR)
        actor_fails(me, "%s: %s", format, reply->str);
    return reply;
}

static int64_t number_of(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
}

redisReply *redis_vtry(struct actor *me, const char *format, va_list args)
{
    return ask(me, format, args);
}

redisReply *redis_try(struct actor *me, const char *format, ...)
{
    va_list args;
    redisReply *reply;

    va_start(args, format);
    reply = ask(me, format, args);
    va_end(args);
    return reply;
}

redisReply *redis_ask(struct actor *me, const char *format, ...)
{
    va_list args;
    redisReply *reply;

    va_start(args, format);
    reply = must_ask(me, format, args);
    va_end(args);
    return reply;
}

bool redis_ok(struct actor *me, const char *format, ...)
{
    va_list args;
    redisReply *reply;
    bool ok;

    va_start(args, format);
    reply = must_ask(me, format, args);
    va_end(args);
    ok = reply->type == REDIS_REPLY_STATUS || number_of(reply) > 0;
    freeReplyObject(reply);
    return ok;
}

int64_t redis_int(struct actor *me, const char *format, ...)
{
    va_list args;
    redisReply *reply;
    int64_t number;

    va_start(args, format);
    reply = must_ask(me, format, args);
    va_end(args);
    number = number_of(reply);
    freeReplyObject(reply);
    return number;
}

void redis_do(struct actor *me, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    freeReplyObject(must_ask(me, format, args));
    va_end(args);
}

void redis_use(struct actor *me, const char *host, int port)
{
    if (me->redis)
        redisFree(me->redis);
    me->redis = NULL;
    snprintf(me->redis_room, sizeof me->redis_room, "%s", host);
    me->redis_host = me->redis_room;
    me->redis_port = port;
}

int64_t stage_redis(struct stage *stage, const char *format, ...)
{
    char full[FORMAT_ROOM];
    redisContext *context;
    redisReply *reply = NULL;
    int64_t number = 0;
    va_list args;

    if (stage->unclear)
        return 0;
    with_prefix(format, stage->prefix, full);
    context = connect_stage(stage);
    va_start(args, format);
    if (context && !context->err)
        reply = redisvCommand(context, full, args);
    va_end(args);
    if (!reply)
        stage_unclear(stage, "%s: %s", format, context ? context->errstr : "no memory");
    else if (reply->type == REDIS_REPLY_ERROR)
        stage_unclear(stage, "%s: %s", format, reply->str);
    else
        number = number_of(reply);
    if (reply)
        freeReplyObject(reply);
    if (context)
        redisFree(context);
    return number;
}

/* The value of the key is the id of the actor that has it, or begins with it and a colon. */
int observe_key(struct actor *me, uint64_t *ret_token)
{
    redisReply *reply = redis_try(me, "GET {%s}", (const char *)me->arg);
    int owner = -2;

    *ret_token = 0;
    if (reply && reply->type == REDIS_REPLY_STRING)
        owner = lane_of_id(me->stage, reply->str, strcspn(reply->str, ":"));
    else if (reply && reply->type == REDIS_REPLY_NIL)
        owner = -1;
    if (reply)
        freeReplyObject(reply);
    return owner;
}
