/* SPDX-License-Identifier: MIT */
/*
 * Real Redis servers for tests: started, killed, stopped, continued and started
 * again by the test that owns them, in a directory of their own below TMPDIR.
 *
 * A server dies with the thread that started it (PR_SET_PDEATHSIG), so that a
 * test that is killed leaves none behind: start servers from the main thread. One
 * that fails and exits also leaves no directory.
 * Whatever goes wrong here ends the program with the server's log on stderr;
 * no call returns an error.
 *
 * Ports come from below the range that the kernel gives to connecting clients,
 * and are reserved for as long as this process lives: a server that is
 * restarted finds its port free.
 */
#ifndef TEST_REDIS_SERVER_H
#define TEST_REDIS_SERVER_H

#include <hiredis/hiredis.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVER_LIMIT_MS  60000 /* an event that has not come by then will not come */
#define SERVER_OPTIONS   64
#define SERVER_PATH_ROOM 128

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
    struct server *next;       /* of all of this process */
};

/*
 * Start a redis-server and wait until it answers. `options`, NULL-terminated or NULL, are
 * appended to ours: loopback only, no save, no append-only file, no protected mode. Among them
 * "{dir}" becomes the server's directory and "{port}" its port.
 */
struct server *server_start(const char *const *options);
/* The same, with a program's environment variable set for the server alone ("NAME=value"), and after
 * `prepare` (may be NULL) was called for it, when its directory is there and it does not run yet. */
struct server *server_start_with(const char *const *options, const char *environment,
                                 void (*prepare)(struct server *server));
/* SIGKILL, and wait for its end. What it had in memory is gone. */
void server_kill(struct server *server);
/* Start it again as it was: same port, same options, same directory. */
void server_restart(struct server *server);
/* SIGSTOP, and wait until it has stopped; SIGCONT. */
void server_pause(struct server *server);
void server_continue(struct server *server);
/* Kill it and remove its directory. NULL is fine. */
void server_free(struct server *server);

/* As whom server_do() speaks; once, before the first. */
void server_login(struct server *server, const char *user, const char *password);
/* One raw command with redisCommand()'s format, over a connection of our own that is made again
 * if it was lost. The reply may be an error. The caller frees it. */
redisReply *server_ask(struct server *server, const char *format, ...);
/* The same; an error reply ends the program. The integer of the reply (or 0). */
long long server_do(struct server *server, const char *format, ...);
/* A second connection, for one who must not wait for the first. redisFree() it. */
redisContext *server_connect(struct server *server);
/* "redis://127.0.0.1:PORT" and what follows it; static, good until the next call but three. */
const char *server_url(const struct server *server, const char *rest);

/* A port that nobody else gets while this process lives. */
uint16_t free_port(void);
/* An event that does not come ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void give_up(const char *format, ...);
int64_t clock_ms(void); /* CLOCK_BOOTTIME */
void sleep_ms(int64_t ms);

#endif
