/* SPDX-License-Identifier: MIT */
/*
 * Real Redis servers for tests: started, killed, stopped, continued and started again by the test that owns them, in a
 * directory of their own below TMPDIR. test/lib/server.h says what holds for all servers.
 */
#ifndef TEST_REDIS_SERVER_H
#define TEST_REDIS_SERVER_H

#include "clock.h"
#include "server.h"

#include <hiredis/hiredis.h>

#define SERVER_OPTIONS 64

struct server {
    char dir[SERVER_PATH_ROOM];
    char socket[SERVER_PATH_ROOM]; /* it always listens here too */
    uint16_t port;
    pid_t pid; /* 0: not running */
    bool tls;
    char *options[SERVER_OPTIONS]; /* as given, copied; NULL at the end */
    char user[64], password[64];   /* for server_do() */
    redisContext *raw;
    _Atomic int64_t *clock_us; /* clock.h: how far its clock is off; NULL: it has the real one */
};

/* Servers that are started from now on, without a configuration file of their own, want a password that was made by chance; it is in
 * server_url(). Here it is; NULL: none. */
void servers_want_password(void);
const char *servers_password(void);

/*
 * Start a redis-server and wait until it answers. `options`, NULL-terminated or NULL, are
 * appended to ours: loopback only, no save, no append-only file, no protected mode. Among them
 * "{dir}" becomes the server's directory and "{port}" its port.
 */
struct server *server_start(const char *const *options);
/* The same, and its clock can be moved (clock.h); it is right at first. A restart leaves it where it was. */
struct server *clock_server(const char *const *options);
/* Move its clock by this time, forward or back. */
void clock_jump_ms(struct server *server, int64_t ms);
/* SIGKILL, and wait for its end. What it had in memory is gone. */
void server_kill(struct server *server);
/* Start it again as it was: same port, same options, same directory. */
void server_restart(struct server *server);
/* SIGSTOP, and wait until it has stopped; SIGCONT. */
void server_pause(struct server *server);
void server_continue(struct server *server);
/* Kill it and remove its directory. NULL is fine. */
void server_free(struct server *server);

/* The user of server_do(); call once, before the first. */
void server_login(struct server *server, const char *user, const char *password);
/* One raw command with redisCommand()'s format, over a connection of our own that is made again
 * if it was lost. The reply may be an error. The caller frees it. */
redisReply *server_ask(struct server *server, const char *format, ...);
/* The same; an error reply ends the program. The integer of the reply (or 0). */
long long server_do(struct server *server, const char *format, ...);
/* A second connection, for callers that must not wait for the first. redisFree() it. */
redisContext *server_connect(struct server *server);
/* "redis://127.0.0.1:PORT" and what follows it; static, good until the next call but three. */
const char *server_url(const struct server *server, const char *rest);

#endif
