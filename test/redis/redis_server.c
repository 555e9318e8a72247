/* SPDX-License-Identifier: MIT */
/* Redis servers for one test; see redis_server.h. Main thread only, except server_ask(). */
#include "redis_server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX (SERVER_OPTIONS + 24)

static void begin(struct server *server);
static void await_answer(struct server *server);

/* What servers_want_password() made; empty: they want none. */
static char secret[33];

/* ---- a server's life ------------------------------------------------------------------ */

static void end(void *server)
{
    server_free(server);
}

/* A copy of `text` with {dir} and {port} filled in. */
static char *expand(const struct server *server, const char *text)
{
    char *result = malloc(strlen(text) + 2 * SERVER_PATH_ROOM), *out = result;

    if (!result)
        give_up("out of memory");
    while (*text) {
        if (strncmp(text, "{dir}", 5) == 0) {
            out += sprintf(out, "%s", server->dir);
            text += 5;
        } else if (strncmp(text, "{port}", 6) == 0) {
            out += sprintf(out, "%u", (unsigned)server->port);
            text += 6;
        } else {
            *out++ = *text++;
        }
    }
    *out = 0;
    return result;
}

void servers_want_password(void)
{
    uint64_t word[2];

    if (getrandom(word, sizeof word, 0) != sizeof word)
        give_up("getrandom failed");
    snprintf(secret, sizeof secret, "%016" PRIx64 "%016" PRIx64, word[0], word[1]);
}

const char *servers_password(void)
{
    return secret[0] ? secret : NULL;
}

/* In a file of the server's directory, which is closed to others: everybody can read arguments. Replicas use it too. */
static void write_secret(const char *path)
{
    FILE *file = fopen(path, "w");

    if (!file || fprintf(file, "requirepass %s\nmasterauth %s\n", secret, secret) < 0 ||
        fclose(file) != 0)
        give_up("%s: cannot be written", path);
}

/* By a configuration file of its own, which says what it wants. */
static bool is_configured(const struct server *server)
{
    return server->options[0] && server->options[0][0] == '/';
}

static struct server *make(const char *const *options)
{
    struct server *server = calloc(1, sizeof *server);

    server_keep(server, end);
    make_dir(server->dir, sizeof server->dir, "redis", false);
    snprintf(server->socket, sizeof server->socket, "%.100s/socket", server->dir);
    server->port = free_port();
    for (size_t i = 0; options && options[i]; i++) {
        if (i + 1 >= SERVER_OPTIONS)
            give_up("too many options for a server");
        server->options[i] = expand(server, options[i]);
        server->tls |= strcmp(options[i], "--tls-cert-file") == 0;
    }
    if (!is_configured(server))
        snprintf(server->password, sizeof server->password, "%s", secret);
    return server;
}

struct server *server_start(const char *const *options)
{
    struct server *server = make(options);

    begin(server);
    await_answer(server);
    return server;
}

struct server *clock_server(const char *const *options)
{
    struct server *server = make(options);

    server->clock_us = clock_make(server->dir);
    begin(server);
    await_answer(server);
    return server;
}

void clock_jump_ms(struct server *server, int64_t ms)
{
    atomic_fetch_add(server->clock_us, ms * 1000);
}

static void begin(struct server *server)
{
    char port[16], log[SERVER_PATH_ROOM], clock[SERVER_PATH_ROOM + 32], file[SERVER_PATH_ROOM];
    char *env[] = { (char *)"PATH=/usr/bin:/bin", clock, (char *)(uintptr_t)clock_preload(), NULL };
    const char *args[ARGS_MAX] = { "/usr/bin/redis-server" };
    size_t n = 1;
    const char *ours[] = { server->tls ? "--tls-port" : "--port",
                           port,
                           server->tls ? "--port" : "--tls-port",
                           "0",
                           "--bind",
                           "127.0.0.1",
                           "--unixsocket",
                           server->socket,
                           "--dir",
                           server->dir,
                           "--logfile",
                           log,
                           "--save",
                           "",
                           "--appendonly",
                           "no",
                           "--enable-debug-command",
                           "yes",
                           "--daemonize",
                           "no" };

    snprintf(port, sizeof port, "%u", (unsigned)server->port);
    snprintf(log, sizeof log, "%.100s/log", server->dir);
    /* A configuration file comes before all options. */
    if (is_configured(server)) {
        args[n++] = server->options[0];
    } else {
        if (secret[0]) {
            snprintf(file, sizeof file, "%.100s/secret", server->dir);
            write_secret(file);
            args[n++] = file;
        }
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            args[n++] = ours[i];
    }
    for (size_t i = is_configured(server) ? 1 : 0; server->options[i] && n < ARGS_MAX - 1; i++)
        args[n++] = server->options[i];
    snprintf(clock, sizeof clock, CLOCK_VARIABLE "=%s/clock", server->dir);
    server->pid = launch(args, &(struct launch){ .env = server->clock_us ? env : NULL });
}

