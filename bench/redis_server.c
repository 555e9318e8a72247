/* SPDX-License-Identifier: MIT */
/* See redis_server.h. */
#include "redis_server.h"

#include "../test/lib/server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES   5   /* somebody may take the port before the server does */
#define START_S 5.0 /* for it to listen */
#define LOOK_S  0.01
#define CLIENTS "15000" /* it takes fewer if it may not open so many files */

/* ---- starting --------------------------------------------------------------------------- */

static const char *program(void)
{
    return is_installed("redis-server")    ? "redis-server"
           : is_installed("valkey-server") ? "valkey-server"
                                           : NULL;
}

static pid_t begin(const struct bench *bench, uint16_t port)
{
    char number[8];
    const char *args[] = { program(),   "--port",       number,     "--bind",
                           "127.0.0.1", "--dir",        bench->dir, "--save",
                           "",          "--appendonly", "no",       "--maxclients",
                           CLIENTS,     "--loglevel",   "warning",  NULL };

    snprintf(number, sizeof number, "%u", port);
    return launch(args, &(struct launch){ .session = true });
}

static bool listens(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rc = connect(fd, (const struct sockaddr *)&address, sizeof address);
    close(fd);
    return rc == 0;
}

/* False: it ended, most likely because the port was taken. */
static bool start_once(const struct bench *bench, struct redis_server *server)
{
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);

    server->port = free_port();
    server->pid = begin(bench, server->port);
    while (!listens(server->port)) {
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            return false;
        if (bench_ns() > end)
            bench_die("our redis-server does not listen");
        bench_sleep(LOOK_S);
    }
    return true;
}

struct redis_server *redis_server_start(const struct bench *bench)
{
    struct redis_server *server = calloc(1, sizeof *server);
    int tries = 0;

    if (!server)
        bench_die("out of memory");
    if (!program())
        bench_skip(bench, "redis-server is not installed");
    while (!start_once(bench, server))
        if (++tries == TRIES)
            bench_die("redis-server does not start");
    snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%u", server->port);
    server->control = raw_redis_open(server->port);
    return server;
}

void redis_server_stop(struct redis_server *server)
{
    raw_redis_close(server->control);
    end_process(&server->pid);
    free(server);
}

/* ---- what it has done --------------------------------------------------------------------- */

/*
 * Lines like "cmdstat_evalsha:calls=12,usec=..." and "cmdstat_client|setname:calls=...". What scripts
 * call has lines as well: so only commands count that are of no use, or not allowed, in a script, or that no
 * script of ours calls.
 */
static bool sent_by_clients(const char *name, size_t len)
{
    static const char *const names[] = { "eval",       "evalsha",     "eval_ro",      "evalsha_ro",
                                         "fcall",      "script|",     "hello",        "auth",
                                         "client|",    "select",      "ping",         "subscribe",
                                         "ssubscribe", "unsubscribe", "sunsubscribe", "wait",
                                         "multi",      "exec",        "role",         "command|",
                                         "config|",    "cluster|",    "function|",    "blpop",
                                         "watch",      "scan",        "incrby" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t want = strlen(names[i]);

        if (names[i][want - 1] == '|' ? len > want && strncmp(name, names[i], want) == 0
                                      : len == want && strncmp(name, names[i], want) == 0)
            return true;
    }
    return false;
}

static double field(const char *text, const char *end, const char *name)
{
    const char *found = memmem(text, (size_t)(end - text), name, strlen(name));

    return found ? strtod(found + strlen(name), NULL) : 0;
}

struct redis_work redis_server_work(struct redis_server *server)
{
    static const char head[] = "cmdstat_";
    static const char *const stats[] = { "INFO", "commandstats", NULL };
    static const char *const cpu[] = { "INFO", "cpu", NULL };
    struct redis_work work = { 0 };
    const char *text, *end, *line;
    size_t len;

    text = raw_redis_ask(server->control, &len, stats);
    end = text + len;
    for (line = text; (line = memmem(line, (size_t)(end - line), head, strlen(head)));) {
        const char *colon;

        line += strlen(head);
        colon = memchr(line, ':', (size_t)(end - line));
        if (colon && sent_by_clients(line, (size_t)(colon - line)))
            work.commands += field(colon, end, "calls=");
        if (colon && strncmp(line, "eval", 4) == 0)
            work.scripts += field(colon, end, "calls=");
        if (colon && strncmp(line, "hdel:", 5) == 0)
            work.hdels += field(colon, end, "calls=");
    }
    text = raw_redis_ask(server->control, &len, cpu);
    end = text + len;
    work.cpu_s = field(text, end, "used_cpu_sys:") + field(text, end, "used_cpu_user:");
    return work;
}

double redis_server_pairs(void *server)
{
    struct redis_work work = redis_server_work(server);

    return work.commands + work.hdels;
}

static double count_commands(void *server)
{
    return redis_server_work(server).commands;
}

struct contest_server redis_server_counted(struct redis_server *server)
{
    return (struct contest_server){
        .commands = count_commands, .server = server, .word = "commands", .ports = { server->port }
    };
}
