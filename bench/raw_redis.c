/* SPDX-License-Identifier: MIT */
/* See raw_redis.h. */
#include "raw_redis.h"

#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct raw_redis *raw_redis_open(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct raw_redis *redis = malloc(sizeof *redis);
    int yes = 1;

    if (!redis)
        bench_die("out of memory");
    redis->begin = redis->end = 0;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    redis->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (redis->fd < 0 || connect(redis->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        bench_die("connect to our redis-server: %s", strerror(errno));
    setsockopt(redis->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return redis;
}

void raw_redis_close(struct raw_redis *redis)
{
    close(redis->fd);
    free(redis);
}

/* ---- out ---------------------------------------------------------------------------- */

void raw_redis_format(struct raw_command *command, const char *const *words)
{
    size_t count = 0, room = sizeof command->bytes;

    while (words[count])
        count++;
    command->len = (size_t)snprintf(command->bytes, room, "*%zu\r\n", count);
    for (size_t i = 0; i < count && command->len < room; i++)
        command->len += (size_t)snprintf(command->bytes + command->len, room - command->len,
                                         "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    if (command->len >= room)
        bench_die("a raw command is longer than %zu bytes", room);
}

void raw_redis_send(struct raw_redis *redis, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t sent = send(redis->fd, at, len, MSG_NOSIGNAL);

        if (sent < 0)
            bench_die("send to our redis-server: %s", strerror(errno));
        at += sent;
        len -= (size_t)sent;
    }
}

/* ---- in ------------------------------------------------------------------------------- */

/* Where the reply at `at` ends; NULL: not all of it has come. */
static const char *reply_end(const char *at, const char *end)
{
    const char *line = memchr(at, '\n', (size_t)(end - at));
    long count;

    if (!line)
        return NULL;
    line++;
    if (*at != '$' && *at != '*')
        return line;
    count = strtol(at + 1, NULL, 10);
    if (*at == '$') {
        if (count >= 0)
            line += count + 2;
        return line <= end ? line : NULL;
    }
    for (; line && count > 0; count--)
        line = line < end ? reply_end(line, end) : NULL;
    return line;
}

static void receive(struct raw_redis *redis)
{
    ssize_t len;

    if (redis->begin > 0) {
        memmove(redis->in, redis->in + redis->begin, redis->end - redis->begin);
        redis->end -= redis->begin;
        redis->begin = 0;
    }
    if (redis->end == sizeof redis->in)
        bench_die("a reply is longer than %zu bytes", sizeof redis->in);
    len = recv(redis->fd, redis->in + redis->end, sizeof redis->in - redis->end, 0);
    if (len <= 0)
        bench_die("recv from our redis-server: %s", len < 0 ? strerror(errno) : "closed");
    redis->end += (size_t)len;
}

/* The next complete reply that has come, or NULL. */
static const char *next_reply(struct raw_redis *redis, size_t *ret_len)
{
    const char *reply = redis->in + redis->begin, *end = NULL;

    if (redis->begin < redis->end)
        end = reply_end(reply, redis->in + redis->end);
    if (!end)
        return NULL;
    if (*reply == '-')
        bench_die("our redis-server: %.*s", (int)(end - reply - 2), reply);
    *ret_len = (size_t)(end - reply);
    redis->begin += *ret_len;
    if (redis->begin == redis->end)
        redis->begin = redis->end = 0;
    return reply;
}

const char *raw_redis_reply(struct raw_redis *redis, size_t *ret_len)
{
    const char *reply;

    while (!(reply = next_reply(redis, ret_len)))
        receive(redis);
    return reply;
}

size_t raw_redis_replies(struct raw_redis *redis)
{
    size_t count = 0, len;

    while (count == 0) {
        receive(redis);
        while (next_reply(redis, &len))
            count++;
    }
    return count;
}

const char *raw_redis_ask(struct raw_redis *redis, size_t *ret_len, const char *const *words)
{
    struct raw_command command;

    raw_redis_format(&command, words);
    raw_redis_send(redis, command.bytes, command.len);
    return raw_redis_reply(redis, ret_len);
}

void raw_redis_load(struct raw_redis *redis, const char *text, char ret_sha[RAW_SHA])
{
    char head[64];
    const char *reply;
    size_t len;

    snprintf(head, sizeof head, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", strlen(text));
    raw_redis_send(redis, head, strlen(head));
    raw_redis_send(redis, text, strlen(text));
    raw_redis_send(redis, "\r\n", 2);
    reply = raw_redis_reply(redis, &len);
    if (len != 47) /* "$40\r\n", the digest, "\r\n" */
        bench_die("SCRIPT LOAD: not a digest");
    memcpy(ret_sha, reply + 5, RAW_SHA - 1);
    ret_sha[RAW_SHA - 1] = 0;
}