static void show_log(const struct server *server)
{
    char path[2 * SERVER_PATH_ROOM];

    snprintf(path, sizeof path, "%s/log", server->dir);
    show_file(path);
}

redisContext *server_connect(struct server *server)
{
    redisContext *c = redisConnectUnix(server->socket);
    redisReply *reply;

    if (!c)
        give_up("out of memory");
    if (c->err || !server->password[0])
        return c;
    reply =
        redisCommand(c, "AUTH %s %s", server->user[0] ? server->user : "default", server->password);
    if (reply && reply->type == REDIS_REPLY_ERROR)
        give_up("server: %s", reply->str);
    freeReplyObject(reply);
    return c;
}

/* It may refuse us (a password is set): that it answers at all is enough. */
static void await_answer(struct server *server)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    for (;;) {
        redisContext *c = redisConnectUnix(server->socket);
        redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
        bool loading = reply && reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "LOAD", 4);
        bool answered = reply && !loading;

        freeReplyObject(reply);
        if (c)
            redisFree(c);
        if (answered)
            return;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid || clock_ms() > until_ms) {
            show_log(server);
            give_up("redis-server does not start");
        }
        sleep_ms(3);
    }
}

static void hang_up(struct server *server)
{
    if (server->raw)
        redisFree(server->raw);
    server->raw = NULL;
}

void server_kill(struct server *server)
{
    hang_up(server);
    end_process(&server->pid);
    unlink(server->socket);
}

void server_restart(struct server *server)
{
    server_kill(server);
    begin(server);
    await_answer(server);
}

void server_pause(struct server *server)
{
    if (!stop_process(server->pid)) {
        show_log(server);
        give_up("the server has ended by itself");
    }
}

void server_continue(struct server *server)
{
    kill(server->pid, SIGCONT);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    server_forget(server);
    server_kill(server);
    remove_dir(server->dir);
    if (server->clock_us)
        munmap((void *)server->clock_us, sizeof *server->clock_us);
    for (size_t i = 0; i < SERVER_OPTIONS; i++)
        free(server->options[i]);
    free(server);
}

/* ---- speaking to it ------------------------------------------------------------------- */

void server_login(struct server *server, const char *user, const char *password)
{
    snprintf(server->user, sizeof server->user, "%s", user);
    snprintf(server->password, sizeof server->password, "%s", password);
    hang_up(server);
}

/* hiredis 0.14 writes without MSG_NOSIGNAL. SIGPIPE is not ignored for the whole program: that would
 * hide it if the library forgot to. */
static redisReply *command(redisContext *c, const char *format, va_list args)
{
    struct timespec at_once = { 0 };
    sigset_t pipe, before;
    redisReply *reply;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    reply = redisvCommand(c, format, args);
    while (sigtimedwait(&pipe, NULL, &at_once) == SIGPIPE)
        ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reply;
}

static redisReply *ask(struct server *server, const char *format, va_list args)
{
    for (int tries = 0; tries < 3; tries++) {
        va_list again;
        redisReply *reply;

        if (!server->raw)
            server->raw = server_connect(server);
        va_copy(again, args);
        reply = command(server->raw, format, again);
        va_end(again);
        if (reply)
            return reply;
        hang_up(server); /* a test may have had it killed */
    }
    show_log(server);
    give_up("the server does not answer: %s", format);
}

redisReply *server_ask(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;

    va_start(args, format);
    reply = ask(server, format, args);
    va_end(args);
    return reply;
}

long long server_do(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;
    long long integer;

    va_start(args, format);
    reply = ask(server, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        give_up("%s: %s", format, reply->str);
    integer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

const char *server_url(const struct server *server, const char *rest)
{
    static _Thread_local char texts[4][256];
    static _Thread_local unsigned turn;
    char *text = texts[turn++ % 4];

    snprintf(text, sizeof texts[0], "redis%s://%s%s%s127.0.0.1:%u%s", server->tls ? "s" : "",
             secret[0] ? ":" : "", secret, secret[0] ? "@" : "", (unsigned)server->port, rest);
    return text;
}
