/* SPDX-License-Identifier: MIT */
/* See memcached_server.h. */
#include "memcached_server.h"

#include "../test/lib/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_S 5.0
#define LOOK_S  0.01
#define TRIES   5 /* somebody may take the port before the server does */

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static pid_t begin(uint16_t port)
{
    const struct passwd *user = getpwuid(geteuid());
    char number[8];
    const char *args[] = { "memcached",
                           "-l",
                           "127.0.0.1",
                           "-U",
                           "0",
                           "-p",
                           number,
                           geteuid() == 0 ? "-u" : NULL,
                           user ? user->pw_name : "root",
                           NULL };

    snprintf(number, sizeof number, "%u", port);
    return launch(args, &(struct launch){ .session = true });
}

int memcached_connect(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }
    close(fd);
    return -1;
}

/* Its connection; -1: it ended, most likely because the port was taken. */
static int start_once(uint16_t port, pid_t *ret_pid)
{
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);
    pid_t pid = begin(port);
    int fd;

    while ((fd = memcached_connect(port)) < 0) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return -1;
        if (bench_ns() > end)
            bench_die("our memcached does not listen");
        bench_sleep(LOOK_S);
    }
    *ret_pid = pid;
    return fd;
}

struct memcached_server *memcached_server_start(const struct bench *bench)
{
    struct memcached_server *server = calloc(1, sizeof *server);

    if (!server)
        bench_die("out of memory");
    if (!is_installed("memcached"))
        bench_skip(bench, "memcached is not installed");
    server->control = -1;
    for (int i = 0; i < TRIES && server->control < 0; i++)
        server->control = start_once(server->port = free_port(), &server->pid);
    if (server->control < 0)
        bench_die("memcached does not start");
    snprintf(server->url, sizeof server->url, "memcached://127.0.0.1:%u", server->port);
    return server;
}

void memcached_server_stop(struct memcached_server *server)
{
    close(server->control);
    end_process(&server->pid);
    free(server);
}

void memcached_ask(int fd, const char *bytes, size_t len, char ret_line[MEMCACHED_LINE])
{
    size_t got = 0;

    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die("send to our memcached: %s", strerror(errno));
    do {
        ssize_t more = recv(fd, ret_line + got, MEMCACHED_LINE - 1 - got, 0);

        if (more <= 0)
            bench_die("recv from our memcached: %s", more < 0 ? strerror(errno) : "closed");
        got += (size_t)more;
    } while (ret_line[got - 1] != '\n');
    ret_line[got] = 0;
}

/* ---- what it has done ----------------------------------------------------------------------- */

/* All that `stats` says, up to its END. */
static void read_stats(int fd, char *text, size_t room)
{
    size_t got = 0;

    if (send(fd, "stats\r\n", 7, MSG_NOSIGNAL) != 7)
        bench_die("send to our memcached: %s", strerror(errno));
    do {
        ssize_t more = recv(fd, text + got, room - 1 - got, 0);

        if (more <= 0)
            bench_die("recv from our memcached: %s", more < 0 ? strerror(errno) : "closed");
        got += (size_t)more;
        text[got] = 0;
    } while (!strstr(text, "END\r\n"));
}

/* Every command is a get, a set (an add, an append, a CAS), a touch, a delete, or an increment: each is counted once, as what it is. */
static double count_commands(void *arg)
{
    static const char *const names[] = { "cmd_get",     "cmd_set",       "cmd_touch",
                                         "delete_hits", "delete_misses", "incr_hits",
                                         "incr_misses", "decr_hits",     "decr_misses" };
    const struct memcached_server *server = arg;
    char text[16384], want[64];
    double sum = 0;

    read_stats(server->control, text, sizeof text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found;

        snprintf(want, sizeof want, "STAT %s ", names[i]);
        found = strstr(text, want);
        sum += found ? strtod(found + strlen(want), NULL) : 0;
    }
    return sum;
}

struct contest_server memcached_server_counted(struct memcached_server *server)
{
    return (struct contest_server){
        .commands = count_commands, .server = server, .word = "commands", .ports = { server->port }
    };
}
